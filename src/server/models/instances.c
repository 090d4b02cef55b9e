/* instances.c - matches a model's instance_group with the server's accelerators. */
#include "server/models/instances.h"

#include <string.h>

#include "core/system/log.h"

void instances_place(struct served_model *model, const struct server_accelerators *accelerators, uint32_t type_count) {
    enum instance_kind wanted = model->instances.kind;
    uint32_t cpus = 0, gpus = 0;

    memset(model->on, 0, sizeof(model->on));
    for (uint32_t t = 0; t < type_count; t++) {
        const struct server_accelerators *a = &accelerators[t];
        bool emulated = a->engine->emulate, cuda = a->provider && strcmp(a->provider, "cuda") == 0;
        model->on[t] =
            (struct served_on){.type = a->type, .count = a->count, .gpu = emulated || cuda, .emulated = emulated};
        *(model->on[t].gpu ? &gpus : &cpus) += accelerators[t].count;
    }
    if ((wanted == INSTANCES_ON_CPUS && !cpus) || (wanted == INSTANCES_ON_GPUS && !gpus)) {
        log_warn("instance_group wants accelerators that are not there; the model runs on all accelerators",
                 "model=%s wanted=%s", model->name, wanted == INSTANCES_ON_CPUS ? "cpu" : "gpu");
        return;
    }
    const struct instance_groups *groups = &model->instances;
    uint64_t all = gpus < INSTANCES_GPUS_NAMED ? ((uint64_t)1 << gpus) - 1 : UINT64_MAX;
    if (wanted == INSTANCES_ON_GPUS && groups->gpus > gpus)
        log_warn("instance_group names a GPU that is not there; the model runs on all GPUs", "model=%s gpu=%u gpus=%u",
                 model->name, groups->gpus - 1, gpus);
    else if (wanted == INSTANCES_ON_GPUS && groups->gpus && (groups->gpus_named & all) != all)
        log_warn("instance_group names some of the GPUs; the model runs on all of them", "model=%s gpus=%u",
                 model->name, gpus);
    for (uint32_t t = 0; t < type_count && wanted != INSTANCES_ANYWHERE; t++)
        if (model->on[t].gpu != (wanted == INSTANCES_ON_GPUS))
            model->on[t].count = 0;
}
