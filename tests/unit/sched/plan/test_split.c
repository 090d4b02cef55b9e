/* test_split.c - the division of an SLO against all divisions there are, and against the paper's example. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/rng.h"
#include "core/util/time.h"
#include "sched/plan/split.h"
#include "unit/test.h"

#define BATCH_MAX 8

struct query {
    struct split_stage stages[SPLIT_STAGES_MAX];
    struct split_part best[SPLIT_STAGES_MAX], even[SPLIT_STAGES_MAX];
    uint32_t count;
    int64_t slo_ns;
    bool found;
};

static struct profile *line(double alpha_ms, double beta_ms, uint32_t batch_max) {
    struct profile *profile = malloc(profile_bytes(batch_max));
    assert_non_null(profile);
    profile_set_line(profile, batch_max, alpha_ms * NS_PER_MS, beta_ms * NS_PER_MS);
    return profile;
}

static void stage_add(struct query *q, struct profile *profile, double rate, uint64_t after) {
    q->stages[q->count++] = (struct split_stage){
        .profile = profile, .batch_max = profile->batch_max, .rate = rate, .turns = 1, .after = after};
}

static void divide(struct query *q) {
    void *memory = malloc(split_bytes(q->count));
    assert_non_null(memory);
    memset(memory, 0xa5, split_bytes(q->count));
    q->found = split_best(q->stages, q->count, q->slo_ns, memory, q->best);
    split_even(q->stages, q->count, q->slo_ns, q->even);
    free(memory);
}

static void query_free(struct query *q) {
    for (uint32_t v = 0; v < q->count; v++)
        free((void *)q->stages[v].profile);
}

/* The longest time that a path takes, when stages have these times. */
static int64_t longest_ns(const struct query *q, const int64_t *time_ns) {
    int64_t end_ns[SPLIT_STAGES_MAX], last_ns = 0;
    for (uint32_t v = 0; v < q->count; v++) {
        int64_t begin_ns = 0;
        for (uint32_t u = 0; u < v; u++)
            if ((q->stages[v].after >> u & 1) && end_ns[u] > begin_ns)
                begin_ns = end_ns[u];
        end_ns[v] = begin_ns + time_ns[v];
        last_ns = end_ns[v] > last_ns ? end_ns[v] : last_ns;
    }
    return last_ns;
}

static void keeps_the_slo(const struct query *q, const struct split_part *parts) {
    int64_t time_ns[SPLIT_STAGES_MAX];
    for (uint32_t v = 0; v < q->count; v++) {
        time_ns[v] = parts[v].budget_ns;
        assert_true(parts[v].batch == 0 || q->stages[v].profile->latency_ns[parts[v].batch] <= parts[v].budget_ns);
    }
    assert_int_equal(split_longest_path(q->stages, q->count, time_ns), longest_ns(q, time_ns));
    assert_true(longest_ns(q, time_ns) <= q->slo_ns);
}

/* What a stage takes with such batches. */
static int64_t time_of(const struct split_stage *stage, uint32_t batch) {
    double gather_ns = stage->gathers && batch > 1 ? (batch - 1) / stage->rate * 1e9 : 0;
    return (int64_t)ceil((double)stage->profile->latency_ns[batch] + gather_ns);
}

/* What batches leave of the SLO is shared, so that nothing is left; a part has time for its batch, and none for a run
 * of one more than may be. */
static void shares_what_is_left(const struct query *q) {
    struct split_part parts[SPLIT_STAGES_MAX];
    int64_t least_ns[SPLIT_STAGES_MAX] = {0}, time_ns[SPLIT_STAGES_MAX];
    memcpy(parts, q->best, sizeof(parts));
    split_share(q->stages, q->count, q->slo_ns, least_ns, parts);
    for (uint32_t v = 0; v < q->count; v++) {
        const int64_t *latency_ns = q->stages[v].profile->latency_ns;
        uint32_t most = split_batch_most(&q->stages[v], time_ns[v] = parts[v].budget_ns);
        assert_true(parts[v].budget_ns >= time_of(&q->stages[v], parts[v].batch) && most >= parts[v].batch);
        assert_true(latency_ns[most] <= parts[v].budget_ns);
        assert_true(most == q->stages[v].batch_max || latency_ns[most + 1] > parts[v].budget_ns);
    }
    assert_in_range(longest_ns(q, time_ns), q->slo_ns - q->count, q->slo_ns);
}

/* The least GPUs of all choices of batches; INFINITY: none is within the SLO. */
static double least_gpus(const struct query *q, uint32_t v, int64_t *time_ns) {
    double least = INFINITY;
    if (v == q->count)
        return longest_ns(q, time_ns) <= q->slo_ns ? 0 : INFINITY;
    for (uint32_t b = 1; b <= q->stages[v].batch_max; b++) {
        time_ns[v] = time_of(&q->stages[v], b);
        double gpus = q->stages[v].rate * (double)q->stages[v].profile->latency_ns[b] / b / 1e9;
        gpus += least_gpus(q, v + 1, time_ns);
        least = fmin(gpus, least);
    }
    return least;
}

/* The paper's figures 3 and 4, with batches twice as large, so that they are whole: no split is the best for every
 * gamma. */
