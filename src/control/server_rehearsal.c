/* server_rehearsal.c - a thread that rehearses the policy's ways on the requests that the server records, while it
 * loses some, and tells the rank threads which way is best (sim/rehearsal.h).
 *
 * It has the lowest priority, and takes what the server knows of itself as a recording does: models with measured
 * latencies, accelerators in service, margins. If these change, it begins anew. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "cluster/scheduler_link.h"
#include "control/server_state.h"
#include "sim/rehearsal.h"
#include "stats/metric_text.h"

/* Requests of a second that are rehearsed; with more, none are: it would take this thread too long. */
#define REQUESTS_MOST 200000
/* Requests that came so shortly before a look are left for the next one: others of that time may not be recorded yet.
 */
#define BEHIND_NS (50 * NS_PER_MS)
/* A twin has room for ROOM times the requests that come within the longest SLO, but for about HELD_MOST of them. */
#define ROOM      4
#define HELD_MOST 1e6
/* Longer than a rehearsal lasts. */
#define REHEARSED_S 1e8

/* The emulated cluster, and what it was made from. */
struct rehearsed {
    struct recording of; /* without requests */
    struct sim_config config;
    struct sim_rate_step step;
    struct sim_model *models;
    struct profile **profiles; /* [models][types] */
    uint8_t *accelerator_type;
    void *memory;
    struct rehearsal *rehearsal; /* in `memory`; NULL: nothing is rehearsed */
};

struct server_rehearsal {
    struct server_load load;
    struct rehearsed now;
    int64_t fed_ns; /* requests up to then were told */
    _Atomic uint32_t way;
    _Atomic uint64_t changes;
    _Atomic bool runs;
    pthread_mutex_t lock; /* of `stop` */
    bool stop;
    pthread_cond_t stopped;
    pthread_t thread;
};

/* ---- the emulated cluster ---- */

static void rehearsed_free(struct rehearsed *n) {
    for (uint32_t i = 0; n->profiles && i < n->of.model_count * n->of.type_count; i++)
        free(n->profiles[i]);
    free(n->profiles);
    free(n->models);
    free(n->accelerator_type);
    free(n->memory);
    recording_free(&n->of);
    *n = (struct rehearsed){.of = {.requests = NULL}};
}

static struct profile *profile_make(const struct recording_model *model, uint32_t type) {
    struct profile *profile = malloc(profile_bytes(model->batch_max));
    uint32_t *batch = malloc(model->batch_max * sizeof(*batch));
    for (uint32_t b = 0; batch && b < model->batch_max; b++)
        batch[b] = b + 1;
    bool made =
        profile && batch &&
        profile_set_points(profile, model->batch_max, batch, model->latency_ns[type] + 1, model->batch_max) == 0;
    free(batch);
    if (!made)
        free(profile);
    return made ? profile : NULL;
}

static int model_make(struct rehearsed *n, uint32_t m) {
    const struct recording_model *from = &n->of.models[m];
    struct sim_model *to = &n->models[m];
    *to = (struct sim_model){
        .batch_max = from->batch_max,
        .slo_ns = from->slo_ns,
        .weight = from->weight,
        .share = 1,
        .items_least = 1,
        .items_most = 1,
    };
    for (uint32_t t = 0; t < n->of.type_count; t++) {
        if (!from->latency_ns[t])
            continue;
        to->profiles[t] = n->profiles[m * n->of.type_count + t] = profile_make(from, t);
        if (!to->profiles[t])
            return -ENOMEM;
    }
    return 0;
}

static int arrays_make(struct rehearsed *n, uint32_t accelerators) {
    const struct recording *of = &n->of;
    n->models = calloc(of->model_count, sizeof(*n->models));
    n->profiles = calloc((size_t)of->model_count * of->type_count, sizeof(*n->profiles));
    n->accelerator_type = malloc(accelerators);
    if (!n->models || !n->profiles || !n->accelerator_type)
        return -ENOMEM;
    for (uint32_t t = 0, a = 0; t < of->type_count; t++)
        for (uint32_t i = 0; i < of->types[t].count; i++)
            n->accelerator_type[a++] = (uint8_t)t;
    int rc = 0;
    for (uint32_t m = 0; m < of->model_count && !rc; m++)
        rc = model_make(n, m);
    return rc;
}

/* The rate that a twin's memory is for: twice what comes at it within the longest SLO. */
static double rate_room(const struct rehearsed *n) {
    double slo_s = 0, rate = ROOM / 2 * (double)n->of.request_count;
    for (uint32_t m = 0; m < n->of.model_count; m++) {
        double own_s = (double)n->of.models[m].slo_ns / (double)NS_PER_S;
        slo_s = own_s > slo_s ? own_s : slo_s;
    }
    return rate * slo_s < HELD_MOST / 2 ? rate : HELD_MOST / 2 / slo_s;
}

