/* squishy_file.c - reads sessions from YAML. */
#include "lab/planfile/squishy_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/shared.h"
#include "lab/planfile/planned_model.h"

#define MIB_MAX     1e9
#define MIB         (1024.0 * 1024.0)
#define WEIGHT_WHAT "a number of MiB"

struct document {
    int64_t gpus;
    double memory_mib;
    const struct conf_node *prefixes, *sessions;
};

static const struct conf_key document_keys[] = {
    CONF_KEY_INT(struct document, gpus, "gpus", 1, SQUISHY_FILE_GPUS_MAX, "a number of GPUs"),
    CONF_KEY_DOUBLE(struct document, memory_mib, "memory_mib", 1, MIB_MAX, WEIGHT_WHAT),
    CONF_KEY_NODE(struct document, prefixes, "prefixes"),
    CONF_KEY_NODE(struct document, sessions, "sessions"),
    CONF_KEYS_END,
};

struct prefix {
    struct planned_model model; /* name and latency of the prefix; has no SLO */
    double weights_mib;
    const struct conf_node *node;
};

static const struct conf_key prefix_keys[] = {
    PLANNED_MODEL_KEYS(struct prefix, model),
    CONF_KEY_DOUBLE(struct prefix, weights_mib, "weights_mib", 0, MIB_MAX, WEIGHT_WHAT),
    CONF_KEYS_END,
};

struct session {
    struct planned_model model; /* model of the session; with a prefix: the part behind the prefix */
    double rate_rps, weights_mib;
    char prefix_name[sizeof(((struct planned_model *)0)->name)];
    const struct prefix *prefix; /* prefix that the session shares; NULL: none */
    const struct conf_node *node;
    bool planned; /* whether the session is planned together with an earlier one */
};

static const struct conf_key session_keys[] = {
    PLANNED_MODEL_KEYS(struct session, model),
    CONF_KEY_TIME(struct session, model.slo_ns, "slo_ms", NS_PER_MS, 0.001, PLANNED_SLO_MS_MAX, PLANNED_TIME_WHAT),
    CONF_KEY_DOUBLE(struct session, rate_rps, "rate_rps", 0, PLANNED_RATE_MAX, "a number of items per second"),
    CONF_KEY_DOUBLE(struct session, weights_mib, "weights_mib", 0, MIB_MAX, WEIGHT_WHAT),
    CONF_KEY_TEXT(struct session, prefix_name, "prefix", "the name of a prefix"),
    CONF_KEYS_END,
};

/* The content of a file, before sessions that share a prefix are joined. */
struct reading {
    struct prefix *prefixes;
    struct session *sessions;
    uint32_t prefix_count, session_count;
    bool whole;
};

static int prefix_read(const struct conf_node *node, struct reading *r, struct sy_error *err) {
    struct prefix prefix = {.model = PLANNED_MODEL_NONE, .node = node};
    int rc = conf_read_map(node, prefix_keys, &prefix, err);
    if (rc == 0 && !prefix.model.name[0])
        rc = conf_error(node, err, "'name' is missing");
    if (rc == 0)
        rc = planned_model_check(&prefix.model, node, err);
    for (uint32_t p = 0; rc == 0 && p < r->prefix_count; p++)
        if (strcmp(r->prefixes[p].model.name, prefix.model.name) == 0)
            rc = conf_error(node, err, "there are two prefixes '%s'", prefix.model.name);
    if (rc == 0)
        r->prefixes[r->prefix_count++] = prefix;
    return rc;
}

static int session_read(const struct conf_node *node, struct reading *r, struct sy_error *err) {
    struct session session = {.model = PLANNED_MODEL_NONE, .rate_rps = -1, .node = node};
    const struct planned_model *model = &session.model;
    int rc = conf_read_map(node, session_keys, &session, err);
    if (rc == 0 && (!model->name[0] || session.rate_rps < 0))
        rc = conf_error(node, err, "'%s' is missing", model->name[0] ? "rate_rps" : "name");
    if (rc == 0)
        rc = planned_model_check(&session.model, node, err);
    if (rc == 0 && !model->slo_ns)
        rc = conf_error(node, err, "'slo_ms' is missing");
    for (uint32_t s = 0; rc == 0 && s < r->session_count; s++)
        if (strcmp(r->sessions[s].model.name, model->name) == 0)
            rc = conf_error(node, err, "there are two sessions '%s'", model->name);
    for (uint32_t p = 0; rc == 0 && p < r->prefix_count; p++)
        if (strcmp(r->prefixes[p].model.name, session.prefix_name) == 0)
            session.prefix = &r->prefixes[p];
    if (rc == 0 && session.prefix_name[0] && !session.prefix)
        rc = conf_error(conf_find(node, "prefix"), err, "there is no prefix '%s'", session.prefix_name);
    if (rc == 0)
        r->sessions[r->session_count++] = session;
    return rc;
}

/* ---- what is planned ---- */

/* Makes the table of sessions that share a prefix: `profiles` has those of their `count` suffixes, and behind them the
 * prefix's. */
static int shared_make(const struct session *first, struct profile *const *profiles, uint32_t count,
                       struct profile **table, struct sy_error *err) {
    struct shared_suffixes *suffixes = calloc(count, sizeof(*suffixes));
    uint32_t batch_max = profiles[count]->batch_max;
    for (uint32_t i = 0; i < count; i++)
        if (profiles[i]->batch_max < batch_max)
            batch_max = profiles[i]->batch_max;
    *table = malloc(profile_bytes(batch_max));
    if (!suffixes || !*table) {
        free(suffixes);
        free(*table);
        return conf_error(first->node, err, "out of memory");
    }
    for (uint32_t i = 0; i < count; i++)
        suffixes[i] = (struct shared_suffixes){profiles[i], 1};
    shared_profile_set(*table, batch_max, profiles[count], suffixes, count);
    free(suffixes);
    return 0;
}

