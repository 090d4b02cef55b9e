/* server_statistics.c - adds up the threads' counters. Disturbs no thread. */
#include "server/process/server_statistics.h"

#include <string.h>
#include <time.h>

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "core/util/counter.h"
#include "front/request/infer_counters.h"
#include "server/process/server_state.h"

static void add(struct model_statistics *s, int64_t *last_ns, const struct model_infer_counters *c) {
    int64_t last = atomic_load_explicit(&c->last_ns, memory_order_relaxed); /* statistics */
    s->answered += counter_get(&c->outcomes[OUTCOME_OK]);
    s->refused += counter_get(&c->outcomes[OUTCOME_REFUSED]);
    s->failed += counter_get(&c->outcomes[OUTCOME_FAILED]);
    s->cancelled += counter_get(&c->outcomes[OUTCOME_CANCELLED]);
    s->items += counter_get(&c->items);
    s->answered_ns += counter_get(&c->latency_ns.sum);
    s->unanswered_ns += counter_get(&c->fail_ns);
    s->queue_ns += counter_get(&c->queue_ns.sum);
    s->run_ns += counter_get(&c->run_ns);
    s->reply_ns += counter_get(&c->reply_ns);
    *last_ns = last > *last_ns ? last : *last_ns;
}

/* A time of the server's clock, in milliseconds since 1970. */
static int64_t wall_ms(int64_t ns) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((int64_t)now.tv_sec * NS_PER_S + now.tv_nsec - (clock_now_ns() - ns)) / NS_PER_MS;
}

/* The machine's memory that a model takes, on all CPU accelerators that run it. */
static uint64_t cpu_bytes(const struct server *s, uint32_t model) {
    const struct served_model *served = &s->config.models[model];

    if (served_model_state(served) != MODEL_READY)
        return 0;
    uint64_t sessions = 0;
    for (uint32_t t = 0; t < s->config.type_count; t++)
        sessions += served->on[t].gpu ? 0 : served->on[t].count;
    return sessions * served->batch_bytes + (served->weights_shared ? sessions > 0 : sessions) * served->weights_bytes;
}

/* The server that schedules a model, this one or that beside it, and the model's place there, which models that share
 * their first layers have in common. NULL: the scheduler is another process, or has no place for it. */
static const struct server *scheduled_by(const struct server *s, uint32_t model, uint32_t *place) {
    const struct server *by = server_schedules(s) ? s : s->config.scheduler;
    const struct served_model *m = &s->config.models[model];
    *place = model;
    if (by && by->scheduler_link &&
        !link_report_place(scheduler_link_report(by->scheduler_link), m->name, m->version, place))
        return NULL;
    if (by)
        *place = wiring_host(&by->wiring, *place);
    return by;
}

void server_statistics(const void *server, uint32_t model, struct model_statistics *statistics) {
    const struct server *s = server;
    int64_t last_ns = 0;

    *statistics = (struct model_statistics){0};
    /* acquire: with server_start()'s release, after every frontend has started */
    if (!atomic_load_explicit(&s->ready, memory_order_acquire))
        return;
    for (uint32_t f = 0; f < server_frontends(s); f++)
        add(statistics, &last_ns, &server_infer_counters(s, f)->models[model]);
    uint32_t place;
    const struct server *by = scheduled_by(s, model, &place);
    if (by) {
        const struct server_placement *p = &by->placements[place];
        statistics->batches = counter_get(&server_place_counters(by, place)->run_ns.count);
        /* relaxed: a gauge */
        statistics->waiting =
            atomic_load_explicit(&server_rings(by, p->thread)->queued[p->thread_model.n], memory_order_relaxed);
    }
    statistics->cpu_bytes = cpu_bytes(s, model);
    if (last_ns > 0)
        statistics->last_ms = wall_ms(last_ns);
}

void server_batch_statistics(const void *server, uint32_t model, struct batch_statistics *by_size) {
    const struct server *s = server;
    uint32_t sizes = s->config.models[model].batch_max, place;

    memset(by_size, 0, sizes * sizeof(*by_size));
    if (!atomic_load_explicit(&s->ready, memory_order_acquire)) /* as above */
        return;
    const struct server *by = scheduled_by(s, model, &place);
    if (!by)
        return;
    const struct server_placement *p = &by->placements[place];
    const struct batch_counters *batches = server_rings(by, p->thread)->batches[p->thread_model.n];
    for (uint32_t b = 0; b < sizes; b++)
        by_size[b] = (struct batch_statistics){.batches = counter_get(&batches[b].batches),
                                               .gather_ns = counter_get(&batches[b].gather_ns),
                                               .run_ns = counter_get(&batches[b].run_ns)};
}
