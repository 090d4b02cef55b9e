/* trail_headers.c - the times and the reason of a trail as text. */
#include "front/request/trail_headers.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/data/reason.h"
#include "core/util/assert.h"

struct headers {
    struct trail_header *rows;
    uint32_t count;
};

static void __attribute__((format(printf, 3, 4))) put(struct headers *h, const char *name, const char *fmt, ...) {
    CHECK_LT(h->count, TRAIL_HEADERS_MAX);
    struct trail_header *row = &h->rows[h->count++];
    va_list ap;
    row->name = name;
    va_start(ap, fmt);
    vsnprintf(row->value, sizeof(row->value), fmt, ap);
    va_end(ap);
    for (char *c = row->value; *c; c++) /* a model's name may have letters that no header can have */
        if (*c < ' ' || *c > '~')
            *c = '?';
}

uint32_t trail_headers(const struct trail *t, const char *before, struct trail_header rows[TRAIL_HEADERS_MAX]) {
    struct reason reason = reason_of(t);
    struct headers h = {.rows = rows};
    char words[TRAIL_HEADER_BYTES];

    put(&h, "x-symphony-state", "%s", trail_state_name(t->state));
    put(&h, "x-symphony-took-ms", "%.3f", t->took_us / 1e3);
    put(&h, "x-symphony-request-ms", "%.3f", t->body_us / 1e3);
    put(&h, "x-symphony-ahead", "%u", (unsigned)t->ahead);
    if (t->prepared_us > 0)
        put(&h, "x-symphony-prepare-ms", "%.3f", reason.prepare_ms);
    if (t->start_us > 0) {
        put(&h, "x-symphony-company-ms", "%.3f", reason.company_ms);
        put(&h, "x-symphony-accelerator-ms", "%.3f", reason.accelerator_ms);
        put(&h, "x-symphony-accelerator", "%u", (unsigned)t->past.accelerator);
    }
    if (t->run_us > 0) {
        put(&h, "x-symphony-run-ms", "%.3f", t->run_us / 1e3);
        put(&h, "x-symphony-predicted-ms", "%.3f", t->past.predicted_us / 1e3);
        put(&h, "x-symphony-batch", "%u", (unsigned)t->batch_items);
    }
    if (reason.kind == REASON_NONE)
        return h.count;
    reason_words(&reason, before, words, sizeof(words));
    put(&h, "x-symphony-reason", "%s", reason_name(reason.kind));
    put(&h, "x-symphony-why", "%s", words);
    return h.count;
}
