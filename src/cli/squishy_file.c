/* squishy_file.c - reads sessions from YAML. */
#include "cli/squishy_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/time.h"
#include "table/zoo.h"

#define RATE_MAX    1e9
#define SLO_MS_MAX  3.6e6
#define MIB_MAX     1e9
#define POINTS_MAX  64
#define MIB         (1024.0 * 1024.0)
#define ITEMS_WHAT  "a number of items"
#define TIME_WHAT   "a number of milliseconds"
#define WEIGHT_WHAT "a number of MiB"

struct document {
    int64_t gpus;
    double memory_mib;
    const struct conf_node *sessions;
};

static const struct conf_key document_keys[] = {
    CONF_KEY_INT(struct document, gpus, "gpus", 1, SQUISHY_FILE_GPUS_MAX, "a number of GPUs"),
    CONF_KEY_DOUBLE(struct document, memory_mib, "memory_mib", 1, MIB_MAX, WEIGHT_WHAT),
    CONF_KEY_NODE(struct document, sessions, "sessions"),
    CONF_KEYS_END,
};

struct session {
    char name[128], zoo[64], model[128];
    double rate_rps, alpha_ms, beta_ms, weights_mib;
    int64_t slo_ns, batch_max;
    const struct conf_node *latency;
};

static const struct conf_key session_keys[] = {
    CONF_KEY_TEXT(struct session, name, "name", "a name"),
    CONF_KEY_TEXT(struct session, zoo, "zoo", "gtx1080ti or a100"),
    CONF_KEY_TEXT(struct session, model, "model", "the name of a model in the zoo"),
    CONF_KEY_DOUBLE(struct session, rate_rps, "rate_rps", 0, RATE_MAX, "a number of items per second"),
    CONF_KEY_TIME(struct session, slo_ns, "slo_ms", NS_PER_MS, 0.001, SLO_MS_MAX, TIME_WHAT),
    CONF_KEY_DOUBLE(struct session, alpha_ms, "alpha_ms", 0, SLO_MS_MAX, TIME_WHAT),
    CONF_KEY_DOUBLE(struct session, beta_ms, "beta_ms", 0, SLO_MS_MAX, TIME_WHAT),
    CONF_KEY_NODE(struct session, latency, "latency_ms"),
    CONF_KEY_INT(struct session, batch_max, "max_batch", 1, PROFILE_BATCH_MAX, ITEMS_WHAT),
    CONF_KEY_DOUBLE(struct session, weights_mib, "weights_mib", 0, MIB_MAX, WEIGHT_WHAT),
    CONF_KEYS_END,
};

/* ---- latency ---- */

/* Reads one [batch, milliseconds] of a table. */
static int point_read(const struct conf_node *node, uint32_t before, uint32_t *batch, int64_t *latency_ns,
                      struct sy_error *err) {
    int64_t b;
    if (node->kind != CONF_LIST || node->count != 2)
        return conf_error(node, err, "expected [batch, milliseconds]");
    int rc =
        conf_get_int(node->first, (int64_t)before + 1, PROFILE_BATCH_MAX, "batches that rise from 1 to 1024", &b, err);
    if (rc == 0)
        rc = conf_get_time(node->last, NS_PER_MS, 1e-6, SLO_MS_MAX, TIME_WHAT, latency_ns, err);
    *batch = (uint32_t)b;
    return rc;
}

/* Reads a table of points. It ends with the largest batch measured, unless `max_batch` is larger. */
static int table_read(const struct session *session, struct profile **profile, struct sy_error *err) {
    const struct conf_node *list = session->latency;
    uint32_t batch[POINTS_MAX], count = 0;
    int64_t latency_ns[POINTS_MAX];
    if (list->kind != CONF_LIST || !list->count || list->count > POINTS_MAX)
        return conf_error(list, err, "expected a list of 1 to %d points [batch, milliseconds]", POINTS_MAX);
    for (const struct conf_node *node = list->first; node; node = node->next, count++) {
        int rc = point_read(node, count ? batch[count - 1] : 0, &batch[count], &latency_ns[count], err);
        if (rc)
            return rc;
    }
    uint32_t batch_max = session->batch_max ? (uint32_t)session->batch_max : batch[count - 1];
    *profile = malloc(profile_bytes(batch_max));
    return *profile ? profile_set_points(*profile, batch_max, batch, latency_ns, count)
                    : conf_error(list, err, "out of memory");
}

/* Reads a line (alpha and beta), up to the largest batch that the SLO allows. */
static int line_read(const struct session *session, const struct conf_node *node, struct profile **profile,
                     struct sy_error *err) {
    double slo_ms = (double)session->slo_ns / (double)NS_PER_MS;
    uint32_t batch_max = PROFILE_BATCH_MAX;
    if (session->alpha_ms < 0 || session->beta_ms < 0)
        return conf_error(node, err, "expected 'alpha_ms' and 'beta_ms', 'latency_ms' or 'zoo'");
    if (session->alpha_ms + session->beta_ms <= 0)
        return conf_error(node, err, "alpha_ms and beta_ms are both 0");
    if (session->batch_max)
        batch_max = (uint32_t)session->batch_max;
    else if (session->alpha_ms > 0)
        batch_max = zoo_batch_max(session->alpha_ms, session->beta_ms, slo_ms);
    *profile = malloc(profile_bytes(batch_max));
    if (!*profile)
        return conf_error(node, err, "out of memory");
    profile_set_line(*profile, batch_max, session->alpha_ms * NS_PER_MS, session->beta_ms * NS_PER_MS);
    return 0;
}

