/* test_stress.c - short runs of the live threads: everything comes back, and the checks find nothing wrong. Nothing
 * here is about speed. */
/* Starts threads. */
#include "core/system/thread.h"
#include "core/util/time.h"
#include "lab/stress/stress.h"
#include "unit/test.h"

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
        .warmup_s = 0.05,
        .seconds = 0.15,
        .seed = 3,
        .policy = &policy_deferred,
    };
}

/* Runs until something was measured, and something refused if `refusals` are wanted: a machine that is busy may do
 * nothing for a while. */
static struct stress_result run_until(const struct stress_config *config, bool refusals) {
    struct stress_config longer = *config;
    struct stress_result result;
    struct sy_error err = {.text = ""};

    for (;; longer.seconds *= 2) {
        if (stress_run(&longer, &result, &err) < 0)
            fail_msg("%s", err.text);
        if (result.wrong)
            fail_msg("%s", result.wrong_text);
        bool happened =
            (config->moves_per_s <= 0 || result.moves > 0) && (config->deaths_per_s <= 0 || result.deaths > 0);
        happened &= !refusals || result.dropped_rate > 0;
        if (happened && result.requests > 0 && result.batches > 0 && result.checked_requests > 0)
            return result;
    }
}

static struct stress_result run(const struct stress_config *config) {
    return run_until(config, false);
}

TEST(test_open_loop) {
    static const struct {
        uint32_t models, threads, accelerators;
    } rows[] = {{1, 1, 10}, {7, 2, 3}, {100, 4, 2000}, {8, 8, 16}}; /* the last: two worlds */

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct stress_config config = config_of(rows[i].models, rows[i].threads, rows[i].accelerators);
        struct stress_result result = run(&config);
        assert_true(result.decision.p50 <= result.decision.p99 && result.decision.p99 <= result.decision.p999);
        assert_false(result.pauses_known);
        assert_int_equal(result.threads, rows[i].threads + 1 + (rows[i].threads > 4 ? 2 : 1));
    }
}

/* The `count` first cores of those that the process may use. */
static cpu_set_t cores_first(int count) {
    cpu_set_t allowed, cores;

    thread_cores_allowed(&allowed);
    CPU_ZERO(&cores);
    for (int i = 0; i < count && i < CPU_COUNT(&allowed); i++)
        CPU_SET(thread_core_nth(&allowed, (unsigned)i), &cores);
    return cores;
}

/* Threads that never sleep, and where cores are fewer than these: down to one thread that takes everybody's turns. */
TEST(test_those_without_a_core_take_turns) {
    for (int cores = 1; cores <= 3; cores++) {
        struct stress_config config = config_of(10, 2, 20);
        config.sleep = false;
        config.cores = cores_first(cores);
        struct stress_result r = run(&config);
        assert_int_equal(r.threads, CPU_COUNT(&config.cores));
        assert_true(r.model.work_ns > 0 && r.rank.work_ns > 0 && r.feeder.work_ns > 0);
        assert_true(r.pauses_known);
        assert_true(r.undisturbed.share >= 0 && r.undisturbed.share <= 1);
        assert_true(r.undisturbed.bad_rate >= 0 && r.undisturbed.bad_rate <= 1);
        assert_true(r.feeder.pauses.longest_ns <= r.feeder.pauses.total_ns);
        if (cores == 1) /* one thread: its pauses are everybody's */
            assert_memory_equal(&r.feeder.pauses, &r.model.pauses, sizeof(r.model.pauses));
    }
}

/* Models move between rank threads, and accelerators die, all the while: nothing is started or refused wrongly, and
 * everybody comes back. */
TEST(test_models_move_and_accelerators_die) {
    struct stress_config config = config_of(20, 2, 50);

    config.rank_threads = 3;
    config.moves_per_s = 2000;
    config.deaths_per_s = 1000;
    run(&config);
    config.sleep = false;
    run(&config);
}

TEST(test_closed_loop) {
    struct stress_config config = config_of(3, 1, 4);

    config.rate = 0;
    config.outstanding = 50;
    run(&config);
}

/* Ten times what two accelerators can do: some is refused, or the test's time is over, and none of it wrongly. */
TEST(test_overload) {
    struct stress_config config = config_of(5, 1, 2);

    config.alpha_ns = NS_PER_MS;
    config.slo_ns = 50 * NS_PER_MS;
    config.rate = 20000;
    struct stress_result result = run_until(&config, true);
    assert_true(result.dropped_rate <= 1);
}

TEST(test_other_policies) {
    static const struct policy_ops *const others[] = {&policy_symphony, &policy_eager};

    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct stress_config config = config_of(4, 2, 8);
        config.policy = others[i];
        run(&config);
    }
}

TEST(test_memory_is_bounded) {
    struct stress_config config = config_of(1, 1, 1000);
    struct stress_result result = run(&config);

    assert_true(result.request_bytes < 128);
    assert_true(result.accelerator_bytes < 1024);
}
