/* fuzz_recording.c - a server's recording from anywhere: what is read lies in the text, and a copy of the trace with
 * other SLOs has as many lines. */
/* runs: 125000 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/assert.h"
#include "lab/report/recording_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t lines_of(const char *text, size_t bytes) {
    size_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct recording_slo slos[] = {{NULL, 10}, {"a", 20}};
    struct recording_file f;
    struct sy_error err;
    char *text = malloc(size ? size : 1);
    CHECK(text);
    memcpy(text, data, size);
    if (recording_file_read(text, size, &f, &err) == 0) {
        struct text copy = {0};
        CHECK(f.scenario >= text && f.scenario + f.scenario_bytes <= f.trace);
        CHECK(f.trace + f.trace_bytes == text + size);
        recording_trace_copy(&f, slos, 2, size % 2, &copy);
        bool ended = f.trace_bytes == 0 || f.trace[f.trace_bytes - 1] == '\n';
        CHECK_EQ(lines_of(copy.data, copy.length), lines_of(f.trace, f.trace_bytes) + !ended);
        text_free(&copy);
        recording_scenario_copy(&f, true, &copy);
        CHECK_LE(copy.length, f.scenario_bytes);
        text_free(&copy);
        recording_file_free(&f);
    }
    free(text);
    return 0;
}
