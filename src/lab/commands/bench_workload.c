/* bench_workload.c - reads a scenario for `symphony bench`. */
#include "lab/commands/bench_workload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/text.h"
#include "lab/scenario/scenario.h"

/* Refuses workloads that only the simulator can run: in this client requests are alike, but for their SLOs. */
static const char *refused(const struct sim_config *config) {
    if (!config->step_count)
        return "it has no workload.rate_rps and no recorded arrivals";
    if (config->pipeline_count)
        return "pipelines are for simulations only";
    if (config->query_sizes)
        return "workload.query_size is for simulations only (--items says how many items each request has)";
    for (uint32_t m = 0; m < config->model_count; m++) {
        if (config->models[m].best_effort > 0)
            return "best_effort is for simulations only";
        if (config->models[m].priority_count > 0)
            return "priorities are for simulations only";
        if (config->models[m].variants)
            return "a model's variants are for simulations only";
        if (strchr(config->models[m].name, ','))
            return "a model's name has a comma";
    }
    return NULL;
}

int bench_workload_read(struct bench_workload *w, const char *path, const char *const *sets, uint32_t set_count,
                        struct sy_error *err) {
    struct scenario scenario;
    struct sy_error why;
    struct text names;
    *w = (struct bench_workload){.names = NULL};
    int rc = scenario_read(path, sets, set_count, &scenario, err);
    if (rc)
        return rc;
    rc = cluster_make(&w->cluster, &scenario, &why);
    scenario_free(&scenario);
    if (rc)
        return error_set(err, rc, "%s: %s", path, why.text);
    const char *reason = refused(&w->cluster.config);
    if (reason)
        return error_set(err, -EINVAL, "%s: %s", path, reason);
    text_init(&names, NULL, 0);
    for (uint32_t m = 0; m < w->cluster.config.model_count; m++)
        text_printf(&names, "%s%s", m ? "," : "", w->cluster.models[m].name);
    w->names = strdup(text_end(&names));
    text_free(&names);
    return w->names ? 0 : error_set(err, -ENOMEM, "out of memory");
}

void bench_workload_free(struct bench_workload *w) {
    free(w->names);
    cluster_free(&w->cluster);
    *w = (struct bench_workload){.names = NULL};
}
