/* test_central_thread_core.c - models and accelerators come and go, by drawn histories, under each central policy:
 * every request has one end, batches go only where they may, and what can be served is. In some histories memory is
 * limited: then accelerators have no more than fits, batches go only where their model is, and a model that goes has
 * been unloaded.
 *
 * How many histories: histories.h. */
#include "sched/core/central_thread_core.h"

#include <stdlib.h>

#include "core/data/residency.h"
#include "core/util/rng.h"
#include "histories.h"
#include "unit/test.h"

#define MODELS       6
#define ACCELERATORS 8
#define TYPES        3
#define REQUESTS     400
#define BATCH_MAX    8
#define RUNS_MAX     256 /* an accelerator's batches that have not ended */
#define CTRL_NS      (100 * NS_PER_US)

#define PAGES_MODEL 3                       /* of a model, at most, where memory is limited */
#define PAGES(a)    (PAGES_MODEL + (a) % 3) /* of accelerator a */
#define MOVES_MAX   64

#define SEEDS 60 /* histories of each policy, twice that where it uses memory */

enum fate { FATE_NONE, FATE_QUEUED, FATE_RAN, FATE_REFUSED };

struct run {
    struct central_ended ended;
    int64_t end_ns;
};

struct world {
    const struct policy_ops *policy;
    struct policy_options options;
    struct rng rng;
    int64_t now_ns;
    struct request_node nodes[REQUESTS];
    struct request_pool pool;
    struct central_thread_core core;
    void *memory;
    struct profile *profiles[MODELS][TYPES];
    bool there[MODELS], going[MODELS], up[ACCELERATORS];
    uint8_t type[ACCELERATORS];
    uint32_t queued[MODELS];
    struct request_message requests[REQUESTS]; /* by handle */
    enum fate fate[REQUESTS];
    enum refusal refusal[REQUESTS];
    uint32_t sent, ran, cancelled, renewed;
    struct run runs[ACCELERATORS][RUNS_MAX];
    uint32_t first[ACCELERATORS], count[ACCELERATORS];
    bool limited; /* whether memory is limited */
    uint64_t weights_bytes[MODELS];
    struct residency residency[ACCELERATORS];
    struct pages_entry entries[ACCELERATORS][MODELS];
    struct move {
        struct residency_move move;
        uint64_t tag;
        bool used;
    } moves[ACCELERATORS][MOVES_MAX];
    uint32_t loaded;
};

/* ---- what the core says ---- */

static void fate_set(struct world *w, uint32_t node, enum fate fate) {
    uint64_t handle = w->nodes[node].handle;
    assert_int_equal(w->fate[handle], FATE_QUEUED);
    assert_int_equal(w->nodes[node].model, w->requests[handle].place.n);
    w->fate[handle] = fate;
    w->refusal[handle] = (enum refusal)w->nodes[node].refusal;
    w->queued[w->requests[handle].place.n]--;
}

static void list_take(struct world *w, uint32_t node, enum fate fate) {
    for (uint32_t next; node != REQUEST_NONE; node = next) {
        next = w->nodes[node].next;
        fate_set(w, node, fate);
        request_pool_put(&w->pool, node);
    }
}

static void move_take(struct world *w, const struct central_action *action) {
    uint32_t a = action->accelerator, i = 0;
    assert_true(w->limited && w->up[a]);
    while (w->moves[a][i].used)
        i++;
    assert_true(i < MOVES_MAX);
    w->moves[a][i] = (struct move){.move = {.kind = action->kind,
                                            .model = action->model,
                                            .pages = pages_of(w->weights_bytes[action->model], PAGE_BYTES),
                                            .link_ns = (int64_t)rng_below(&w->rng, 4 * NS_PER_MS),
                                            .earliest_ns = action->earliest_ns,
                                            .latest_ns = action->latest_ns},
                                   .tag = action->tag,
                                   .used = true};
    residency_send(&w->residency[a], &w->moves[a][i].move);
}

/* Moves on an accelerator begin and end. None is refused but where the accelerator has failed: the policy knows what is
 * where. */
