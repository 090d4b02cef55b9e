/* sim_moves.c - models that move between sub-clusters, in the same way as live
 * (src/sched/threads/model_thread_moves.c): the old rank core lets go of a model once no grant for the model is out,
 * then the new rank core is told of the model. The model's requests stay in its model core. */
#include "lab/sim/sim_cores_state.h"

/* ---- the first assignment, and memory ---- */

/* Sets the first load of a model: by the first rates, if they are known; otherwise all models are alike. */
static void first_load_set(const struct sim_config *c, uint32_t model, double shares, struct balance_model *to) {
    const struct sim_model *m = &c->models[model];
    double rate = c->rates_known ? c->steps[0].rate_rps * workload_items(c, model) * m->share / shares : 0;
    double best_ns = 0;
    for (uint32_t t = 0; t < c->types; t++) {
        const struct profile *profile = m->profiles[t];
        to->most[t] = profile ? (double)m->batch_max * (double)NS_PER_S / (double)profile->latency_ns[m->batch_max] : 0;
        double each_ns = 0;
        if (to->most[t] > 0 && rate > 0)
            each_ns = profile_item_ns(m->profiles[t], m->batch_max, m->slo_ns, rate);
        best_ns = best_ns <= 0 || each_ns < best_ns ? each_ns : best_ns;
    }
    to->rate = c->rates_known ? rate : 1;
    to->load = c->rates_known ? rate * best_ns / (double)NS_PER_S : 1;
    to->weights_mb = (double)m->weights_bytes / 1e6;
    to->subcluster = BALANCE_NOWHERE;
}

/* Whether an accelerator is in service; the first assignment is made before any is. */
static bool in_service(const struct sim *sim, uint32_t accelerator) {
    const struct sim_config *c = sim->config;
    if (c->autoscale)
        return accelerator < (sim->scaling.present ? sim->scaling.present : c->accelerators_first[0]);
    return !sim->accelerators[accelerator].down;
}

/* Accelerators in service, by sub-cluster. */
static void subclusters_look(struct sim *sim) {
    struct cores *cores = cores_of(sim);
    memset(cores->up, 0, cores->subcluster_count * sizeof(*cores->up));
    for (uint32_t a = 0; a < sim->config->accelerators; a++)
        if (in_service(sim, a))
            cores->up[cores->subcluster_of_accelerator[a]].accelerators[sim->config->accelerator_type[a]]++;
}

static void models_place(struct sim *sim) {
    const struct sim_config *c = sim->config;
    struct cores *cores = cores_of(sim);
    double shares = workload_shares(c);
    for (uint32_t m = 0; m < c->model_count; m++) {
        cores->subcluster_of_model[m] = (uint8_t)(m % cores->subcluster_count); /* stays, if nothing runs it */
        first_load_set(c, m, shares, &cores->loads[m]);
    }
    subclusters_look(sim);
    uint32_t count = balance_look(cores->balance, cores->loads, cores->up, cores->moves);
    for (uint32_t i = 0; i < count; i++)
        cores->subcluster_of_model[cores->moves[i].model] = (uint8_t)cores->moves[i].subcluster;
    for (uint32_t m = 0; m < c->model_count; m++) {
        uint32_t subcluster = cores->subcluster_of_model[m];
        cores->places[m] = (struct sim_place){.subcluster = subcluster, .next = subcluster};
        for (uint32_t t = 0; t < c->types; t++)
            cores->board[m * c->types + t] = candidate_none();
    }
}

void sim_moves_layout(struct sim *sim, struct arena *arena) {
    const struct sim_config *c = sim->config;
    struct cores *cores = cores_of(sim);
    struct balance_config config = {
        .subclusters = subclusters_of(c),
        .types = c->types,
        .models = c->model_count,
        .moves_most = balance_moves_usual(c->model_count),
        .max_rate = c->subcluster_rate_max,
        .memory_mb = (double)c->memory_bytes / 1e6,
    };
    cores->subcluster_of_model = arena_take(arena, c->model_count);
    cores->places = arena_take(arena, c->model_count * sizeof(*cores->places));
    cores->board = arena_take(arena, (size_t)c->model_count * c->types * sizeof(*cores->board));
    cores->loads = arena_take(arena, c->model_count * sizeof(*cores->loads));
    cores->up = arena_take(arena, cores->subcluster_count * sizeof(*cores->up));
    cores->moves = arena_take(arena, c->model_count * sizeof(*cores->moves));
    void *balance = arena_take(arena, balance_bytes(&config));
    if (!arena->base)
        return;
    cores->balance = balance_init(balance, &config);
    rng_seed(&cores->rng, c->seed ^ 0x6d6f766573ULL);
    models_place(sim);
}

/* ---- moves ---- */

static void assigned(struct sim *sim, uint32_t model, uint32_t subcluster) {
    const struct sim_observer *observer = sim->config->observer;
    cores_of(sim)->places[model].subcluster = subcluster;
    if (observer && observer->assigned)
        observer->assigned(observer->context, sim->now_ns, model, subcluster);
}

