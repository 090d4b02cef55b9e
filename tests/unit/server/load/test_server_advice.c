/* test_server_advice.c - a real server of emulated accelerators, idle: what it advises for what its threads are made to
 * have counted. */
/* Starts threads. */
#include "unit/test.h"

#include <sched.h>
#include <string.h>

#include "core/util/counter.h"
#include "front/request/infer_counters.h"
#include "unit/server/world.h"

static const char cluster[] = "cluster: {accelerators: 2, type: test}\n"
                              "models:\n  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 50, copies: 2}\n"
                              "workload: {rate_rps: 10}\n";
/* Every call is a look. */
static const struct autoscale_config always = {.min = 1, .max = 16, .headroom = 0.1, .every_ns = 1};

static void begin(struct world *w, const struct policy_ops *policy, const struct autoscale_config *autoscale) {
    world_plan(w, cluster);
    struct server_config config = world_config(w, policy);
    config.autoscale = *autoscale;
    world_begin(w, &config);
}

/* Requests of a model that a frontend has answered, so many of them in time, or refused; nobody else counts. */
static void count(struct world *w, uint32_t frontend, uint32_t model, uint64_t answered, uint64_t in_time,
                  uint64_t refused) {
    struct model_infer_counters *c = &frontends_counters(&w->server->frontends, frontend)->models[model];
    counter_add(&c->outcomes[OUTCOME_OK], answered);
    counter_add(&c->in_time, in_time);
    counter_add(&c->outcomes[OUTCOME_REFUSED], refused);
    counter_add(&c->outcomes[OUTCOME_CLIENT_ERROR], 100);
    counter_add(&c->outcomes[OUTCOME_CANCELLED], 100);
}

static int64_t advised(struct world *w) {
    server_advice_look(&w->server->advice);
    return advice_get(&w->server->advice.wanted);
}

static bool shows(struct world *w, const char *row) {
    struct text page = {0};
    server_render_metrics(w->server, &page);
    bool found = strstr(text_end(&page), row) != NULL;
    text_free(&page);
    return found;
}

TEST(what_goes_badly_wants_more) {
    struct world w;
    begin(&w, &policy_deferred, &always);
    count(&w, 0, 0, 1000, 0, 1000); /* before anybody looked */
    assert_int_equal(advised(&w), ADVICE_NONE);
    assert_false(shows(&w, "symphony_accelerators_wanted"));
    assert_in_range(advised(&w), 1, 2); /* no load, and two are there */
    count(&w, 0, 0, 40, 40, 0);
    count(&w, 1, 1, 40, 20, 20);
    assert_true(advised(&w) > 2);
    assert_true(atomic_load(&w.server->advice.bad_rate) == 0.4);
    assert_true(shows(&w, "\nsymphony_accelerators_wanted "));
    assert_true(shows(&w, "\nsymphony_bad_rate 0.4\n"));
    count(&w, 0, 0, 100, 100, 0);
    advised(&w);
    assert_true(shows(&w, "\nsymphony_bad_rate 0\n"));
    world_end(&w);
}

TEST(counters_that_begin_anew_are_no_load) {
    struct world w;
    begin(&w, &policy_deferred, &always);
    count(&w, 0, 0, 1000, 1000, 1000);
    advised(&w);
    struct model_infer_counters *c = &frontends_counters(&w.server->frontends, 0)->models[0];
    atomic_store(&c->outcomes[OUTCOME_OK], 10);
    atomic_store(&c->in_time, 10);
    atomic_store(&c->outcomes[OUTCOME_REFUSED], 0);
    assert_in_range(advised(&w), 1, 2);
    assert_true(atomic_load(&w.server->advice.bad_rate) == 0);
    world_end(&w);
}

TEST(a_central_policy_wants_what_batches_took) {
    struct world w;
    begin(&w, &policy_kairos, &always);
    assert_int_equal(advised(&w), ADVICE_NONE);
    assert_in_range(advised(&w), 1, 2);
    struct model_counters *c = (struct model_counters *)scheduling_counters(&w.server->scheduling, 1);
    histogram_add(&c->run_ns, 3600 * NS_PER_S); /* more than any time that passes here times 16 */
    assert_int_equal(advised(&w), 16);
    world_end(&w);
}

TEST(a_policy_that_plans_says_what_it_needs) {
    struct world w;
    begin(&w, &policy_nexus, &always);
    assert_int_equal(advised(&w), ADVICE_NONE);
    struct model_counters *c = (struct model_counters *)scheduling_counters(&w.server->scheduling, 1);
    histogram_add(&c->run_ns, 3600 * NS_PER_S);
    while (central_thread_accelerators_needed(w.server->scheduling.central_thread) < 0) /* its first turn */
        sched_yield();
    assert_in_range(advised(&w), 1, 3); /* it knows no rates: two are there */
    assert_true(shows(&w, "\nsymphony_accelerators_needed 2\n"));
    world_end(&w);
}

/* Two models and two accelerators, one of each for each rank thread; one model goes badly. */
TEST(sub_clusters_are_advised_apart) {
    struct world w;
    world_plan(&w, cluster);
    struct server_config config = world_config(&w, &policy_deferred);
    config.autoscale = always;
    config.rank_threads = 2;
    world_begin(&w, &config);
    assert_int_equal(advised(&w), ADVICE_NONE);
    assert_false(shows(&w, "symphony_rank_thread_accelerators_wanted"));
    count(&w, 0, 0, 100, 100, 0);
    count(&w, 0, 1, 100, 50, 0);
    int64_t wanted = advised(&w);
    assert_true(wanted >= 3);
    assert_int_equal(advice_get(&w.server->advice.wanted_of[0]), 1);
    assert_int_equal(advice_get(&w.server->advice.wanted_of[1]), 2);
    assert_true(shows(&w, "\nsymphony_rank_thread_accelerators_wanted{rank_thread=\"0\"} 1\n"));
    assert_true(shows(&w, "\nsymphony_rank_thread_accelerators_wanted{rank_thread=\"1\"} 2\n"));
    world_end(&w);
}

TEST(nobody_asks) {
    struct world w;
    begin(&w, &policy_deferred, &(struct autoscale_config){0});
    assert_int_equal(advised(&w), ADVICE_NONE);
    assert_int_equal(advised(&w), ADVICE_NONE);
    world_end(&w);
}
