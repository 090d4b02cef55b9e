/* server_live.c - answers /v2/symphony/state: how the server does now, from the counters that its threads keep.
 * Disturbs no thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link.h"
#include "core/data/running.h"
#include "core/system/clock.h"
#include "core/util/container.h"
#include "front/net/metric_text.h"
#include "front/v2/json_put.h"
#include "front/v2/query.h"
#include "server/process/server_state.h"
#include "server/stats/live.h"
#include "server/stats/model_names.h"

#define SAME_LOOK_NS       (100 * NS_PER_MS) /* readers that ask so soon after each other see the same look */
#define MODELS_DEFAULT     100
#define ACCELERATORS_SHOWN 64
#define ROWS_MOST          10000
#define ABSENT_MOST        20 /* models that are not served are shown, at most */
#define LATENCY_BUCKETS    (FINE_HISTOGRAM_BUCKETS >> LATENCY_SHIFT)
#define LATENCY_SHIFT      4 /* of 256 steps per power of two 16 are kept, as in histogram.h */

/* What is counted of a model; behind these, refusals by reason. */
enum model_count {
    ANSWERED,
    IN_TIME,
    REFUSED,
    FAILED,
    BATCHES,
    ITEMS,
    RUN_NS,
    REASONS,
    MODEL_COUNTS = REASONS + REFUSAL_COUNT
};
/* What is counted of an accelerator. */
enum accelerator_count { BUSY_NS, RUNS, ACCELERATOR_COUNTS };

/* A model as of the last look. */
struct live_model {
    const char *name;
    const char *reason; /* why it is not ready; NULL: it is, or nothing is known */
    uint32_t version, place, queued;
    uint8_t state;  /* enum model_state */
    int64_t slo_ns; /* 0: best effort */
    bool scheduled; /* what the scheduler counts is known here */
    uint64_t now[MODEL_COUNTS];
    double per_s[MODEL_COUNTS];
};

struct server_live {
    struct live_window window;
    int64_t looked_ns; /* time of the last look; 0: none */
    double seconds;    /* that the rates are of */
    uint32_t places;
    uint64_t (*before)[MODEL_COUNTS], (*base)[MODEL_COUNTS]; /* [places] counts at earlier looks */
    struct live_histogram *latency, *queue;                  /* [places] */
    struct live_model *models;                               /* [model_count] as of the last look */
    uint32_t model_count, model_room;
    struct link_model *linked; /* in a scheduler of a cluster: its models, which `models` points to */
    uint32_t accelerators;
    uint64_t (*busy_before)[ACCELERATOR_COUNTS], (*busy_base)[ACCELERATOR_COUNTS]; /* [accelerators] */
    uint64_t (*busy_now)[ACCELERATOR_COUNTS];
};

/* What a query asks for. */
struct live_query {
    char model[QUERY_VALUE_MAX]; /* part of the models' names; "": any */
    int (*order)(const void *a, const void *b);
    uint32_t limit, first, accelerators;
};

/* ---- orders ---- */

static double bad_of(const struct live_model *m) {
    return m->per_s[ANSWERED] - m->per_s[IN_TIME] + m->per_s[REFUSED] + m->per_s[FAILED];
}

static int by_name(const void *a, const void *b) {
    const struct live_model *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->version > y->version) - (x->version < y->version);
}

static double rate_of(const struct live_model *m) {
    return m->per_s[ANSWERED] + m->per_s[REFUSED] + m->per_s[FAILED];
}

/* The greater comes first; of equal ones the one whose name comes first. */
static int greater(double x, double y, const void *a, const void *b) {
    return x != y ? (x < y) - (x > y) : by_name(a, b);
}

static int by_rate(const void *a, const void *b) {
    return greater(rate_of(a), rate_of(b), a, b);
}

static int by_bad(const void *a, const void *b) {
    double x = bad_of(a), y = bad_of(b);
    return x != y ? greater(x, y, a, b) : by_rate(a, b);
}

