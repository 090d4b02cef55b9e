/* test_model_memory.c - a model that must be loaded first: which requests may wait for that, and for how long. */
#include "unit/sched/core/model_fixture.h"

#define LOAD_NS 100

/* A model that no accelerator has; l(1) is 30. */
static struct fixture *fixture_cold(void) {
    script_reset();
    return fixture_with((struct model_core_config){
        .types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .load_ns = LOAD_NS, .there_ns = TIME_NEVER});
}

static void memory(struct fixture *f, int64_t now_ns, int64_t there_ns) {
    struct grant_message message = {.kind = GRANT_MEMORY, .there_ns = there_ns, .load_ns = LOAD_NS};
    step(f, now_ns, (struct model_event){.kind = MODEL_MEMORY, .grant = &message});
}

static uint32_t refused_cause(const struct fixture *f) {
    assert_true(f->out.refused != REQUEST_NONE);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_DEADLINE);
    return f->nodes[f->out.refused].cause;
}

TEST(who_cannot_wait_for_the_load_is_refused_at_once) {
    struct fixture *f = fixture_cold();
    arrive(f, 0, 1, 29, 1); /* no run fits at all */
    assert_int_equal(refused_cause(f), CAUSE_SHORT);
    assert_int_equal(handles(f, f->out.refused), 1);
    arrive(f, 0, 2, 129, 1);
    assert_int_equal(refused_cause(f), CAUSE_COLD);
    assert_int_equal(handles(f, f->out.refused), 2);
    arrive(f, 0, 3, 130, 1);
    assert_int_equal(f->out.refused, REQUEST_NONE);
    assert_true(candidate_any(&f->out.candidates[0]));
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 100); /* when a load must have ended */
    assert_int_equal(f->out.wake_ns, 1);                          /* when it is too late for a load to begin */
    timer(f, 1);
    assert_int_equal(refused_cause(f), CAUSE_COLD);
    assert_int_equal(handles(f, f->out.refused), 3);
    fixture_free(f);
}

TEST(who_comes_while_it_is_loaded_is_admitted_by_its_end) {
    struct fixture *f = fixture_cold();
    arrive(f, 0, 1, 200, 1);
    memory(f, 5, 105);
    assert_int_equal(f->out.refused, REQUEST_NONE);
    arrive(f, 90, 2, 134, 1);
    assert_int_equal(refused_cause(f), CAUSE_COLD);
    assert_int_equal(handles(f, f->out.refused), 2);
    arrive(f, 90, 3, 210, 1);
    assert_int_equal(model_core_items(f->core, 0), 2); /* 105 + l(2) */
    memory(f, 104, INT64_MIN);
    assert_int_equal(f->out.refused, REQUEST_NONE);
    grant(f, 104, 0);
    assert_int_equal(handles(f, f->out.batch), 13);
    arrive(f, 110, 4, 140, 1); /* it is there */
    assert_int_equal(f->out.refused, REQUEST_NONE);
    memory(f, 110, TIME_NEVER); /* and gone */
    assert_int_equal(refused_cause(f), CAUSE_COLD);
    assert_int_equal(handles(f, f->out.refused), 4);
    fixture_free(f);
}

/* What is refused for want of the model is no loss that more accelerators would have saved. */
TEST(cold_requests_count_as_asked_for_but_not_as_lost) {
    struct fixture *f = fixture_cold();
    for (uint32_t i = 0; i < 5; i++) {
        arrive(f, i, 1, i + 50, 1);
        assert_int_equal(handles(f, f->out.refused), 1);
    }
    int64_t later_ns = 20 * NS_PER_MS;
    arrive(f, later_ns, 2, later_ns + 1000, 1);
    assert_true(f->out.rates_changed);
    assert_int_equal(f->out.rates.arrived, 4); /* the first one only starts the clock (arrival_rates.c) */
    assert_true(f->out.rates.dropped_rate == 0 && f->out.rates.bad_rate == 0);
    fixture_free(f);
}

/* Of the requests that are lost those are told apart that had come while the model was nowhere. */
TEST(who_found_it_nowhere_is_lost_cold) {
    struct fixture *f = fixture_cold();
    arrive(f, 0, 1, 5000, 1); /* starts the clock */
    arrive(f, 1, 2, 300, 1);
    arrive(f, 2, 3, 400, 1);
    memory(f, 100, INT64_MIN);
    arrive(f, 110, 4, 500, 1);
    timer(f, 1000); /* 2 to 4 are too late */
    int64_t later_ns = 20 * NS_PER_MS;
    arrive(f, later_ns, 5, later_ns + 1000, 1);
    assert_true(f->out.rates_changed);
    assert_int_equal(f->out.rates.arrived, 3);
    assert_int_equal(f->out.rates.cold, 3); /* the first one, too */
    assert_int_equal(f->out.rates.lost, 3);
    assert_int_equal(f->out.rates.lost_cold, 2);
    fixture_free(f);
}

TEST(a_grant_says_that_it_is_there) {
    struct fixture *f = fixture_cold();
    arrive(f, 0, 1, 200, 1);
    memory(f, 0, 150);
    grant(f, 120, 0); /* the load took less, and the message that says so is still on its way */
    assert_int_equal(handles(f, f->out.batch), 1);
    assert_int_equal(f->out.batch_finish_ns, 150);
    fixture_free(f);
}
