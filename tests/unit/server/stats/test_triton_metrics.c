/* test_triton_metrics.c - models' statistics under Triton's names: which metric shows which number, and in what unit.
 */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "server/stats/triton_metrics.h"

/* What stands behind a row's name and labels; fails if it is not there once. */
static unsigned long long value(const char *page, const char *row) {
    const char *at = strstr(page, row);
    if (!at || at[strlen(row)] != ' ' || strstr(at + 1, row))
        fail_msg("no single row %s in\n%s", row, page);
    return strtoull(at + strlen(row), NULL, 10);
}

TEST(each_number_has_its_name) {
    static const struct {
        const char *row;
        unsigned long long value;
    } rows[] = {
        {"nv_inference_request_success{model=\"b\",version=\"3\"}", 10},
        {"nv_inference_count{model=\"b\",version=\"3\"}", 40},
        {"nv_inference_exec_count{model=\"b\",version=\"3\"}", 4},
        {"nv_inference_request_duration_us{model=\"b\",version=\"3\"}", 9},
        {"nv_inference_queue_duration_us{model=\"b\",version=\"3\"}", 1},
        {"nv_inference_compute_input_duration_us{model=\"b\",version=\"3\"}", 0},
        {"nv_inference_compute_infer_duration_us{model=\"b\",version=\"3\"}", 5}, /* 5.999 */
        {"nv_inference_compute_output_duration_us{model=\"b\",version=\"3\"}", 2},
        {"nv_inference_request_failure{model=\"b\",version=\"3\",reason=\"REJECTED\"}", 3},
        {"nv_inference_request_failure{model=\"b\",version=\"3\",reason=\"CANCELED\"}", 1},
        {"nv_inference_request_failure{model=\"b\",version=\"3\",reason=\"BACKEND\"}", 2},
        {"nv_inference_pending_request_count{model=\"b\",version=\"3\"}", 7},
    };
    const struct model_statistics statistics = {.answered = 10,
                                                .refused = 3,
                                                .failed = 2,
                                                .cancelled = 1,
                                                .items = 40,
                                                .batches = 4,
                                                .waiting = 7,
                                                .answered_ns = 9000,
                                                .queue_ns = 1000,
                                                .run_ns = 5999,
                                                .reply_ns = 2500};
    const struct shown_model model = {.labels = metric_model_of("b", 3)};
    struct text page = {0};
    triton_metrics_render(&statistics, &model, 1, true, &page);
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++)
        assert_int_equal(value(text_end(&page), rows[i].row), rows[i].value);
    text_free(&page);
    triton_metrics_render(&statistics, &model, 1, false, &page); /* of a frontend, without a scheduler */
    assert_int_equal(value(text_end(&page), rows[0].row), rows[0].value);
    assert_null(strstr(text_end(&page), "nv_inference_exec_count"));
    assert_null(strstr(text_end(&page), "nv_inference_pending_request_count"));
    text_free(&page);
}
