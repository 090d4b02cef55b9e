/* server_recording.c - collects the requests that threads recorded, and the tables and margins of the threads' plans.
 * Disturbs no thread. */
#include "server/load/server_recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "core/util/container.h"
#include "core/util/counter.h"
#include "core/util/margin.h"
#include "front/http/http_source.h"

#define RUNS_LEAST 8 /* runs of a batch size from which on their mean counts */
/* Divisor: the reply margin takes at most this part of a request's time, as in front/request/port.c. */
#define MARGIN_PART 4

/* ---- models ---- */

/* The latency of each batch size: the mean of its runs, gathering included; for a size with few runs, the profile,
 * corrected by what the runs of all sizes took. Several types are not corrected, since it is not known which type ran
 * which batch. */
static int64_t *table_make(const struct thread_rings *rings, struct thread_model_id m, uint32_t type, int64_t data_ns) {
    const struct profile *profile = rings_model(rings, m)->profiles[type];
    uint32_t most = rings_model(rings, m)->batch_max;
    double took_ns = 0, profiled_ns = 0;
    for (uint32_t b = 1; b <= most && rings->types == 1; b++) {
        const struct batch_counters *batch = &rings->batches[m.n][b - 1];
        took_ns += (double)counter_get(&batch->run_ns);
        profiled_ns += (double)counter_get(&batch->batches) * (double)profile->latency_ns[b];
    }
    double share = took_ns > 0 && profiled_ns > 0 ? took_ns / profiled_ns : 1;
    int64_t *latency_ns = calloc(most + 1, sizeof(*latency_ns));
    for (uint32_t b = 1; latency_ns && b <= most; b++) {
        const struct batch_counters *batch = &rings->batches[m.n][b - 1];
        uint64_t ran = rings->types == 1 ? counter_get(&batch->batches) : 0;
        uint64_t ran_ns = counter_get(&batch->run_ns) + counter_get(&batch->gather_ns);
        int64_t ns = ran >= RUNS_LEAST ? (int64_t)(ran_ns / ran)
                                       : (int64_t)(share * (double)profile->latency_ns[b]) + data_ns * b;
        latency_ns[b] = ns > latency_ns[b - 1] ? ns : latency_ns[b - 1] + 1;
    }
    return latency_ns;
}

static int model_read(const struct scheduling *s, uint32_t served, const struct served_model *model,
                      struct recording_model *to) {
    const struct server_placement *p = &s->placements[served];
    const struct thread_rings *rings = scheduling_rings(s, p->thread);
    const struct thread_model *told = rings_model(rings, p->thread_model);
    int64_t ctrl_ns, data_ns;
    rings_delays(rings, p->thread_model, &ctrl_ns, &data_ns);
    *to = (struct recording_model){
        .version = model->version,
        .batch_max = told->batch_max,
        .slo_ns = told->slo_ns,
        .weight = told->weight,
        .weights_bytes = told->weights_bytes,
        .load_ns = told->load_ns,
        .pinned = told->pinned,
        .priorities = s->wiring->central ? 0 : model->queue.priorities, /* central policies have no priorities */
        .since_ns = atomic_load_explicit(&rings->since_ns[p->thread_model.n], memory_order_relaxed),
    };
    memcpy(to->name, model->name, sizeof(to->name));
    for (uint32_t t = 0; t < s->wiring->types; t++)
        if (told->profiles[t] && !(to->latency_ns[t] = table_make(rings, p->thread_model, t, data_ns)))
            return -ENOMEM;
    return 0;
}

/* The recording that a cluster's link fills in. */
struct told {
    const struct scheduling *scheduling;
    struct recording *recording;
    int rc;
};