/* Takes the recording over. 0, -ENOMEM, or -ENOENT: there is nothing to emulate. */
static int rehearsed_make(struct rehearsed *n, const struct server *s, struct recording *of) {
    uint32_t accelerators = 0;
    rehearsed_free(n);
    n->of = *of;
    *of = (struct recording){.requests = NULL};
    for (uint32_t t = 0; t < n->of.type_count; t++)
        accelerators += n->of.types[t].count;
    if (accelerators == 0 || n->of.model_count == 0)
        return -ENOENT;
    int rc = arrays_make(n, accelerators);
    if (rc)
        return rc;
    n->step.rate_rps = rate_room(n);
    free(n->of.requests);
    n->of.requests = NULL;
    n->config = (struct sim_config){
        .models = n->models,
        .model_count = n->of.model_count,
        .accelerator_type = n->accelerator_type,
        .accelerators = accelerators,
        .types = n->of.type_count,
        .subclusters = s->wiring.rank_threads,
        .steps = &n->step,
        .step_count = 1,
        .seconds = REHEARSED_S,
        .ctrl_ns = n->of.ctrl_ns,
        .reply_margin_ns = n->of.reply_margin_ns,
        .policy = n->of.policy,
        .options = n->of.options,
    };
    n->memory = aligned_alloc(CACHE_LINE, rehearsal_bytes(&n->config));
    if (!n->memory)
        return -ENOMEM;
    n->rehearsal = rehearsal_init(n->memory, &n->config);
    return 0;
}

static bool models_same(const struct recording_model *a, const struct recording_model *b) {
    return strcmp(a->name, b->name) == 0 && a->version == b->version && a->since_ns == b->since_ns &&
           a->slo_ns == b->slo_ns && a->batch_max == b->batch_max;
}

/* Whether what is emulated is still what serves. */
static bool rehearsed_is(const struct rehearsed *n, const struct recording *of) {
    bool same = n->rehearsal && n->of.type_count == of->type_count && n->of.model_count == of->model_count;
    for (uint32_t t = 0; same && t < of->type_count; t++)
        same = n->of.types[t].count == of->types[t].count;
    for (uint32_t m = 0; same && m < of->model_count; m++)
        same = models_same(&n->of.models[m], &of->models[m]);
    return same;
}

/* ---- requests ---- */

static int by_arrival(const void *a, const void *b) {
    const struct recorded_request *x = a, *y = b;
    return (x->arrival_ns > y->arrival_ns) - (x->arrival_ns < y->arrival_ns);
}

static void requests_tell(struct server_rehearsal *r, struct recording *of, int64_t until_ns) {
    qsort(of->requests, of->request_count, sizeof(*of->requests), by_arrival); /* of several threads */
    for (uint64_t i = 0; i < of->request_count; i++) {
        const struct recorded_request *request = &of->requests[i];
        const struct recording_model *model = recording_model_of(of, request);
        if (request->arrival_ns < r->fed_ns || request->arrival_ns >= until_ns || !model)
            continue;
        struct request_message message = {
            .kind = REQUEST_ARRIVED,
            .arrival_ns = request->arrival_ns,
            .deadline_ns = request->arrival_ns + (int64_t)request->left_us * NS_PER_US,
            .items = request->items,
            .model = (uint32_t)(model - of->models),
            .priority = request->priority,
        };
        rehearsal_request(r->now.rehearsal, message.arrival_ns, &message);
    }
    r->fed_ns = until_ns;
}

/* ---- looks ---- */

static void way_set(struct server *s, uint32_t way) {
    struct server_rehearsal *r = s->rehearsal;
    if (way == atomic_load_explicit(&r->way, memory_order_relaxed)) /* own word */
        return;
    log_info("another way of the policy is better now", "policy=%s way=%s", s->config.policy->name,
             s->config.policy->way_names[way]);
    atomic_store_explicit(&r->way, way, memory_order_relaxed); /* these for metrics */
    atomic_fetch_add_explicit(&r->changes, 1, memory_order_relaxed);
    for (uint32_t k = 0; k < s->wiring.rank_threads; k++)
        rank_thread_way_set(s->rank_threads[k], way);
}

static void end(struct server *s) {
    rehearsed_free(&s->rehearsal->now);
    atomic_store_explicit(&s->rehearsal->runs, false, memory_order_relaxed); /* for metrics */
    way_set(s, 0);
}

/* A look with the recording since then. 0, or nothing is to be rehearsed: -EFBIG: there were too many requests;
 * -ENOENT; -ENOMEM. */