static void moves_step(struct world *w, uint32_t a, bool failed) {
    struct residency_move *move;
    while (w->limited && (move = residency_step(&w->residency[a], w->now_ns, w->count[a] > 0))) {
        struct move *of = (struct move *)move;
        struct central_ended ended = {.kind = move->kind,
                                      .accelerator = a,
                                      .model = move->model,
                                      .done = move->done,
                                      .run_ns = move->took_ns,
                                      .tag = of->tag};
        assert_true(move->done || failed);
        of->used = false;
        w->loaded += move->kind == CENTRAL_LOAD;
        central_action_ended(&w->core, w->now_ns, &ended, true);
    }
}

static void batch_take(struct world *w, const struct central_action *action) {
    uint32_t a = action->accelerator;
    if (action->kind != CENTRAL_RUN) {
        move_take(w, action);
        return;
    }
    assert_true(w->up[a]);
    assert_true(w->there[action->model] && w->profiles[action->model][w->type[a]]);
    if (w->limited)
        residency_hold(&w->residency[a], action->model); /* it is there */
    list_take(w, action->first, FATE_RAN);
    assert_true(w->count[a] < RUNS_MAX);
    const struct run *before = w->count[a] ? &w->runs[a][(w->first[a] + w->count[a] - 1) % RUNS_MAX] : NULL;
    int64_t begin_ns = before && before->end_ns > w->now_ns + CTRL_NS ? before->end_ns : w->now_ns + CTRL_NS;
    int64_t run_ns = w->profiles[action->model][w->type[a]]->latency_ns[action->items];
    w->runs[a][(w->first[a] + w->count[a]++) % RUNS_MAX] = (struct run){
        .ended = {.kind = CENTRAL_RUN,
                  .accelerator = a,
                  .model = action->model,
                  .items = action->items,
                  .done = true,
                  .run_ns = run_ns,
                  .tag = action->tag},
        .end_ns = begin_ns + run_ns,
    };
    w->ran++;
}

static void take(void *world, int64_t now_ns, const struct central_output *out) {
    struct world *w = world;
    assert_int_equal(now_ns, w->now_ns);
    list_take(w, out->refused, FATE_REFUSED);
    for (uint32_t i = 0; i < out->action_count; i++)
        batch_take(w, &out->actions[i]);
}

/* ---- what it is told ---- */

static void model_come(struct world *w, uint32_t m, uint32_t before) {
    struct central_model told = {.batch_max = BATCH_MAX, .slo_ns = 100 * NS_PER_MS};
    uint32_t types = 1 + (uint32_t)rng_below(&w->rng, (1 << TYPES) - 1);
    for (uint32_t t = 0; t < TYPES; t++) {
        free(w->profiles[m][t]);
        w->profiles[m][t] = NULL;
        if (!(types >> t & 1))
            continue;
        w->profiles[m][t] = malloc(profile_bytes(BATCH_MAX));
        profile_set_line(w->profiles[m][t], BATCH_MAX, (double)(1 + rng_below(&w->rng, 3)) * 1e5,
                         (double)(1 + rng_below(&w->rng, 30)) * 1e5);
        told.profiles[t] = w->profiles[m][t];
    }
    w->weights_bytes[m] = (1 + rng_below(&w->rng, PAGES_MODEL)) * PAGE_BYTES;
    told.weights_bytes = w->weights_bytes[m];
    told.load_ns = 2 * NS_PER_MS;
    w->there[m] = true;
    central_model_comes(&w->core, w->now_ns, m, &told, before);
}

static void accelerator_come(struct world *w, uint32_t a) {
    if (w->up[a])
        return;
    w->up[a] = true;
    if (w->count[a] == 0) /* else it is the one that left */
        w->type[a] = (uint8_t)rng_below(&w->rng, TYPES);
    central_accelerator_comes(&w->core, w->now_ns, a, w->type[a], PAGES(a) * PAGE_BYTES, PAGE_BYTES);
}

static void first_ends(struct world *w, uint32_t a, bool done) {
    struct central_ended ended = w->runs[a][w->first[a]].ended;
    w->first[a] = (w->first[a] + 1) % RUNS_MAX;
    w->count[a]--;
    ended.done = done;
    ended.run_ns = done ? ended.run_ns : 0;
    if (w->limited)
        residency_release(&w->residency[a], ended.model);
    central_action_ended(&w->core, w->now_ns, &ended, true);
}

