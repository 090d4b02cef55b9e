/* test_trace.c - recorded arrivals: each format, by hand, and files that nobody should have written. */
#include "lab/scenario/trace.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "core/data/messages.h"
#include "core/util/container.h"
#include "core/util/lines.h"
#include "core/util/time.h"
#include "unit/test.h"
#include "unit/text_file.h"

static const struct trace_model models[] = {{"a", 0.25, 0}, {"m-1", 0.5, 3}, {"m-2", 0.25, 0}, {"m-3", 0, 0}};
#define MODELS 4

static int read_spec(struct trace_spec spec, const char *text, size_t bytes, double run_s, struct trace *trace,
                     struct sy_error *err) {
    text_file(spec.path, text, bytes);
    spec.scale = spec.scale ? spec.scale : 1;
    spec.job_s = spec.job_s ? spec.job_s : 60;
    int rc = trace_read(&spec, models, MODELS, run_s, 7, trace, err);
    unlink(spec.path);
    return rc;
}

static void read_well(struct trace_spec spec, const char *text, double run_s, struct trace *trace) {
    struct sy_error err = {""};
    if (read_spec(spec, text, strlen(text), run_s, trace, &err))
        fail_msg("%s", err.text);
}

/* The model's rate as the cursor finds it from 0 on, every change of it: "at:rate at:rate ...". */
static const char *rates(const struct trace *trace, uint32_t model) {
    static char text[256];
    struct trace_cursor cursor = trace_cursor_at_start(trace, model);
    size_t length = 0;
    for (double at_s = 0, until_s; at_s < 1e17; at_s = until_s) {
        double rate = trace_rate(trace, &cursor, at_s, &until_s);
        assert_true(until_s > at_s);
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%g:%g", length ? " " : "", at_s, rate);
    }
    return text;
}

static const char *arrivals(const struct trace *trace, uint32_t model) {
    static char text[256];
    struct trace_cursor cursor = trace_cursor_at_start(trace, model);
    size_t length = 0;
    text[0] = '\0';
    for (double at_s; trace_arrival(trace, &cursor, &at_s);)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%g", length ? " " : "", at_s);
    return text;
}

#define AZURE_HEADER "HashOwner,HashApp,HashFunction,Trigger,1,2,3\n"

TEST(azure_functions_go_round_the_models) {
    static const char text[] = AZURE_HEADER "o,p,f1,http,60,0,120\n"
                                            "o,p,f2,timer,0,0,6\n"
                                            "o,p,f3,queue,0,0,0\n"
                                            "o,p,f4,http,0,30,0\n"
                                            "o,p,f5,http,0,60,60\r\n";
    struct trace trace;
    read_well((struct trace_spec){.scale = 1}, text, 180, &trace);
    assert_string_equal(rates(&trace, 0), "0:1 60:1 120:3 180:0"); /* f1 and f5 */
    assert_string_equal(rates(&trace, 1), "0:0 120:0.1 180:0");
    assert_string_equal(rates(&trace, 2), "0:0");
    assert_string_equal(rates(&trace, 3), "0:0 60:0.5 120:0");
    assert_true(fabs(trace.model_rps[0] - 300 / 180.) < 1e-9 && fabs(trace.model_rps[3] - 30 / 180.) < 1e-9);
    assert_true(fabs(trace.mean_rps - 336 / 180.) < 1e-9);
    assert_true(trace_slo_ns(&trace, &(struct trace_cursor){.from = 0, .to = 1}, 0.5) == 0);
    trace_free(&trace);
    read_well((struct trace_spec){.by_rows = true, .start_s = 90}, text, 60, &trace);
    assert_string_equal(rates(&trace, 0), "0:0 30:2 90:0"); /* f1 alone, from the middle of its second minute */
    assert_true(trace.model_rps[0] == 1);                   /* half of a minute of 2/s */
    assert_string_equal(rates(&trace, 3), "0:0.5 30:0");    /* f4; f5 is nobody's */
    trace_free(&trace);
}