static void join(struct sim *sim, uint32_t model) {
    struct cores *cores = cores_of(sim);
    struct sim_place *place = &cores->places[model];
    uint32_t types = sim->config->types;
    assigned(sim, model, place->next);
    struct rank_message *message = sim_rank_message(sim, RANK_JOIN, model);
    message->types = types;
    if (sim->config->memory_bytes)
        message->weights = cores->weights[model];
    memcpy(message->candidates, &cores->board[(size_t)model * types], types * sizeof(struct candidate));
    if (place->rates.at_ns > 0)
        sim_rank_message(sim, RANK_RATES, model)->rates = place->rates;
}

/* Sends the model to `subcluster`; `away`: the model first stays in no sub-cluster for a while. */
static void move(struct sim *sim, uint32_t model, uint32_t subcluster, bool away) {
    struct sim_place *place = &cores_of(sim)->places[model];
    if (place->subcluster == SIM_NOTHING) { /* it is away, and is sent for */
        place->next = subcluster;
        place->away = false;
        join(sim, model);
        return;
    }
    if (place->leaving) { /* it will join the newest sub-cluster */
        place->next = subcluster;
        return;
    }
    if (place->subcluster == subcluster && !away)
        return;
    place->next = subcluster;
    place->away = away;
    place->leaving = true;
    sim_rank_message(sim, RANK_LEAVE, model);
}

void sim_moves_left(struct sim *sim, uint32_t model) {
    struct sim_place *place = &cores_of(sim)->places[model];
    CHECK(place->leaving);
    place->leaving = false;
    assigned(sim, model, SIM_NOTHING);
    if (!place->away)
        join(sim, model);
}

void sim_moves_delivered(struct sim *sim, const struct rank_message *message) {
    const struct sim_observer *observer = sim->config->observer;
    uint32_t model = message->variant.n;
    struct sim_place *place = &cores_of(sim)->places[model];
    struct sim_result *result = sim->result;
    if (message->kind == RANK_LEAVE)
        place->forgotten_ns = sim->now_ns;
    if (message->kind != RANK_JOIN)
        return;
    int64_t wait_ns = sim->now_ns - place->forgotten_ns;
    result->moves++;
    result->models[model].moves++;
    result->move_wait_ns += wait_ns;
    result->move_wait_max_ns = wait_ns > result->move_wait_max_ns ? wait_ns : result->move_wait_max_ns;
    if (observer && observer->moved)
        observer->moved(observer->context, sim->now_ns, model, wait_ns);
}

/* ---- when ---- */

static void epoch(struct sim *sim) {
    struct cores *cores = cores_of(sim);
    subclusters_look(sim);
    for (uint32_t m = 0; m < sim->config->model_count; m++) {
        const struct sim_place *place = &cores->places[m];
        struct balance_model *to = &cores->loads[m];
        int64_t silent_ns = sim->now_ns - place->rates.at_ns;
        bool known = place->rates.at_ns > 0;
        to->rate = known ? balance_decayed(place->rates.rate, silent_ns) : 0;
        to->load = known ? balance_decayed(model_rates_load(&place->rates), silent_ns) : 0;
        to->subcluster = place->subcluster == SIM_NOTHING ? place->next : place->subcluster;
    }
    uint32_t count = balance_look(cores->balance, cores->loads, cores->up, cores->moves);
    for (uint32_t i = 0; i < count; i++)
        if (cores->places[cores->moves[i].model].subcluster != SIM_NOTHING)
            move(sim, cores->moves[i].model, cores->moves[i].subcluster, false);
}

static void forced_next(struct sim *sim) {
    double gap_s = rng_exponential(&cores_of(sim)->rng) / sim->config->forced_moves_rate;
    int64_t next_ns = sim->now_ns + (int64_t)(gap_s * (double)NS_PER_S);
    if (next_ns < sim->count_until_ns) {
        sim_source_set(sim, moves_source(sim, FORCED), next_ns);
        return;
    }
    /* every model that is away gets a sub-cluster */
    struct cores *cores = cores_of(sim);
    for (uint32_t m = 0; m < sim->config->model_count; m++) {
        cores->places[m].away = false;
        if (cores->places[m].subcluster == SIM_NOTHING)
            join(sim, m);
    }
    sim_source_set(sim, moves_source(sim, FORCED), TIME_NEVER);
}

static void epoch_next(struct sim *sim) {
    int64_t next_ns = sim->now_ns + (int64_t)(sim->config->epoch_s * (double)NS_PER_S);
    sim_source_set(sim, moves_source(sim, EPOCHS), next_ns < sim->count_until_ns ? next_ns : TIME_NEVER);
}

void sim_moves_begin(struct sim *sim) {
    for (uint32_t m = 0; m < sim->config->model_count; m++)
        assigned(sim, m, cores_of(sim)->places[m].subcluster);
    if (sim->config->epoch_s > 0)
        epoch_next(sim);
    if (sim->config->forced_moves_rate > 0)
        forced_next(sim);
}

void sim_moves_due(struct sim *sim, uint32_t source) {
    if (source == EPOCHS) {
        epoch(sim);
        epoch_next(sim);
        return;
    }
    struct cores *cores = cores_of(sim);
    uint32_t model = (uint32_t)rng_below(&cores->rng, sim->config->model_count);
    uint32_t subcluster = (uint32_t)rng_below(&cores->rng, cores->subcluster_count);
    move(sim, model, subcluster, rng_uniform(&cores->rng) < sim->config->forced_away);
    forced_next(sim);
}
