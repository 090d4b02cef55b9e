/* test_held.c - when a rate has held: by what no pause touched, if that is enough to tell. */
#include "core/util/time.h"
#include "lab/stress/stress.h"
#include "unit/test.h"

static const struct stress_goal goal = {
    .rate = 1e6, .bad_most = 0.01, .decision_ns = 100 * NS_PER_US, .undisturbed_least = 0.5};

/* One that held, with pauses: over everything it would not have. */
static struct stress_result disturbed_result(void) {
    return (struct stress_result){
        .pauses_known = true,
        .requests_per_s = 0.97e6,
        .bad_rate = 0.03,
        .decision.p99 = 5 * NS_PER_MS,
        .undisturbed = {.share = 0.8, .bad_rate = 0.001, .offered_per_s = 1e6, .decision.p99 = 40 * NS_PER_US},
    };
}

TEST(test_undisturbed_slices_decide) {
    struct stress_result r = disturbed_result();

    assert_int_equal(stress_held(&goal, &r), STRESS_HELD);
    assert_int_equal(stress_held_anyway(&goal, &r), STRESS_FAILED);
    r.undisturbed.bad_rate = 0.02;
    assert_int_equal(stress_held(&goal, &r), STRESS_FAILED);
    r = disturbed_result();
    r.undisturbed.decision.p99 = 100 * NS_PER_US;
    assert_int_equal(stress_held(&goal, &r), STRESS_FAILED);
    r = disturbed_result();
    r.undisturbed.offered_per_s = 0.9e6; /* who feeds cannot keep up */
    assert_int_equal(stress_held(&goal, &r), STRESS_FAILED);
}

TEST(test_few_undisturbed_requests_do_not_tell) {
    struct stress_result r = disturbed_result();

    r.undisturbed.share = 0.49;
    assert_int_equal(stress_held(&goal, &r), STRESS_DISTURBED);
    r.undisturbed = (struct stress_undisturbed){.share = 0};
    assert_int_equal(stress_held(&goal, &r), STRESS_DISTURBED);
}

TEST(test_without_pauses_everything_counts) {
    struct stress_result r = disturbed_result();

    r.pauses_known = false;
    assert_int_equal(stress_held(&goal, &r), STRESS_FAILED);
    r.requests_per_s = 0.995e6;
    r.bad_rate = 0.005;
    r.decision.p99 = 90 * NS_PER_US;
    assert_int_equal(stress_held(&goal, &r), STRESS_HELD);
}

TEST(test_what_is_wrong_never_holds) {
    struct stress_result r = disturbed_result();

    r.wrong = true;
    assert_int_equal(stress_held(&goal, &r), STRESS_FAILED);
}
