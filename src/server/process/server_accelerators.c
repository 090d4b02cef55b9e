/* server_accelerators.c - the accelerators of this process, or of those that it has started (`serve --isolate`). */
#include <string.h>

#include "back/executor/executor.h"
#include "core/data/running.h"
#include "server/process/server_state.h"

uint32_t server_accelerator_count(const struct server *s) {
    return server_runs(&s->config) ? s->wiring.accelerators : s->config.cluster ? s->config.cluster->running_count : 0;
}

bool server_accelerators_failed(const struct server *s) {
    uint32_t count = server_runs(&s->config) ? s->wiring.accelerators : 0, failed = 0;
    for (uint32_t n = 0; n < count; n++)
        failed +=
            atomic_load_explicit(&server_accelerator(s, n).counters->failed, memory_order_relaxed) != 0; /* alone */
    return count > 0 && failed == count;
}

struct server_accelerator server_accelerator(const struct server *s, uint32_t n) {
    const struct server_cluster *c = s->config.cluster;
    if (server_runs(&s->config))
        return (struct server_accelerator){
            .type = s->executors.types[s->executors.type_of[n]].type,
            .group = s->executors.type_of[n],
            .state = (uint8_t)wiring_accelerator_state(&s->wiring, n),
            .counters = executor_counters(s->executors.list[s->wiring.executor_of[n]], n),
            .timeline = &s->executors.timelines.of[n],
        };
    uint32_t group = 0;
    while (strcmp(c->running_types[group], c->running_types[n]) != 0)
        group++;
    return (struct server_accelerator){
        .type = c->running_types[n],
        .group = group,
        .state = (uint8_t)isolated_state(c, n),
        .counters = &c->running[n]->counters,
        .timeline = &s->executors.timelines.of[n],
    };
}