TEST(timestamps_are_arrivals) {
    struct trace trace;
    read_well((struct trace_spec){.scale = 1}, "seconds,model\n0.5,a\n# pause\n3,m-2\n1.25 , a\n9,a\n", 4, &trace);
    assert_null(trace.rate_sum);
    assert_string_equal(arrivals(&trace, 0), "0.5 1.25 9");
    assert_string_equal(arrivals(&trace, 2), "3");
    assert_string_equal(arrivals(&trace, 1), "");
    assert_true(trace.mean_rps == 0.75 && trace.model_rps[0] == 0.5);
    trace_free(&trace);
    read_well((struct trace_spec){.start_s = 1}, "0.5,m\n1,m\n2,m\n3,m\n4,m-1\n5,m\n", 10, &trace);
    assert_string_equal(arrivals(&trace, 1), "2 3"); /* copies take turns: m-1 had 0.5, left out, and 3 */
    assert_string_equal(arrivals(&trace, 2), "0 4"); /* 1 and 5 */
    assert_string_equal(arrivals(&trace, 3), "1");
    trace_free(&trace);
}

TEST(lines_may_say_more_of_their_request) {
    static const char text[] = "seconds,model,items,slo_ms,priority\n"
                               "1,m-1,4,12.5,2\n"
                               "2,m-1,,,best_effort\n"
                               "3,m-1,1024\n"
                               "4,m-1,,3600000\n"
                               "5,m-1\n"
                               "1,a\n"
                               "1,a,,,0\n"
                               "1,a,2\n";
    static const struct trace_request wanted[] = {{12500, 4, 2},
                                                  {0, 0, PRIORITY_BEST_EFFORT},
                                                  {0, 1024, TRACE_PRIORITY_ANY},
                                                  {3600000000, 0, TRACE_PRIORITY_ANY},
                                                  {0, 0, TRACE_PRIORITY_ANY}},
                                      wanted_a[] = {{0, 0, 0}, {0, 0, TRACE_PRIORITY_ANY}, {0, 2, TRACE_PRIORITY_ANY}};
    struct trace trace;
    double at_s;
    read_well((struct trace_spec){.scale = 1}, text, 10, &trace);
    struct trace_cursor cursor = trace_cursor_at_start(&trace, 1);
    for (uint32_t i = 0; i < ARRAY_COUNT(wanted); i++) {
        struct trace_request got;
        assert_true(trace_arrival(&trace, &cursor, &at_s));
        got = trace_request_taken(&trace, &cursor);
        assert_int_equal(got.slo_us, wanted[i].slo_us);
        assert_int_equal(got.items, wanted[i].items);
        assert_int_equal(got.priority, wanted[i].priority);
    }
    cursor = trace_cursor_at_start(&trace, 0);
    for (uint32_t i = 0; i < ARRAY_COUNT(wanted_a); i++) { /* equal times: an order that does not depend on the sort */
        assert_true(trace_arrival(&trace, &cursor, &at_s));
        assert_int_equal(trace_request_taken(&trace, &cursor).items, wanted_a[i].items);
        assert_int_equal(trace_request_taken(&trace, &cursor).priority, wanted_a[i].priority);
    }
    trace_free(&trace);
    read_well((struct trace_spec){.scale = 1}, "seconds,model,items\n1,a\n", 10, &trace);
    assert_null(trace.requests); /* no line says anything */
    cursor = trace_cursor_at_start(&trace, 0);
    assert_true(trace_arrival(&trace, &cursor, &at_s));
    assert_int_equal(trace_request_taken(&trace, &cursor).priority, TRACE_PRIORITY_ANY);
    trace_free(&trace);
}