static int by_late(const void *a, const void *b) {
    const struct live_model *x = a, *y = b;
    return greater(x->per_s[ANSWERED] - x->per_s[IN_TIME], y->per_s[ANSWERED] - y->per_s[IN_TIME], a, b);
}

static int by_refused(const void *a, const void *b) {
    const struct live_model *x = a, *y = b;
    return greater(x->per_s[REFUSED], y->per_s[REFUSED], a, b);
}

static int by_queued(const void *a, const void *b) {
    const struct live_model *x = a, *y = b;
    return greater(x->queued, y->queued, a, b);
}

static double batch_of(const struct live_model *m) {
    return m->per_s[BATCHES] > 0 ? m->per_s[ITEMS] / m->per_s[BATCHES] : 0;
}

static int by_batch(const void *a, const void *b) {
    return greater(batch_of(a), batch_of(b), a, b);
}

static int by_busy(const void *a, const void *b) {
    const struct live_model *x = a, *y = b;
    return greater(x->per_s[RUN_NS], y->per_s[RUN_NS], a, b);
}

static int query_read(struct live_query *q, const char *text, size_t length, struct sy_error *err) {
    static const struct {
        const char *name;
        int (*order)(const void *a, const void *b);
    } orders[] = {{"bad", by_bad},         {"name", by_name},     {"rate", by_rate},   {"late", by_late},
                  {"refused", by_refused}, {"queued", by_queued}, {"batch", by_batch}, {"busy", by_busy}};
    struct query parts = query_of(text, length);
    int status = 0;
    *q = (struct live_query){.order = by_bad, .limit = MODELS_DEFAULT, .accelerators = ACCELERATORS_SHOWN};
    while (status == 0 && query_next(&parts)) {
        if (strcmp(parts.key, "model") == 0) {
            snprintf(q->model, sizeof(q->model), "%s", parts.value);
        } else if (strcmp(parts.key, "sort") == 0) {
            unsigned i = 0;
            while (i < ARRAY_COUNT(orders) && strcmp(orders[i].name, parts.value) != 0)
                i++;
            if (i == ARRAY_COUNT(orders))
                return error_set(err, 400, "expected bad, name, rate, late, refused, queued, batch or busy for 'sort'");
            q->order = orders[i].order;
        } else if (strcmp(parts.key, "limit") == 0) {
            status = query_number(&parts, 0, ROWS_MOST, &q->limit, err);
        } else if (strcmp(parts.key, "accelerators") == 0) {
            status = query_number(&parts, 0, ROWS_MOST, &q->accelerators, err);
        } else if (strcmp(parts.key, "first") == 0) {
            status = query_number(&parts, 0, UINT32_MAX, &q->first, err);
        } else if (strcmp(parts.key, "stream") != 0) {
            return error_set(err, 400, "expected model, sort, limit, accelerators, first or stream, not '%s'",
                             parts.key);
        }
    }
    return status;
}

/* ---- a look ---- */

static struct server_live *live_new(const struct server *s) {
    struct server_live *l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    l->places = s->config.model_count;
    l->accelerators = server_accelerator_count(s);
    l->window = (struct live_window){s->started_ns, s->started_ns};
    l->before = calloc(l->places + 1, sizeof(*l->before));
    l->base = calloc(l->places + 1, sizeof(*l->base));
    l->latency = calloc(l->places + 1, sizeof(*l->latency));
    l->queue = calloc(l->places + 1, sizeof(*l->queue));
    l->busy_before = calloc(l->accelerators + 1, sizeof(*l->busy_before));
    l->busy_base = calloc(l->accelerators + 1, sizeof(*l->busy_base));
    l->busy_now = calloc(l->accelerators + 1, sizeof(*l->busy_now));
    if (l->before && l->base && l->latency && l->queue && l->busy_before && l->busy_base && l->busy_now)
        return l;
    server_live_free(l);
    return NULL;
}

