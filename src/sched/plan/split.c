/* split.c - the SLO of a query divided among its stages, by dynamic programming on its series-parallel graph. */
#include "sched/plan/split.h"

#include <math.h>
#include <string.h>

#include "core/util/assert.h"

#define TIMES        (SPLIT_SEGMENTS + 1)
#define VERTICES_MAX (2 * SPLIT_STAGES_MAX + 2) /* vertices: the beginning, the end, and both ends of each stage */
#define NO_EDGE      0
#define EDGE_FREE    1 /* edge that takes no time: a stage follows another */
#define EDGE_OF      2 /* EDGE_OF + i: edge that takes the time of part i */

/* Some stages taken as one: how many GPUs they take together, by the time that they have together. */
struct part {
    enum { PART_STAGE, PART_SERIES, PART_PARALLEL } kind;
    uint32_t stage;            /* STAGE: its number */
    uint32_t left, right;      /* SERIES, PARALLEL: the two parts */
    double gpus[TIMES];        /* GPUs by time; never rises */
    uint16_t left_time[TIMES]; /* SERIES: pieces of the time that the left part has */
};

struct search {
    const struct split_stage *stages;
    uint32_t count, parts;
    int64_t slo_ns;
    uint64_t before[SPLIT_STAGES_MAX]; /* stages that end before each stage begins, a bit each */
    uint32_t vertices;
    uint16_t edge[VERTICES_MAX][VERTICES_MAX];
    uint32_t in[VERTICES_MAX], out[VERTICES_MAX]; /* edges that enter and leave each vertex */
    struct part part[];                           /* [2 * count] */
};

size_t split_bytes(uint32_t stages) {
    return sizeof(struct search) + 2 * (size_t)stages * sizeof(struct part);
}

/* ---- one stage ---- */

/* What a batch takes of a stage's time; at most INT64_MAX / 2, as at a low rate a large batch would gather for ever. */
static int64_t time_of(const struct split_stage *stage, uint32_t batch) {
    double time_ns = stage->turns * (double)stage->profile->latency_ns[batch];
    if (stage->gathers && batch > 1)
        time_ns += (batch - 1) / stage->rate * 1e9;
    return time_ns < (double)(INT64_MAX / 2) ? (int64_t)ceil(time_ns) : INT64_MAX / 2;
}

static double item_ns(const struct split_stage *stage, uint32_t batch) {
    return (double)stage->profile->latency_ns[batch] / batch;
}

static void part_set(const struct split_stage *stage, int64_t budget_ns, struct split_part *part) {
    *part = (struct split_part){.budget_ns = budget_ns, .gpus = INFINITY};
    for (uint32_t b = 1; b <= stage->batch_max; b++)
        if (time_of(stage, b) <= budget_ns && (!part->batch || item_ns(stage, b) < item_ns(stage, part->batch)))
            part->batch = b;
    if (part->batch)
        part->gpus = stage->rate * item_ns(stage, part->batch) / 1e9;
}

double split_gpus(const struct split_part *parts, uint32_t count) {
    double gpus = 0;
    for (uint32_t v = 0; v < count; v++)
        gpus += parts[v].gpus;
    return gpus;
}

/* ---- parts ---- */

static uint32_t stage_part(struct search *s, uint32_t v) {
    const struct split_stage *stage = &s->stages[v];
    struct part *part = &s->part[s->parts];
    part->kind = PART_STAGE;
    part->stage = v;
    for (uint32_t t = 0; t < TIMES; t++)
        part->gpus[t] = INFINITY;
    for (uint32_t b = 1; b <= stage->batch_max; b++) {
        if (time_of(stage, b) > s->slo_ns)
            continue;
        int64_t least = (time_of(stage, b) * SPLIT_SEGMENTS + s->slo_ns - 1) / s->slo_ns;
        part->gpus[least] = fmin(part->gpus[least], stage->rate * item_ns(stage, b) / 1e9);
    }
    for (uint32_t t = 1; t < TIMES; t++)
        part->gpus[t] = fmin(part->gpus[t], part->gpus[t - 1]);
    return s->parts++;
}

static uint32_t series_part(struct search *s, uint32_t left, uint32_t right) {
    struct part *part = &s->part[s->parts];
    *part = (struct part){.kind = PART_SERIES, .left = left, .right = right};
    for (uint32_t t = 0; t < TIMES; t++) {
        part->gpus[t] = INFINITY;
        for (uint32_t k = 0; k <= t; k++) {
            double gpus = s->part[left].gpus[k] + s->part[right].gpus[t - k];
            if (gpus < part->gpus[t]) {
                part->gpus[t] = gpus;
                part->left_time[t] = (uint16_t)k;
            }
        }
    }
    return s->parts++;
}

