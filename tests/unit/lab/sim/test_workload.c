/* test_workload.c - arrival streams have the rates, gaps, items and SLOs asked for. */
#include <string.h>

#include "lab/sim/workload.h"
#include "unit/assert_near.h"
#include "unit/test.h"

struct fixture {
    struct sim_config config;
    struct sim_model models[3];
    struct sim_rate_step steps[3];
};

static void fixture_init(struct fixture *f, double rate_rps, double seconds) {
    memset(f, 0, sizeof(*f));
    for (int m = 0; m < 3; m++)
        f->models[m] = (struct sim_model){.slo_ns = 1000000, .share = 1, .items_least = 1, .items_most = 1};
    f->steps[0].rate_rps = rate_rps;
    f->config = (struct sim_config){
        .models = f->models, .model_count = 3, .steps = f->steps, .step_count = 1, .seconds = seconds, .seed = 1};
}

/* Arrivals of a model in [from, to) seconds. */
static uint32_t count(struct fixture *f, uint32_t model, double from_s, double to_s) {
    struct workload_stream stream;
    struct workload_request request;
    uint32_t n = 0;
    int64_t last = -1;
    workload_stream_init(&stream, &f->config, model, workload_shares(&f->config));
    while (workload_stream_next(&stream, &request)) {
        assert_true(request.arrival_ns >= last);
        last = request.arrival_ns;
        n += request.arrival_ns >= (int64_t)(from_s * NS_PER_S) && request.arrival_ns < (int64_t)(to_s * NS_PER_S);
    }
    return n;
}

TEST(rates_follow_shares) {
    struct fixture f;
    fixture_init(&f, 4000, 10);
    sim_shares_zipf(f.models, 3, 0); /* equal */
    f.models[1].share = 2;
    assert_near(count(&f, 0, 0, 10), 10000, 400);
    assert_near(count(&f, 1, 0, 10), 20000, 600);
    sim_shares_zipf(f.models, 3, 1); /* 1, 1/2, 1/3 */
    assert_near(count(&f, 2, 0, 10), 40000 * (1.0 / 3) / (11.0 / 6), 400);
}

TEST(gaps_are_constant_random_or_bursty) {
    static const struct {
        enum sim_arrivals arrivals;
        double shape, variation; /* of the gaps: variance over squared mean */
    } cases[] = {{SIM_UNIFORM, 0, 0}, {SIM_POISSON, 0, 1}, {SIM_GAMMA, 0.25, 4}, {SIM_GAMMA, 4, 0.25}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        fixture_init(&f, 3000, 30);
        f.config.arrivals = cases[i].arrivals;
        f.config.gamma_shape = cases[i].shape;
        struct workload_stream stream;
        struct workload_request request;
        workload_stream_init(&stream, &f.config, 0, workload_shares(&f.config));
        double n = 0, sum = 0, squares = 0, last = -1;
        while (workload_stream_next(&stream, &request)) {
            double gap = (double)request.arrival_ns - last;
            if (last >= 0) {
                n++;
                sum += gap;
                squares += gap * gap;
            }
            last = (double)request.arrival_ns;
        }
        assert_near(sum / n, 1e6, 4e4);
        assert_near(squares / n / (sum / n * sum / n) - 1, cases[i].variation, 0.05 + 0.08 * cases[i].variation);
    }
}

TEST(the_rate_follows_its_steps_and_surges) {
    struct fixture f;
    fixture_init(&f, 3000, 8);
    f.config.warmup_s = 2;
    f.steps[1] = (struct sim_rate_step){4, 0};
    f.steps[2] = (struct sim_rate_step){6, 9000};
    f.config.step_count = 3;
    f.models[1].surge_at_s = 8;
    f.models[1].surge_factor = 5;
    assert_near(count(&f, 0, 0, 4), 4000, 250);
    assert_int_equal(count(&f, 0, 4, 6), 0);
    assert_near(count(&f, 0, 6, 10), 12000, 450);
    assert_near(count(&f, 1, 6, 8), 6000, 300);
    assert_near(count(&f, 1, 8, 10), 30000, 700);
    assert_int_equal(count(&f, 1, 10, 1e6), 0);
}

