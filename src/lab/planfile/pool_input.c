/* pool_input.c - makes the input of sched/plan/pool.h from a scenario. */
#include "lab/planfile/pool_input.h"

#include <errno.h>

#include "core/util/time.h"

int pool_input_make(const struct scenario *s, const struct cluster *cluster, const char *path, double budget,
                    struct pool_input *input, struct sy_error *err) {
    const struct sim_model *model = &cluster->models[0];
    const struct query_sizes *sizes = cluster->config.query_sizes;
    static const double one_item[] = {0, 1};
    if (s->pipeline_count)
        return error_set(err, -EINVAL, "%s: pipelines: a pool is planned for one model", path);
    if (scenario_with_variants(s))
        return error_set(err, -EINVAL, "%s: models: a pool is planned for one model without variants", path);
    if (s->model_count != 1)
        return error_set(err, -EINVAL, "%s: models: a pool is planned for one model, not for %u", path, s->model_count);
    *input = (struct pool_input){
        .types = s->type_count,
        .items_max = sizes ? sizes->most : 1,
        .up_to = sizes ? sizes->up_to : one_item,
        .slo_ns = model->slo_ns - s->reply_margin_ns,
        .budget = budget,
    };
    for (uint32_t t = 0; t < s->type_count; t++) {
        if (s->types[t].price <= 0)
            return error_set(err, -EINVAL, "%s: cluster.accelerators: the price of '%s' is not known", path,
                             s->types[t].name);
        input->type[t].price = s->types[t].price;
        input->type[t].latency_ns = model->profiles[t] ? model->profiles[t]->latency_ns : NULL;
        if (budget <= 0)
            input->budget += s->types[t].count * s->types[t].price;
    }
    for (uint32_t t = 0; t < s->type_count; t++)
        if (input->budget / input->type[t].price > POOL_INSTANCES_MAX)
            return error_set(err, -EINVAL, "%s: %g dollars an hour pay for more than %d of '%s'", path, input->budget,
                             POOL_INSTANCES_MAX, s->types[t].name);
    if (input->items_max > model->batch_max)
        return error_set(err, -EINVAL,
                         "%s: no type serves queries of %u items within the SLO of %g ms; the largest it can is %u",
                         path, input->items_max, (double)model->slo_ns / NS_PER_MS, model->batch_max);
    return 0;
}
