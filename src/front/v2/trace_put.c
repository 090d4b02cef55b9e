/* trace_put.c - writes events of the Trace Event Format, each an object on a line of its own. */
#include "front/v2/trace_put.h"

#include "core/util/time.h"
#include "front/v2/json_put.h"

static void event_begin(struct trace_put *t) {
    text_put(t->out, t->wrote ? ",\n" : "\n");
    t->wrote = true;
}

/* Microseconds with three digits: the nanoseconds, exactly. */
#define US_FORMAT "%lld.%03lld"
#define US_OF(ns) (long long)((ns) / NS_PER_US), (long long)((ns) % NS_PER_US)

void trace_begin(struct trace_put *t, struct text *out) {
    *t = (struct trace_put){.out = out};
    text_put(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
}

void trace_end(struct trace_put *t, int64_t zero_ns) {
    text_put(t->out, "\n]");
    if (zero_ns != TIME_NEVER)
        text_printf(t->out, ",\"otherData\":{\"zero_us\":" US_FORMAT "}", US_OF(zero_ns));
    text_put(t->out, "}\n");
}

static void name_put(struct trace_put *t, const char *kind, uint32_t group, uint32_t row, const char *name) {
    event_begin(t);
    text_printf(t->out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", kind,
                (unsigned)group, (unsigned)row);
    json_put_string(t->out, name);
    text_put(t->out, "}}");
}

void trace_name_group(struct trace_put *t, uint32_t group, const char *name) {
    name_put(t, "process_name", group, 0, name);
}

void trace_name_row(struct trace_put *t, uint32_t group, uint32_t row, const char *name) {
    name_put(t, "thread_name", group, row, name);
}

/* "NAME": a string that goes into a longer one, so without its quotes. */
static void part_put(struct text *out, const char *name) {
    size_t at = out->length;
    json_put_string(out, name);
    if (out->failed)
        return;
    memmove(out->data + at, out->data + at + 1, out->length - at - 2);
    out->length -= 2;
}

static void place_put(struct trace_put *t, const char *category, uint32_t group, uint32_t row, int64_t start_ns,
                      int64_t took_ns) {
    text_printf(t->out, "\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":" US_FORMAT ",\"dur\":" US_FORMAT, category,
                (unsigned)group, (unsigned)row, US_OF(start_ns), US_OF(took_ns));
}

void trace_batch(struct trace_put *t, uint32_t group, uint32_t row, const struct trace_batch *batch) {
    event_begin(t);
    text_put(t->out, "{\"ph\":\"X\",\"name\":\"");
    part_put(t->out, batch->model);
    text_printf(t->out, " (%u)", (unsigned)batch->items);
    place_put(t, "batch", group, row, batch->start_ns, batch->took_ns);
    text_put(t->out, ",\"args\":{\"model\":");
    json_put_string(t->out, batch->model);
    text_printf(t->out, ",\"size\":%u", (unsigned)batch->items);
    if (batch->predicted_ns > 0)
        text_printf(t->out, ",\"predicted_ms\":%.3f", (double)batch->predicted_ns / NS_PER_MS);
    if (batch->end)
        text_printf(t->out, ",\"end\":\"%s\"", batch->end);
    text_put(t->out, "}}");
}

void trace_load(struct trace_put *t, uint32_t group, uint32_t row, const char *model, bool in, int64_t start_ns,
                int64_t took_ns) {
    event_begin(t);
    text_printf(t->out, "{\"ph\":\"%s\",\"name\":\"%s ", in ? "X" : "i", in ? "load" : "unload");
    part_put(t->out, model);
    place_put(t, "load", group, row, start_ns, took_ns);
    text_put(t->out, ",\"args\":{\"model\":");
    json_put_string(t->out, model);
    text_put(t->out, "}}");
}

void trace_idle(struct trace_put *t, uint32_t group, uint32_t row, const char *why, int64_t start_ns, int64_t took_ns) {
    event_begin(t);
    text_printf(t->out, "{\"ph\":\"X\",\"name\":\"%s", why);
    place_put(t, "idle", group, row, start_ns, took_ns);
    text_put_char(t->out, '}');
}

void trace_refused(struct trace_put *t, uint32_t group, uint32_t row, int64_t at_ns, uint64_t request,
                   const char *reason) {
    event_begin(t);
    text_printf(t->out,
                "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"dropped\",\"cat\":\"drop\",\"pid\":%u,\"tid\":%u,"
                "\"ts\":" US_FORMAT ",\"args\":{\"request\":%llu,\"reason\":\"%s\"}}",
                (unsigned)group, (unsigned)row, US_OF(at_ns), (unsigned long long)request, reason);
}