TEST(items_and_slos_vary_as_asked) {
    struct fixture f;
    fixture_init(&f, 3000, 10);
    f.models[0].items_least = 2;
    f.models[0].items_most = 5;
    f.models[0].slo_spread = 0.5;
    struct workload_stream stream;
    struct workload_request request;
    uint32_t seen[7] = {0};
    int64_t least = INT64_MAX, most = 0;
    workload_stream_init(&stream, &f.config, 0, workload_shares(&f.config));
    while (workload_stream_next(&stream, &request)) {
        assert_true(request.items >= 2 && request.items <= 5);
        seen[request.items]++;
        least = request.slo_ns < least ? request.slo_ns : least;
        most = request.slo_ns > most ? request.slo_ns : most;
    }
    for (int i = 2; i <= 5; i++)
        assert_near(seen[i], 2500, 250);
    assert_true(workload_items(&f.config, 0) == 3.5 && workload_items(&f.config, 1) == 1);
    assert_true(least >= 500000 && least < 510000 && most <= 1500000 && most > 1490000);
}

TEST(items_follow_a_distribution) {
    struct fixture f;
    struct query_sizes sizes;
    fixture_init(&f, 3000, 10);
    assert_int_equal(query_sizes_fill(&(struct query_size_spec){.kind = QUERY_UNIFORM, .a = 10, .b = 20}, &sizes, NULL),
                     0);
    f.config.query_sizes = &sizes;
    struct workload_stream stream;
    struct workload_request request;
    double n = 0, sum = 0;
    workload_stream_init(&stream, &f.config, 1, workload_shares(&f.config));
    for (; workload_stream_next(&stream, &request); n++) {
        assert_in_range(request.items, 10, 20);
        sum += request.items;
    }
    assert_near(n, 10000, 500);
    assert_near(sum / n, 15, 0.2);
    assert_near(workload_items(&f.config, 1), 15, 1e-9);
}

/* Two minutes of 10 and 30 requests a second for model 0, and jobs of two SLOs for model 1, all at twice the rate. */
/* What a recording says of a request comes before what the scenario would draw. */
TEST(recorded_requests_are_as_recorded) {
    struct fixture f;
    struct workload_stream stream;
    struct workload_request request;
    uint64_t first[] = {0, 3, 3, 3};
    double at_s[] = {0.1, 0.2, 0.3}, model_rps[] = {3, 0, 0};
    struct trace_request requests[] = {{25500, 4, 1}, {0, 0, PRIORITY_BEST_EFFORT}, {.priority = TRACE_PRIORITY_ANY}};
    struct trace trace = {
        .models = 3, .first = first, .at_s = at_s, .requests = requests, .mean_rps = 3, .model_rps = model_rps};
    fixture_init(&f, 3, 1);
    f.config.arrivals = SIM_TRACE;
    f.config.trace = &trace;
    f.models[0].items_least = f.models[0].items_most = 7;
    assert_true(workload_items(&f.config, 0) == 6 && workload_items(&f.config, 1) == 1);
    workload_stream_init(&stream, &f.config, 0, 1);
    assert_true(workload_stream_next(&stream, &request));
    assert_int_equal(request.arrival_ns, 100000000);
    assert_int_equal(request.slo_ns, 25500000);
    assert_int_equal(request.items, 4);
    assert_int_equal(request.priority, 1);
    assert_true(workload_stream_next(&stream, &request));
    assert_int_equal(request.slo_ns, BEST_EFFORT_WAIT_NS);
    assert_int_equal(request.items, 7);
    assert_int_equal(request.priority, PRIORITY_BEST_EFFORT);
    assert_true(workload_stream_next(&stream, &request));
    assert_int_equal(request.slo_ns, 1000000);
    assert_int_equal(request.items, 7);
    assert_int_equal(request.priority, 0);
    assert_false(workload_stream_next(&stream, &request));
}