/* Types of the same name whose backends have different models are different types. */
static void told_type(void *context, uint32_t class, const char *type, uint32_t count) {
    struct recording *r = ((struct told *)context)->recording;
    char *name = r->type_names[class];
    uint32_t alike = 0;
    r->type_count = class + 1; /* classes come in order */
    for (uint32_t c = 0; c < class; c++) {
        size_t length = strlen(type);
        alike += strncmp(r->type_names[c], type, length) == 0 && strchr("#", r->type_names[c][length]) != NULL;
    }
    snprintf(name, sizeof(r->type_names[0]), alike ? "%.59s#%u" : "%.63s", type, alike + 1);
    r->types[class] = (struct recording_type){name, count};
}

static void told_model(void *context, uint32_t served, const struct served_model *model) {
    struct told *told = context;
    struct recording *r = told->recording;
    if (told->rc || r->model_count == r->served)
        return;
    r->model_of[served] = r->model_count;
    told->rc = model_read(told->scheduling, served, model, &r->models[r->model_count++]);
}

/* The models of a cluster, as its link tells of them, and the types of its accelerators. Types of which no accelerator
 * is in service now count if a model runs on them, so that each model runs on some. */
static int cluster_read(struct server_recordings *of, struct recording *r) {
    struct told told = {of->scheduling, r, 0};
    const struct scheduler_link_describer to = {told_type, told_model, &told};
    r->models = calloc(r->served + 1, sizeof(*r->models));
    if (!r->models)
        return -ENOMEM;
    pthread_mutex_lock(&of->describe_lock);
    int rc = scheduler_link_describe(of->scheduling->link, &to);
    pthread_mutex_unlock(&of->describe_lock);
    for (uint32_t m = 0; m < r->model_count; m++)
        for (uint32_t t = r->type_count; t < ACCELERATOR_TYPES_MAX; t++)
            if (r->models[m].latency_ns[t])
                r->type_count = t + 1;
    return rc ? rc : told.rc;
}

/* The models that this process serves, read under the lock that keeps them unchanged, and its types of accelerators. */
static int models_read(struct server_recordings *of, struct recording *r) {
    const struct executors *e = of->executors;
    r->type_count = e->type_count;
    for (uint32_t t = 0; t < r->type_count; t++)
        r->types[t].name = e->types[t].type;
    for (uint32_t a = 0; a < e->wiring->accelerators; a++)
        r->types[e->type_of[a]].count += wiring_accelerator_state(e->wiring, a) == ACCELERATOR_SERVING;
    const struct model_index *listed = model_list_lock(of->models);
    r->models = calloc(listed->count + 1, sizeof(*r->models));
    int rc = r->models ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < listed->count && !rc; i++) {
        /* models that share their first layers are one model for the scheduler, and in the recording */
        uint32_t served = wiring_host(e->wiring, listed->listed[i]);
        const struct served_model *model = &listed->models[served];
        if (served_model_state(model) != MODEL_READY ||
            model->ensemble || /* the recording has the requests of its steps */
            r->model_of[served] != UINT32_MAX)
            continue;
        r->model_of[served] = r->model_count;
        rc = model_read(of->scheduling, served, model, &r->models[r->model_count++]);
    }
    model_list_unlock(of->models);
    return rc;
}

