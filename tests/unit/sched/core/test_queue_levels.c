/* test_queue_levels.c - how many requests of each priority may wait: every place that one takes comes back, however it
 * leaves. Against a count of all that wait, with everything drawn from a seed.
 *
 * Time is in units of 1 ns; l(b) = 10*b + 20. */
#include <stdlib.h>
#include <string.h>

#include "core/util/rng.h"
#include "histories.h"
#include "sched/core/model_core.h"
#include "unit/sched/core/plain_policy.h"
#include "unit/test.h"

#define CAPACITY 512
#define BATCH    8
#define LEVELS   4
#define CORES    2 /* shapes of one model, which share the places */
#define STEPS    20000

/* As the plain policy, but a full batch does not wait. */
static struct batch_times patient_times(const struct model_view *m, const void *own, uint32_t type,
                                        const struct batch_view *batch) {
    return batch->full ? batch_times_from(0, batch->invalid_after_ns) : plain_times(m, own, type, batch);
}

static const struct policy_ops policy_patient = {
    .name = "patient",
    .model_update = plain_update,
    .model_admit = plain_admit,
    .batch_times = patient_times,
};

struct world {
    struct model_core *cores[CORES];
    struct profile *profile;
    struct request_pool pool;
    struct request_node nodes[CAPACITY];
    struct queue_levels levels;
    struct model_output out;
    struct rng rng;
    int64_t now_ns;
    uint64_t handle;
    struct request_message waiting[CAPACITY]; /* as they came; `model`: their core */
    uint32_t count;
    uint32_t limited, left_by[REFUSAL_COUNT]; /* by refusal; 0: in a batch */
};

static struct world *world_new(uint64_t seed) {
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    rng_seed(&w->rng, seed);
    request_pool_init(&w->pool, w->nodes, CAPACITY);
    w->profile = malloc(profile_bytes(BATCH));
    assert_non_null(w->profile);
    profile_set_line(w->profile, BATCH, 10, 20);
    for (uint32_t i = 0; i < PRIORITIES_MAX; i++)
        w->levels.of[i].most = i % 3 == 2 ? UINT32_MAX : (uint32_t)rng_below(&w->rng, 9);
    struct model_core_config config = {.types = 1,
                                       .profiles = {w->profile},
                                       .batch_max = BATCH,
                                       .slo_ns = 200,
                                       .levels = &w->levels,
                                       .delays = 1u << 1 | 1u << 2,
                                       .policy = &policy_patient};
    target = 1;
    admit = true;
    for (uint32_t c = 0; c < CORES; c++) {
        w->cores[c] = malloc(model_core_bytes(&config));
        assert_non_null(w->cores[c]);
        model_core_init(w->cores[c], &config, &w->pool);
    }
    return w;
}

static void world_free(struct world *w) {
    for (uint32_t c = 0; c < CORES; c++)
        free(w->cores[c]);
    free(w->profile);
    free(w);
}

/* A list of nodes has left. */
static void leave(struct world *w, uint32_t node, bool refused) {
    while (node != REQUEST_NONE) {
        uint32_t next = w->nodes[node].next, i = 0;
        while (i < w->count && w->waiting[i].handle != w->nodes[node].handle)
            i++;
        assert_true(i < w->count);
        w->waiting[i] = w->waiting[--w->count];
        w->left_by[refused ? w->nodes[node].refusal : 0]++;
        w->nodes[node].handle = 0;
        request_pool_put(&w->pool, node);
        node = next;
    }
}

static void step(struct world *w, uint32_t core, const struct model_event *event) {
    model_core_step(w->cores[core], w->now_ns, event, &w->out);
    leave(w, w->out.refused, true);
    leave(w, w->out.batch, false);
}

/* The requests with an SLO that wait now, by priority: who was late may have become best effort. */
static void count(const struct world *w, uint32_t by_priority[PRIORITIES_MAX]) {
    memset(by_priority, 0, PRIORITIES_MAX * sizeof(*by_priority));
    for (uint32_t i = 0; i < w->count; i++)
        for (uint32_t node = 0; node < CAPACITY; node++)
            if (w->nodes[node].handle == w->waiting[i].handle && w->nodes[node].priority < PRIORITIES_MAX)
                by_priority[w->nodes[node].priority]++;
}

static void arrive(struct world *w) {
    uint8_t priority = (uint8_t)rng_below(&w->rng, LEVELS + 1);
    uint32_t by_priority[PRIORITIES_MAX], core = (uint32_t)rng_below(&w->rng, CORES);
    count(w, by_priority);
    bool full = priority < LEVELS && by_priority[priority] >= w->levels.of[priority].most;
    struct request_message message = {
        .handle = ++w->handle,
        .place = {core},
        .arrival_ns = w->now_ns,
        .deadline_ns = w->now_ns + (int64_t)rng_below(&w->rng, 400),
        .items = 1 + (uint32_t)rng_below(&w->rng, rng_below(&w->rng, 4) ? 1 : BATCH + 1),
        .priority = priority == LEVELS ? PRIORITY_BEST_EFFORT : priority,
    };
    w->waiting[w->count++] = message;
    memset(w->left_by, 0, sizeof(w->left_by));
    step(w, core, &(struct model_event){.kind = MODEL_ARRIVED, .request = &message});
    assert_true(full || w->left_by[REFUSAL_QUEUE_FULL] == 0);
    w->limited += w->left_by[REFUSAL_QUEUE_FULL];
}