TEST(rates_of_a_trace_are_followed) {
    double at_s[] = {0, 60, 0, 30}, rate_sum[] = {10, 40, 5, 20};
    int64_t slo_ns[] = {0, 0, 7000, 9000};
    uint64_t first[] = {0, 2, 4, 4};
    struct trace trace = {.models = 3,
                          .first = first,
                          .at_s = at_s,
                          .rate_sum = rate_sum,
                          .slo_ns = slo_ns,
                          .length_s = 60,
                          .mean_rps = 30};
    struct fixture f;
    fixture_init(&f, 60, 200);
    f.config.arrivals = SIM_TRACE;
    f.config.trace = &trace;
    assert_near(count(&f, 0, 0, 60), 1200, 140);
    assert_near(count(&f, 0, 60, 120), 3600, 240);
    assert_int_equal(count(&f, 0, 120, 200), 0);
    assert_near(count(&f, 1, 0, 30), 300, 70);
    assert_near(count(&f, 1, 30, 60), 1200, 140);
    assert_near(count(&f, 1, 60, 90), 900, 120);
    assert_int_equal(count(&f, 2, 0, 200), 0);

    struct workload_stream stream;
    struct workload_request request;
    double sevens = 0, both = 0;
    workload_stream_init(&stream, &f.config, 0, workload_shares(&f.config));
    assert_true(workload_stream_next(&stream, &request));
    assert_int_equal(request.slo_ns, 1000000); /* the model's own */
    workload_stream_init(&stream, &f.config, 1, workload_shares(&f.config));
    while (workload_stream_next(&stream, &request)) {
        bool overlap = request.arrival_ns >= 30 * NS_PER_S && request.arrival_ns < 60 * NS_PER_S;
        assert_int_equal(request.slo_ns, request.arrival_ns < 30 * NS_PER_S  ? 7000
                                         : overlap && request.slo_ns == 7000 ? 7000
                                                                             : 9000);
        both += overlap;
        sevens += overlap && request.slo_ns == 7000;
    }
    assert_near(sevens / both, 0.25, 0.06);
}

TEST(streams_differ_by_model_and_seed_and_by_nothing_else) {
    struct fixture f;
    fixture_init(&f, 3000, 1);
    struct workload_stream a, b;
    struct workload_request x, y;
    workload_stream_init(&a, &f.config, 0, workload_shares(&f.config));
    workload_stream_init(&b, &f.config, 0, workload_shares(&f.config));
    for (int i = 0; i < 100; i++) {
        assert_true(workload_stream_next(&a, &x) && workload_stream_next(&b, &y));
        assert_int_equal(x.arrival_ns, y.arrival_ns);
    }
    workload_stream_init(&b, &f.config, 1, workload_shares(&f.config));
    assert_true(workload_stream_next(&a, &x) && workload_stream_next(&b, &y));
    assert_int_not_equal(x.arrival_ns, y.arrival_ns);
    struct fixture g = f;
    g.config.seed = 2;
    workload_stream_init(&a, &f.config, 0, workload_shares(&f.config));
    workload_stream_init(&b, &g.config, 0, workload_shares(&g.config));
    assert_true(workload_stream_next(&a, &x) && workload_stream_next(&b, &y));
    assert_int_not_equal(x.arrival_ns, y.arrival_ns);
}

TEST(requests_have_classes_by_their_shares) {
    struct fixture f;
    fixture_init(&f, 3000, 30);
    f.models[0].best_effort = 0.5;
    f.models[0].priority_count = 2;
    f.models[0].priorities[0] = 0.2;
    f.models[0].priorities[1] = 0.8;
    struct workload_stream stream;
    struct workload_request request;
    double counts[256] = {0}, n = 0;
    workload_stream_init(&stream, &f.config, 0, workload_shares(&f.config));
    for (; workload_stream_next(&stream, &request); n++) {
        counts[request.priority]++;
        bool best_effort = request.priority == PRIORITY_BEST_EFFORT;
        assert_int_equal(request.slo_ns, best_effort ? BEST_EFFORT_WAIT_NS : f.models[0].slo_ns);
    }
    assert_near(counts[PRIORITY_BEST_EFFORT] / n, 0.5, 0.02);
    assert_near(counts[0] / n, 0.1, 0.01);
    assert_near(counts[1] / n, 0.4, 0.02);
    assert_near(counts[0] + counts[1] + counts[PRIORITY_BEST_EFFORT], n, 0.5);
}
