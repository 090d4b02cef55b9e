/* pipeline.c - fan-outs, and running means of stages' times. */
#include "sched/plan/pipeline.h"

#define MEAN_OF 256 /* last times of a stage that a mean is about */

/* ---- fan-outs ---- */

/* Mean items of a fan-out for each item of the stages before it (FAN_OUT_QUERY: for each query). */
static double fan_out_mean(const struct fan_out *f) {
    return f->kind == FAN_OUT_UNIFORM ? (f->a + f->b) / 2 : f->a;
}

/* Items of a Poisson process in a time of `mean`, at most `most`. */
static uint32_t poisson_draw(double mean, uint32_t most, struct rng *rng) {
    uint32_t items = 0;
    for (double at = rng_exponential(rng); at < mean && items < most; at += rng_exponential(rng))
        items++;
    return items;
}

static uint32_t one_draw(const struct fan_out *f, struct rng *rng) {
    switch (f->kind) {
    case FAN_OUT_CHANCE:
        return rng_uniform(rng) < f->a;
    case FAN_OUT_UNIFORM:
        return (uint32_t)f->a + (uint32_t)rng_below(rng, (uint64_t)(f->b - f->a) + 1);
    case FAN_OUT_FIXED:
    case FAN_OUT_QUERY:
    case FAN_OUT_POISSON:
        break;
    }
    return (uint32_t)f->a;
}

uint32_t fan_out_draw(const struct fan_out *f, uint32_t items, struct rng *rng) {
    uint32_t sum = 0;
    if (f->kind == FAN_OUT_QUERY)
        return (uint32_t)f->a;
    if (f->kind == FAN_OUT_POISSON) /* a sum of Poisson counts is one, too */
        return poisson_draw(f->a * items, PIPELINE_ITEMS_MAX, rng);
    for (uint32_t i = 0; i < items && sum < PIPELINE_ITEMS_MAX; i++)
        sum += one_draw(f, rng);
    return sum < PIPELINE_ITEMS_MAX ? sum : PIPELINE_ITEMS_MAX;
}

void pipeline_items(const struct pipeline *p, double *items) {
    for (uint32_t v = 0; v < p->stage_count; v++) {
        const struct pipeline_stage *stage = &p->stages[v];
        double before = stage->after && stage->fan_out.kind != FAN_OUT_QUERY ? 0 : 1;
        for (uint32_t u = 0; u < v && stage->fan_out.kind != FAN_OUT_QUERY; u++)
            before += stage->after >> u & 1 ? items[u] : 0;
        items[v] = before * fan_out_mean(&stage->fan_out);
    }
}

double pipeline_requests(const struct pipeline *p) {
    double items[PIPELINE_STAGES_MAX], sum = 0;
    pipeline_items(p, items);
    for (uint32_t v = 0; v < p->stage_count; v++)
        sum += items[v];
    return sum;
}

/* ---- times ---- */

/* The time that the stages before stage `v` must leave to it: its part, less three quarters of the time that the stage
 * leaves of its part in the mean. The time is never more than the part, or ever more would be kept for a stage that
 * uses all time that it gets. The last quarter is for times over the mean: of 300 drawn pipelines with one accelerator
 * less than fixed deadlines need, 140 get along if one quarter is handed on, 154 with three quarters, and fewer again
 * with everything. */
static int64_t kept_ns(const struct pipeline_times *times, const struct pipeline_stage *stage, uint32_t v) {
    int64_t kept_ns = stage->part_ns;
    if (times->seen[v] && times->mean_ns[v] < (double)stage->part_ns)
        kept_ns = (int64_t)((3 * times->mean_ns[v] + (double)stage->part_ns) / 4);
    return kept_ns > stage->least_ns ? kept_ns : stage->least_ns;
}

/* The stages before `w` keep at least rest_ns for `w` and the stages behind `w`. */
static void before_keep(const struct pipeline *p, uint32_t w, int64_t rest_ns, int64_t *rests_ns) {
    for (uint64_t before = p->stages[w].after; before; before &= before - 1) {
        uint32_t v = (uint32_t)__builtin_ctzll(before);
        rests_ns[v] = rests_ns[v] > rest_ns ? rests_ns[v] : rest_ns;
    }
}

static void rests_set(struct pipeline_times *times, const struct pipeline *p) {
    for (uint32_t v = 0; v < p->stage_count; v++)
        times->rest_ns[v] = 0;
    for (uint32_t w = p->stage_count; w-- > 0;)
        before_keep(p, w, times->rest_ns[w] + kept_ns(times, &p->stages[w], w), times->rest_ns);
}

void pipeline_times_init(struct pipeline_times *times, const struct pipeline *p) {
    *times = (struct pipeline_times){.seen = {0}};
    rests_set(times, p);
    for (uint32_t w = p->stage_count; w-- > 0;)
        before_keep(p, w, times->least_ns[w] + p->stages[w].least_ns, times->least_ns);
}

void pipeline_times_add(struct pipeline_times *times, const struct pipeline *p, uint32_t v, int64_t took_ns) {
    if (times->seen[v] < MEAN_OF)
        times->seen[v]++;
    times->mean_ns[v] += ((double)took_ns - times->mean_ns[v]) / times->seen[v];
    rests_set(times, p);
}
