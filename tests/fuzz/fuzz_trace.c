/* fuzz_trace.c - recorded arrivals from anywhere. What is read must be in order, and a cursor must come to its end. */
/* runs: 50000 */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/data/messages.h"
#include "core/util/assert.h"
#include "lab/scenario/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void model_check(const struct trace *trace, uint32_t model) {
    struct trace_cursor cursor = trace_cursor_at_start(trace, model);
    double at_s = 0, until_s;
    for (uint64_t i = trace->first[model] + 1; i < trace->first[model + 1]; i++)
        CHECK(trace->at_s[i] >= trace->at_s[i - 1]);
    while (!trace->rate_sum && trace_arrival(trace, &cursor, &at_s)) {
        struct trace_request request = trace_request_taken(trace, &cursor);
        CHECK(at_s >= 0);
        CHECK_LE(request.items, 1024);
        CHECK(request.priority <= (model == 1) || request.priority == TRACE_PRIORITY_ANY ||
              request.priority == PRIORITY_BEST_EFFORT);
    }
    for (; trace->rate_sum && at_s < 1e17; at_s = until_s) {
        CHECK(trace_rate(trace, &cursor, at_s, &until_s) >= -1e-3);
        CHECK(until_s > at_s);
        if (cursor.from < cursor.to)
            CHECK(trace_slo_ns(trace, &cursor, 0.999) >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct trace_model models[] = {{"a", 0.5, 0}, {"m-1", 0.25, 2}, {"m-2", 0.25, 0}};
    struct trace_spec spec = {.scale = 1, .job_s = 60};
    struct trace trace;
    struct sy_error err;
    int fd = memfd_create("trace", 0);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(spec.path, sizeof(spec.path), "/proc/self/fd/%d", fd);
    if (trace_read(&spec, models, 3, 100, 1, &trace, &err) == 0) {
        CHECK(trace.mean_rps > 0);
        for (uint32_t m = 0; m < 3; m++)
            model_check(&trace, m);
        trace_free(&trace);
    }
    close(fd);
    return 0;
}