static uint32_t parallel_part(struct search *s, uint32_t left, uint32_t right) {
    struct part *part = &s->part[s->parts];
    part->kind = PART_PARALLEL;
    part->left = left;
    part->right = right;
    for (uint32_t t = 0; t < TIMES; t++)
        part->gpus[t] = s->part[left].gpus[t] + s->part[right].gpus[t];
    return s->parts++;
}

/* Divides a time among the stages of a part. */
static void times_take(const struct search *s, uint32_t part, uint32_t time, uint32_t *times) {
    const struct part *p = &s->part[part];
    if (p->kind == PART_STAGE) {
        times[p->stage] = time;
        return;
    }
    uint32_t left = p->kind == PART_SERIES ? p->left_time[time] : time;
    times_take(s, p->left, left, times);
    times_take(s, p->right, p->kind == PART_SERIES ? time - left : time, times);
}

/* ---- the graph ---- */

static uint32_t beginning(uint32_t stage) {
    return 2 + 2 * stage;
}

static uint32_t end(uint32_t stage) {
    return 3 + 2 * stage;
}

static void edge_take(struct search *s, uint32_t from, uint32_t to) {
    s->edge[from][to] = NO_EDGE;
    s->out[from]--;
    s->in[to]--;
}

/* Adds an edge; two edges between the same vertices become one. */
static void edge_put(struct search *s, uint32_t from, uint32_t to, uint32_t edge) {
    uint32_t was = s->edge[from][to];
    if (was == NO_EDGE) {
        s->out[from]++;
        s->in[to]++;
    }
    if (was >= EDGE_OF && edge >= EDGE_OF)
        edge = EDGE_OF + parallel_part(s, was - EDGE_OF, edge - EDGE_OF);
    else if (was > edge)
        edge = was;
    s->edge[from][to] = (uint16_t)edge;
}

/* Whether another stage that `v` follows comes after `u`, so that v need not be told to follow u. */
static bool follows_anyway(const struct search *s, uint32_t u, uint32_t v) {
    for (uint32_t w = 0; w < v; w++)
        if ((s->stages[v].after >> w & 1) && (s->before[w] >> u & 1))
            return true;
    return false;
}

static void graph_make(struct search *s) {
    uint64_t followed = 0;
    for (uint32_t v = 0; v < s->count; v++) {
        uint64_t after = s->stages[v].after;
        CHECK_EQ(v < 63 ? after >> v : after >> 63, 0); /* they have lower numbers */
        s->before[v] = after;
        for (uint32_t u = 0; u < v; u++)
            s->before[v] |= after >> u & 1 ? s->before[u] : 0;
        followed |= after;
    }
    for (uint32_t v = 0; v < s->count; v++) {
        edge_put(s, beginning(v), end(v), EDGE_OF + stage_part(s, v));
        if (!s->stages[v].after)
            edge_put(s, 0, beginning(v), EDGE_FREE);
        if (!(followed >> v & 1))
            edge_put(s, end(v), 1, EDGE_FREE);
        for (uint32_t u = 0; u < v; u++)
            if ((s->stages[v].after >> u & 1) && !follows_anyway(s, u, v))
                edge_put(s, end(u), beginning(v), EDGE_FREE);
    }
}

/* Removes a vertex between two edges, which become one edge. */
static void vertex_take(struct search *s, uint32_t vertex) {
    uint32_t from = 0, to = 0;
    while (s->edge[from][vertex] == NO_EDGE)
        from++;
    while (s->edge[vertex][to] == NO_EDGE)
        to++;
    uint32_t left = s->edge[from][vertex], right = s->edge[vertex][to], edge = left > right ? left : right;
    if (left >= EDGE_OF && right >= EDGE_OF)
        edge = EDGE_OF + series_part(s, left - EDGE_OF, right - EDGE_OF);
    edge_take(s, from, vertex);
    edge_take(s, vertex, to);
    edge_put(s, from, to, edge);
}

/* Returns the part that stands for all stages, or `count * 2` if the graph is not series-parallel. */
static uint32_t graph_reduce(struct search *s) {
    for (bool any = true; any;) {
        any = false;
        for (uint32_t vertex = 2; vertex < s->vertices; vertex++)
            if (s->in[vertex] == 1 && s->out[vertex] == 1) {
                vertex_take(s, vertex);
                any = true;
            }
    }
    bool one = s->out[0] == 1 && s->in[1] == 1 && s->edge[0][1] >= EDGE_OF;
    return one ? (uint32_t)s->edge[0][1] - EDGE_OF : 2 * s->count;
}

/* Sets the time that the longest path to the end of each stage takes, if each stage v takes time_ns[v]; time_ns NULL:
 * how many stages it has. Returns the longest of all. */
