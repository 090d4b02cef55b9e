/* test_outages.c - what becomes of models whose accelerators fail, in a whole server with emulated ones. */
/* Starts threads. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "server/models/outages.h"
#include "unit/server/world.h"

/* Two accelerators of each type, one of each in each sub-cluster. `one` runs on type b only. */
static const char scenario_text[] = "cluster: {accelerators: [{type: a, count: 2}, {type: b, count: 2}]}\n"
                                    "models:\n"
                                    "  - {name: both, alpha_ms: 1, beta_ms: 1, slo_ms: 1000}\n"
                                    "  - {name: one, alpha_ms: 1, beta_ms: 1, slo_ms: 1000}\n";

enum { BOTH, ONE };

static void begin(struct world *w, const struct policy_ops *policy, uint32_t rank_threads) {
    world_plan(w, scenario_text);
    free(w->deployment.profiles[ONE]);
    w->deployment.profiles[ONE] = NULL; /* not on type a */
    w->deployment.models[ONE].on[0].count = 0;
    struct server_config config = world_config(w, policy);
    config.rank_threads = rank_threads;
    config.grpc_port = -1;
    config.queue_max = 1000;
    world_begin(w, &config);
}

static void look(struct world *w) {
    struct server *s = w->server;
    outages_look(&s->executors, &s->scheduling, &s->models, &s->readiness);
}

static void wait_a_little(void) {
    nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
}

static void take_out(struct world *w, uint32_t accelerator) {
    while (wiring_command(&w->server->wiring, accelerator, ACCELERATOR_FAIL) == -EAGAIN)
        wait_a_little();
    while (wiring_accelerator_state(&w->server->wiring, accelerator) == ACCELERATOR_SERVING)
        wait_a_little();
}

static void bring_back(struct world *w, uint32_t accelerator) {
    while (wiring_command(&w->server->wiring, accelerator, ACCELERATOR_JOIN) == -EAGAIN)
        wait_a_little();
    while (wiring_accelerator_state(&w->server->wiring, accelerator) != ACCELERATOR_SERVING)
        wait_a_little();
}

/* What frontends say. */
static bool says_ready(const struct world *w) {
    return atomic_load(&w->server->readiness.serving);
}

static uint32_t subcluster_of(const struct world *w, uint32_t model) {
    return wiring_subcluster(&w->server->wiring, w->server->scheduling.placements[model].first_variant);
}

static int state_of(const struct world *w, uint32_t model) {
    return served_model_state(&w->deployment.models[model]);
}

TEST(without_outages_nothing_happens) {
    struct world w;
    begin(&w, &policy_deferred, 2);
    look(&w);
    assert_int_equal(state_of(&w, BOTH), MODEL_READY);
    assert_int_equal(state_of(&w, ONE), MODEL_READY);
    assert_int_equal(subcluster_of(&w, BOTH), 0);
    assert_int_equal(subcluster_of(&w, ONE), 1);
    world_end(&w);
}

TEST(a_model_moves_to_a_subcluster_that_can_run_it) {
    struct world w;
    begin(&w, &policy_deferred, 2);
    uint32_t b = 2 + subcluster_of(&w, ONE); /* of type b: 2 in sub-cluster 0, 3 in sub-cluster 1 */
    assert_int_equal(w.server->wiring.subcluster_of_accelerator[b], subcluster_of(&w, ONE));
    take_out(&w, b);
    look(&w);
    while (subcluster_of(&w, ONE) != 0)
        wait_a_little();
    assert_int_equal(state_of(&w, ONE), MODEL_READY);
    take_out(&w, 2); /* the last of type b */
    look(&w);
    assert_int_equal(state_of(&w, ONE), MODEL_UNAVAILABLE);
    assert_non_null(strstr(w.deployment.models[ONE].reason, "no accelerator that runs it is in service"));
    assert_int_equal(state_of(&w, BOTH), MODEL_READY);
    take_out(&w, 0); /* what runs on both goes where one is left */
    look(&w);
    while (subcluster_of(&w, BOTH) != 1)
        wait_a_little();
    take_out(&w, 1);
    look(&w);
    assert_int_equal(state_of(&w, BOTH), MODEL_UNAVAILABLE);
    world_end(&w);
}

TEST(central_policies_know_outages_too) {
    static const struct policy_ops *const central[] = {&policy_clockwork, &policy_nexus, &policy_kairos};
    for (size_t i = 0; i < ARRAY_COUNT(central); i++) {
        struct world w;
        begin(&w, central[i], 1);
        take_out(&w, 2);
        look(&w);
        assert_int_equal(state_of(&w, ONE), MODEL_READY);
        take_out(&w, 3);
        look(&w);
        assert_int_equal(state_of(&w, ONE), MODEL_UNAVAILABLE);
        assert_int_equal(state_of(&w, BOTH), MODEL_READY);
        world_end(&w);
    }
}

TEST(what_comes_back_is_served_again) {
    struct world w;
    begin(&w, &policy_deferred, 1);
    assert_true(says_ready(&w));
    for (uint32_t a = 2; a < 4; a++)
        take_out(&w, a);
    look(&w);
    assert_int_equal(state_of(&w, ONE), MODEL_UNAVAILABLE);
    assert_true(says_ready(&w)); /* the other model runs */
    for (uint32_t a = 0; a < 2; a++)
        take_out(&w, a);
    look(&w);
    assert_int_equal(state_of(&w, BOTH), MODEL_UNAVAILABLE);
    assert_false(says_ready(&w));
    bring_back(&w, 1);
    look(&w);
    assert_int_equal(state_of(&w, ONE), MODEL_UNAVAILABLE);
    assert_int_equal(state_of(&w, BOTH), MODEL_READY);
    assert_true(says_ready(&w));
    for (uint32_t a = 0; a < 4; a++)
        bring_back(&w, a);
    look(&w); /* none is out: the last look */
    assert_int_equal(state_of(&w, ONE), MODEL_READY);
    look(&w);
    assert_true(says_ready(&w));
    world_end(&w);
}

/* An accelerator that only runs what is not served makes nobody ready. */
TEST(accelerators_count_only_if_they_run_a_model) {
    struct world w;
    begin(&w, &policy_deferred, 1);
    served_model_refuse(&w.deployment.models[BOTH], "for another reason");
    for (uint32_t a = 2; a < 4; a++)
        take_out(&w, a);
    look(&w);
    assert_int_equal(state_of(&w, ONE), MODEL_UNAVAILABLE);
    assert_int_equal(state_of(&w, BOTH), MODEL_UNAVAILABLE);
    assert_false(says_ready(&w));
    world_end(&w);
}
