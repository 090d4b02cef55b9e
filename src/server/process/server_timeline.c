/* server_timeline.c - answers /v2/symphony/timeline from the timelines that executors keep, an accelerator after the
 * other, while the answer is sent. Disturbs no thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/util/container.h"
#include "front/v2/query.h"
#include "front/v2/trace_put.h"
#include "server/process/server_state.h"
#include "server/stats/model_names.h"

#define SECONDS_DEFAULT 5
#define SECONDS_MOST    3600
#define OPEN_MOST       8 /* timelines that are sent at the same time: 2 MiB each */

struct timeline_source {
    struct http_source source;
    struct server *server;
    struct trace_put trace;
    bool begun, ended;
    uint32_t next, end, limit; /* next accelerator; end of them; entries of each at most */
    int64_t from_ns, zero_ns;  /* time from which entries are shown; time that is 0 in the answer */
    /* the accelerator that is being written */
    struct timeline_entry *entries; /* [count] */
    uint64_t count, at;
    struct server_accelerator of;
    int64_t over_ns; /* end of the last batch; 0: not known */
    struct timeline_loads loads;
    bool loads_row;
};

/* What stands in a batch's `end`; NULL: it ran. */
static const char *end_name(uint8_t end) {
    static const char *const names[] = {[TIMELINE_EXPIRED] = "too late to start",
                                        [TIMELINE_FAILED] = "failed",
                                        [TIMELINE_ABSENT] = "model not resident",
                                        [TIMELINE_LOST] = "lost"};
    return end < ARRAY_COUNT(names) ? names[end] : "?";
}

/* Takes up the next accelerator. False: there is none, or no memory. */
static bool accelerator_next(struct timeline_source *t) {
    free(t->entries);
    t->entries = NULL;
    if (t->next >= t->end)
        return false;
    uint32_t n = t->next++;
    t->of = server_accelerator(t->server, n);
    t->count = t->at = 0;
    t->over_ns = 0;
    t->loads.count = 0;
    t->loads_row = false;
    uint64_t most = t->of.timeline->head ? t->of.timeline->tape.mask + 1 : 0;
    most = t->limit < most ? t->limit : most;
    if (!(t->entries = malloc((most + 1) * sizeof(*t->entries)))) {
        t->trace.out->failed = true;
        return false;
    }
    t->count = most ? timeline_read(t->of.timeline, t->entries, most) : 0;
    char name[TYPE_NAME_MAX + 32];
    snprintf(name, sizeof(name), "%s %u", t->of.type, (unsigned)n);
    trace_name_row(&t->trace, t->of.group + 1, n, name);
    return true;
}

static void put_idle(struct timeline_source *t, uint32_t row, const struct timeline_entry *batch) {
    const struct timeline_entry *load = timeline_loads_find(&t->loads, batch->model_key);
    struct idle_part parts[IDLE_WHYS];
    uint32_t count = timeline_idle(t->over_ns > t->from_ns ? t->over_ns : t->from_ns, batch, load, parts);
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].until_ns - parts[i].from_ns >= IDLE_LEAST_NS)
            trace_idle(&t->trace, t->of.group + 1, row, idle_why_name(parts[i].why), parts[i].from_ns - t->zero_ns,
                       parts[i].until_ns - parts[i].from_ns);
}

static void put_load(struct timeline_source *t, uint32_t row, const struct timeline_entry *e, const char *model) {
    uint32_t loads_row = server_accelerator_count(t->server) + row;
    if (!t->loads_row) {
        char name[TYPE_NAME_MAX + 32];
        snprintf(name, sizeof(name), "%s %u, loads", t->of.type, (unsigned)row);
        trace_name_row(&t->trace, t->of.group + 1, loads_row, name);
        t->loads_row = true;
    }
    trace_load(&t->trace, t->of.group + 1, loads_row, e->model_key || e->kind == TIMELINE_LOAD ? model : "all",
               e->kind == TIMELINE_LOAD, e->start_ns - t->zero_ns, e->took_us * NS_PER_US);
}

