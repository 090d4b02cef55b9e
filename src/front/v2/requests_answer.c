/* requests_answer.c - reads a query, and writes trails as JSON. */
#include "front/v2/requests_answer.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "core/data/reason.h"
#include "core/util/container.h"
#include "front/v2/json_put.h"

#define ANY_STATE ((1u << TRAIL_STATES) - 1)
#define VALUE_MAX 256

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes a value of a query, in which `%` and two digits stand for a byte, and '+' for a blank. Returns its length;
 * what is longer than VALUE_MAX - 1 is cut off. */
static size_t value_decode(const char *at, size_t length, char out[VALUE_MAX]) {
    size_t n = 0;
    for (size_t i = 0; i < length && n < VALUE_MAX - 1; i++) {
        bool escaped = at[i] == '%' && i + 2 < length && digit_of(at[i + 1]) >= 0 && digit_of(at[i + 2]) >= 0;
        out[n++] = escaped ? (char)(digit_of(at[i + 1]) * 16 + digit_of(at[i + 2])) : at[i] == '+' ? ' ' : at[i];
        i += escaped ? 2 : 0;
    }
    out[n] = '\0';
    return n;
}

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

static int limit_read(struct requests_query *query, const char *value, struct sy_error *err) {
    uint32_t limit = 0;
    for (const char *c = value; *c >= '0' && *c <= '9' && limit <= REQUESTS_MOST; c++)
        limit = limit * 10 + (uint32_t)(*c - '0');
    if (limit == 0 || limit > REQUESTS_MOST || value[strspn(value, "0123456789")])
        return error_set(err, 400, "expected a number from 1 to %d for 'limit'", REQUESTS_MOST);
    query->limit = limit;
    return 0;
}

int requests_query_read(struct requests_query *query, const char *text, size_t length, struct sy_error *err) {
    *query = (struct requests_query){.states = ANY_STATE, .limit = REQUESTS_LIMIT};
    int status = 0;
    while (length > 0 && status == 0) {
        const char *end = memchr(text, '&', length);
        size_t part = end ? (size_t)(end - text) : length;
        const char *equals = memchr(text, '=', part);
        size_t key = equals ? (size_t)(equals - text) : part;
        char value[VALUE_MAX];
        size_t bytes = equals ? value_decode(equals + 1, part - key - 1, value) : value_decode("", 0, value);
        if (key == 5 && memcmp(text, "model", key) == 0) {
            if (bytes >= sizeof(query->model))
                return error_set(err, 400, "no model has so long a name");
            memcpy(query->model, value, bytes + 1);
        } else if (key == 5 && memcmp(text, "state", key) == 0) {
            status = bytes ? state_read(query, value, err) : 0;
        } else if (key == 2 && memcmp(text, "id", key) == 0) {
            query->id_length = (uint8_t)(bytes < TRAIL_ID_BYTES ? bytes : TRAIL_ID_BYTES);
            memcpy(query->id, value, query->id_length);
        } else if (key == 5 && memcmp(text, "limit", key) == 0) {
            status = bytes ? limit_read(query, value, err) : 0;
        } else if (key > 0) {
            return error_set(err, 400, "expected model, state, id or limit, not '%.*s'", key < 64 ? (int)key : 64,
                             text);
        }
        part += end ? 1 : 0;
        text += part;
        length -= part;
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