void server_live_free(struct server_live *l) {
    if (!l)
        return;
    for (uint32_t i = 0; i < l->places; i++) {
        free(l->latency ? l->latency[i].base : NULL);
        free(l->queue ? l->queue[i].base : NULL);
    }
    free(l->before);
    free(l->base);
    free(l->latency);
    free(l->queue);
    free(l->models);
    free(l->linked);
    free(l->busy_before);
    free(l->busy_base);
    free(l->busy_now);
    free(l);
}

static void frontends_add(const struct server *s, struct live_model *m) {
    for (uint32_t f = 0; f < s->frontends.count; f++) {
        const struct model_infer_counters *c = &frontends_counters(&s->frontends, f)->models[m->place];
        m->now[ANSWERED] += counter_get(&c->outcomes[OUTCOME_OK]);
        m->now[IN_TIME] += counter_get(&c->in_time);
        m->now[REFUSED] += counter_get(&c->outcomes[OUTCOME_REFUSED]);
        m->now[FAILED] += counter_get(&c->outcomes[OUTCOME_FAILED]);
        for (uint32_t r = 0; r < REFUSAL_COUNT; r++)
            m->now[REASONS + r] += counter_get(&c->refused[r]);
    }
}

/* What the scheduler counts. Where there are no frontends, it has seen the refusals, and the items that ran. */
static void scheduler_add(const struct thread_rings *rings, struct thread_model_id number, bool alone,
                          struct live_model *m) {
    const struct model_counters *c = &rings->counters[number.n];
    m->scheduled = true;
    m->queued = atomic_load_explicit(&rings->queued[number.n], memory_order_relaxed); /* a gauge */
    m->now[BATCHES] = counter_get(&c->run_ns.count);
    m->now[RUN_NS] = counter_get(&c->run_ns.sum);
    m->now[ITEMS] = counter_get(&c->batch_items.sum);
    if (!alone)
        return;
    m->now[ANSWERED] = m->now[IN_TIME] = m->now[ITEMS];
    for (uint32_t r = 0; r < REFUSAL_COUNT; r++) {
        m->now[REASONS + r] = counter_get(&c->refused[r]);
        m->now[REFUSED] += r == REFUSAL_CANCELLED ? 0 : m->now[REASONS + r];
    }
}

static void rates_set(struct server_live *l, struct live_model *m) {
    for (uint32_t c = 0; c < MODEL_COUNTS; c++)
        m->per_s[c] = (double)live_grown(l->before[m->place][c], m->now[c]) / l->seconds;
}

/* Models of a scheduler of a cluster, as its link has last told. */
static void models_of_link(struct server *s, struct server_live *l, uint32_t count) {
    const struct scheduling *scheduling = &s->scheduling;
    for (uint32_t i = 0; i < count; i++) {
        const struct link_model *linked = &l->linked[i];
        struct live_model *m = &l->models[l->model_count++];
        const struct thread_rings *rings = scheduling_rings(scheduling, scheduling->placements[linked->place].thread);
        *m = (struct live_model){.name = linked->name,
                                 .version = linked->version,
                                 .place = linked->place,
                                 .state = linked->stranded ? MODEL_UNAVAILABLE : MODEL_READY,
                                 .reason = linked->stranded ? "no accelerator that runs it is in service" : NULL,
                                 .slo_ns = linked->slo_ns};
        scheduler_add(rings, scheduling->placements[linked->place].thread_model, true, m);
        rates_set(l, m);
    }
}

static void models_of_list(const struct server *s, struct server_live *l, const struct model_index *listed) {
    for (uint32_t i = 0; i < listed->count; i++) {
        const struct served_model *served = &listed->models[listed->listed[i]];
        struct live_model *m = &l->models[l->model_count++];
        struct thread_model_id number;
        int state = served_model_state(served);
        *m = (struct live_model){.name = served->name,
                                 .version = served->version,
                                 .place = listed->listed[i],
                                 .state = (uint8_t)state,
                                 .reason = state == MODEL_UNAVAILABLE ? served->reason : NULL,
                                 .slo_ns = served->best_effort ? 0 : served->slo_ns};
        frontends_add(s, m);
        const struct thread_rings *rings = server_statistics_rings(&s->statistics, m->place, &number);
        if (rings)
            scheduler_add(rings, number, false, m);
        rates_set(l, m);
    }
}

