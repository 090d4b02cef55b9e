/* otlp_spans.c - writes spans. */
#include "server/process/otlp_spans.h"

#include <inttypes.h>

#include "core/data/reason.h"
#include "core/util/rng.h"
#include "core/util/time.h"
#include "front/v2/json_put.h"

#define KIND_INTERNAL 1
#define KIND_SERVER   2
#define STATUS_ERROR  2

static void hex_put(struct text *out, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        text_printf(out, "%02x", bytes[i]);
}

/* What the spans of one trail have in common. */
struct spans {
    struct text *out;
    const struct trail *trail;
    uint64_t seed; /* number that is this request's alone */
    int64_t wall_ns;
    unsigned count;
    bool first; /* whether the span has no attribute yet */
};

static void attribute_begin(struct spans *s, const char *name) {
    text_printf(s->out, "%s{\"key\":\"%s\",\"value\":{", s->first ? "" : ",", name);
    s->first = false;
}

static void attribute_text(struct spans *s, const char *name, const char *value) {
    attribute_begin(s, name);
    text_put(s->out, "\"stringValue\":");
    json_put_string(s->out, value);
    text_put(s->out, "}}");
}

static void attribute_int(struct spans *s, const char *name, uint64_t value) {
    attribute_begin(s, name);
    text_printf(s->out, "\"intValue\":\"%" PRIu64 "\"}}", value);
}

static void attribute_ms(struct spans *s, const char *name, double value) {
    attribute_begin(s, name);
    text_printf(s->out, "\"doubleValue\":%.3f}}", value);
}

/* Begins a span, up to its attributes. Times in microseconds from the request's arrival. */
static void span_begin(struct spans *s, const char *name, const char *model, unsigned kind, uint32_t from_us,
                       uint32_t to_us) {
    const struct trace_context *trace = &s->trail->trace;
    uint64_t root = rng_mix(s->seed + 2), id = s->count == 0 ? root : rng_mix(s->seed + 2 + s->count);
    text_put(s->out, s->count > 0 ? ",{\"traceId\":\"" : "{\"traceId\":\"");
    if (trace->flags)
        hex_put(s->out, trace->trace, sizeof(trace->trace));
    else
        text_printf(s->out, "%016" PRIx64 "%016" PRIx64, rng_mix(s->seed), rng_mix(s->seed + 1) | 1);
    text_printf(s->out, "\",\"spanId\":\"%016" PRIx64 "\",", id | 1); /* ids of zeros are not allowed */
    if (s->count > 0) {
        text_printf(s->out, "\"parentSpanId\":\"%016" PRIx64 "\",", root | 1);
    } else if (trace->flags) {
        text_put(s->out, "\"parentSpanId\":\"");
        hex_put(s->out, trace->parent, sizeof(trace->parent));
        text_put(s->out, "\",");
    }
    char full[MODEL_NAME_MAX + 32];
    snprintf(full, sizeof(full), "%s%s%s", name, *model ? " " : "", model);
    text_put(s->out, "\"name\":");
    json_put_string(s->out, full);
    long long from_ns = s->wall_ns + from_us * NS_PER_US;
    long long to_ns = s->wall_ns + (to_us > from_us ? to_us : from_us) * NS_PER_US;
    text_printf(s->out, ",\"kind\":%u,\"startTimeUnixNano\":\"%lld\",\"endTimeUnixNano\":\"%lld\",\"attributes\":[",
                kind, from_ns, to_ns);
    s->first = true;
    s->count++;
}

static void span_end(struct spans *s, const char *error) {
    text_put_char(s->out, ']');
    if (error) {
        text_printf(s->out, ",\"status\":{\"code\":%d,\"message\":", STATUS_ERROR);
        json_put_string(s->out, error);
        text_put_char(s->out, '}');
    }
    text_put_char(s->out, '}');
}

unsigned otlp_spans_put(struct text *out, const struct trail *t, const struct trail_names *names, uint64_t salt) {
    struct spans s = {.out = out, .trail = t, .wall_ns = names->wall_ns};
    struct reason reason = reason_of(t);
    char words[256];
    s.seed = rng_mix(salt ^ (uint64_t)t->arrival_ns) + t->took_us;
    for (unsigned i = 0; i < t->id_length; i++) /* requests that came at the same time have other ids */
        s.seed = rng_mix(s.seed ^ (uint8_t)t->id[i]);

    span_begin(&s, "infer", names->model ? names->model : "", KIND_SERVER, 0, t->took_us);
    if (names->model) {
        attribute_text(&s, "symphony.model", names->model);
        attribute_int(&s, "symphony.version", names->version);
    }
    snprintf(words, sizeof(words), "%.*s", (int)t->id_length, t->id);
    attribute_text(&s, "symphony.request_id", words);
    attribute_text(&s, "symphony.state", trail_state_name(t->state));
    attribute_int(&s, "http.response.status_code", t->status);
    attribute_ms(&s, "symphony.deadline_ms", t->allowed_us / 1e3);
    attribute_int(&s, "symphony.ahead", t->ahead);
    *words = '\0';
    if (reason.kind != REASON_NONE) {
        reason_words(&reason, names->before, words, sizeof(words));
        attribute_text(&s, "symphony.reason", reason_name(reason.kind));
        attribute_text(&s, "symphony.why", words);
    }
    bool bad = t->state == TRAIL_REFUSED || t->state == TRAIL_FAILED;
    span_end(&s, bad ? words : NULL);

    span_begin(&s, "receive", "", KIND_INTERNAL, 0, t->body_us);
    span_end(&s, NULL);
    uint32_t queued_us = t->start_us > 0 ? t->start_us : t->took_us;
    span_begin(&s, "queue", "", KIND_INTERNAL, t->body_us, queued_us);
    if (t->prepared_us > 0)
        attribute_ms(&s, "symphony.prepare_ms", reason.prepare_ms);
    if (t->start_us > 0) {
        attribute_ms(&s, "symphony.company_ms", reason.company_ms);
        attribute_ms(&s, "symphony.accelerator_ms", reason.accelerator_ms);
        if (names->before)
            attribute_text(&s, "symphony.before", names->before);
    }
    span_end(&s, NULL);
    if (t->run_us > 0) {
        span_begin(&s, "run", "", KIND_INTERNAL, t->start_us, t->start_us + t->run_us);
        attribute_int(&s, "symphony.accelerator", t->past.accelerator);
        attribute_int(&s, "symphony.batch", t->batch_items);
        attribute_ms(&s, "symphony.predicted_ms", t->past.predicted_us / 1e3);
        span_end(&s, NULL);
        span_begin(&s, "reply", "", KIND_INTERNAL, t->start_us + t->run_us, t->took_us);
        span_end(&s, NULL);
    }
    return s.count;
}

void otlp_begin(struct text *out, const char *service) {
    text_put(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{"
                  "\"stringValue\":");
    json_put_string(out, service);
    text_put(out, "}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"symphony\",\"version\":\"" SYMPHONY_VERSION
                  "\"},\"spans\":[");
}

void otlp_end(struct text *out) {
    text_put(out, "]}]}]}");
}