static void put_entry(struct timeline_source *t, const struct model_names *names, const struct timeline_entry *e) {
    uint32_t row = t->next - 1;
    int64_t end_ns = e->start_ns + e->took_us * NS_PER_US;
    bool shown = end_ns >= t->from_ns;
    const char *model = model_names_find(names, e->model_key);
    if (e->kind == TIMELINE_LOAD)
        timeline_loads_note(&t->loads, e);
    if (e->kind != TIMELINE_RUN) {
        if (shown)
            put_load(t, row, e, model);
        return;
    }
    if (shown) {
        if (t->over_ns > 0)
            put_idle(t, row, e);
        const struct trace_batch batch = {.model = model,
                                          .items = e->items,
                                          .start_ns = e->start_ns - t->zero_ns,
                                          .took_ns = e->took_us * NS_PER_US,
                                          .predicted_ns = e->predicted_us * NS_PER_US,
                                          .end = e->end == TIMELINE_RAN ? NULL : end_name(e->end)};
        trace_batch(&t->trace, t->of.group + 1, row, &batch);
    }
    t->over_ns = end_ns;
}

/* What the accelerator runs now. */
static void put_running(struct timeline_source *t, const struct model_names *names) {
    uint32_t key, items;
    int64_t since_ns, now_ns = clock_now_ns();
    if (!timeline_running(t->of.timeline, &key, &items, &since_ns) || since_ns > now_ns)
        return;
    const struct trace_batch batch = {.model = model_names_find(names, key),
                                      .items = items,
                                      .start_ns = since_ns - t->zero_ns,
                                      .took_ns = now_ns - since_ns,
                                      .end = "running"};
    trace_batch(&t->trace, t->of.group + 1, t->next - 1, &batch);
}

static void more(struct http_source *source, struct text *out) {
    struct timeline_source *t = container_of(source, struct timeline_source, source);
    struct model_names names;
    size_t until = out->length + HTTP_PIECE_BYTES;
    if (t->ended)
        return;
    model_list_lock(&t->server->models);
    model_names_make(&names, &t->server->models);
    t->trace.out = out;
    if (!t->begun) {
        trace_begin(&t->trace, out);
        for (uint32_t a = t->next; a < t->end; a++) {
            struct server_accelerator of = server_accelerator(t->server, a);
            if (a == t->next || server_accelerator(t->server, a - 1).group != of.group)
                trace_name_group(&t->trace, of.group + 1, of.type);
        }
        t->begun = true;
    }
    while (out->length < until && !t->ended) {
        if (t->entries && t->at < t->count) {
            put_entry(t, &names, &t->entries[t->at++]);
            continue;
        }
        if (t->entries)
            put_running(t, &names);
        if (!accelerator_next(t)) {
            trace_end(&t->trace, t->zero_ns);
            t->ended = true;
        }
    }
    model_names_free(&names);
    model_list_unlock(&t->server->models);
}

static void end(struct http_source *source) {
    struct timeline_source *t = container_of(source, struct timeline_source, source);
    t->server->timelines_open--;
    free(t->entries);
    free(t);
}

struct http_source *server_timeline(void *server, const char *text, size_t length, int *status, struct sy_error *err) {
    struct server *s = server;
    struct query query = query_of(text, length);
    uint32_t seconds = SECONDS_DEFAULT, first = 0, accelerators = UINT32_MAX, limit = TIMELINE_MOST;
    uint32_t count = server_accelerator_count(s);
    *status = 0;
    while (*status == 0 && query_next(&query)) {
        if (strcmp(query.key, "seconds") == 0)
            *status = query_number(&query, 1, SECONDS_MOST, &seconds, err);
        else if (strcmp(query.key, "first") == 0)
            *status = query_number(&query, 0, UINT32_MAX, &first, err);
        else if (strcmp(query.key, "accelerators") == 0)
            *status = query_number(&query, 1, UINT32_MAX, &accelerators, err);
        else if (strcmp(query.key, "limit") == 0)
            *status = query_number(&query, 1, TIMELINE_MOST, &limit, err);
        else
            *status = error_set(err, 400, "expected seconds, first, accelerators or limit, not '%s'", query.key);
    }
    if (*status)
        return NULL;
    bool full = s->timelines_open >= OPEN_MOST;
    struct timeline_source *t = full ? NULL : calloc(1, sizeof(*t));
    if (full)
        *status = error_set(err, 503, "as many as may read timelines already do: %d", OPEN_MOST);
    else if (!t)
        *status = error_set(err, 500, "out of memory for the timeline");
    if (!t)
        return NULL;
    s->timelines_open++;
    first = first < count ? first : count;
    *t = (struct timeline_source){
        .source = {.bytes = HTTP_LENGTH_UNKNOWN, .more = more, .end = end},
        .server = s,
        .next = first,
        .end = first + (accelerators < count - first ? accelerators : count - first),
        .limit = limit,
        .from_ns = clock_now_ns() - seconds * NS_PER_S,
        .zero_ns = s->started_ns,
    };
    return &t->source;
}
