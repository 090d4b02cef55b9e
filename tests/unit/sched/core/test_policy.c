/* test_policy.c - what a policy may ask of a model's queue and batches. */
#include "unit/sched/core/model_fixture.h"

static const struct policy_ops policy_blind = {
    .name = "blind",
    .deadline_blind = true,
    .model_update = script_update,
    .batch_times = script_times,
};

TEST(a_deadline_blind_batch_is_what_is_queued) {
    struct fixture *f = fixture_of(&policy_blind);
    arrive(f, 0, 1, 20, 1); /* hopeless from the start: l(1) = 30 */
    assert_quiet(f);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, TIME_NEVER);
    assert_int_equal(f->out.wake_ns, TIME_NEVER);
    arrive(f, 5, 2, 100, 1);
    arrive(f, 50, 3, 100, 1);
    assert_quiet(f);
    assert_int_equal(model_core_items(f->core, 0), 3);
    timer(f, 500); /* all are late */
    assert_quiet(f);
    assert_int_equal(model_core_items(f->core, 0), 3);
    for (int i = 4; i <= 9; i++)
        arrive(f, 500, (uint64_t)i, 510, 1);
    assert_int_equal(model_core_items(f->core, 0), BATCH); /* of nine */
    assert_true(script.seen.full);
    grant(f, 500, 0);
    assert_int_equal(handles(f, f->out.batch), 12345678);
    grant(f, 600, 0);
    assert_int_equal(handles(f, f->out.batch), 9);
    fixture_free(f);
}

static uint32_t part_of_four(const struct model_view *m, const void *own, uint32_t items, int64_t head_arrival_ns,
                             int64_t now_ns) {
    (void)own;
    assert_int_equal(m->preferred_count, 2); /* of those that may be */
    return items >= 4 && now_ns - head_arrival_ns < 100 ? 4 : items;
}

static const struct policy_ops policy_sized = {
    .name = "sized",
    .deadline_blind = true,
    .model_update = script_update,
    .batch_times = script_times,
    .batch_preferred = part_of_four,
};

TEST(a_policy_may_take_a_part_of_a_batch) {
    static const uint32_t sizes[] = {4, BATCH, BATCH + 1};
    script_reset();
    struct fixture *f = fixture_with((struct model_core_config){.types = 1,
                                                                .profiles = {line(10, 0)}, /* nothing pays */
                                                                .slo_ns = 1000,
                                                                .policy = &policy_sized,
                                                                .preferred = sizes,
                                                                .preferred_count = 3});
    for (int i = 1; i <= 6; i++)
        arrive(f, 0, (uint64_t)i, 1000, 1);
    assert_int_equal(model_core_items(f->core, 0), 6);
    grant(f, 0, 0);
    assert_int_equal(handles(f, f->out.batch), 1234);
    arrive(f, 50, 7, 1000, 3); /* 5 and 6 with it are five items: whole requests, as far as they fit */
    grant(f, 50, 0);
    assert_int_equal(handles(f, f->out.batch), 56);
    arrive(f, 60, 8, 1000, 5);
    grant(f, 160, 0);
    assert_int_equal(handles(f, f->out.batch), 78);
    arrive(f, 170, 9, 1000, 5); /* alone, larger than the part */
    grant(f, 170, 0);
    assert_int_equal(handles(f, f->out.batch), 9);
    fixture_free(f);
}

TEST(a_deadline_blind_queue_drops_no_heads) {
    struct fixture *f = fixture_of(&policy_blind);
    target(f, 0, 4);
    for (int i = 1; i <= 4; i++)
        arrive(f, 0, (uint64_t)i, 45, 1); /* l(4) = 60 */
    assert_quiet(f);
    assert_int_equal(model_core_items(f->core, 0), 4);
    cancel(f, 10, 2, 45);
    assert_int_equal(handles(f, f->out.refused), 2);
    grant(f, 10, 0);
    assert_int_equal(handles(f, f->out.batch), 134);
    assert_true(model_core_idle(f->core));
    fixture_free(f);
}

/* Nobody would ever take it. */
TEST(a_deadline_blind_request_that_nothing_can_run_is_refused) {
    struct fixture *f = fixture_of(&policy_blind);
    struct grant_message message = {.kind = GRANT_PARAMETERS, .admit_share = 1, .parameters.type_share = {0, 1}};
    arrive(f, 0, 1, 200, 1);
    step(f, 1, (struct model_event){.kind = MODEL_PARAMETERS, .grant = &message});
    assert_quiet(f);
    assert_int_equal(f->out.wake_ns, 201);
    timer(f, 201);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_STRANDED);
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_true(model_core_idle(f->core));
    fixture_free(f);
}

TEST(what_is_dropped_is_refused_at_once) {
    struct fixture *f = fixture_of(&policy_strict);
    target(f, 0, 2);
    arrive(f, 0, 1, 35, 1);
    assert_quiet(f);
    arrive(f, 0, 2, 70, 1); /* two no longer fit before the head's deadline, one still would */
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_DEADLINE);
    assert_int_equal(handles(f, f->out.refused), 1);
    script.admit = false;
    arrive(f, 1, 3, 500, 1);
    assert_int_equal(handles(f, f->out.refused), 3);
    assert_int_equal(model_core_queued(f->core), 1);
    fixture_free(f);
}

TEST(a_policy_may_cap_batches) {
    static const struct policy_ops *const both[] = {&policy_strict, &policy_blind};
    for (size_t i = 0; i < 2; i++) {
        struct fixture *f = fixture_of(both[i]);
        script.cap = 3;
        target(f, 0, 1);
        for (int k = 1; k <= 4; k++)
            arrive(f, 0, (uint64_t)k, 500, 1);
        assert_int_equal(model_core_items(f->core, 0), 3);
        assert_int_equal(script.seen.items_most, 3);
        assert_true(script.seen.full);
        grant(f, 0, 0);
        assert_int_equal(handles(f, f->out.batch), 123);
        arrive(f, 1, 5, 900, 5); /* larger than the cap: alone */
        grant(f, 1, 0);
        assert_int_equal(handles(f, f->out.batch), 4);
        grant(f, 1, 0);
        assert_int_equal(handles(f, f->out.batch), 5);
        fixture_free(f);
    }
}
