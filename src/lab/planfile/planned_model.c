/* planned_model.c - reads the latency of a model in the file of a planner. */
#include "lab/planfile/planned_model.h"

#include <math.h>
#include <stdlib.h>

#include "core/data/zoo.h"

#define POINTS_MAX 64

/* Reads a table of points. It ends with the largest batch measured, unless `max_batch` is given. */
static int table_read(const struct planned_model *model, struct profile **profile, struct sy_error *err) {
    const struct conf_node *list = model->latency;
    uint32_t batch[POINTS_MAX], count = 0;
    int64_t latency_ns[POINTS_MAX];
    if (list->kind != CONF_LIST || !list->count || list->count > POINTS_MAX)
        return conf_error(list, err, "expected a list of 1 to %d points [batch, milliseconds]", POINTS_MAX);
    for (const struct conf_node *node = list->first; node; node = node->next, count++) {
        int64_t b, least = count ? (int64_t)batch[count - 1] + 1 : 1;
        if (node->kind != CONF_LIST || node->count != 2)
            return conf_error(node, err, "expected [batch, milliseconds]");
        int rc = conf_get_int(node->first, least, PROFILE_BATCH_MAX, "batches that rise from 1 to 1024", &b, err);
        if (rc == 0)
            rc = conf_get_time(node->last, NS_PER_MS, 1e-6, PLANNED_SLO_MS_MAX, PLANNED_TIME_WHAT, &latency_ns[count],
                               err);
        if (rc)
            return rc;
        batch[count] = (uint32_t)b;
    }
    uint32_t batch_max = model->batch_max ? (uint32_t)model->batch_max : batch[count - 1];
    *profile = malloc(profile_bytes(batch_max));
    return *profile ? profile_set_points(*profile, batch_max, batch, latency_ns, count)
                    : conf_error(list, err, "out of memory");
}

int planned_model_profile(const struct planned_model *model, const struct conf_node *node, struct profile **profile,
                          struct sy_error *err) {
    if (model->latency)
        return table_read(model, profile, err);
    /* a line (alpha and beta), up to `batch_max`, or else to the largest batch that the SLO allows */
    double slo_ms = (double)model->slo_ns / (double)NS_PER_MS;
    uint32_t batch_max = PROFILE_BATCH_MAX;
    if (model->alpha_ms < 0 || model->beta_ms < 0)
        return conf_error(node, err, "expected 'alpha_ms' and 'beta_ms', 'latency_ms' or 'zoo'");
    if (model->alpha_ms + model->beta_ms <= 0)
        return conf_error(node, err, "alpha_ms and beta_ms are both 0");
    if (model->batch_max)
        batch_max = (uint32_t)model->batch_max;
    else if (model->alpha_ms > 0)
        batch_max = zoo_batch_max(model->alpha_ms, model->beta_ms, slo_ms);
    *profile = malloc(profile_bytes(batch_max));
    if (!*profile)
        return conf_error(node, err, "out of memory");
    profile_set_line(*profile, batch_max, model->alpha_ms * NS_PER_MS, model->beta_ms * NS_PER_MS);
    return 0;
}

/* Takes a model's latency from the zoo. */
static int zoo_read(struct planned_model *model, const struct conf_node *node, struct sy_error *err) {
    const char *name = model->model[0] ? model->model : model->name;
    const struct zoo_entry *entry = zoo_find(name, model->zoo);
    if (!zoo_has_type(model->zoo))
        return conf_error(conf_find(node, "zoo"), err, "there is no zoo '%s' (expected gtx1080ti or a100)", model->zoo);
    if (!entry)
        return conf_error(node, err, "the zoo has no '%.60s' on '%s'", name, model->zoo);
    if (model->latency || model->alpha_ms >= 0 || model->beta_ms >= 0)
        return conf_error(node, err, "a model of the zoo has a latency already");
    model->alpha_ms = entry->alpha_ms;
    model->beta_ms = entry->beta_ms;
    if (!model->slo_ns)
        model->slo_ns = llround(entry->slo_ms * (double)NS_PER_MS);
    return 0;
}

int planned_model_check(struct planned_model *model, const struct conf_node *node, struct sy_error *err) {
    if (model->zoo[0])
        return zoo_read(model, node, err);
    if (model->model[0])
        return conf_error(conf_find(node, "model"), err, "goes with 'zoo'");
    if (model->latency && (model->alpha_ms >= 0 || model->beta_ms >= 0))
        return conf_error(model->latency, err, "a table excludes alpha_ms and beta_ms");
    return 0;
}
