/* test_server_figures.c - a server's own latencies out of what it tells. */
#include <math.h>
#include <string.h>

#include "lab/load/server_figures.h"
#include "unit/test.h"

static const char *const names[] = {"a", "b"};

#define NEAR(x, y) assert_true(fabs((x) - (y)) < 1e-9)

/* Two versions of a model; edges as /metrics/fine has them: only where something was counted. */
static const char before_text[] =
    "# TYPE symphony_requests_in_time_total counter\n"
    "symphony_requests_in_time_total{model=\"a\",version=\"1\"} 90\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"1\",le=\"0.01\"} 0\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"1\",le=\"0.011\"} 100\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"1\",le=\"+Inf\"} 100\n"
    "symphony_request_duration_seconds_sum{model=\"a\",version=\"1\"} 1.05\n"
    "symphony_request_duration_seconds_count{model=\"a\",version=\"1\"} 100\n";
static const char after_text[] =
    "symphony_requests_in_time_total{model=\"a\",version=\"1\"} 180\n"
    "symphony_requests_in_time_total{model=\"a\",version=\"2\"} 9\n"
    "symphony_requests_in_time_total{model=\"c\"} 1000\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"1\",le=\"0.005\"} 0\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"1\",le=\"0.006\"} 50\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"1\",le=\"0.01\"} 50\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"1\",le=\"0.011\"} 190\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"1\",le=\"+Inf\"} 190\n"
    "symphony_request_duration_seconds_sum{model=\"a\",version=\"1\"} 2\n"
    "symphony_request_duration_seconds_count{model=\"a\",version=\"1\"} 190\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"2\",le=\"0.01\"} 0\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"2\",le=\"0.011\"} 5\n"
    "symphony_request_duration_seconds_bucket{model=\"a\",version=\"2\",le=\"+Inf\"} 10\n"
    "symphony_request_duration_seconds_sum{model=\"a\",version=\"2\"} 60\n"
    "symphony_request_duration_seconds_count{model=\"a\",version=\"2\"} 10\n";

static bool metrics_read(struct server_figures *f, const char *text, uint32_t count) {
    bool latency = server_figures_latency(f, text, names, count);
    return server_figures_in_time(f, text, names, count) || latency;
}

TEST(what_a_load_added) {
    struct server_figures before[2] = {0}, after[2] = {0}, all = {0};
    struct server_quantile q;
    assert_true(metrics_read(before, before_text, 2));
    assert_true(metrics_read(after, after_text, 2));
    assert_true(server_figures_subtract(&after[0], &before[0]));
    assert_true(after[0].answered == 100 && after[0].tells_in_time && after[0].in_time == 99);
    NEAR(after[0].sum_s, 60.95);
    assert_int_equal(after[0].buckets_count, 3); /* 50 in 5 to 6 ms, 45 in 10 to 11, 5 over */
    assert_true(server_figures_quantile(&after[0], 0.25, &q));
    NEAR(q.low_s, 0.005);
    NEAR(q.high_s, 0.006);
    NEAR(q.at_s, 0.0055);
    assert_true(server_figures_quantile(&after[0], 0.95, &q));
    NEAR(q.at_s, 0.011);
    assert_true(server_figures_quantile(&after[0], 0.99, &q));
    assert_true(isinf(q.high_s));
    NEAR(q.at_s, 0.011);
    server_figures_add(&all, &after[0]);
    server_figures_add(&all, &after[0]);
    assert_true(all.answered == 200 && all.in_time == 198 && all.tells_in_time && all.buckets_count == 3);
    server_figures_add(&all, &after[1]); /* of which nothing is known */
    assert_true(all.tells_in_time);
    after[1].answered = 1; /* but not whether in time */
    server_figures_add(&all, &after[1]);
    assert_false(all.tells_in_time);
    assert_false(server_figures_quantile(&after[1], 0.5, &q));
    for (int i = 0; i < 2; i++) {
        server_figures_clear(&before[i]);
        server_figures_clear(&after[i]);
    }
    server_figures_clear(&all);
}

TEST(a_server_started_anew_tells_nothing) {
    struct server_figures before = {0}, after = {0};
    assert_true(metrics_read(&before, after_text, 1));
    assert_true(metrics_read(&after, before_text, 1));
    assert_false(server_figures_subtract(&after, &before));
    assert_true(after.answered == 0 && after.buckets_count == 0);
    server_figures_clear(&before);
}

TEST(triton_tells_means) {
    struct server_figures f[2] = {0};
    static const char text[] = "nv_inference_request_success{model=\"b\",version=\"1\"} 40\n"
                               "nv_inference_request_failure{model=\"b\",version=\"1\"} 7\n"
                               "nv_inference_request_duration_us{model=\"b\",version=\"1\"} 2e6\n";
    assert_true(metrics_read(f, text, 2));
    assert_true(f[0].answered == 0 && f[1].answered == 40 && !f[1].tells_in_time && f[1].buckets_count == 0);
    NEAR(f[1].sum_s, 2);
    memset(f, 0, sizeof(f));
    static const char json[] =
        "{\"model_stats\": [{\"name\": \"x\", \"inference_stats\": {\"success\": {\"count\": 1}}},"
        "{\"name\": \"b\", \"inference_stats\": {\"success\": {\"count\": 4, \"ns\": 8000000}}},"
        "{\"name\": \"a\"}, 7, {\"inference_stats\": []}]}";
    assert_true(server_figures_stats(f, json, sizeof(json) - 1, names, 2));
    assert_true(f[0].answered == 0 && f[1].answered == 4);
    NEAR(f[1].sum_s, 0.008);
}

