/* test_link_faults.c - messages that are late or lost, backends that are silent or killed, a scheduler that dies.
 *
 * Small random clusters under such faults, each held to the checker's invariants, and clusters of one model, where it
 * is known what each fault must cost.
 *
 * Which random clusters, and how many for each policy: histories.h. A failure prints its seed; SYMPHONY_RUNS=1
 * SYMPHONY_SEED=SEED repeats it. */
#include "histories.h"
#include "sim/random_cluster.h"
#include "unit/test.h"

#define RUNS 120 /* for each policy */

/* ---- random clusters ---- */

/* Adds faults to a random cluster, from a seed of their own. */
static void faults_draw(struct sim_config *c, uint64_t seed) {
    struct rng rng;
    rng_seed(&rng, ~seed);
    c->cancel_share = 0;
    if (chance(&rng, 0.4)) {
        c->link_jitter_ns = (int64_t)between(&rng, 0, chance(&rng, 0.5) ? 1e5 : 2e7);
        c->link_loss = chance(&rng, 0.5) ? between(&rng, 0, 0.3) : 0;
        c->link_resend_ns = (int64_t)between(&rng, 0, 1e8);
    }
    if (chance(&rng, 0.6)) {
        c->fault_every_s = between(&rng, 0.005, 0.2);
        c->fault_s = between(&rng, 0.001, 0.1);
        c->fault_stalls = 0;
        c->fault_again = true;
        c->fault_silent = chance(&rng, 0.5);
        c->fault_noticed_ns = (int64_t)between(&rng, 0, 5e7);
        c->backends = (uint32_t)rng_below(&rng, c->accelerators + 1);
    }
    if (chance(&rng, 0.6) && !c->memory_bytes) {
        c->scheduler_every_s = between(&rng, 0.005, 0.2);
        c->scheduler_down_s = between(&rng, 0.0005, 0.05);
    }
}

/* Whether a random cluster holds the invariants. */
static bool seed_holds(const struct policy_ops *policy, uint64_t seed, struct sim_result *totals) {
    struct scenario scenario;
    char text[256];
    scenario_draw(&scenario, policy, seed);
    faults_draw(&scenario.config, seed);
    running_length = snprintf(running, sizeof(running), "%s: seed %" PRIu64 " aborts\n", policy->name, seed);
    const char *wrong = scenario_run(&scenario, text, sizeof(text), totals);
    scenario_free(&scenario);
    if (wrong)
        print_error("%s: seed %" PRIu64 ": %s\n", policy->name, seed, wrong);
    return !wrong;
}

TEST(test_invariants) {
    static const uint64_t kept[] = {
        50735, 50899, /* a new scheduler got requests before its cores knew which accelerators were busy */
        5,            /* requests are sent again, and schedulers taken over from: few drawn ones may have none */
    };
    struct sim_result totals = {0};
    uint64_t runs = histories_count(RUNS), first = histories_first();
    uint32_t failed = 0;
    signal(SIGABRT, on_abort);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        failed += !seed_holds(&policy_symphony, kept[i], &totals);
    for (size_t p = 0; policies[p]; p++)
        for (uint64_t seed = first; seed < first + runs && failed < 10; seed++)
            failed += !seed_holds(policies[p], seed, &totals);
    printf("%" PRIu64 " requests: %" PRIu64 " good, %" PRIu64 " dropped, %" PRIu64 " late; %" PRIu64
           " sent again, %" PRIu64 " takeovers\n",
           totals.requests, totals.good, totals.dropped, totals.late, totals.sent_again, totals.takeovers);
    assert_int_equal(failed, 0);
    assert_true(totals.sent_again > 0 && totals.takeovers > 0 && totals.good > 0);
}

TEST(test_a_seed_is_a_run) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim_result totals[2] = {0};
        char text[256];
        for (int i = 0; i < 2; i++) {
            struct scenario scenario;
            scenario_draw(&scenario, policies[0], seed);
            faults_draw(&scenario.config, seed);
            assert_null(scenario_run(&scenario, text, sizeof(text), &totals[i]));
            scenario_free(&scenario);
        }
        assert_memory_equal(&totals[0], &totals[1], sizeof(totals[0]));
    }
}

/* ---- clusters of one model ---- */

#define SECONDS      20
#define ONE_MS       6 /* what a batch of one takes */
#define REQUESTS_ONE 80000

/* What became of the requests, as an observer sees it. */
struct seen {
    int64_t arrival_ns[REQUESTS_ONE], deadline_ns[REQUESTS_ONE];
    bool good[REQUESTS_ONE];
    uint32_t accelerators, backends;
    /* of the instant now_ns: which accelerators ended a batch, and whether requests were sent again */
    int64_t now_ns;
    uint64_t ended, hit;
    bool again;
    bool two_backends; /* a fault was one of several backends */
};

