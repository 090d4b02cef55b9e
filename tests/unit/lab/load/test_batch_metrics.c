/* test_batch_metrics.c - batch sizes out of Prometheus text. */
#include "unit/cmocka_all.h"

#include "lab/load/batch_metrics.h"

static const char *const names[] = {"a", "text-detection"};

static void symphony_histogram(void **state) {
    (void)state;
    struct batch_count counts[2];
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
                               "symphony_batch_size_sum{model=\"text-detection\"} 1e3\n"
                               "symphony_batch_size_count{model=\"text-detection\"} 100";
    assert_int_equal(batch_metrics_read(text, names, 2, counts), 6);
    assert_true(counts[0].items == 42.5 && counts[0].batches == 14);
    assert_true(counts[1].items == 1000 && counts[1].batches == 100);
}

static void triton_counters(void **state) {
    (void)state;
    struct batch_count counts[2];
    static const char text[] = "# HELP nv_inference_count Number of inferences performed (does not include cached)\n"
                               "nv_inference_count{model=\"a\",version=\"1\"} 64\n"
                               "nv_inference_count{model=\"a\",version=\"2\"} 36\n"
                               "nv_inference_exec_count{model=\"a\",version=\"1\"} 20\n"
                               "nv_inference_exec_count{model=\"a\",version=\"2\"} 5\n";
    assert_int_equal(batch_metrics_read(text, names, 2, counts), 4);
    assert_true(counts[0].items == 100 && counts[0].batches == 25);
    assert_true(counts[1].items == 0 && counts[1].batches == 0);
}

static void other_texts_give_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "nv_inference_count",
                                        "nv_inference_count{",
                                        "nv_inference_count{}",
                                        "nv_inference_count{model=\"a",
                                        "<html>not metrics</html>",
                                        "nv_inference_count{model} 1\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct batch_count counts[2] = {{5, 5}, {5, 5}};
        assert_int_equal(batch_metrics_read(texts[i], names, 2, counts), 0);
        assert_true(counts[0].items == 0 && counts[1].batches == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symphony_histogram),
        cmocka_unit_test(triton_counters),
        cmocka_unit_test(other_texts_give_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