/* Time that an accelerator was busy, that of the batch that runs included. */
static void accelerators_look(const struct server *s, struct server_live *l, int64_t now_ns) {
    for (uint32_t a = 0; a < l->accelerators; a++) {
        struct server_accelerator of = server_accelerator(s, a);
        uint32_t key, items;
        int64_t since_ns;
        l->busy_now[a][BUSY_NS] = counter_get(&of.counters->busy_ns);
        l->busy_now[a][RUNS] = counter_get(&of.counters->batches);
        if (timeline_running(of.timeline, &key, &items, &since_ns) && now_ns > since_ns)
            l->busy_now[a][BUSY_NS] += (uint64_t)(now_ns - since_ns);
    }
}

/* False: no memory. Under the lock of the list of models. */
static bool look(struct server *s, struct server_live *l, const struct model_index *listed, int64_t now_ns) {
    bool of_cluster = server_role(&s->config) == LINK_SCHEDULER;
    uint32_t count = listed->count;
    if (of_cluster) {
        free(l->linked);
        l->linked = link_report_models(scheduler_link_report(s->scheduling.link), &count);
    }
    if (count > l->model_room) {
        free(l->models);
        l->models = calloc(count, sizeof(*l->models));
        l->model_room = l->models ? count : 0;
        if (!l->models)
            return false;
    }
    l->looked_ns = now_ns;
    l->seconds = (double)(now_ns - l->window.before_ns + 1) / NS_PER_S;
    l->model_count = 0;
    if (of_cluster)
        models_of_link(s, l, count);
    else
        models_of_list(s, l, listed);
    accelerators_look(s, l, now_ns);
    return true;
}

/* What was seen now is what later looks are compared with. */
static void look_keep(struct server_live *l, int64_t now_ns) {
    bool both;
    if (!live_window_turn(&l->window, now_ns, &both))
        return;
    for (uint32_t i = 0; i < l->model_count; i++) {
        const struct live_model *m = &l->models[i];
        memcpy(l->before[m->place], both ? m->now : l->base[m->place], sizeof(m->now));
        memcpy(l->base[m->place], m->now, sizeof(m->now));
    }
    size_t bytes = l->accelerators * sizeof(*l->busy_now);
    memcpy(l->busy_before, both ? l->busy_now : l->busy_base, bytes);
    memcpy(l->busy_base, l->busy_now, bytes);
}

/* ---- quantiles ---- */

static int64_t latency_edge(uint32_t bucket) {
    int64_t least, greatest;
    fine_histogram_edges((bucket << LATENCY_SHIFT) + (1u << LATENCY_SHIFT) - 1, &least, &greatest);
    return greatest;
}

static int64_t queue_edge(uint32_t bucket) {
    uint64_t width, from = log_linear_from(bucket, 4, &width);
    return (int64_t)(from + width - 1);
}

/* Looks at a model's times again, if the last look is old enough. */
static void quantiles_look(const struct server *s, struct server_live *l, uint32_t place, int64_t now_ns) {
    struct live_histogram *latency = &l->latency[place], *queue = &l->queue[place];
    uint32_t of_latency[LATENCY_BUCKETS] = {0}, of_queue[HISTOGRAM_BUCKETS] = {0};
    if (latency->at_ns && now_ns - latency->at_ns < LIVE_TURN_NS)
        return;
    for (uint32_t f = 0; f < s->frontends.count; f++) {
        const struct model_infer_counters *c = &frontends_counters(&s->frontends, f)->models[place];
        if (counter_get(&c->latency_ns.count) == 0)
            continue;
        for (uint32_t i = 0; i < FINE_HISTOGRAM_BUCKETS; i++)
            of_latency[i >> LATENCY_SHIFT] += (uint32_t)counter_get(&c->latency_ns.buckets[i]);
        for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
            of_queue[i] += (uint32_t)counter_get(&c->queue_ns.buckets[i]);
    }
    live_histogram_look(latency, of_latency, LATENCY_BUCKETS, latency_edge, now_ns);
    live_histogram_look(queue, of_queue, HISTOGRAM_BUCKETS, queue_edge, now_ns);
}

