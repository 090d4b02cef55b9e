/* test_trace_put.c - events of the Trace Event Format. */
#include "front/v2/trace_put.h"

#include "unit/test.h"

TEST(events_are_lines_of_json) {
    struct text out = {0};
    struct trace_put t;
    const struct trace_batch ran = {.model = "m\"", .items = 3, .start_ns = 1234567, .took_ns = 5000000};
    const struct trace_batch failed = {
        .model = "m", .items = 1, .start_ns = 0, .took_ns = 1, .predicted_ns = 2500000, .end = "failed"};
    trace_begin(&t, &out);
    trace_name_group(&t, 1, "cpu");
    trace_name_row(&t, 1, 7, "cpu 7");
    trace_batch(&t, 1, 7, &ran);
    trace_batch(&t, 1, 7, &failed);
    trace_load(&t, 1, 9, "m", true, 1000, 2000);
    trace_load(&t, 1, 9, "m", false, 3000, 0);
    trace_idle(&t, 1, 7, "nothing queued", 4000, 1);
    trace_refused(&t, 1000, 0, 5000, 42, "queue full");
    trace_end(&t, 1234567);
    assert_string_equal(
        text_end(&out),
        "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"cpu\"}},\n"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":7,\"args\":{\"name\":\"cpu 7\"}},\n"
        "{\"ph\":\"X\",\"name\":\"m\\\" (3)\",\"cat\":\"batch\",\"pid\":1,\"tid\":7,\"ts\":1234.567,\"dur\":5000.000,"
        "\"args\":{\"model\":\"m\\\"\",\"size\":3}},\n"
        "{\"ph\":\"X\",\"name\":\"m (1)\",\"cat\":\"batch\",\"pid\":1,\"tid\":7,\"ts\":0.000,\"dur\":0.001,"
        "\"args\":{\"model\":\"m\",\"size\":1,\"predicted_ms\":2.500,\"end\":\"failed\"}},\n"
        "{\"ph\":\"X\",\"name\":\"load m\",\"cat\":\"load\",\"pid\":1,\"tid\":9,\"ts\":1.000,\"dur\":2.000,"
        "\"args\":{\"model\":\"m\"}},\n"
        "{\"ph\":\"i\",\"name\":\"unload m\",\"cat\":\"load\",\"pid\":1,\"tid\":9,\"ts\":3.000,\"dur\":0.000,"
        "\"args\":{\"model\":\"m\"}},\n"
        "{\"ph\":\"X\",\"name\":\"nothing queued\",\"cat\":\"idle\",\"pid\":1,\"tid\":7,\"ts\":4.000,\"dur\":0.001},\n"
        "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"dropped\",\"cat\":\"drop\",\"pid\":1000,\"tid\":0,\"ts\":5.000,"
        "\"args\":{\"request\":42,\"reason\":\"queue full\"}}\n],\"otherData\":{\"zero_us\":1234.567}}\n");
    text_free(&out);
}