/* It leaves, with what it has, or that is lost at once. */
static void accelerator_leave(struct world *w, uint32_t a) {
    if (!w->up[a])
        return;
    w->up[a] = false;
    central_accelerator_leaves(&w->core, w->now_ns, a);
    while (w->count[a] > 0 && rng_below(&w->rng, 2))
        first_ends(w, a, false);
    if (w->limited && w->count[a] == 0 && rng_below(&w->rng, 2)) {
        residency_lose(&w->residency[a]);
        moves_step(w, a, true);
    }
}

static void request_send(struct world *w, uint32_t m, int64_t slo_ns, uint32_t items) {
    uint64_t handle = w->sent++;
    w->requests[handle] = (struct request_message){.handle = handle,
                                                   .arrival_ns = w->now_ns,
                                                   .deadline_ns = w->now_ns + slo_ns,
                                                   .work = 1,
                                                   .place = {m},
                                                   .items = items};
    w->fate[handle] = FATE_QUEUED;
    w->queued[m]++;
    central_request(&w->core, w->now_ns, &w->requests[handle]);
}

static void request_cancel(struct world *w, uint64_t handle) {
    struct request_message message = w->requests[handle];
    bool queued = w->fate[handle] == FATE_QUEUED;
    message.kind = REQUEST_CANCELLED;
    central_request(&w->core, w->now_ns, &message);
    if (queued) {
        assert_int_equal(w->fate[handle], FATE_REFUSED);
        assert_int_equal(w->refusal[handle], REFUSAL_CANCELLED);
        w->cancelled++;
    }
}

/* Models go as soon as they may. */
static void goings(struct world *w) {
    for (uint32_t m = 0; m < MODELS; m++) {
        if (!w->going[m] || !central_model_goes(&w->core, w->now_ns, m))
            continue;
        w->going[m] = w->there[m] = false;
        for (uint32_t a = 0; a < ACCELERATORS; a++) /* one that is away unloads it before it comes back */
            assert_true(!w->up[a] || w->entries[a][m].pages == 0 ||
                        (w->residency[a].first && w->residency[a].first->kind == CENTRAL_EMPTY));
    }
}

/* ---- time ---- */

static void renew(struct world *w) {
    if (!central_renews(&w->core, w->now_ns))
        return;
    size_t bytes = central_renew_bytes(&w->core, w->now_ns, CTRL_NS);
    if (rng_below(&w->rng, 8) == 0) { /* there is no memory */
        central_renew_at(&w->core, w->now_ns + NS_PER_MS);
        return;
    }
    free(central_renew(&w->core, w->now_ns, bytes ? calloc(1, bytes) : NULL));
    w->renewed++;
}

static int64_t next_ns(const struct world *w) {
    int64_t at_ns = central_wake_ns(&w->core);
    for (uint32_t a = 0; a < ACCELERATORS; a++) {
        int64_t move_ns = w->limited ? residency_due_ns(&w->residency[a], w->count[a] > 0) : TIME_NEVER;
        if (w->count[a] > 0 && w->runs[a][w->first[a]].end_ns < at_ns)
            at_ns = w->runs[a][w->first[a]].end_ns;
        at_ns = move_ns < at_ns ? move_ns : at_ns;
    }
    return at_ns;
}

/* Lets time pass. */
static void pass(struct world *w, int64_t until_ns) {
    uint32_t idle = 0;
    for (int64_t at_ns; (at_ns = next_ns(w)) <= until_ns;) {
        idle = at_ns > w->now_ns ? 0 : idle + 1;
        assert_true(idle < 10000); /* it gets somewhere */
        w->now_ns = at_ns > w->now_ns ? at_ns : w->now_ns;
        for (uint32_t a = 0; a < ACCELERATORS; a++)
            while (w->count[a] > 0 && w->runs[a][w->first[a]].end_ns <= w->now_ns)
                first_ends(w, a, true);
        for (uint32_t a = 0; a < ACCELERATORS; a++)
            moves_step(w, a, false);
        central_look(&w->core, w->now_ns);
        goings(w);
        renew(w);
    }
    w->now_ns = until_ns;
}