static int64_t paths_set(const struct split_stage *stages, uint32_t count, const int64_t *time_ns, int64_t *until_ns) {
    int64_t longest_ns = 0;
    for (uint32_t v = 0; v < count; v++) {
        int64_t before_ns = 0;
        for (uint64_t before = stages[v].after; before; before &= before - 1) {
            int64_t ns = until_ns[__builtin_ctzll(before)];
            before_ns = ns > before_ns ? ns : before_ns;
        }
        until_ns[v] = before_ns + (time_ns ? time_ns[v] : 1);
        longest_ns = until_ns[v] > longest_ns ? until_ns[v] : longest_ns;
    }
    return longest_ns;
}

/* Makes levels of equally deep stages, side by side, and puts the levels one after the other. */
static uint32_t levels_part(struct search *s) {
    int64_t depth[SPLIT_STAGES_MAX], deepest = paths_set(s->stages, s->count, NULL, depth);
    uint32_t all = UINT32_MAX;
    s->parts = 0;
    for (int64_t d = 1; d <= deepest; d++) {
        uint32_t level = UINT32_MAX;
        for (uint32_t v = 0; v < s->count; v++) {
            if (depth[v] != d)
                continue;
            uint32_t part = stage_part(s, v);
            level = level == UINT32_MAX ? part : parallel_part(s, level, part);
        }
        all = all == UINT32_MAX ? level : series_part(s, all, level);
    }
    return all;
}

/* ---- for callers ---- */

bool split_best(const struct split_stage *stages, uint32_t count, int64_t slo_ns, void *memory,
                struct split_part *parts) {
    struct search *s = memory;
    uint32_t times[SPLIT_STAGES_MAX];
    CHECK(count >= 1 && count <= SPLIT_STAGES_MAX && slo_ns > 0);
    memset(s, 0, sizeof(*s));
    s->stages = stages;
    s->count = count;
    s->slo_ns = slo_ns;
    s->vertices = 2 + 2 * count;
    graph_make(s);
    uint32_t all = graph_reduce(s);
    if (all == 2 * count)
        all = levels_part(s);
    if (isinf(s->part[all].gpus[SPLIT_SEGMENTS])) {
        split_even(stages, count, slo_ns, parts);
        return false;
    }
    times_take(s, all, SPLIT_SEGMENTS, times);
    for (uint32_t v = 0; v < count; v++)
        part_set(&stages[v], slo_ns * times[v] / SPLIT_SEGMENTS, &parts[v]);
    return true;
}

void split_even(const struct split_stage *stages, uint32_t count, int64_t slo_ns, struct split_part *parts) {
    int64_t depth[SPLIT_STAGES_MAX], rest[SPLIT_STAGES_MAX];
    paths_set(stages, count, NULL, depth);
    for (uint32_t v = count; v-- > 0;) { /* the longest path from each */
        rest[v] = 1;
        for (uint32_t w = v + 1; w < count; w++)
            if ((stages[w].after >> v & 1) && rest[w] >= rest[v])
                rest[v] = rest[w] + 1;
    }
    for (uint32_t v = 0; v < count; v++)
        part_set(&stages[v], slo_ns / (depth[v] + rest[v] - 1), &parts[v]);
}

int64_t split_longest_path(const struct split_stage *stages, uint32_t count, const int64_t *time_ns) {
    int64_t until_ns[SPLIT_STAGES_MAX];
    return paths_set(stages, count, time_ns, until_ns);
}

void split_share(const struct split_stage *stages, uint32_t count, int64_t slo_ns, const int64_t *least_ns,
                 struct split_part *parts) {
    int64_t time_ns[SPLIT_STAGES_MAX] = {0}, longer_ns[SPLIT_STAGES_MAX] = {0};
    for (uint32_t v = 0; v < count; v++) {
        int64_t batch_ns = parts[v].batch ? time_of(&stages[v], parts[v].batch) : 0;
        time_ns[v] = batch_ns > least_ns[v] ? batch_ns : least_ns[v];
    }
    int64_t longest_ns = split_longest_path(stages, count, time_ns), low_ns = 0, high_ns = slo_ns;
    if (longest_ns > slo_ns) {
        for (uint32_t v = 0; v < count; v++)
            parts[v].budget_ns = (int64_t)((double)time_ns[v] * (double)slo_ns / (double)longest_ns);
        return;
    }
    while (high_ns - low_ns > 1) { /* paths differ in their stages, so the most that every path allows is searched */
        int64_t middle_ns = low_ns + (high_ns - low_ns) / 2;
        for (uint32_t v = 0; v < count; v++)
            longer_ns[v] = time_ns[v] + middle_ns;
        *(split_longest_path(stages, count, longer_ns) <= slo_ns ? &low_ns : &high_ns) = middle_ns;
    }
    for (uint32_t v = 0; v < count; v++)
        parts[v].budget_ns = time_ns[v] + low_ns;
}

uint32_t split_batch_most(const struct split_stage *stage, int64_t part_ns) {
    uint32_t most = 1;
    for (uint32_t b = 2; b <= stage->batch_max; b++)
        most = stage->profile->latency_ns[b] <= part_ns ? b : most;
    return most;
}