/* Takes what the zoo has of a model. */
static int zoo_read(struct session *session, const struct conf_node *node, struct sy_error *err) {
    const char *model = session->model[0] ? session->model : session->name;
    const struct zoo_entry *entry = zoo_find(model, session->zoo);
    if (!zoo_has_type(session->zoo))
        return conf_error(conf_find(node, "zoo"), err, "there is no zoo '%s' (expected gtx1080ti or a100)",
                          session->zoo);
    if (!entry)
        return conf_error(node, err, "the zoo has no '%.60s' on '%s'", model, session->zoo);
    if (session->latency || session->alpha_ms >= 0 || session->beta_ms >= 0)
        return conf_error(node, err, "a model of the zoo has a latency already");
    session->alpha_ms = entry->alpha_ms;
    session->beta_ms = entry->beta_ms;
    if (!session->slo_ns)
        session->slo_ns = llround(entry->slo_ms * (double)NS_PER_MS);
    return 0;
}

/* ---- sessions ---- */

/* Checks a session that is not of the zoo: it has a table or a line, not both, and names no model. */
static int own_check(const struct session *session, const struct conf_node *node, struct sy_error *err) {
    if (session->model[0])
        return conf_error(conf_find(node, "model"), err, "goes with 'zoo'");
    if (session->latency && (session->alpha_ms >= 0 || session->beta_ms >= 0))
        return conf_error(session->latency, err, "a table excludes alpha_ms and beta_ms");
    return 0;
}

static int session_read(const struct conf_node *node, struct squishy_file *file, struct sy_error *err) {
    struct session session = {.rate_rps = -1, .alpha_ms = -1, .beta_ms = -1};
    struct profile *profile = NULL;
    int rc = conf_read_map(node, session_keys, &session, err);
    if (rc == 0 && (!session.name[0] || session.rate_rps < 0))
        rc = conf_error(node, err, "'%s' is missing", session.name[0] ? "rate_rps" : "name");
    if (rc == 0 && session.zoo[0])
        rc = zoo_read(&session, node, err);
    else if (rc == 0)
        rc = own_check(&session, node, err);
    if (rc == 0 && !session.slo_ns)
        rc = conf_error(node, err, "'slo_ms' is missing");
    for (uint32_t s = 0; rc == 0 && s < file->count; s++)
        if (strcmp(file->names[s], session.name) == 0)
            rc = conf_error(node, err, "there are two sessions '%s'", session.name);
    if (rc == 0)
        rc = session.latency ? table_read(&session, &profile, err) : line_read(&session, node, &profile, err);
    if (rc)
        return rc;
    file->sessions[file->count] = (struct squishy_session){
        .profile = profile,
        .batch_max = profile->batch_max,
        .slo_ns = session.slo_ns,
        .rate = session.rate_rps,
        .weights_bytes = (uint64_t)(session.weights_mib * MIB),
    };
    file->names[file->count] = strdup(session.name);
    if (!file->names[file->count++])
        return conf_error(node, err, "out of memory");
    return 0;
}

static int document_read(const struct conf_node *root, struct squishy_file *file, struct sy_error *err) {
    struct document document = {0};
    int rc = conf_read_map(root, document_keys, &document, err);
    if (rc)
        return rc;
    const struct conf_node *list = document.sessions;
    if (!list)
        return conf_error(root, err, "'sessions' is missing");
    if (list->kind != CONF_LIST || !list->count || list->count > SQUISHY_FILE_SESSIONS_MAX)
        return conf_error(list, err, "expected a list of 1 to %d sessions", SQUISHY_FILE_SESSIONS_MAX);
    file->gpus = (uint32_t)document.gpus;
    file->memory_bytes = (uint64_t)(document.memory_mib * MIB);
    file->sessions = calloc(list->count, sizeof(*file->sessions));
    file->names = calloc(list->count, sizeof(*file->names));
    if (!file->sessions || !file->names)
        return conf_error(list, err, "out of memory");
    for (const struct conf_node *node = list->first; rc == 0 && node; node = node->next)
        rc = session_read(node, file, err);
    return rc;
}

static int file_make(struct conf_node *root, struct squishy_file *file, struct sy_error *err) {
    *file = (struct squishy_file){.gpus = 0};
    int rc = document_read(root, file, err);
    if (rc)
        squishy_file_free(file);
    conf_free(root);
    return rc;
}

int squishy_file_read(const char *path, struct squishy_file *file, struct sy_error *err) {
    struct conf_node *root;
    int rc = conf_read_file(path, &root, err);
    return rc ? rc : file_make(root, file, err);
}

int squishy_file_parse(const char *origin, const char *text, size_t bytes, struct squishy_file *file,
                       struct sy_error *err) {
    struct conf_node *root;
    int rc = conf_read_text(origin, text, bytes, &root, err);
    return rc ? rc : file_make(root, file, err);
}

void squishy_file_free(struct squishy_file *file) {
    for (uint32_t s = 0; s < file->count; s++) {
        free((void *)file->sessions[s].profile);
        free(file->names[s]);
    }
    free(file->sessions);
    free(file->names);
    *file = (struct squishy_file){.gpus = 0};
}