/* Makes the tables of the members' suffixes and of their prefix, and one table out of these. */
static int shared_profile(const struct session *const *members, uint32_t count, struct profile **table,
                          struct sy_error *err) {
    struct profile **profiles = calloc(count + 1, sizeof(*profiles));
    int rc = profiles ? 0 : conf_error(members[0]->node, err, "out of memory");
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = planned_model_profile(&members[i]->model, members[i]->node, &profiles[i], err);
    if (rc == 0) {
        struct planned_model prefix = members[0]->prefix->model;
        prefix.slo_ns = members[0]->model.slo_ns;
        rc = planned_model_profile(&prefix, members[0]->prefix->node, &profiles[count], err);
    }
    if (rc == 0)
        rc = shared_make(members[0], profiles, count, table, err);
    for (uint32_t i = 0; profiles && i <= count; i++)
        free(profiles[i]);
    free(profiles);
    return rc;
}

/* Adds a session to the plan, with its name, and those of its members. */
static int planned_add(struct squishy_file *file, const struct session *const *members, uint32_t count,
                       struct sy_error *err) {
    struct squishy_session *session = &file->sessions[file->count];
    struct squishy_members *of = &file->members[file->count];
    const struct session *first = members[0];
    struct profile *profile = NULL;
    char name[sizeof(first->model.name) + 32];
    int rc = first->prefix ? shared_profile(members, count, &profile, err)
                           : planned_model_profile(&first->model, first->node, &profile, err);
    if (rc)
        return rc;
    *session =
        (struct squishy_session){.profile = profile, .batch_max = profile->batch_max, .slo_ns = first->model.slo_ns};
    double weights_mib = first->prefix ? first->prefix->weights_mib : 0;
    snprintf(name, sizeof(name), count > 1 ? "%s and %u more" : "%s", first->model.name, count - 1);
    file->names[file->count++] = strdup(name);
    of->names = calloc(count, sizeof(*of->names));
    bool named = file->names[file->count - 1] && of->names;
    for (uint32_t i = 0; named && i < count; i++) {
        session->rate += members[i]->rate_rps;
        weights_mib += members[i]->weights_mib;
        named = (of->names[of->count++] = strdup(members[i]->model.name));
    }
    session->weights_bytes = (uint64_t)(weights_mib * MIB);
    return named ? 0 : conf_error(first->node, err, "out of memory");
}

/* Plans a session as one with those behind it that share its prefix and have its SLO. */
static int session_plan(struct reading *r, uint32_t s, struct squishy_file *file, struct sy_error *err) {
    const struct session *members[SHARED_MODELS_MAX] = {&r->sessions[s]};
    uint32_t count = 1;
    for (uint32_t o = s + 1; r->sessions[s].prefix && !r->whole && o < r->session_count; o++) {
        struct session *other = &r->sessions[o];
        if (other->prefix != r->sessions[s].prefix || other->model.slo_ns != r->sessions[s].model.slo_ns)
            continue;
        if (count == SHARED_MODELS_MAX)
            return conf_error(other->node, err, "more than %d sessions share a prefix", SHARED_MODELS_MAX);
        members[count++] = other;
        other->planned = true;
    }
    return planned_add(file, members, count, err);
}

static int prefixes_read(const struct conf_node *list, struct reading *r, struct sy_error *err) {
    if (!list)
        return 0;
    if (list->kind != CONF_LIST || !list->count || list->count > SQUISHY_FILE_SESSIONS_MAX)
        return conf_error(list, err, "expected a list of 1 to %d prefixes", SQUISHY_FILE_SESSIONS_MAX);
    r->prefixes = calloc(list->count, sizeof(*r->prefixes));
    int rc = r->prefixes ? 0 : conf_error(list, err, "out of memory");
    for (const struct conf_node *node = list->first; rc == 0 && node; node = node->next)
        rc = prefix_read(node, r, err);
    return rc;
}

static int document_read(const struct conf_node *root, struct reading *r, struct squishy_file *file,
                         struct sy_error *err) {
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
    file->members = calloc(list->count, sizeof(*file->members));
    r->sessions = calloc(list->count, sizeof(*r->sessions));
    if (!file->sessions || !file->names || !file->members || !r->sessions)
        return conf_error(list, err, "out of memory");
    rc = prefixes_read(document.prefixes, r, err);
    for (const struct conf_node *node = list->first; rc == 0 && node; node = node->next)
        rc = session_read(node, r, err);
    for (uint32_t s = 0; rc == 0 && s < r->session_count; s++)
        if (!r->sessions[s].planned)
            rc = session_plan(r, s, file, err);
    return rc;
}

int squishy_file_read(struct conf_node *root, bool whole, struct squishy_file *file, struct sy_error *err) {
    struct reading reading = {.whole = whole};
    *file = (struct squishy_file){.gpus = 0};
    int rc = document_read(root, &reading, file, err);
    if (rc)
        squishy_file_free(file);
    free(reading.prefixes);
    free(reading.sessions);
    conf_free(root);
    return rc;
}

void squishy_file_free(struct squishy_file *file) {
    for (uint32_t s = 0; s < file->count; s++) {
        free((void *)file->sessions[s].profile);
        free(file->names[s]);
        for (uint32_t m = 0; m < file->members[s].count; m++)
            free(file->members[s].names[m]);
        free(file->members[s].names);
    }
    free(file->sessions);
    free(file->names);
    free(file->members);
    *file = (struct squishy_file){.gpus = 0};
}