static struct world *world_new_limited(const struct policy_ops *policy, uint64_t seed, bool limited) {
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->policy = policy;
    policy_options_preset(policy, &w->options);
    rng_seed(&w->rng, seed);
    w->now_ns = NS_PER_S;
    request_pool_init(&w->pool, w->nodes, REQUESTS);
    struct central_thread_core_config config = {
        .ops = policy->central,
        .options = &w->options,
        .pool = &w->pool,
        .models_max = MODELS,
        .accelerators_max = ACCELERATORS,
        .types = TYPES,
        .limited = limited,
        .take = take,
        .context = w,
    };
    w->limited = limited;
    for (uint32_t a = 0; a < ACCELERATORS && limited; a++)
        residency_init(&w->residency[a], w->entries[a], MODELS, PAGES(a) * PAGE_BYTES, 0, &w->rng);
    w->memory = calloc(1, central_thread_core_bytes(&config));
    central_thread_core_init(&w->core, w->memory, &config);
    return w;
}

static struct world *world_new(const struct policy_ops *policy, uint64_t seed) {
    return world_new_limited(policy, seed, false);
}

static void world_free(struct world *w) {
    for (uint32_t m = 0; m < MODELS; m++)
        for (uint32_t t = 0; t < TYPES; t++)
            free(w->profiles[m][t]);
    free(w->core.memory);
    free(w->memory);
    free(w);
}

/* ---- histories ---- */

static void something(struct world *w) {
    uint32_t m = (uint32_t)rng_below(&w->rng, MODELS), a = (uint32_t)rng_below(&w->rng, ACCELERATORS);
    switch (rng_below(&w->rng, 16)) {
    case 0:
        accelerator_come(w, a);
        break;
    case 1:
        accelerator_leave(w, a);
        break;
    case 2:
        for (a = 0; a < ACCELERATORS && rng_below(&w->rng, 4) == 0; a++) /* some backends leave at once */
            accelerator_leave(w, a);
        break;
    case 3:
        w->going[m] |= w->there[m] && w->queued[m] == 0;
        goings(w);
        break;
    case 4:
        if (!w->there[m])
            model_come(w, m, CENTRAL_NONE);
        break;
    case 5:
        if (w->sent > 0)
            request_cancel(w, rng_below(&w->rng, w->sent));
        break;
    default:
        if (w->there[m] && !w->going[m] && w->sent < REQUESTS - MODELS)
            request_send(w, m, (int64_t)(1 + rng_below(&w->rng, 100)) * NS_PER_MS, 1 + (uint32_t)rng_below(&w->rng, 4));
    }
}

static void history(const struct policy_ops *policy, uint64_t seed, bool limited) {
    struct world *w = world_new_limited(policy, seed, limited);
    for (uint32_t i = 0; i < 2 * REQUESTS; i++) {
        something(w);
        renew(w);
        pass(w, w->now_ns + (int64_t)rng_below(&w->rng, 3 * NS_PER_MS));
    }
    pass(w, w->now_ns + NS_PER_S);
    for (uint32_t i = 0; i < w->sent; i++) /* all are over, whatever there is now */
        assert_true(w->fate[i] == FATE_RAN || w->fate[i] == FATE_REFUSED);
    /* with all that there can be, each model's request is served */
    for (uint32_t m = 0; m < MODELS; m++)
        if (!w->there[m])
            model_come(w, m, CENTRAL_NONE);
    for (uint32_t a = 0; a < ACCELERATORS; a++)
        accelerator_come(w, a);
    uint32_t from = w->sent;
    for (uint32_t m = 0; m < MODELS; m++)
        request_send(w, m, 10 * NS_PER_S, 1);
    pass(w, w->now_ns + 11 * NS_PER_S);
    for (uint32_t i = from; i < w->sent && !(limited && policy == &policy_nexus); i++) { /* it plans for fewer models */
        bool possible = false;
        for (uint32_t a = 0; a < ACCELERATORS; a++)
            possible |= w->profiles[w->requests[i].place.n][w->type[a]] != NULL;
        assert_int_equal(w->fate[i], possible ? FATE_RAN : FATE_REFUSED);
        if (!possible)
            assert_int_equal(w->refusal[i], REFUSAL_STRANDED);
    }
    assert_true(w->ran > 0 && w->renewed > 5 && (w->loaded > 0) == limited);
    assert_int_equal(w->pool.used, 0);
    world_free(w);
}

TEST(test_histories) {
    for (const struct policy_ops *const *policy = policies; *policy; policy++)
        for (uint64_t i = 0, seed = histories_first(); (*policy)->central && i < histories_count(SEEDS); i++, seed++) {
            print_message("%s, seed %llu\n", (*policy)->name, (unsigned long long)seed);
            history(*policy, seed, false);
            if ((*policy)->central->uses_memory)
                history(*policy, seed, true);
        }
}