static void event_draw(struct world *w) {
    struct grant_message grant = {
        .kind = GRANT_ACCELERATOR, .best_effort = rng_below(&w->rng, 2), .run_ns = (int64_t)rng_below(&w->rng, 200)};
    struct grant_message parameters = {.kind = GRANT_PARAMETERS, .admit_share = 1};
    uint32_t core = (uint32_t)rng_below(&w->rng, CORES);
    w->now_ns += (int64_t)rng_below(&w->rng, 12);
    switch (rng_below(&w->rng, 8)) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (w->pool.used < w->pool.capacity)
            arrive(w);
        break;
    case 4:
        if (w->count > 0) {
            struct request_message gone = w->waiting[rng_below(&w->rng, w->count)];
            step(w, gone.place.n, &(struct model_event){.kind = MODEL_CANCELLED, .request = &gone});
        }
        break;
    case 5:
        step(w, core, &(struct model_event){.kind = MODEL_GRANTED, .grant = &grant});
        break;
    case 6:
        step(w, core, &(struct model_event){.kind = MODEL_TIMER});
        break;
    case 7:
        target = 1 + (uint32_t)rng_below(&w->rng, BATCH);
        admit = rng_below(&w->rng, 4) > 0;
        step(w, core, &(struct model_event){.kind = MODEL_PARAMETERS, .grant = &parameters});
        break;
    }
}

TEST(every_place_comes_back) {
    for (uint64_t seed = histories_first(), end = seed + histories_count(8); seed < end; seed++) {
        struct world *w = world_new(seed);
        uint32_t by_priority[PRIORITIES_MAX];
        for (uint32_t i = 0; i < STEPS; i++) {
            event_draw(w);
            count(w, by_priority);
            for (uint32_t p = 0; p < LEVELS; p++)
                if (w->levels.of[p].waiting != by_priority[p] || by_priority[p] > w->levels.of[p].most)
                    fail_msg("seed %d, step %u: %u of priority %u wait, %u are counted, %u may", (int)seed, i,
                             by_priority[p], p, w->levels.of[p].waiting, w->levels.of[p].most);
        }
        assert_true(w->limited > 0);
        w->now_ns += 2 * BEST_EFFORT_WAIT_NS;
        for (uint32_t c = 0; c < CORES; c++)
            step(w, c, &(struct model_event){.kind = MODEL_TIMER});
        assert_int_equal(w->count, 0);
        for (uint32_t p = 0; p < PRIORITIES_MAX; p++)
            assert_int_equal(w->levels.of[p].waiting, 0);
        world_free(w);
    }
}

TEST(who_exceeds_its_own_level_is_refused_and_nobody_else) {
    struct world *w = world_new(1);
    w->levels.of[0].most = 1;
    w->levels.of[1].most = 2;
    static const uint8_t priorities[] = {1, 1, 1, 0, 0, 2};
    static const bool stays[] = {true, true, false, true, false, true};
    for (uint32_t i = 0; i < sizeof(priorities); i++) {
        struct request_message message = {
            .handle = i + 1, .place = {i % CORES}, .deadline_ns = 300, .items = 1, .priority = priorities[i]};
        uint32_t before = w->count;
        w->waiting[w->count++] = message;
        step(w, i % CORES, &(struct model_event){.kind = MODEL_ARRIVED, .request = &message});
        assert_int_equal(w->count, before + stays[i]);
    }
    assert_int_equal(w->left_by[REFUSAL_QUEUE_FULL], 2);
    world_free(w);
}

TEST(a_batch_does_not_wait_for_company_that_would_be_refused) {
    struct world *w = world_new(1);
    static const uint8_t priorities[] = {0, 0, 1};
    memset(&w->levels, 0, sizeof(w->levels));
    w->levels.of[0].most = 2;
    w->levels.of[1].most = 1;
    for (uint32_t i = 0; i < sizeof(priorities); i++) {
        struct request_message message = {.handle = i + 1, .deadline_ns = 300, .items = 1, .priority = priorities[i]};
        w->waiting[w->count++] = message;
        step(w, 0, &(struct model_event){.kind = MODEL_ARRIVED, .request = &message});
        assert_int_equal(w->count, i + 1);
        assert_int_equal(w->out.candidates[0].start_ns[SUPPLY_SCARCE] == 0, i == 2);
    }
    world_free(w);
}
