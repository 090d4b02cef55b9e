/* rehearsed.c - the emulated cluster that a rehearsal runs on, made from a recording. */
#include "server/load/rehearsed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A twin has room for ROOM times the requests that come within the longest SLO, but at most for about HELD_MOST. */
#define ROOM      4
#define HELD_MOST 1e6
/* Length of the emulated run; longer than a rehearsal lasts. */
#define REHEARSED_S 1e8

void rehearsed_free(struct rehearsed *n) {
    for (uint32_t i = 0; n->profiles && i < n->of.model_count * n->of.type_count; i++)
        free(n->profiles[i]);
    free(n->profiles);
    free(n->models);
    free(n->accelerator_type);
    if (n->memory)
        munmap(n->memory, n->memory_bytes);
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
    bool runs = false;
    for (uint32_t t = 0; t < n->of.type_count; t++) {
        if (!from->latency_ns[t])
            continue;
        runs = true;
        to->profiles[t] = n->profiles[m * n->of.type_count + t] = profile_make(from, t);
        if (!to->profiles[t])
            return -ENOMEM;
    }
    return runs ? 0 : -ENOENT;
}

/* The rate for which a twin's memory is made: ROOM / 2 times that of the recording's period, which lasts about a
 * second, or less, so that no more than HELD_MOST requests are held. Requests from before the period may be there. */
static double rate_room(const struct rehearsed *n) {
    double slo_s = 0, rate = 0;
    for (uint64_t i = 0; i < n->of.request_count; i++)
        rate += n->of.requests[i].arrival_ns >= n->of.start_ns ? ROOM / 2 : 0;
    for (uint32_t m = 0; m < n->of.model_count; m++) {
        double own_s = (double)n->of.models[m].slo_ns / (double)NS_PER_S;
        slo_s = own_s > slo_s ? own_s : slo_s;
    }
    return rate * slo_s < HELD_MOST / 2 ? rate : HELD_MOST / 2 / slo_s;
}

int rehearsed_make(struct rehearsed *n, uint32_t subclusters, struct recording *of) {
    uint32_t accelerators = 0;
    rehearsed_free(n);
    n->of = *of;
    *of = (struct recording){.requests = NULL};
    for (uint32_t t = 0; t < n->of.type_count; t++)
        accelerators += n->of.types[t].count;
    if (accelerators == 0 || n->of.model_count == 0)
        return -ENOENT;
    n->models = calloc(n->of.model_count, sizeof(*n->models));
    n->profiles = calloc((size_t)n->of.model_count * n->of.type_count, sizeof(*n->profiles));
    n->accelerator_type = malloc(accelerators);
    if (!n->models || !n->profiles || !n->accelerator_type)
        return -ENOMEM;
    for (uint32_t t = 0, a = 0; t < n->of.type_count; t++)
        for (uint32_t i = 0; i < n->of.types[t].count; i++)
            n->accelerator_type[a++] = (uint8_t)t;
    int rc = 0;
    for (uint32_t m = 0; m < n->of.model_count && !rc; m++)
        rc = model_make(n, m);
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
        .subclusters = subclusters,
        .steps = &n->step,
        .step_count = 1,
        .seconds = REHEARSED_S,
        .ctrl_ns = n->of.ctrl_ns,
        .reply_margin_ns = n->of.reply_margin_ns,
        .policy = n->of.policy,
        .options = n->of.options,
    };
    n->memory_bytes = rehearsal_bytes(&n->config);
    /* not by malloc(), which may keep it when the rehearsal has ended */
    void *memory = mmap(NULL, n->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    n->memory = memory;
    n->rehearsal = rehearsal_init(n->memory, &n->config);
    return 0;
}

bool rehearsed_is(const struct rehearsed *n, const struct recording *of) {
    bool same = n->rehearsal && n->of.type_count == of->type_count && n->of.model_count == of->model_count;
    for (uint32_t t = 0; same && t < of->type_count; t++)
        same = n->of.types[t].count == of->types[t].count;
    for (uint32_t m = 0; same && m < of->model_count; m++) {
        const struct recording_model *a = &n->of.models[m], *b = &of->models[m];
        same = strcmp(a->name, b->name) == 0 && a->version == b->version && a->since_ns == b->since_ns &&
               a->slo_ns == b->slo_ns && a->batch_max == b->batch_max;
    }
    return same;
}

static int by_arrival(const void *a, const void *b) {
    const struct recorded_request *x = a, *y = b;
    return (x->arrival_ns > y->arrival_ns) - (x->arrival_ns < y->arrival_ns);
}

void rehearsed_tell(struct rehearsed *n, struct recording *of, int64_t from_ns, int64_t until_ns) {
    qsort(of->requests, of->request_count, sizeof(*of->requests),
          by_arrival); /* they were recorded by several threads */
    for (uint64_t i = 0; i < of->request_count; i++) {
        const struct recorded_request *request = &of->requests[i];
        const struct recording_model *model = recording_model_of(of, request);
        if (request->arrival_ns < from_ns || request->arrival_ns >= until_ns || !model || request->hurried)
            continue;
        struct request_message message = {
            .kind = REQUEST_ARRIVED,
            .arrival_ns = request->arrival_ns,
            .deadline_ns = request->arrival_ns + (int64_t)request->left_us * NS_PER_US,
            .items = request->items,
            .place = {(uint32_t)(model - of->models)},
            .priority = request->priority,
        };
        rehearsal_request(n->rehearsal, message.arrival_ns, &message);
    }
}
