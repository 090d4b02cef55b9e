/* test_stress.c - short runs of the live threads: everything comes back, and the checks find nothing wrong. Nothing
 * here is about speed. */
#include <string.h>

#include "base/time.h"
#include "stress/stress.h"
#include "unit/cmocka_all.h"

static struct stress_config config_of(uint32_t models, uint32_t threads, uint32_t accelerators) {
    return (struct stress_config){
        .models = models,
        .model_threads = threads,
        .rank_threads = 1,
        .accelerators = accelerators,
        .alpha_ns = 100 * NS_PER_US,
        .beta_ns = NS_PER_MS,
        .slo_ns = 200 * NS_PER_MS, /* for machines that are slow, or run this under a sanitizer */
        .rate = 5000,
        .feed_batch = 8,
        .sleep = true,
        .warmup_s = 0.1,
        .seconds = 0.3,
        .seed = 3,
        .policy = &policy_deferred,
    };
}

static struct stress_result run(const struct stress_config *config) {
    struct stress_result result;
    struct sy_error err = {.text = ""};

    if (stress_run(config, &result, &err) < 0)
        fail_msg("%s", err.text);
    if (result.wrong)
        fail_msg("%s", result.wrong_text);
    assert_true(result.requests > 0);
    assert_true(result.batches > 0);
    assert_true(result.checked_requests > 0);
    return result;
}

static void test_open_loop(void **state) {
    (void)state;
    static const struct {
        uint32_t models, threads, accelerators;
    } rows[] = {{1, 1, 10}, {7, 2, 3}, {100, 4, 2000}, {8, 8, 16}}; /* the last: two worlds */

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct stress_config config = config_of(rows[i].models, rows[i].threads, rows[i].accelerators);
        struct stress_result result = run(&config);
        assert_true(result.batch_mean >= 1);
        assert_true(result.decision.p50 > 0 && result.decision.p50 <= result.decision.p999);
    }
}

/* Models move between rank threads, and accelerators die, all the while: nothing is started or refused wrongly, and
 * everybody comes back. */
static void test_models_move_and_accelerators_die(void **state) {
    (void)state;
    struct stress_config config = config_of(20, 2, 50);

    config.rank_threads = 3;
    config.moves_per_s = 2000;
    config.deaths_per_s = 1000;
    struct stress_result result = run(&config);
    assert_true(result.moves > 0);
    assert_true(result.deaths > 0);
}

static void test_closed_loop(void **state) {
    (void)state;
    struct stress_config config = config_of(3, 1, 4);

    config.rate = 0;
    config.outstanding = 50;
    struct stress_result result = run(&config);
    assert_true(result.batch_mean <= 50);
}

/* Ten times what two accelerators can do: most is refused, and none of it wrongly. */
static void test_overload(void **state) {
    (void)state;
    struct stress_config config = config_of(5, 1, 2);

    config.alpha_ns = NS_PER_MS;
    config.slo_ns = 50 * NS_PER_MS;
    config.rate = 20000;
    struct stress_result result = run(&config);
    assert_true(result.dropped_rate > 0.5);
}

static void test_other_policies(void **state) {
    (void)state;
    static const struct policy_ops *const others[] = {&policy_symphony, &policy_eager};

    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct stress_config config = config_of(4, 2, 8);
        config.policy = others[i];
        run(&config);
    }
}

static void test_memory_is_bounded(void **state) {
    (void)state;
    struct stress_config config = config_of(1, 1, 1000);
    struct stress_result result = run(&config);

    assert_true(result.request_bytes < 128);
    assert_true(result.accelerator_bytes < 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_loop),      cmocka_unit_test(test_models_move_and_accelerators_die),
        cmocka_unit_test(test_closed_loop),    cmocka_unit_test(test_overload),
        cmocka_unit_test(test_other_policies), cmocka_unit_test(test_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