TEST(batches_are_of_all_accelerators) {
    struct server_figures f[2] = {0};
    static const char text[] = "# TYPE symphony_batch_size histogram\n"
                               "symphony_batch_size_bucket{model=\"a\",le=\"1\"} 7\n"
                               "symphony_batch_size_sum{model=\"a\",accelerator=\"0\"} 30\n"
                               "symphony_batch_size_sum{accelerator=\"1\", model=\"a\"} 12.5\n"
                               "symphony_batch_size_count{model=\"a\",accelerator=\"0\"} 10\n"
                               "symphony_batch_size_count{model=\"a\",accelerator=\"1\"} 4\n"
                               "symphony_batch_size_sum{model=\"ab\"} 1000\n"
                               "symphony_batch_size_sum{other_model=\"a\"} 1000\n"
                               "symphony_batch_size_sum 1000\n"
                               "nv_inference_count{model=\"a\",version=\"1\"} 999\n"
                               "symphony_batch_size_sum{model=\"b\"} 1e3\n"
                               "symphony_batch_size_count{model=\"b\"} 100";
    assert_true(server_figures_batches(f, text, names, 2));
    assert_true(f[0].items == 42.5 && f[0].batches == 14);
    assert_true(f[1].items == 1000 && f[1].batches == 100);
}

TEST(triton_counts_batches_by_version) {
    struct server_figures f[2] = {0}, all = {0};
    static const char text[] = "# HELP nv_inference_count Number of inferences performed (does not include cached)\n"
                               "nv_inference_count{model=\"a\",version=\"1\"} 64\n"
                               "nv_inference_count{model=\"a\",version=\"2\"} 36\n"
                               "nv_inference_exec_count{model=\"a\",version=\"1\"} 20\n"
                               "nv_inference_exec_count{model=\"a\",version=\"2\"} 5\n";
    assert_true(server_figures_batches(f, text, names, 2));
    assert_true(f[0].items == 100 && f[0].batches == 25);
    assert_true(f[1].items == 0 && f[1].batches == 0);
    f[1].items = f[1].batches = 5;
    assert_true(server_figures_subtract(&f[0], &f[1]));
    server_figures_add(&all, &f[0]);
    server_figures_add(&all, &f[0]);
    assert_true(all.items == 190 && all.batches == 40);
}

TEST(other_texts_tell_nothing) {
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "<html>",
                                        "{}",
                                        "[]",
                                        "symphony_request_duration_seconds_bucket{model=\"a\"} 3\n",
                                        "symphony_request_duration_seconds_count{model=\"a\"}\n",
                                        "symphony_request_duration_seconds_count{model=\"a",
                                        "symphony_request_duration_seconds_count{model=\"other\"} 5\n",
                                        "symphony_requests_in_time_total 3\n",
                                        "nv_inference_count",
                                        "nv_inference_count{",
                                        "nv_inference_count{}",
                                        "nv_inference_count{model=\"a",
                                        "nv_inference_count{model} 1\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct server_figures f[2] = {0};
        assert_false(metrics_read(f, texts[i], 2));
        assert_false(server_figures_batches(f, texts[i], names, 2));
        assert_false(server_figures_stats(f, texts[i], strlen(texts[i]), names, 2));
        assert_true(f[0].answered == 0 && f[0].buckets_count == 0 && f[1].answered == 0 && f[0].items == 0);
    }
}

TEST(a_histogram_by_any_label) {
    static const char text[] = "gap_bucket{protocol=\"http\",frontend=\"0\",le=\"0.001\"} 3\n"
                               "gap_bucket{protocol=\"http\",frontend=\"0\",le=\"+Inf\"} 3\n"
                               "gap_count{protocol=\"http\",frontend=\"0\"} 3\n"
                               "gap_bucket{protocol=\"http\",frontend=\"1\",le=\"0.001\"} 4\n"
                               "gap_bucket{protocol=\"http\",frontend=\"1\",le=\"0.002\"} 5\n"
                               "gap_bucket{protocol=\"http\",frontend=\"1\",le=\"+Inf\"} 5\n"
                               "gap_count{protocol=\"http\",frontend=\"1\"} 5\n"
                               "gap_bucket{protocol=\"grpc\",frontend=\"0\",le=\"0.001\"} 100\n"
                               "gap_count{protocol=\"grpc\",frontend=\"0\"} 100\n";
    struct server_figures f = {0};
    assert_true(server_figures_histogram(&f, text, "gap", "protocol", "http"));
    assert_true(f.answered == 8 && f.buckets_count == 2 && f.buckets[0].count == 7 && f.buckets[1].count == 1);
    server_figures_clear(&f);
    assert_false(server_figures_histogram(&f, text, "other", "protocol", "http"));
}