static void quantiles_put(struct text *out, const char *name, const struct live_histogram *h) {
    if (h->p99 >= 0)
        text_printf(out, ",\"%s\":{\"p50\":%.4g,\"p99\":%.4g}", name, h->p50 / NS_PER_MS, h->p99 / NS_PER_MS);
}

/* ---- the answer ---- */

/* Rates and counts that a model, or all of them, have. */
static void counts_put(struct text *out, const uint64_t *now, const double *per_s) {
    text_printf(
        out,
        "\"rate\":%.4g,\"good\":%.4g,\"late\":%.4g,\"refused\":%.4g,\"failed\":%.4g,\"totals\":{\"requests\":%llu,"
        "\"in_time\":%llu,\"late\":%llu,\"refused\":%llu,\"failed\":%llu}",
        per_s[ANSWERED] + per_s[REFUSED] + per_s[FAILED], per_s[IN_TIME], fmax(per_s[ANSWERED] - per_s[IN_TIME], 0),
        per_s[REFUSED], per_s[FAILED], (unsigned long long)(now[ANSWERED] + now[REFUSED] + now[FAILED]),
        (unsigned long long)now[IN_TIME],
        (unsigned long long)(now[ANSWERED] > now[IN_TIME] ? now[ANSWERED] - now[IN_TIME] : 0),
        (unsigned long long)now[REFUSED], (unsigned long long)now[FAILED]);
}

static void reasons_put(struct text *out, const struct live_model *m) {
    bool any = false;
    for (enum refusal r = REFUSAL_NONE; r < REFUSAL_COUNT; r++) {
        if (m->now[REASONS + r] == 0 || r == REFUSAL_CANCELLED)
            continue;
        text_printf(out, "%s\"%s\":{\"per_s\":%.4g,\"total\":%llu}", any ? "," : ",\"refused_by\":{", metric_refusal(r),
                    m->per_s[REASONS + r], (unsigned long long)m->now[REASONS + r]);
        any = true;
    }
    if (any)
        text_put_char(out, '}');
}

static void model_put(const struct server *s, struct server_live *l, const struct live_model *m, struct text *out) {
    static const char *const states[] = {[MODEL_LOADING] = "loading",
                                         [MODEL_READY] = "ready",
                                         [MODEL_UNAVAILABLE] = "unavailable",
                                         [MODEL_UNLOADING] = "unloading"};
    text_put(out, "{\"name\":");
    json_put_string(out, m->name);
    text_printf(out, ",\"version\":\"%u\",\"state\":\"%s\",", (unsigned)m->version, states[m->state]);
    if (m->reason) {
        text_put(out, "\"reason\":");
        json_put_string(out, m->reason);
        text_put_char(out, ',');
    }
    counts_put(out, m->now, m->per_s);
    reasons_put(out, m);
    if (m->slo_ns > 0)
        text_printf(out, ",\"slo_ms\":%.6g", (double)m->slo_ns / NS_PER_MS);
    if (m->scheduled) {
        text_printf(out, ",\"queued\":%u", (unsigned)m->queued);
        if (m->per_s[BATCHES] > 0)
            text_printf(out, ",\"batch\":%.3g,\"run_ms\":%.4g,\"busy\":%.3g", batch_of(m),
                        m->per_s[RUN_NS] / m->per_s[BATCHES] / NS_PER_MS, m->per_s[RUN_NS] / NS_PER_S);
    }
    if (s->frontends.count > 0) {
        quantiles_look(s, l, m->place, l->looked_ns);
        quantiles_put(out, "queue_ms", &l->queue[m->place]);
        quantiles_put(out, "latency_ms", &l->latency[m->place]);
    }
    text_put_char(out, '}');
}

