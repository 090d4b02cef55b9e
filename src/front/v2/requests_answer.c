/* requests_answer.c - reads a query, and writes trails as JSON. */
#include "front/v2/requests_answer.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "core/data/reason.h"
#include "front/v2/json_put.h"
#include "front/v2/query.h"

#define ANY_STATE ((1u << TRAIL_STATES) - 1)

static int state_read(struct requests_query *query, const char *value, struct sy_error *err) {
    query->slow = strcmp(value, "slow") == 0;
    if (query->slow)
        return 0;
    for (uint8_t s = 0; s < TRAIL_STATES; s++)
        if (strcmp(value, trail_state_name(s)) == 0) {
            query->states = 1u << s;
            return 0;
        }
    return error_set(err, 400, "expected late, refused, failed, in_time or slow for 'state'");
}

int requests_query_read(struct requests_query *query, const char *text, size_t length, struct sy_error *err) {
    struct query parts = query_of(text, length);
    int status = 0;
    *query = (struct requests_query){.states = ANY_STATE, .limit = REQUESTS_LIMIT};
    while (status == 0 && query_next(&parts)) {
        size_t bytes = parts.value_length;
        if (strcmp(parts.key, "model") == 0) {
            if (bytes >= sizeof(query->model))
                return error_set(err, 400, "no model has so long a name");
            memcpy(query->model, parts.value, bytes + 1);
        } else if (strcmp(parts.key, "state") == 0) {
            status = bytes ? state_read(query, parts.value, err) : 0;
        } else if (strcmp(parts.key, "id") == 0) {
            query->id_length = (uint8_t)(bytes < TRAIL_ID_BYTES ? bytes : TRAIL_ID_BYTES);
            memcpy(query->id, parts.value, query->id_length);
        } else if (strcmp(parts.key, "limit") == 0) {
            status = bytes ? query_number(&parts, 1, REQUESTS_MOST, &query->limit, err) : 0;
        } else if (*parts.key) {
            return error_set(err, 400, "expected model, state, id or limit, not '%s'", parts.key);
        }
    }
    return status;
}

bool requests_query_wants(const struct requests_query *query, const struct trail *trail, const char *model) {
    return query->states >> trail->state & 1 && (!*query->model || (model && strcmp(model, query->model) == 0)) &&
           (!query->id_length ||
            (query->id_length == trail->id_length && memcmp(query->id, trail->id, trail->id_length) == 0));
}

static void time_put(struct text *out, int64_t wall_ns) {
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm tm;
    char text[32];
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    text_printf(out, ",\"at\":\"%s.%03dZ\"", text, (int)(wall_ns / NS_PER_MS % 1000));
}

static void ms_put(struct text *out, const char *name, double ms) {
    text_printf(out, ",\"%s\":%.3f", name, ms);
}

void requests_trail_put(struct text *out, const struct trail *t, const struct trail_names *names) {
    struct reason reason = reason_of(t);
    char words[256];
    text_put(out, "{\"id\":");
    json_put_bytes(out, t->id, t->id_length);
    if (names->model) {
        text_put(out, ",\"model\":");
        json_put_string(out, names->model);
        text_printf(out, ",\"version\":\"%u\"", (unsigned)names->version);
    }
    text_printf(out, ",\"state\":\"%s\",\"status\":%u", trail_state_name(t->state), (unsigned)t->status);
    time_put(out, names->wall_ns);
    if (reason.kind != REASON_NONE) {
        text_printf(out, ",\"reason\":\"%s\"", reason_name(reason.kind));
        reason_words(&reason, names->before, words, sizeof(words));
        text_put(out, ",\"why\":");
        json_put_string(out, words);
        reason_help(&reason, words, sizeof(words));
        text_put(out, ",\"help\":");
        json_put_string(out, words);
    }
    ms_put(out, "deadline_ms", t->allowed_us / 1e3);
    ms_put(out, "took_ms", t->took_us / 1e3);
    ms_put(out, "request_ms", t->body_us / 1e3);
    text_printf(out, ",\"ahead\":%u", (unsigned)t->ahead);
    if (t->prepared_us > 0)
        ms_put(out, "prepare_ms", reason.prepare_ms);
    if (t->start_us > 0) {
        ms_put(out, "company_ms", reason.company_ms);
        ms_put(out, "accelerator_ms", reason.accelerator_ms);
        ms_put(out, "sealed_ms", (t->start_us - (t->past.sealed_us < t->start_us ? t->past.sealed_us : 0)) / 1e3);
        ms_put(out, "start_ms", t->start_us / 1e3);
        text_printf(out, ",\"accelerator\":%u", (unsigned)t->past.accelerator);
        if (names->before) {
            text_put(out, ",\"before\":");
            json_put_string(out, names->before);
        }
    }
    if (t->run_us > 0) {
        ms_put(out, "run_ms", t->run_us / 1e3);
        ms_put(out, "predicted_ms", t->past.predicted_us / 1e3);
        text_printf(out, ",\"batch\":%u", (unsigned)t->batch_items);
        uint32_t end_us = t->start_us + t->run_us;
        ms_put(out, "reply_ms", t->took_us > end_us ? (t->took_us - end_us) / 1e3 : 0);
    }
    if (t->figures.serving > 0 && isfinite(t->figures.needed))
        text_printf(out, ",\"accelerators_needed\":%.2f,\"accelerators\":%u", (double)t->figures.needed,
                    (unsigned)t->figures.serving);
    text_put_char(out, '}');
}
