/* replay.c - merges a scenario's streams of requests in time. */
#include "lab/load/replay.h"

#include <errno.h>
#include <stdlib.h>

static void stream_next(struct replay *r, uint32_t model) {
    if (workload_stream_next(&r->streams[model], &r->requests[model]))
        heap_set(&r->heap, model, r->requests[model].arrival_ns);
    else
        heap_remove(&r->heap, model);
}

int replay_init(struct replay *r, const struct sim_config *workload, int64_t start_ns) {
    uint32_t count = workload->model_count;
    *r = (struct replay){
        .workload = workload,
        .entries = calloc(count, sizeof(*r->entries)),
        .position = calloc(count, sizeof(*r->position)),
        .streams = calloc(count, sizeof(*r->streams)),
        .requests = calloc(count, sizeof(*r->requests)),
        .start_ns = start_ns,
    };
    if (!r->entries || !r->position || !r->streams || !r->requests) {
        replay_free(r);
        return -ENOMEM;
    }
    heap_init(&r->heap, r->entries, r->position, count);
    double shares = workload_shares(workload);
    for (uint32_t m = 0; m < count; m++) {
        workload_stream_init(&r->streams[m], workload, m, shares);
        stream_next(r, m);
    }
    return 0;
}

void replay_free(struct replay *r) {
    free(r->entries);
    free(r->position);
    free(r->streams);
    free(r->requests);
    *r = (struct replay){0};
}

bool replay_next(struct replay *r, struct arrival *arrival) {
    if (heap_empty(&r->heap))
        return false;
    uint32_t model = heap_top(&r->heap).item;
    const struct workload_request *request = &r->requests[model];
    *arrival = (struct arrival){.due_ns = r->start_ns + request->arrival_ns, .model = model, .slo_ns = request->slo_ns};
    stream_next(r, model);
    return true;
}