TEST(the_paper_s_example) {
    static const struct {
        double gamma, throughput; /* requests per second and GPU of the best of three splits */
    } cases[] = {{0.1, 2 * 272.7}, {1, 2 * 153.8}, {10, 2 * 40.0}};
    static const uint32_t batch[2][3] = {{16, 25, 36}, {24, 40, 60}};
    static const int64_t latency_ns[] = {40 * NS_PER_MS, 50 * NS_PER_MS, 60 * NS_PER_MS};
    int64_t first_ns[3];
    for (size_t i = 0; i < 3; i++) {
        struct query q = {.slo_ns = 100 * NS_PER_MS};
        for (uint32_t v = 0; v < 2; v++) {
            struct profile *profile = malloc(profile_bytes(batch[v][2]));
            assert_non_null(profile);
            assert_int_equal(profile_set_points(profile, batch[v][2], batch[v], latency_ns, 3), 0);
            stage_add(&q, profile, v ? 100 * cases[i].gamma : 100, v);
        }
        divide(&q);
        keeps_the_slo(&q, q.best);
        assert_true(100 / split_gpus(q.best, 2) >= cases[i].throughput - 0.2);
        first_ns[i] = q.best[0].budget_ns;
        query_free(&q);
    }
    assert_true(first_ns[0] > first_ns[1] && first_ns[1] > first_ns[2]);
}

/* Trees, forks and joins are divided as well as can be, but for the piece of the SLO that each stage may lose; also
 * with batches that gather. */
TEST(nothing_is_better) {
    static const uint64_t shapes[][4] = {
        {0, 1, 2, 4}, /* a chain */
        {0, 1, 1, 1}, /* a fork */
        {0, 1, 1, 2}, /* a tree */
        {0, 1, 1, 6}, /* a fork that joins */
        {0, 1, 3, 7}, /* a chain that says more than need be */
        {0, 0, 3, 4}, /* two beginnings */
        {0, 1, 2, 5}, /* a short way beside a long one */
    };
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++)
        for (int n = 0; n < 20; n++) {
            struct query q = {.slo_ns = (int64_t)(10 + 90 * rng_uniform(&rng)) * NS_PER_MS}, shorter;
            int64_t time_ns[SPLIT_STAGES_MAX];
            for (int v = 0; v < 4; v++)
                stage_add(&q, line(0.2 + 3 * rng_uniform(&rng), 8 * rng_uniform(&rng), BATCH_MAX),
                          100 * rng_uniform(&rng), shapes[shape][v]);
            for (int v = 0; v < 4; v++)
                q.stages[v].gathers = n >= 10;
            for (int v = 0; v < 4 && n >= 10; v++)
                q.stages[v].rate *= 20; /* so that some batches gather in time */
            divide(&q);
            double least = least_gpus(&q, 0, time_ns), found = split_gpus(q.best, 4);
            keeps_the_slo(&q, q.even);
            if (q.found) {
                keeps_the_slo(&q, q.best);
                assert_true(found >= least - 1e-9);
                assert_true(found <= split_gpus(q.even, 4) + 1e-9);
                shares_what_is_left(&q);
            }
            shorter = q;
            shorter.slo_ns -= 4 * (q.slo_ns / SPLIT_SEGMENTS + 1);
            double lost = least_gpus(&shorter, 0, time_ns);
            assert_true(isinf(lost) || (q.found && found <= lost + 1e-9));
            query_free(&q);
        }
}

/* Two stages that each follow two others in turn, but not the same: no series-parallel graph. */
TEST(other_graphs_keep_the_slo) {
    struct rng rng;
    rng_seed(&rng, 2);
    for (int n = 0; n < 100; n++) {
        struct query q = {.slo_ns = 200 * NS_PER_MS};
        uint32_t count = n ? 2 + (uint32_t)rng_below(&rng, 12) : 4;
        for (uint32_t v = 0; v < count; v++) {
            uint64_t after = v && n ? rng_below(&rng, (uint64_t)1 << v) : v == 2 ? 1 : v == 3 ? 3 : 0;
            stage_add(&q, line(0.5, 1 + 3 * rng_uniform(&rng), BATCH_MAX), 1 + 100 * rng_uniform(&rng), after);
        }
        divide(&q);
        assert_true(q.found);
        keeps_the_slo(&q, q.best);
        keeps_the_slo(&q, q.even);
        assert_true(split_gpus(q.best, count) < INFINITY);
        query_free(&q);
    }
}

TEST(as_many_stages_as_there_may_be) {
    struct query q = {.slo_ns = 1000 * NS_PER_MS};
    for (uint32_t v = 0; v < SPLIT_STAGES_MAX; v++)
        stage_add(&q, line(0.1, 1, BATCH_MAX), 10, v ? (uint64_t)1 << (v - 1) : 0);
    divide(&q);
    assert_true(q.found);
    keeps_the_slo(&q, q.best);
    query_free(&q);
}

TEST(too_short_an_slo) {
    struct query q = {.slo_ns = 10 * NS_PER_MS};
    stage_add(&q, line(1, 5, BATCH_MAX), 10, 0);
    stage_add(&q, line(1, 5, BATCH_MAX), 10, 1);
    divide(&q);
    assert_false(q.found);
    assert_int_equal(q.even[0].batch, 0);
    assert_true(isinf(split_gpus(q.best, q.count)));
    query_free(&q);
}

TEST(a_batch_that_may_just_be_missed_counts_twice) {
    struct query q = {.slo_ns = 100 * NS_PER_MS};
    stage_add(&q, line(10, 0.001, BATCH_MAX), 10, 0); /* hardly cheaper in batches, but so */
    q.stages[0].turns = 2;
    divide(&q);
    assert_int_equal(q.best[0].batch, 4);
    query_free(&q);
}

TEST(no_requests_take_nothing) {
    struct query q = {.slo_ns = 100 * NS_PER_MS};
    stage_add(&q, line(1, 5, BATCH_MAX), 0, 0);
    stage_add(&q, line(1, 5, BATCH_MAX), 0, 1);
    divide(&q);
    assert_true(q.found);
    assert_true(split_gpus(q.best, 2) == 0);
    query_free(&q);
}