int server_recording_read(struct server_recordings *of, int64_t from_ns, uint64_t requests_most, struct recording *r) {
    const struct scheduling *s = of->scheduling;
    const struct frontends *fs = of->models->frontends;
    uint32_t threads = s->wiring->model_threads;
    int64_t slo_ns = INT64_MAX;
    *r = (struct recording){
        .policy = s->config->policy,
        .options = s->config->policy_options,
        .memory_bytes = s->config->memory_bytes,
        .start_ns = from_ns > of->started_ns ? from_ns : of->started_ns,
        .end_ns = clock_now_ns(),
        .served = of->models->count,
        .cluster = s->link != NULL,
    };
    r->model_of = malloc((r->served + 1) * sizeof(*r->model_of));
    if (!r->model_of)
        return -ENOMEM;
    for (uint32_t i = 0; i < r->served; i++)
        r->model_of[i] = UINT32_MAX;
    int rc = s->link ? cluster_read(of, r) : models_read(of, r);
    if (rc)
        return rc;
    /* requests from before a ring's oldest request are missing, so the recording begins there */
    r->requests = malloc(requests_most * sizeof(*r->requests)); /* untouched pages cost nothing */
    if (!r->requests)
        return -ENOMEM;
    for (uint32_t t = 0; t < threads; t++) {
        const struct recorder *recorder = &scheduling_rings(s, t)->recorder;
        uint64_t most = requests_most / threads;
        struct recorded_request *into = &r->requests[r->request_count];
        uint64_t count = recorder_read(recorder, r->end_ns, into, most);
        bool whole = recorder_overwritten(recorder) == 0 && count < most;
        if (count && !whole && into[0].arrival_ns > r->start_ns)
            r->start_ns = into[0].arrival_ns;
        r->overwritten += recorder_overwritten(recorder);
        r->request_count += count;
    }
    /* one margin of each kind for all models, as in a scenario: at most what the scheduler allows for the shortest
     * SLO */
    for (uint32_t m = 0; m < r->model_count; m++)
        slo_ns = r->models[m].slo_ns < slo_ns ? r->models[m].slo_ns : slo_ns;
    for (uint32_t t = 0; t < threads; t++) {
        int64_t ctrl_ns = rings_ctrl_ns(scheduling_rings(s, t), slo_ns);
        r->ctrl_ns = ctrl_ns > r->ctrl_ns ? ctrl_ns : r->ctrl_ns;
    }
    for (uint32_t f = 0; f < fs->count; f++) {
        int64_t reply_ns = margin_ns(port_reply_margin(fs->ports[f]));
        r->reply_margin_ns = reply_ns > r->reply_margin_ns ? reply_ns : r->reply_margin_ns;
    }
    if (r->reply_margin_ns > slo_ns / MARGIN_PART)
        r->reply_margin_ns = slo_ns / MARGIN_PART;
    return 0;
}

/* ---- the document, in pieces ---- */

struct recording_source {
    struct http_source source;
    struct recording recording;
    struct text head; /* part of the document before the requests; empty once it is sent */
    uint64_t next;    /* index of the next request to write */
};

static void recording_more(struct http_source *source, struct text *out) {
    struct recording_source *r = container_of(source, struct recording_source, source);
    text_append(out, r->head.data, r->head.length);
    text_free(&r->head);
    r->next = recording_trace_write(&r->recording, r->next, HTTP_PIECE_BYTES, out);
}

static void recording_end(struct http_source *source) {
    struct recording_source *r = container_of(source, struct recording_source, source);
    text_free(&r->head);
    recording_free(&r->recording);
    free(r);
}

struct http_source *server_recording_open(struct server_recordings *of, double seconds, int *rc, struct sy_error *err) {
    if (!of->history) {
        *rc = error_set(err, -ENOENT, "nothing is recorded: the server runs with --record-mib 0");
        return NULL;
    }
    struct recording_source *r = calloc(1, sizeof(*r));
    int64_t from_ns = clock_now_ns() - (int64_t)(seconds * (double)NS_PER_S);
    *rc = r ? server_recording_read(of, from_ns, RECORDING_REQUESTS_MAX, &r->recording) : -ENOMEM;
    if (r)
        r->recording.looks = server_history_read(of->history, &r->recording.look_count);
    *rc = *rc == 0 && !r->recording.looks ? -ENOMEM : *rc;
    if (*rc)
        error_set(err, *rc, "the recording cannot be made: %s", strerror(-*rc));
    else
        *rc = recording_head_write(&r->recording, &r->head, err);
    if (*rc) {
        if (r)
            recording_end(&r->source);
        return NULL;
    }
    struct text piece = {0};
    size_t bytes = r->head.length; /* of the document, which is made for this and not kept */
    for (uint64_t next = 0; next < r->recording.request_count; bytes += piece.length) {
        piece.length = 0;
        next = recording_trace_write(&r->recording, next, HTTP_PIECE_BYTES, &piece);
    }
    text_free(&piece);
    r->source = (struct http_source){.bytes = bytes, .more = recording_more, .end = recording_end};
    return &r->source;
}
