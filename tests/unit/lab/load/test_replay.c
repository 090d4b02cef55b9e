/* test_replay.c - a workload as arrivals: those that a simulation of it has. */
#include <stdlib.h>

#include "core/util/time.h"
#include "lab/load/replay.h"
#include "sched/core/policy.h"
#include "unit/test.h"

#define MODELS   3
#define START_NS (100 * NS_PER_S)

struct world {
    struct sim_model models[MODELS];
    struct sim_rate_step steps[2];
    uint8_t types[4];
    struct sim_config config;
    struct replay replay;
    uint32_t compared;
    int64_t last_ns;
};

static void begin(struct world *w) {
    *w = (struct world){.steps = {{0, 200}, {2, 900}}};
    for (uint32_t m = 0; m < MODELS; m++) {
        assert_true(sim_model_line(&w->models[m], 1, 1, 50));
        w->models[m].share = m; /* the first has none */
        w->models[m].slo_spread = 0.2;
    }
    w->config = (struct sim_config){
        .models = w->models,
        .model_count = MODELS,
        .accelerator_type = w->types,
        .accelerators = 4,
        .types = 1,
        .arrivals = SIM_GAMMA,
        .gamma_shape = 0.5,
        .steps = w->steps,
        .step_count = 2,
        .seconds = 4,
        .warmup_s = 1,
        .seed = 7,
        .policy = &policy_deferred,
    };
    policy_options_preset(w->config.policy, &w->config.options);
    assert_int_equal(replay_init(&w->replay, &w->config, START_NS), 0);
}

static void end(struct world *w) {
    replay_free(&w->replay);
    for (uint32_t m = 0; m < MODELS; m++)
        free((void *)w->models[m].profiles[0]);
}

static void compare(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items, uint8_t priority,
                    int64_t deadline_ns) {
    struct world *w = context;
    struct arrival arrival;
    (void)handle, (void)items, (void)priority;
    assert_true(replay_next(&w->replay, &arrival));
    assert_int_equal(arrival.due_ns, START_NS + now_ns);
    assert_int_equal(arrival.model, model);
    assert_int_equal(arrival.slo_ns, deadline_ns - now_ns);
    w->compared++;
}

TEST(it_has_the_requests_of_a_simulation) {
    struct world w;
    struct arrival arrival;
    struct sim_result result;
    begin(&w);
    const struct sim_observer observer = {.context = &w, .arrived = compare};
    struct sim_config config = w.config;
    config.observer = &observer;
    void *memory = malloc(sim_bytes(&config));
    assert_non_null(memory);
    sim_run(&config, memory, &result);
    assert_int_equal(w.compared, result.requests);
    assert_true(w.compared > 1000);
    assert_false(replay_next(&w.replay, &arrival));
    assert_false(replay_next(&w.replay, &arrival));
    free(memory);
    end(&w);
}

TEST(requests_come_in_order) {
    struct world w;
    struct arrival arrival;
    begin(&w);
    while (replay_next(&w.replay, &arrival)) {
        assert_true(arrival.due_ns >= w.last_ns);
        assert_true(arrival.due_ns < START_NS + 5 * NS_PER_S);
        assert_in_range(arrival.model, 1, MODELS - 1);
        w.last_ns = arrival.due_ns;
    }
    assert_true(w.last_ns > START_NS + 4 * NS_PER_S);
    end(&w);
}