struct one {
    struct sim_config config;
    struct sim_model model;
    struct sim_rate_step step;
    uint8_t types[64];
    struct sim_result result; /* without the models', which are in: */
    struct sim_model_result model_result;
    struct sim_observer observer;
    struct seen seen;
};

static void on_arrived(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items, uint8_t priority,
                       int64_t deadline_ns) {
    struct seen *seen = context;
    (void)model, (void)items, (void)priority;
    assert_true(handle < REQUESTS_ONE);
    seen->arrival_ns[handle] = now_ns;
    seen->deadline_ns[handle] = deadline_ns;
}

/* Whether all accelerators of a set are of one backend. */
static bool of_one_backend(const struct seen *seen, uint64_t set) {
    for (uint32_t k = 0; k < seen->backends; k++) {
        uint32_t first = k * seen->accelerators / seen->backends, end = (k + 1) * seen->accelerators / seen->backends;
        if (!(set & ~(((1ULL << end) - 1) & ~((1ULL << first) - 1))))
            return true;
    }
    return false;
}

static void instant(struct seen *seen, int64_t now_ns) {
    if (now_ns == seen->now_ns)
        return;
    seen->hit |= seen->again ? seen->ended : 0;
    seen->two_backends |= seen->again && seen->backends && !of_one_backend(seen, seen->ended);
    seen->now_ns = now_ns;
    seen->ended = 0;
    seen->again = false;
}

static void on_ended(void *context, int64_t now_ns, uint32_t accelerator) {
    struct seen *seen = context;
    instant(seen, now_ns);
    seen->ended |= 1ULL << accelerator;
}

static void on_sent_again(void *context, int64_t now_ns, uint64_t handle) {
    struct seen *seen = context;
    (void)handle;
    instant(seen, now_ns);
    seen->again = true;
}

static void on_answered(void *context, int64_t now_ns, uint64_t handle, bool ran) {
    struct seen *seen = context;
    seen->good[handle] = ran && now_ns <= seen->deadline_ns[handle];
}

/* One model, a batch of b takes b + 5 ms. */
static struct one *one_new(uint32_t accelerators, double rate_rps, double slo_ms) {
    struct one *o = allocate(sizeof(*o));
    memset(o, 0, sizeof(*o));
    assert_true(sim_model_line(&o->model, 1, ONE_MS - 1, slo_ms));
    o->model.share = 1;
    o->step.rate_rps = rate_rps;
    o->observer = (struct sim_observer){
        .context = &o->seen,
        .arrived = on_arrived,
        .ended = on_ended,
        .answered = on_answered,
        .sent_again = on_sent_again,
    };
    o->config = (struct sim_config){
        .models = &o->model,
        .model_count = 1,
        .accelerator_type = o->types,
        .accelerators = accelerators,
        .types = 1,
        .arrivals = SIM_POISSON,
        .steps = &o->step,
        .step_count = 1,
        .seconds = SECONDS,
        .seed = 1,
        .policy = &policy_eager,
        .observer = &o->observer,
    };
    policy_options_preset(o->config.policy, &o->config.options);
    return o;
}

static void one_run(struct one *o) {
    o->seen.accelerators = o->config.accelerators;
    o->seen.backends = o->config.backends;
    void *memory = allocate(sim_bytes(&o->config));
    sim_run(&o->config, memory, &o->result);
    o->model_result = o->result.models[0];
    free(memory);
}

static void one_free(struct one *o) {
    free((void *)o->model.profiles[0]);
    free(o);
}

static double share(uint64_t part, const struct one *o) {
    return (double)part / (double)o->result.offered;
}

/* A request is on three messages: its own, its batch's and its answer's. Their delays are uniform, and so their sum
 * lies symmetrically around three halves of the greatest. */
TEST(test_jitter) {
    struct one *o = one_new(64, 100, 1000);
    o->config.link_jitter_ns = 4 * NS_PER_MS;
    one_run(o);
    double p50_ms = (double)sim_times_quantile_ns(&o->model_result.latency, 0.5) / NS_PER_MS;
    double max_ms = (double)o->model_result.latency.max_ns / NS_PER_MS;
    assert_true(fabs(p50_ms - (ONE_MS + 6)) < 0.3);
    assert_true(max_ms > ONE_MS + 10 && max_ms <= ONE_MS + 12);
    assert_int_equal(o->result.good, o->result.offered);
    one_free(o);
}

/* Under load, what is late by the delay of a message is bad, unless the policy leaves room for it. */
TEST(test_margin) {
    for (int margin = 0; margin < 2; margin++) {
        struct one *o = one_new(8, 3600, 25);
        o->config.policy = &policy_deferred;
        policy_options_preset(o->config.policy, &o->config.options);
        o->config.link_jitter_ns = 1 * NS_PER_MS;
        o->config.link_margin_ns = margin * 4 * NS_PER_MS;
        one_run(o);
        assert_true(margin ? o->result.late == 0 : share(o->result.late, o) > 0.01);
        assert_true(share(o->result.dropped, o) < 0.01);
        one_free(o);
    }
}

