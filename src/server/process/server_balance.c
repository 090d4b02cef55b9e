/* server_balance.c - moves models between rank threads to balance their load: measures, lets sched/plan/balance.h
 * decide, gives the orders. */
#include <errno.h>
#include <stdlib.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "sched/plan/balance.h"
#include "server/process/server_state.h"

_Static_assert(BALANCE_PARTS_MAX == RANK_THREADS_MAX, "a part for each rank thread");

/* owned by the thread that calls server_balance() */
struct server_balancer {
    struct balance *balance;
    struct balance_model *models; /* [model_count] */
    struct balance_move *moves;   /* [model_count] */
    struct balance_part parts[RANK_THREADS_MAX];
    int64_t looked_ns;
    void *memory;
};

int server_balance_init(struct server *s) {
    struct balance_config config = {
        .parts = s->wiring.rank_threads,
        .types = s->config.type_count,
        .models = s->config.model_count,
        .moves_most = balance_moves_usual(s->config.model_count),
        .max_rate = s->config.rank_rate_max,
    };

    if (s->wiring.central || s->wiring.rank_threads < 2 || s->config.cluster || s->config.epoch_ns == 0)
        return 0;
    struct server_balancer *b = s->balancer = calloc(1, sizeof(*b));
    if (!b)
        return -ENOMEM;
    b->memory = aligned_alloc(CACHE_LINE, balance_bytes(&config));
    b->models = calloc(config.models + 1, sizeof(*b->models));
    b->moves = calloc(config.models + 1, sizeof(*b->moves));
    if (!b->memory || !b->models || !b->moves)
        return -ENOMEM;
    b->balance = balance_init(b->memory, &config);
    b->looked_ns = clock_now_ns();
    return 0;
}

void server_balance_free(struct server *s) {
    struct server_balancer *b = s->balancer;

    if (!b)
        return;
    free(b->memory);
    free(b->models);
    free(b->moves);
    free(b);
}

static void parts_look(const struct server *s, struct balance_part *parts) {
    for (uint32_t k = 0; k < s->wiring.rank_threads; k++)
        parts[k] = (struct balance_part){{0}};
    for (uint32_t a = 0; a < s->wiring.accelerators; a++)
        if (wiring_accelerator_state(&s->wiring, a) == ACCELERATOR_SERVING)
            parts[s->wiring.part_of_accelerator[a]].accelerators[s->accelerator_type[a]]++;
}

/* A served model with all its variants, which are in one sub-cluster. */
static struct balance_model model_look(const struct server *s, uint32_t model, int64_t now_ns) {
    const struct server_placement *p = &s->placements[model];
    struct balance_model to = {.part = 0};

    if (p->variant_count == 0 || wiring_part(&s->wiring, p->first_variant) == PART_NOBODY)
        return to; /* no sub-cluster can run it, so it stays */
    to.part = wiring_part(&s->wiring, p->first_variant);
    for (uint32_t v = 0; v < p->variant_count; v++) {
        const struct model_load *load = &s->wiring.loads[p->first_variant.n + v];
        int64_t silent_ns = now_ns - atomic_load_explicit(&load->at_ns, memory_order_relaxed); /* statistics */
        to.rate += balance_decayed(atomic_load_explicit(&load->rate, memory_order_relaxed), silent_ns);
        to.load += balance_decayed(atomic_load_explicit(&load->accelerators, memory_order_relaxed), silent_ns);
    }
    for (uint32_t t = 0; t < s->config.type_count; t++) {
        const struct profile *profile = s->config.accelerators[t].profiles[model];
        uint32_t batch = s->config.models[model].batch_max;
        if (profile)
            to.most[t] = (double)batch * (double)NS_PER_S / (double)profile->latency_ns[batch];
    }
    return to;
}

static void model_move(struct server *s, uint32_t model, uint32_t part) {
    const struct server_placement *p = &s->placements[model];

    if (p->variant_count == 0)
        return;
    log_info("model moves to another rank thread", "model=%s rank_thread=%u", s->config.models[model].name, part);
    for (uint32_t v = 0; v < p->variant_count; v++)
        wiring_move(&s->wiring, variant_next(p->first_variant, v), part); /* if a ring is full, the rest follow when the
                                                                           * model is chosen again */
}

void server_balance(struct server *s) {
    struct server_balancer *b = s->balancer;
    int64_t now_ns = clock_now_ns();

    if (!b || now_ns - b->looked_ns < s->config.epoch_ns)
        return;
    b->looked_ns = now_ns;
    pthread_mutex_lock(&s->models_lock);
    parts_look(s, b->parts);
    for (uint32_t i = 0; i < s->config.model_count; i++)
        b->models[i] = model_look(s, i, now_ns);
    pthread_mutex_unlock(&s->models_lock);

    uint32_t count = balance_look(b->balance, b->models, b->parts, b->moves);
    pthread_mutex_lock(&s->models_lock); /* a model that has gone since has no variants; another one in its place may
                                          * move instead */
    for (uint32_t i = 0; i < count; i++)
        model_move(s, b->moves[i].model, b->moves[i].part);
    pthread_mutex_unlock(&s->models_lock);
}