/* ---- single steps ---- */

/* A model's only accelerator leaves: what is queued waits for another, and is not refused before its deadline. */
TEST(test_queued_requests_outlive_the_last_accelerator) {
    for (const struct policy_ops *const *policy = policies; *policy; policy++) {
        if (!(*policy)->central)
            continue;
        struct world *w = world_new(*policy, 1);
        model_come(w, 0, CENTRAL_NONE);
        uint32_t type = 0;
        while (!w->profiles[0][type])
            type++;
        w->up[0] = w->up[1] = true;
        w->type[0] = w->type[1] = (uint8_t)type;
        central_accelerator_comes(&w->core, w->now_ns, 0, (uint8_t)type, 0, 0);
        pass(w, w->now_ns + NS_PER_S);
        for (uint32_t i = 0; i < 20; i++)
            request_send(w, 0, 5 * NS_PER_S, BATCH_MAX);
        accelerator_leave(w, 0);
        uint32_t waiting = w->queued[0];
        assert_true(waiting > 0);
        pass(w, w->now_ns + NS_PER_S);
        assert_int_equal(w->queued[0], waiting);
        central_accelerator_comes(&w->core, w->now_ns, 1, (uint8_t)type, 0, 0);
        pass(w, w->now_ns + 2 * NS_PER_S);
        assert_int_equal(w->queued[0], 0);
        for (uint32_t i = 0; i < w->sent; i++)
            assert_int_equal(w->fate[i], FATE_RAN);
        world_free(w);
    }
}

/* Without any accelerator a request is refused at its deadline, no earlier. */
TEST(test_stranded_requests_are_refused_at_their_deadline) {
    struct world *w = world_new(&policy_clockwork, 1);
    model_come(w, 0, CENTRAL_NONE);
    request_send(w, 0, 20 * NS_PER_MS, 1);
    pass(w, w->requests[0].deadline_ns);
    assert_int_equal(w->fate[0], FATE_QUEUED);
    pass(w, w->requests[0].deadline_ns + 1);
    assert_int_equal(w->fate[0], FATE_REFUSED);
    assert_int_equal(w->refusal[0], REFUSAL_STRANDED);
    world_free(w);
}

/* Another core does not send to an accelerator that still runs what the one before sent, and does when that has ended.
 */
TEST(test_another_core_knows_what_runs) {
    struct world *w = world_new(&policy_kairos, 1);
    model_come(w, 0, CENTRAL_NONE);
    uint32_t type = 0;
    while (!w->profiles[0][type])
        type++;
    w->up[0] = true;
    w->type[0] = (uint8_t)type;
    central_accelerator_comes(&w->core, w->now_ns, 0, (uint8_t)type, 0, 0);
    renew(w);
    pass(w, w->now_ns + NS_PER_MS);
    request_send(w, 0, NS_PER_S, BATCH_MAX);
    assert_int_equal(w->count[0], 1);
    int64_t end_ns = w->runs[0][w->first[0]].end_ns;
    central_renew_at(&w->core, w->now_ns);
    uint32_t before = w->renewed;
    while (w->renewed == before) {
        central_renew_at(&w->core, w->now_ns);
        renew(w);
    }
    request_send(w, 0, NS_PER_S, 1);
    assert_int_equal(w->queued[0], 1);
    pass(w, end_ns - 1);
    assert_int_equal(w->queued[0], 1);
    pass(w, end_ns);
    assert_int_equal(w->queued[0], 0);
    world_free(w);
}

/* A model that takes another one's requests over is planned for by the rate at which they came. */
TEST(test_arrival_rates_go_over) {
    struct world *w = world_new(&policy_nexus, 1);
    model_come(w, 0, CENTRAL_NONE);
    for (uint32_t i = 0; i < 100; i++) {
        request_send(w, 0, 20 * NS_PER_MS, 1);
        pass(w, w->now_ns + 10 * NS_PER_MS);
    }
    double rate = arrival_rates_slow(&w->core.models[0].rates);
    assert_true(rate > 50 && rate < 200);
    model_come(w, 1, 0);
    assert_true(arrival_rates_slow(&w->core.models[1].rates) == rate);
    assert_true(arrival_rates_slow(&w->core.models[0].rates) == 0);
    pass(w, w->now_ns + NS_PER_S);
    world_free(w);
}
