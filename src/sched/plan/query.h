/* query.h - one query of a pipeline: which stages may begin, with how many items and by when, and how it ends: once.
 *
 *     query_begin(), then after it and after each end of a request:
 *         while (query_stage_ready(...)) query_stage_begin(...), and for each item query_request_sent()
 *     for each request that comes back: query_request_ended() or query_request_refused()
 *
 * A stage begins when all stages before it have ended; without items it ends at once. A query is good when its last
 * stage has ended in time. It is dead as soon as a request of it is refused or lost, or ends after the query's
 * deadline; then no stage begins, and the caller takes back what still waits. The query is not to be forgotten before
 * all its requests have come back (`away`).
 *
 * Pure; memory is the caller's. */
#pragma once

#include <stddef.h>

#include "core/data/messages.h"
#include "sched/plan/pipeline.h"

enum query_end {
    QUERY_RUNS,
    QUERY_GOOD,
    QUERY_DROPPED, /* a request of it was refused: `reason` */
    QUERY_LATE,    /* a request of it ended after the query's deadline, or was lost with its accelerator */
    QUERY_CANCELLED,
};

struct query_stage {
    int64_t begun_ns, deadline_ns;
    int64_t kept_ns;      /* time kept for the stages behind this one, as of its beginning */
    uint64_t first;       /* the caller's number of the first request; the other requests have the next numbers */
    uint32_t items, left; /* requests in all; requests that have not ended */
    uint32_t sent;        /* requests that were sent */
};

struct query {
    const struct pipeline *pipeline;
    struct pipeline_times *times; /* times of all queries of the pipeline */
    int64_t arrival_ns, deadline_ns;
    double stretch;        /* factor of the SLO and of the stages' parts */
    uint64_t begun, ended; /* stages that have begun, that have ended: a bit each */
    uint32_t away;         /* requests that were sent and have not come back */
    enum query_end end;
    enum refusal reason;
    struct query_stage stages[]; /* [stage_count] */
};

/* Bytes of a query with so many stages. */
size_t query_bytes(uint32_t stages);
/* A query arrives. `pipeline` and `times` must outlive the query. */
void query_begin(struct query *query, const struct pipeline *pipeline, struct pipeline_times *times, int64_t now_ns,
                 int64_t deadline_ns);
/* The query has `stretch` times the pipeline's SLO, and each stage `stretch` times its part. May be called right after
 * query_begin(). */
void query_stretch(struct query *query, double stretch);
/* Leaves a stage out: the stage has ended, with no items. All stages that wait for it must be left out, too. Called
 * before any stage begins. */
void query_stage_skip(struct query *query, uint32_t stage);
/* Finds a stage that may begin, and the items of the stages before it (1 if there are no such stages). False: no stage
 * may begin now. */
bool query_stage_ready(const struct query *query, uint32_t *stage, uint32_t *items_before);
/* The stage begins with `items` items. Each item is a request whose deadline is query->stages[stage].deadline_ns. */
void query_stage_begin(struct query *query, uint32_t stage, int64_t now_ns, uint32_t items);
/* A request of a stage that has begun is on its way. */
void query_request_sent(struct query *query, uint32_t stage);
/* A request of a stage was run; or, with `ran` false, it was lost with its accelerator. */
void query_request_ended(struct query *query, uint32_t stage, int64_t now_ns, bool ran);
void query_request_refused(struct query *query, enum refusal reason);
/* The latest end of a stage that has begun: it leaves the time for the stages behind it that was kept when it began.
 * `most_ns`: the query's deadline, or an earlier time to aim at. */
int64_t query_latest_ns(const struct query *query, uint32_t stage, int64_t most_ns);
/* A request of a stage was refused, because it could not be run by asked_ns. Returns whether the request has more time;
 * only with floating deadlines it may. Then *deadline_ns is query_latest_ns(), later than asked_ns, and the caller
 * sends the request once more; the request still counts as away. */
bool query_request_again(const struct query *query, uint32_t stage, int64_t now_ns, int64_t asked_ns, int64_t most_ns,
                         int64_t *deadline_ns);
/* The client has left. */
void query_cancel(struct query *query);
