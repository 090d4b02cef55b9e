/* squishy_file.c - reads sessions from YAML. */
#include "cli/squishy_file.h"

#include <stdlib.h>
#include <string.h>

#include "cli/planned_model.h"

#define MIB_MAX     1e9
#define MIB         (1024.0 * 1024.0)
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
    struct planned_model model;
    double rate_rps, weights_mib;
};

static const struct conf_key session_keys[] = {
    PLANNED_MODEL_KEYS(struct session, model),
    CONF_KEY_TIME(struct session, model.slo_ns, "slo_ms", NS_PER_MS, 0.001, PLANNED_SLO_MS_MAX, PLANNED_TIME_WHAT),
    CONF_KEY_DOUBLE(struct session, rate_rps, "rate_rps", 0, PLANNED_RATE_MAX, "a number of items per second"),
    CONF_KEY_DOUBLE(struct session, weights_mib, "weights_mib", 0, MIB_MAX, WEIGHT_WHAT),
    CONF_KEYS_END,
};

static int session_read(const struct conf_node *node, struct squishy_file *file, struct sy_error *err) {
    struct session session = {.model = PLANNED_MODEL_NONE, .rate_rps = -1};
    const struct planned_model *model = &session.model;
    struct profile *profile = NULL;
    int rc = conf_read_map(node, session_keys, &session, err);
    if (rc == 0 && (!model->name[0] || session.rate_rps < 0))
        rc = conf_error(node, err, "'%s' is missing", model->name[0] ? "rate_rps" : "name");
    if (rc == 0)
        rc = planned_model_check(&session.model, node, err);
    if (rc == 0 && !model->slo_ns)
        rc = conf_error(node, err, "'slo_ms' is missing");
    for (uint32_t s = 0; rc == 0 && s < file->count; s++)
        if (strcmp(file->names[s], model->name) == 0)
            rc = conf_error(node, err, "there are two sessions '%s'", model->name);
    if (rc == 0)
        rc = planned_model_profile(model, node, &profile, err);
    if (rc)
        return rc;
    file->sessions[file->count] = (struct squishy_session){
        .profile = profile,
        .batch_max = profile->batch_max,
        .slo_ns = model->slo_ns,
        .rate = session.rate_rps,
        .weights_bytes = (uint64_t)(session.weights_mib * MIB),
    };
    file->names[file->count] = strdup(model->name);
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
    int rc = conf_read_large_file(path, &root, err);
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