static void models_put(const struct server *s, struct server_live *l, const struct live_query *q, struct text *out) {
    uint64_t now[MODEL_COUNTS] = {0};
    double per_s[MODEL_COUNTS] = {0};
    uint32_t matching = 0, shown = 0;
    for (uint32_t i = 0; i < l->model_count; i++) {
        for (uint32_t c = 0; c < MODEL_COUNTS; c++) {
            now[c] += l->models[i].now[c];
            per_s[c] += l->models[i].per_s[c];
        }
        matching += strstr(l->models[i].name, q->model) != NULL;
    }
    text_put(out, ",\"all\":{");
    counts_put(out, now, per_s);
    text_printf(out, "},\"models_count\":%u,\"models_matching\":%u,\"models\":[", (unsigned)l->model_count,
                (unsigned)matching);
    if (l->model_count > 0)
        qsort(l->models, l->model_count, sizeof(*l->models), q->order);
    for (uint32_t i = 0; i < l->model_count && shown < q->limit; i++)
        if (strstr(l->models[i].name, q->model)) {
            text_put(out, shown++ ? "," : "");
            model_put(s, l, &l->models[i], out);
        }
    text_put_char(out, ']');
}

/* Models that are known and not served, with the reasons. */
static void absent_put(const struct model_index *listed, struct text *out) {
    uint32_t shown = 0;
    for (uint32_t i = 0; i < listed->absent_count && shown < ABSENT_MOST; i++) {
        if (!listed->absent[i].failed)
            continue;
        text_put(out, shown++ ? ",{\"name\":" : ",\"set_aside\":[{\"name\":");
        json_put_string(out, listed->absent[i].name);
        text_put(out, ",\"reason\":");
        json_put_string(out, listed->absent[i].reason);
        text_put_char(out, '}');
    }
    text_put(out, shown ? "]" : "");
}

/* ---- accelerators ---- */

static double busy_share(const struct server_live *l, uint32_t a) {
    double share = (double)live_grown(l->busy_before[a][BUSY_NS], l->busy_now[a][BUSY_NS]) / NS_PER_S / l->seconds;
    return fmin(share, 1);
}

static void accelerator_put(const struct server *s, const struct server_live *l, const struct model_names *names,
                            uint32_t a, struct text *out) {
    static const char *const states[] = {
        [ACCELERATOR_SERVING] = "serving", [ACCELERATOR_LEAVING] = "leaving", [ACCELERATOR_GONE] = "gone"};
    struct server_accelerator of = server_accelerator(s, a);
    const struct timeline_head *head = of.timeline->head;
    uint32_t key, items;
    int64_t since_ns;
    text_printf(out, "{\"number\":%u,\"type\":", (unsigned)a);
    json_put_string(out, of.type);
    text_printf(out, ",\"state\":\"%s\",\"busy\":%.3g,\"batches\":%llu",
                of.state < ARRAY_COUNT(states) ? states[of.state] : "starts", busy_share(l, a),
                (unsigned long long)l->busy_now[a][RUNS]);
    if (timeline_running(of.timeline, &key, &items, &since_ns)) {
        text_put(out, ",\"runs\":{\"model\":");
        json_put_string(out, model_names_find(names, key));
        text_printf(out, ",\"items\":%u,\"for_ms\":%.4g}", (unsigned)items,
                    (double)(l->looked_ns > since_ns ? l->looked_ns - since_ns : 0) / NS_PER_MS);
    }
    if (s->config.memory_bytes > 0 && head)
        text_printf(out, ",\"models\":%llu,\"memory_mib\":%.6g,\"memory_max_mib\":%.6g",
                    (unsigned long long)counter_get(&head->models), (double)counter_get(&head->bytes) / (1 << 20),
                    (double)s->config.memory_bytes / (1 << 20));
    text_put_char(out, '}');
}

