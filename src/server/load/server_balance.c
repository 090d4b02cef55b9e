/* server_balance.c - measures the load of rank threads and models, lets sched/plan/balance.h decide, gives the orders.
 */
#include "server/load/server_balance.h"

#include <errno.h>
#include <stdlib.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "sched/plan/balance.h"

_Static_assert(BALANCE_SUBCLUSTERS_MAX == RANK_THREADS_MAX, "a sub-cluster for each rank thread");

/* owned by the thread that looks */
struct server_balancer {
    const struct executors *executors;
    const struct scheduling *scheduling;
    struct model_list *list;
    struct balance *balance;
    struct balance_model *models; /* [list.count] */
    struct balance_move *moves;   /* [list.count] */
    struct balance_subcluster subclusters[RANK_THREADS_MAX];
    int64_t looked_ns;
    void *memory;
};

int server_balancer_create(struct server_balancer **balancer, const struct executors *executors,
                           const struct scheduling *scheduling, struct model_list *models) {
    const struct server_config *c = scheduling->config;
    struct balance_config config = {
        .subclusters = scheduling->wiring->rank_threads,
        .types = executors->type_count,
        .models = models->count,
        .moves_most = balance_moves_usual(models->count),
        .max_rate = c->rank_rate_max,
        .memory_mb = (double)c->memory_bytes / 1e6,
    };

    if (scheduling->wiring->central || scheduling->wiring->rank_threads < 2 || c->cluster || c->epoch_ns == 0)
        return 0;
    struct server_balancer *b = *balancer = calloc(1, sizeof(*b));
    if (!b)
        return -ENOMEM;
    b->executors = executors;
    b->scheduling = scheduling;
    b->list = models;
    b->memory = aligned_alloc(CACHE_LINE, balance_bytes(&config));
    b->models = calloc(config.models + 1, sizeof(*b->models));
    b->moves = calloc(config.models + 1, sizeof(*b->moves));
    if (!b->memory || !b->models || !b->moves)
        return -ENOMEM;
    b->balance = balance_init(b->memory, &config);
    b->looked_ns = clock_now_ns();
    return 0;
}

void server_balancer_free(struct server_balancer *b) {
    if (!b)
        return;
    free(b->memory);
    free(b->models);
    free(b->moves);
    free(b);
}

/* A served model with all its variants, which are in one sub-cluster. */
static struct balance_model model_look(const struct server_balancer *b, uint32_t model, int64_t now_ns) {
    const struct wiring *w = b->scheduling->wiring;
    const struct server_placement *p = &b->scheduling->placements[model];
    struct balance_model to = {.subcluster = 0};

    if (p->variant_count == 0 || wiring_subcluster(w, p->first_variant) == SUBCLUSTER_NONE)
        return to; /* no sub-cluster can run it, so it stays */
    to.subcluster = wiring_subcluster(w, p->first_variant);
    to.weights_mb = (double)b->list->models[model].weights_bytes / 1e6;
    for (uint32_t v = 0; v < p->variant_count; v++) {
        const struct model_load *load = &w->loads[p->first_variant.n + v];
        int64_t silent_ns = now_ns - atomic_load_explicit(&load->at_ns, memory_order_relaxed); /* statistics */
        to.rate += balance_decayed(atomic_load_explicit(&load->rate, memory_order_relaxed), silent_ns);
        to.load += balance_decayed(atomic_load_explicit(&load->accelerators, memory_order_relaxed), silent_ns);
    }
    for (uint32_t t = 0; t < b->executors->type_count; t++) {
        const struct profile *profile = b->executors->types[t].profiles[model];
        uint32_t batch = b->list->models[model].batch_max;
        if (profile)
            to.most[t] = (double)batch * (double)NS_PER_S / (double)profile->latency_ns[batch];
    }
    return to;
}

void server_balancer_look(struct server_balancer *b) {
    int64_t now_ns = clock_now_ns();

    if (!b || now_ns - b->looked_ns < b->scheduling->config->epoch_ns)
        return;
    struct wiring *w = b->scheduling->wiring;
    b->looked_ns = now_ns;
    pthread_mutex_lock(&b->list->lock);
    for (uint32_t k = 0; k < w->rank_threads; k++)
        b->subclusters[k] = (struct balance_subcluster){{0}};
    for (uint32_t a = 0; a < w->accelerators; a++)
        if (wiring_accelerator_state(w, a) == ACCELERATOR_SERVING)
            b->subclusters[w->subcluster_of_accelerator[a]].accelerators[b->executors->type_of[a]]++;
    for (uint32_t i = 0; i < b->list->count; i++)
        b->models[i] = model_look(b, i, now_ns);
    pthread_mutex_unlock(&b->list->lock);

    uint32_t count = balance_look(b->balance, b->models, b->subclusters, b->moves);
    pthread_mutex_lock(&b->list->lock); /* a model that has gone since has no variants; another one in its place may
                                         * move instead */
    for (uint32_t i = 0; i < count; i++) {
        const struct server_placement *p = &b->scheduling->placements[b->moves[i].model];
        if (p->variant_count > 0)
            log_info("model moves to another rank thread", "model=%s rank_thread=%u",
                     b->list->models[b->moves[i].model].name, b->moves[i].subcluster);
        for (uint32_t v = 0; v < p->variant_count; v++) /* if a ring is full, the rest follow when the model is chosen
                                                         * again */
            wiring_move(w, variant_next(p->first_variant, v), b->moves[i].subcluster);
    }
    pthread_mutex_unlock(&b->list->lock);
}
