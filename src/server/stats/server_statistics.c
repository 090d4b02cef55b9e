/* server_statistics.c - adds up the threads' counters. Disturbs no thread. */
#include "server/stats/server_statistics.h"

#include <string.h>
#include <time.h>

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "core/util/counter.h"
#include "front/request/infer_counters.h"

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

/* The machine's memory that a model takes, on all CPU accelerators that run it. */
static uint64_t cpu_bytes(const struct served_model *served, uint32_t type_count) {
    if (served_model_state(served) != MODEL_READY)
        return 0;
    uint64_t sessions = 0;
    for (uint32_t t = 0; t < type_count; t++)
        sessions += served->on[t].gpu ? 0 : served->on[t].count;
    return sessions * served->batch_bytes + (served->weights_shared ? sessions > 0 : sessions) * served->weights_bytes;
}

const struct thread_rings *server_statistics_rings(const struct server_statistics *s, uint32_t model,
                                                   struct thread_model_id *thread_model) {
    const struct served_model *m = &s->list->models[model];
    uint32_t place = model;
    if (!s->by || (s->by->link && !link_report_place(scheduler_link_report(s->by->link), m->name, m->version, &place)))
        return NULL;
    const struct server_placement *p = &s->by->placements[wiring_host(s->by->wiring, place)];
    *thread_model = p->thread_model;
    return scheduling_rings(s->by, p->thread);
}

void server_statistics_read(const void *statistics, uint32_t model, struct model_statistics *to) {
    const struct server_statistics *s = statistics;
    const struct frontends *fs = s->list->frontends;
    struct thread_model_id m;
    int64_t last_ns = 0;

    *to = (struct model_statistics){0};
    /* acquire: with server_start()'s release, after every frontend has started */
    if (!atomic_load_explicit(&s->readiness->start.over, memory_order_acquire))
        return;
    for (uint32_t f = 0; f < fs->count; f++)
        add(to, &last_ns, &frontends_counters(fs, f)->models[model]);
    const struct thread_rings *rings = server_statistics_rings(s, model, &m);
    if (rings) {
        to->batches = counter_get(&rings->counters[m.n].run_ns.count);
        to->waiting = atomic_load_explicit(&rings->queued[m.n], memory_order_relaxed); /* a gauge */
    }
    if (s->list->models[model].ensemble) /* as with Triton, each of its requests is an execution */
        to->batches = to->answered;
    to->cpu_bytes = cpu_bytes(&s->list->models[model], s->executors->type_count);
    struct timespec now; /* since 1970; last_ns is of the server's clock */
    clock_gettime(CLOCK_REALTIME, &now);
    if (last_ns > 0)
        to->last_ms = ((int64_t)now.tv_sec * NS_PER_S + now.tv_nsec - (clock_now_ns() - last_ns)) / NS_PER_MS;
}

void server_statistics_read_batches(const void *statistics, uint32_t model, struct batch_statistics *by_size) {
    const struct server_statistics *s = statistics;
    uint32_t sizes = s->list->models[model].batch_max;
    struct thread_model_id m;

    memset(by_size, 0, sizes * sizeof(*by_size));
    if (!atomic_load_explicit(&s->readiness->start.over, memory_order_acquire)) /* as above */
        return;
    const struct thread_rings *rings = server_statistics_rings(s, model, &m);
    for (uint32_t b = 0; rings && b < sizes; b++) {
        const struct batch_counters *batch = &rings->batches[m.n][b];
        by_size[b] = (struct batch_statistics){.batches = counter_get(&batch->batches),
                                               .gather_ns = counter_get(&batch->gather_ns),
                                               .run_ns = counter_get(&batch->run_ns)};
    }
}