static int look_with(struct server *s, struct recording *of, int64_t from_ns, int64_t now_ns,
                     const struct autoscale_seen *seen) {
    struct server_rehearsal *r = s->rehearsal;
    if (of->start_ns > from_ns) /* it lacks earlier ones */
        return -EFBIG;
    if (!rehearsed_is(&r->now, of)) {
        int rc = rehearsed_make(&r->now, s, of);
        if (rc)
            return rc;
        r->fed_ns = now_ns - BEHIND_NS;
    } else {
        requests_tell(r, of, now_ns - BEHIND_NS);
    }
    uint32_t way = rehearsal_look(r->now.rehearsal, r->fed_ns, seen->requests, seen->bad);
    if (!rehearsal_runs(r->now.rehearsal))
        return -ENOENT;
    way_set(s, way);
    return 0;
}

static void look(struct server *s) {
    struct server_rehearsal *r = s->rehearsal;
    int64_t now_ns = clock_now_ns();
    struct advisor_load load;
    struct recording of;
    server_load_since(s, &r->load, now_ns, &load);
    bool leads = !s->scheduler_link || scheduler_link_leads(s->scheduler_link);
    if (!leads || (!r->now.rehearsal && !rehearsal_begins(load.all.requests, load.all.bad))) {
        end(s);
        return;
    }
    int64_t from_ns = r->now.rehearsal ? r->fed_ns : now_ns - REHEARSAL_EVERY_NS;
    from_ns = from_ns > s->started_ns ? from_ns : s->started_ns;
    int rc = server_recording_read(s, from_ns, REQUESTS_MOST, &of);
    rc = rc ? rc : look_with(s, &of, from_ns, now_ns, &load.all);
    recording_free(&of);
    if (rc)
        end(s);
    else
        atomic_store_explicit(&r->runs, true, memory_order_relaxed); /* for metrics */
}

/* Waits for a while; false: the thread is to end. */
static bool wait_until(struct server_rehearsal *r, int64_t until_ns) {
    const struct timespec until = clock_sleep_end(until_ns);
    pthread_mutex_lock(&r->lock);
    int rc = 0;
    while (!r->stop && rc == 0)
        rc = pthread_cond_timedwait(&r->stopped, &r->lock, &until);
    bool stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    return !stop;
}

static void *rehearsal_main(void *server) {
    struct server *s = server;
    thread_begin("rehearsal", 0, THREAD_BACKGROUND);
    int64_t next_ns = clock_now_ns() + REHEARSAL_EVERY_NS;
    while (wait_until(s->rehearsal, next_ns)) {
        next_ns = time_due_again(next_ns, REHEARSAL_EVERY_NS, clock_now_ns());
        look(s);
    }
    return NULL;
}

int server_rehearsal_start(struct server *s, struct sy_error *err) {
    if (s->central_thread || !server_schedules(s) || s->config.record_bytes == 0 ||
        policy_ways(s->config.policy, &s->config.policy_options) < 2)
        return 0;
    struct server_rehearsal *r = calloc(1, sizeof(*r));
    if (!r || server_load_init(s, &r->load) < 0) {
        free(r);
        return error_set(err, -ENOMEM, "no memory for rehearsals");
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->stopped, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&r->lock, NULL);
    s->rehearsal = r;
    int rc = -pthread_create(&r->thread, NULL, rehearsal_main, s);
    if (rc == 0)
        return 0;
    s->rehearsal = NULL;
    server_load_free(&r->load);
    pthread_cond_destroy(&r->stopped);
    pthread_mutex_destroy(&r->lock);
    free(r);
    return error_set(err, rc, "cannot start the thread that rehearses: %s", strerror(-rc));
}

void server_rehearsal_stop(struct server *s) {
    struct server_rehearsal *r = s->rehearsal;
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->stopped);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    rehearsed_free(&r->now);
    server_load_free(&r->load);
    pthread_cond_destroy(&r->stopped);
    pthread_mutex_destroy(&r->lock);
    free(r);
    s->rehearsal = NULL;
}

void server_rehearsal_render(const struct server *s, struct text *out) {
    const struct server_rehearsal *r = s->rehearsal;
    if (!r)
        return;
    uint32_t way = atomic_load_explicit(&r->way, memory_order_relaxed); /* these for metrics */
    uint64_t changes = atomic_load_explicit(&r->changes, memory_order_relaxed);
    bool runs = atomic_load_explicit(&r->runs, memory_order_relaxed);
    metric_heading(out, "symphony_policy_way", "gauge", "1 for the way by which the policy decides now.");
    for (uint32_t w = 0; w < policy_ways(s->config.policy, &s->config.policy_options); w++)
        text_printf(out, "symphony_policy_way{way=\"%s\"} %d\n", s->config.policy->way_names[w], w == way);
    metric_heading(out, "symphony_policy_way_changes_total", "counter", "How often it has changed.");
    text_printf(out, "symphony_policy_way_changes_total %llu\n", (unsigned long long)changes);
    metric_heading(out, "symphony_rehearsal_running", "gauge",
                   "1 while the ways are rehearsed: requests were lost lately.");
    text_printf(out, "symphony_rehearsal_running %d\n", runs);
}