/* Types, in the order in which they come first. */
struct type_sum {
    const char *type;
    uint32_t group, count, serving, running;
    double busy, per_s;
};
#define TYPES_MOST 64

static void accelerators_put(const struct server *s, const struct server_live *l, const struct live_query *q,
                             const struct model_names *names, struct text *out) {
    struct type_sum types[TYPES_MOST];
    uint32_t type_count = 0;
    for (uint32_t a = 0; a < l->accelerators; a++) {
        struct server_accelerator of = server_accelerator(s, a);
        uint32_t t = 0, key, items;
        int64_t since_ns;
        while (t < type_count && types[t].group != of.group)
            t++;
        if (t == TYPES_MOST)
            t--; /* the last stands for the rest */
        else if (t == type_count)
            types[type_count++] = (struct type_sum){.type = of.type, .group = of.group};
        types[t].count++;
        types[t].serving += of.state == ACCELERATOR_SERVING;
        types[t].running += timeline_running(of.timeline, &key, &items, &since_ns);
        types[t].busy += busy_share(l, a);
        types[t].per_s += (double)live_grown(l->busy_before[a][RUNS], l->busy_now[a][RUNS]) / l->seconds;
    }
    text_put(out, ",\"types\":[");
    for (uint32_t t = 0; t < type_count; t++) {
        text_put(out, t ? ",{\"type\":" : "{\"type\":");
        json_put_string(out, types[t].type);
        text_printf(out, ",\"count\":%u,\"serving\":%u,\"running\":%u,\"busy\":%.3g,\"batches_rate\":%.4g}",
                    (unsigned)types[t].count, (unsigned)types[t].serving, (unsigned)types[t].running,
                    types[t].busy / types[t].count, types[t].per_s);
    }
    text_printf(out, "],\"accelerators_count\":%u,\"accelerators\":[", (unsigned)l->accelerators);
    for (uint32_t a = q->first, i = 0; a < l->accelerators && i < q->accelerators; a++, i++) {
        text_put(out, i ? "," : "");
        accelerator_put(s, l, names, a, out);
    }
    text_put_char(out, ']');
}

/* ---- the rest ---- */

static void advice_put(struct server *by, struct text *out) {
    double needed = 0, serving = 0;
    const struct scheduling *scheduling = &by->scheduling;
    if (scheduling->central_thread)
        needed = central_thread_accelerators_needed(scheduling->central_thread);
    for (uint32_t k = 0; !scheduling->central_thread && k < by->wiring.rank_threads; k++)
        needed += rank_thread_accelerators_needed(scheduling->rank_threads[k]);
    for (uint32_t a = 0; a < by->wiring.accelerators; a++)
        serving += wiring_accelerator_state(&by->wiring, a) == ACCELERATOR_SERVING;
    if (scheduling->link)
        serving = link_report_totals(scheduler_link_report(scheduling->link)).accelerators;
    text_printf(out, ",\"advice\":{\"serving\":%.0f", serving);
    if (needed >= 0)
        text_printf(out, ",\"needed\":%.3g", needed);
    int64_t wanted = advice_get(&by->advice.wanted);
    if (wanted >= 0)
        text_printf(out, ",\"wanted\":%lld", (long long)wanted);
    bool any = false;
    for (uint32_t t = 0; scheduling->central_thread && t < by->config.type_count; t++) {
        int32_t of_type = central_thread_type_wanted(scheduling->central_thread, t);
        if (of_type < 0)
            continue;
        text_put(out, any ? "," : ",\"wanted_of_type\":{");
        json_put_string(out, by->config.accelerators[t].type);
        text_printf(out, ":%d", (int)of_type);
        any = true;
    }
    text_put(out, any ? "}}" : "}");
}