TEST(nameless_arrivals_follow_the_shares_and_the_seed) {
    static char text[1 << 18];
    size_t length = 0;
    for (int i = 0; i < 20000; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%g\n", i * 0.001);
    struct trace trace, again;
    read_well((struct trace_spec){.scale = 1}, text, 20, &trace);
    assert_in_range(trace.first[1], 4750, 5250);
    assert_in_range(trace.first[2] - trace.first[1], 9700, 10300);
    assert_int_equal(trace.first[4] - trace.first[3], 0);
    read_well((struct trace_spec){.scale = 1}, text, 20, &again);
    assert_memory_equal(trace.at_s, again.at_s, 20000 * sizeof(double));
    trace_free(&trace);
    trace_free(&again);
}

TEST(blox_jobs_offer_their_rate_for_a_while) {
    struct trace trace;
    double until_s;
    read_well((struct trace_spec){.job_s = 100},
              "job_id,model,slo,rate,arrival\n"
              "1,a,50,10,0\n"
              "3,a,200,30,20\n"
              "2,a,100,20,10\n"
              "4,m-3,75.5,0,5\n",
              200, &trace);
    assert_string_equal(rates(&trace, 0), "0:10 10:30 20:60 100:50 110:30 120:0");
    assert_string_equal(rates(&trace, 3), "0:0");
    assert_true(trace.mean_rps == 30);
    struct trace_cursor cursor = trace_cursor_at_start(&trace, 0);
    trace_rate(&trace, &cursor, 50, &until_s); /* a sixth of the requests is job 1's, a third job 2's */
    assert_int_equal(trace_slo_ns(&trace, &cursor, 0), 50 * NS_PER_MS);
    assert_int_equal(trace_slo_ns(&trace, &cursor, 0.16), 50 * NS_PER_MS);
    assert_int_equal(trace_slo_ns(&trace, &cursor, 0.17), 100 * NS_PER_MS);
    assert_int_equal(trace_slo_ns(&trace, &cursor, 0.51), 200 * NS_PER_MS);
    assert_int_equal(trace_slo_ns(&trace, &cursor, 0.999999), 200 * NS_PER_MS);
    trace_rate(&trace, &cursor, 105, &until_s); /* job 1 is over */
    assert_int_equal(trace_slo_ns(&trace, &cursor, 0), 100 * NS_PER_MS);
    trace_free(&trace);
}

TEST(mistakes_name_file_and_line) {
    static const struct {
        enum trace_format format;
        const char *text, *want;
    } cases[] = {
        {TRACE_DETECT, "", ": the trace is empty"},
        {TRACE_DETECT, "# nothing\n\n", ": the trace is empty"},
        {TRACE_DETECT, "a,b,c\n",
         ":1: expected 'HashOwner,...' (Azure Functions), 'seconds[,model,...]' or 'job_id,model,slo,rate,arrival'"},
        {TRACE_DETECT, "1\n-2\n",
         ":2: expected 'seconds[,model[,items[,slo_ms[,priority]]]]', the seconds from 0 to 1e+09"},
        {TRACE_DETECT, "1\nnan\n", ":2: expected 'seconds["},
        {TRACE_DETECT, "1\n1e99\n", ":2: expected 'seconds["},
        {TRACE_DETECT, "{trace}\n", ":1: expected 'seconds["},
        {TRACE_DETECT, "1\n2,a,0\n", ":2: expected 'seconds,model,items,slo_ms,priority', the items from 1 to 1024"},
        {TRACE_DETECT, "1\n2,a,1.5\n", ":2: expected 'seconds,model,items"},
        {TRACE_DETECT, "1\n2,a,1025\n", ":2: expected 'seconds,model,items"},
        {TRACE_DETECT, "1\n2,a,1,2,0,7\n", ":2: expected 'seconds,model,items"},
        {TRACE_DETECT, "1\n2,a,,x\n", ":2: expected an SLO of 0.001 to 3.6e+06 ms, not 'x'"},
        {TRACE_DETECT, "1\n2,a,,0\n", ":2: expected an SLO of 0.001"},
        {TRACE_DETECT, "1\n2,a,,,1\n", ":2: expected best_effort or a priority of the model, 0 to 0, not '1'"},
        {TRACE_DETECT, "1\n2,m-1,,,3\n", ":2: expected best_effort or a priority of the model, 0 to 2, not '3'"},
        {TRACE_DETECT, "1\n2,m-1,,,0.5\n", ":2: expected best_effort or a priority"},
        {TRACE_DETECT, "1,b\n", ":1: the scenario has no model 'b'"},
        {TRACE_DETECT, "1,m-4\n", ":1: the scenario has no model 'm-4'"},
        {TRACE_DETECT, "99\n", ": no requests in the 60 s of the run"},
        {TRACE_DETECT, "1,a,50,10\n", ":1: expected 'HashOwner,...'"},
        {TRACE_BLOX, "1,a,50,10\n",
         ":1: expected 'job_id,model,slo,rate,arrival': milliseconds, requests per second and seconds"},
        {TRACE_DETECT, "1,a,0,10,0\n", ":1: expected 'job_id,model"},
        {TRACE_DETECT, "1,a,50,-1,0\n", ":1: expected 'job_id,model"},
        {TRACE_DETECT, "1,a,50,1,x\n", ":1: expected 'job_id,model"},
        {TRACE_DETECT, "1,,50,1,0\n", ":1: expected 'job_id,model"},
        {TRACE_DETECT, "1,a,50,0,0\n", ": no requests in the 60 s of the run"},
        {TRACE_DETECT, "HashOwner,HashApp,HashFunction,Trigger\n",
         ":1: expected HashOwner,HashApp,HashFunction,Trigger,1,2,..."},
        {TRACE_DETECT, "HashOwner,HashApp,HashFunction,Trigger,1,3\n",
         ":1: expected the minute 2 in the header, not '3'"},
        {TRACE_DETECT, AZURE_HEADER "o,p,f,http,1,2\n", ":2: expected 4 names and the calls of 3 minutes"},
        {TRACE_DETECT, AZURE_HEADER "o,p,f,http,1,2,3,4\n", ":2: expected 4 names and the calls of 3 minutes"},
        {TRACE_DETECT, AZURE_HEADER "o,p,f\n", ":2: expected 4 names and the calls of 3 minutes"},
        {TRACE_DETECT, AZURE_HEADER "o,p,f,http,1,,3\n", ":2: expected a number of calls in minute 2"},
        {TRACE_DETECT, AZURE_HEADER "o,p,f,http,1,-2,3\n", ":2: expected a number of calls in minute 2"},
        {TRACE_DETECT, AZURE_HEADER "o,p,f,http,1,2,99999999999999999999\n",
         ":2: expected a number of calls in minute 3"},
        {TRACE_DETECT, AZURE_HEADER "o,p,f,http,0,0,9\n", ": no requests in the 60 s of the run"},
        {TRACE_AZURE, "1,a\n", ":1: expected HashOwner,HashApp,HashFunction,Trigger,1,2,..."},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct trace trace;
        struct sy_error err = {""};
        struct trace_spec spec = {.format = cases[i].format};
        int rc = read_spec(spec, cases[i].text, strlen(cases[i].text), 60, &trace, &err);
        if (rc != -EINVAL || strncmp(err.text + strlen(TEXT_FILE), cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("%s: %d %s", cases[i].text, rc, err.text);
        assert_null(trace.at_s);
    }
}

TEST(limits_hold) {
    static char text[1 << 18];
    struct trace trace;
    struct sy_error err = {""};
    size_t length = (size_t)snprintf(text, sizeof(text), "HashOwner,,,");
    for (int minute = 1; minute < 20000; minute++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, ",%d", minute);
    assert_int_equal(read_spec((struct trace_spec){.scale = 1}, text, length, 60, &trace, &err), -EINVAL);
    assert_non_null(strstr(err.text, ":1: a line of more than 65535 characters"));
    assert_int_equal(read_spec((struct trace_spec){.scale = 1}, "1\n2\0,a\n", 7, 60, &trace, &err), -EINVAL);
    assert_non_null(strstr(err.text, ":2: a zero byte"));
    struct trace_spec missing = {.path = "/nonexistent/trace"};
    assert_int_equal(trace_read(&missing, models, MODELS, 60, 1, &trace, &err), -ENOENT);
    assert_string_equal(err.text, "/nonexistent/trace: No such file or directory");
}