/* A request is good if none of its three messages is lost; with an SLO that leaves time for one more try, if all
 * messages together are lost at most once, or a different one twice: then the second try is the last. */
TEST(test_loss) {
    const double p = 0.1, q = 1 - p;
    struct one *o = one_new(64, 100, 100);
    o->config.link_loss = p;
    o->config.link_resend_ns = 200 * NS_PER_MS;
    one_run(o);
    assert_true(fabs(share(o->result.good, o) - q * q * q) < 0.03);
    one_free(o);
    o = one_new(64, 100, 300);
    o->config.link_loss = p;
    o->config.link_resend_ns = 200 * NS_PER_MS;
    one_run(o);
    assert_true(fabs(share(o->result.good, o) - (q * q * q + 3 * p * q * q * q)) < 0.03);
    /* lost twice, a message comes after 200 and another 400 ms */
    double p999_ms = (double)sim_times_quantile_ns(&o->model_result.latency, 0.99) / NS_PER_MS;
    assert_true(p999_ms > 600);
    one_free(o);
}

/* Whoever arrives while there is no scheduler, here half of the time, is answered by the next one, if there is time. */
TEST(test_takeover) {
    for (int patient = 0; patient < 2; patient++) {
        struct one *o = one_new(8, 200, patient ? 5000 : 10);
        o->config.scheduler_every_s = o->config.scheduler_down_s = 0.2;
        one_run(o);
        assert_true(o->result.takeovers > 20 && o->result.late == 0);
        if (patient)
            assert_int_equal(o->result.good, o->result.offered);
        else
            assert_true(share(o->result.dropped, o) > 0.35 && share(o->result.dropped, o) < 0.6);
        one_free(o);
    }
}

/* Requests of a batch that is lost are late without `again`; with it they are run elsewhere. */
TEST(test_killed_backends) {
    for (int again = 0; again < 2; again++) {
        struct one *o = one_new(8, 700, 500);
        o->config.fault_every_s = o->config.fault_s = 0.1;
        o->config.backends = 3;
        o->config.fault_again = again;
        one_run(o);
        assert_true(again ? o->result.late == 0 && o->result.sent_again > 100
                          : o->result.late > 100 && o->result.sent_again == 0);
        assert_int_equal(o->result.dropped, 0);
        assert_false(o->seen.two_backends);
        assert_true(o->seen.hit == (again ? 0xff : 0)); /* each accelerator had its turn */
        one_free(o);
    }
}

/* What a silent backend has is run elsewhere once its silence is noticed, and not before; a short one nobody notices.
 */
TEST(test_silent_backends) {
    for (int noticed = 0; noticed < 2; noticed++) {
        struct one *o = one_new(8, 500, 5000);
        o->config.fault_every_s = 0.5;
        o->config.fault_s = noticed ? 1 : 0.01;
        o->config.fault_silent = o->config.fault_again = true;
        o->config.fault_noticed_ns = 300 * NS_PER_MS;
        one_run(o);
        double max_ms = (double)o->model_result.latency.max_ns / NS_PER_MS;
        assert_int_equal(o->result.good, o->result.offered);
        assert_true(noticed ? o->result.sent_again > 3 && max_ms > 280 && max_ms < 400
                            : o->result.sent_again == 0 && max_ms > 15 && max_ms < 300);
        one_free(o);
    }
}

/* Faults of every kind until 18 s; from 19 s on every request is good again, under every policy. */
TEST(test_recovery) {
    for (size_t p = 0; policies[p]; p++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            if (!histories_have(5 * p + seed))
                continue;
            struct one *o = one_new(8, 250, 100);
            o->config.policy = policies[p];
            policy_options_preset(o->config.policy, &o->config.options);
            o->config.seed = seed;
            o->config.fault_every_s = o->config.scheduler_every_s = 0.2;
            o->config.fault_s = o->config.scheduler_down_s = 0.05;
            o->config.fault_silent = seed % 2;
            o->config.fault_again = true;
            o->config.fault_noticed_ns = 20 * NS_PER_MS;
            o->config.backends = 4;
            one_run(o);
            uint32_t late = 0, after = 0;
            for (uint32_t i = 0; i < o->result.requests; i++)
                if (o->seen.arrival_ns[i] > 19 * NS_PER_S) {
                    after++;
                    late += !o->seen.good[i];
                }
            if (late || after < 150 || o->result.good == o->result.offered || o->result.takeovers < 20)
                fail_msg("%s, seed %" PRIu64 ": %u of %u are bad; before, %" PRIu64 " of %" PRIu64 " were good",
                         policies[p]->name, seed, late, after, o->result.good, o->result.offered);
            one_free(o);
        }
}