static void link_put(void *context, const struct link_row *row) {
    struct text *out = context;
    text_put(out, out->data[out->length - 1] == '[' ? "{\"name\":" : ",{\"name\":");
    json_put_string(out, row->name);
    text_printf(out, ",\"role\":\"%s\",\"number\":%u", cluster_role_name(row->role), (unsigned)row->number);
    if (row->clock_known)
        text_printf(out, ",\"round_trip_us\":%.4g,\"clock_error_us\":%.4g,\"clock_ahead_s\":%.9f",
                    (double)row->round_trip_ns / NS_PER_US, (double)row->clock_error_ns / NS_PER_US,
                    (double)row->ahead_ns / NS_PER_S);
    if (*row->metrics) {
        text_put(out, ",\"metrics\":");
        json_put_string(out, row->metrics);
    }
    text_printf(out, ",\"bytes_in\":%llu,\"bytes_out\":%llu", (unsigned long long)row->bytes_in,
                (unsigned long long)row->bytes_out);
    text_printf(out, ",\"pulled\":%llu,\"late\":%llu,\"lost\":%llu}", (unsigned long long)row->requests[LINK_PULLED],
                (unsigned long long)row->requests[LINK_LATE], (unsigned long long)row->requests[LINK_LOST]);
}

static void cluster_put(struct server *s, struct text *out) {
    struct link_report *report = server_cluster_report(s);
    struct link_totals totals = link_report_totals(report);
    text_printf(out, ",\"cluster\":{\"role\":\"%s\",\"%s\":%s,\"term\":%llu,\"links\":[",
                cluster_role_name(totals.role), totals.role == ROLE_SCHEDULER ? "leads" : "connected",
                totals.ready ? "true" : "false", (unsigned long long)totals.term);
    link_report_rows(report, link_put, out);
    text_put(out, "]}");
}

int server_live(void *server, const char *text, size_t length, struct text *out, struct sy_error *err) {
    struct server *s = server, *by = server_scheduling(s);
    struct live_query query;
    struct model_names names;
    int64_t now_ns = clock_now_ns();
    int status = query_read(&query, text, length, err);
    if (status)
        return status;
    if (!s->live && !(s->live = live_new(s)))
        return error_set(err, 500, "out of memory for the state");
    struct server_live *l = s->live;
    const struct model_index *listed = model_list_lock(&s->models);
    if ((!l->looked_ns || now_ns - l->looked_ns >= SAME_LOOK_NS) && !look(s, l, listed, now_ns)) {
        model_list_unlock(&s->models);
        return error_set(err, 500, "out of memory for the state");
    }
    model_names_make(&names, &s->models);
    text_printf(out, "{\"version\":\"%s\",\"policy\":\"%s\",\"state\":\"%s\",\"uptime_s\":%.3f,\"window_s\":%.3f",
                SYMPHONY_VERSION, s->config.policy->name,
                atomic_load_explicit(&s->readiness.draining, memory_order_relaxed)  ? "draining" /* lone flags */
                : atomic_load_explicit(&s->readiness.serving, memory_order_relaxed) ? "ready"
                                                                                    : "not_ready",
                (double)(l->looked_ns - s->started_ns) / NS_PER_S, l->seconds);
    if (s->frontends.count > 0) {
        uint32_t in_flight = 0, connections = 0;
        for (uint32_t f = 0; f < s->frontends.count; f++) {
            in_flight += frontend_in_flight(s->frontends.list[f]);
            connections += frontend_connections(s->frontends.list[f]);
        }
        text_printf(out, ",\"in_flight\":%u,\"connections\":%u", (unsigned)in_flight, (unsigned)connections);
    }
    if (server_schedules(&by->config))
        advice_put(by, out);
    models_put(s, l, &query, out);
    absent_put(listed, out);
    accelerators_put(s, l, &query, &names, out);
    if (s->config.cluster)
        cluster_put(s, out);
    text_put_char(out, '}');
    look_keep(l, l->looked_ns);
    model_names_free(&names);
    model_list_unlock(&s->models);
    return out->failed ? error_set(err, 500, "out of memory for the state") : 0;
}
