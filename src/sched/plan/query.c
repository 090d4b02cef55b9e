/* query.c - a query's way through its stages. */
#include "sched/plan/query.h"

#include <string.h>

#include "core/util/assert.h"

#define MOST_OF_PART 1.5 /* multiple of its part that a stage with floating deadlines may take */

size_t query_bytes(uint32_t stages) {
    return sizeof(struct query) + stages * sizeof(struct query_stage);
}

void query_begin(struct query *q, const struct pipeline *pipeline, struct pipeline_times *times, int64_t now_ns,
                 int64_t deadline_ns) {
    memset(q, 0, query_bytes(pipeline->stage_count));
    q->pipeline = pipeline;
    q->times = times;
    q->arrival_ns = now_ns;
    q->deadline_ns = deadline_ns;
    q->stretch = 1;
}

void query_stretch(struct query *q, double stretch) {
    q->stretch = stretch;
}

/* The time that a stage leaves to the stages behind it. */
static int64_t kept_ns(const struct query *q, uint32_t v) {
    int64_t rest_ns = (int64_t)(q->stretch * (double)q->times->rest_ns[v]), least_ns = q->times->least_ns[v];
    return rest_ns > least_ns ? rest_ns : least_ns;
}

/* With much more time than its part a stage's batches get so large that those of other stages, which share the
 * accelerators, get small. */
static int64_t stage_deadline(const struct query *q, uint32_t v, int64_t now_ns) {
    double part_ns = q->stretch * (double)q->pipeline->stages[v].part_ns;
    if (q->pipeline->deadlines == PIPELINE_FIXED)
        return time_earlier(now_ns + (int64_t)part_ns, q->deadline_ns);
    return time_earlier(now_ns + (int64_t)(MOST_OF_PART * part_ns), q->deadline_ns - kept_ns(q, v));
}

static void stage_end(struct query *q, uint32_t v) {
    uint32_t stages = q->pipeline->stage_count;
    q->ended |= 1ULL << v;
    if (q->ended == (stages < 64 ? (1ULL << stages) - 1 : UINT64_MAX))
        q->end = QUERY_GOOD;
}

void query_stage_skip(struct query *q, uint32_t v) {
    q->begun |= 1ULL << v;
    stage_end(q, v);
}

bool query_stage_ready(const struct query *q, uint32_t *stage, uint32_t *before) {
    for (uint32_t v = 0; v < q->pipeline->stage_count && q->end == QUERY_RUNS; v++) {
        uint64_t after = q->pipeline->stages[v].after;
        if ((q->begun >> v & 1) || (after & ~q->ended))
            continue;
        *stage = v;
        *before = after ? 0 : 1; /* items of the stages before it */
        for (; after; after &= after - 1)
            *before += q->stages[__builtin_ctzll(after)].items;
        return true;
    }
    return false;
}

void query_stage_begin(struct query *q, uint32_t v, int64_t now_ns, uint32_t items) {
    q->begun |= 1ULL << v;
    q->stages[v] = (struct query_stage){.begun_ns = now_ns,
                                        .deadline_ns = stage_deadline(q, v, now_ns),
                                        .kept_ns = kept_ns(q, v),
                                        .items = items,
                                        .left = items};
    if (!items)
        stage_end(q, v);
}

void query_request_sent(struct query *q, uint32_t stage) {
    CHECK_LT(q->stages[stage].sent, q->stages[stage].items);
    q->stages[stage].sent++;
    q->away++;
}

void query_request_ended(struct query *q, uint32_t v, int64_t now_ns, bool ran) {
    struct query_stage *stage = &q->stages[v];
    CHECK_LT(0, q->away);
    q->away--;
    if (q->end != QUERY_RUNS)
        return;
    if (!ran || now_ns > q->deadline_ns) {
        q->end = QUERY_LATE;
        return;
    }
    if (--stage->left)
        return;
    pipeline_times_add(q->times, q->pipeline, v, now_ns - stage->begun_ns);
    stage_end(q, v);
}

void query_request_refused(struct query *q, enum refusal reason) {
    CHECK_LT(0, q->away);
    q->away--;
    if (q->end != QUERY_RUNS)
        return;
    q->end = QUERY_DROPPED;
    q->reason = reason;
}

/* Why not later: a stage without enough accelerators that might also take the time kept for later stages would refuse
 * nothing. Queries would come to their last stage with time for small batches only. There they are lost, after all that
 * they have cost, and more of them than early refusals would be. */
int64_t query_latest_ns(const struct query *q, uint32_t stage, int64_t most_ns) {
    return most_ns - q->stages[stage].kept_ns;
}

bool query_request_again(const struct query *q, uint32_t stage, int64_t now_ns, int64_t asked_ns, int64_t most_ns,
                         int64_t *deadline_ns) {
    const struct pipeline *p = q->pipeline;
    if (q->end != QUERY_RUNS || p->deadlines == PIPELINE_FIXED)
        return false;
    *deadline_ns = query_latest_ns(q, stage, most_ns);
    return *deadline_ns > asked_ns && now_ns + p->stages[stage].least_ns <= *deadline_ns;
}

void query_cancel(struct query *q) {
    if (q->end == QUERY_RUNS)
        q->end = QUERY_CANCELLED;
}
