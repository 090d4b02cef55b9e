/* test_pipelines.c - drawn pipelines under every policy, held to a checker that knows nothing of how they are run:
 * every query ends once, with all its outputs or a reason; a stage begins after all that it follows; nothing of a dead
 * query starts; items are as the fan-outs say. And: how many accelerators they need, against Nexus's fixed deadlines.
 *
 * Which pipelines, and how many: histories.h. SYMPHONY_COMPARED=N compares so many, SYMPHONY_RATE=R at R times their
 * rates (1). A failure prints policy and seed. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/rng.h"
#include "core/util/text.h"
#include "histories.h"
#include "lab/scenario/scenario.h"
#include "lab/sim/checker.h"
#include "lab/sim/cluster.h"
#include "unit/test.h"

#define REQUESTS_MAX 400000
#define QUERIES_MAX  100000
#define NOBODY       UINT32_MAX
#define RUNS         60 /* pipelines a policy */

static double between(struct rng *rng, double low, double high) {
    return low + (high - low) * rng_uniform(rng);
}

static double by_size(struct rng *rng, double low, double high) {
    return exp(between(rng, log(low), log(high)));
}

/* ---- the checker ---- */

struct checked_query {
    uint32_t pipeline;
    int64_t deadline_ns, ended_ns;
    bool arrived, ended, refused, lost;
    uint32_t unanswered; /* requests refused that have not been sent once more, */
    int64_t refused_ns;  /* the last of them then */
    enum query_end end;
    uint64_t begun;
    uint32_t items[PIPELINE_STAGES_MAX], done[PIPELINE_STAGES_MAX];
};

struct checked_request {
    uint32_t query, stage;
    int64_t deadline_ns;
    bool late, again; /* refused at its stage's deadline; sent once more */
};

#define PIPELINES_MOST 2

struct watch {
    const struct sim_config *config;
    struct checker *checker; /* of requests, which is told, too */
    struct sim_observer inner;
    struct checked_query queries[QUERIES_MAX];
    struct checked_request requests[REQUESTS_MAX];
    uint64_t query_count, counts[PIPELINES_MOST][QUERY_CANCELLED + 1], again;
    uint32_t query, stage, expected; /* the stage that has just begun; requests of it still to arrive */
    char wrong[256];
};

static void __attribute__((format(printf, 2, 3))) wrong(struct watch *w, const char *format, ...) {
    va_list arguments;
    if (w->wrong[0])
        return;
    va_start(arguments, format);
    vsnprintf(w->wrong, sizeof(w->wrong), format, arguments);
    va_end(arguments);
}

static const struct pipeline *graph_of(const struct watch *w, const struct checked_query *q) {
    return &w->config->pipelines[q->pipeline].graph;
}

static void on_query_arrived(void *context, int64_t now_ns, uint64_t query, uint32_t pipeline, int64_t deadline_ns) {
    struct watch *w = context;
    (void)now_ns;
    if (query >= QUERIES_MAX || query != w->query_count++) {
        wrong(w, "query %" PRIu64 " arrives out of turn", query);
        return;
    }
    w->queries[query] = (struct checked_query){.pipeline = pipeline, .deadline_ns = deadline_ns, .arrived = true};
}

/* A query of which a request was refused has ended by the time that anything else happens to it. */
static void goes_on(struct watch *w, const struct checked_query *q, int64_t now_ns) {
    if (q->unanswered && now_ns > q->refused_ns)
        wrong(w, "query %td goes on after a request of it was refused", q - w->queries);
}

/* Whether so many items can be what `before` came to. */
static bool items_fit(const struct fan_out *f, uint32_t before, uint32_t items) {
    switch (f->kind) {
    case FAN_OUT_QUERY:
        return items == (uint32_t)f->a;
    case FAN_OUT_FIXED:
        return items == (uint32_t)fmin(before * f->a, PIPELINE_ITEMS_MAX);
    case FAN_OUT_CHANCE:
        return items <= before;
    case FAN_OUT_UNIFORM:
        return items >= fmin(before * f->a, PIPELINE_ITEMS_MAX) && items <= before * f->b;
    case FAN_OUT_POISSON:
        return before ? items <= PIPELINE_ITEMS_MAX : items == 0;
    }
    return false;
}

static void on_stage_began(void *context, int64_t now_ns, uint64_t query, uint32_t v, uint32_t items) {
    struct watch *w = context;
    struct checked_query *q = &w->queries[query];
    const struct pipeline_stage *stage = &graph_of(w, q)->stages[v];
    uint32_t before = stage->after ? 0 : 1;
    if (!q->arrived || q->ended || (q->begun >> v & 1) || w->expected)
        wrong(w, "stage %u of query %" PRIu64 " begins at %" PRId64 ", which it must not", v, query, now_ns);
    goes_on(w, q, now_ns);
    for (uint32_t u = 0; u < graph_of(w, q)->stage_count; u++)
        if (stage->after >> u & 1) {
            if (!(q->begun >> u & 1) || q->done[u] < q->items[u])
                wrong(w, "stage %u of query %" PRIu64 " begins before stage %u has ended", v, query, u);
            before += q->items[u];
        }
    if (!items_fit(&stage->fan_out, before, items))
        wrong(w, "stage %u of query %" PRIu64 " has %u items of %u before", v, query, items, before);
    q->begun |= 1ULL << v;
    q->items[v] = items;
    w->query = (uint32_t)query;
    w->stage = v;
    w->expected = items;
}

static void on_query_ended(void *context, int64_t now_ns, uint64_t query, enum query_end end, enum refusal reason) {
    struct watch *w = context;
    struct checked_query *q = &w->queries[query];
    if (!q->arrived || q->ended)
        wrong(w, "query %" PRIu64 " ends at %" PRId64 " without having begun, or twice", query, now_ns);
    q->ended = true;
    q->ended_ns = now_ns;
    q->end = end;
    w->counts[q->pipeline][end]++;
    goes_on(w, q, now_ns);
    w->expected = 0; /* the rest is not sent */
    if (end == QUERY_DROPPED && (reason == REFUSAL_NONE || (!q->refused && reason != REFUSAL_POOL_FULL)))
        wrong(w, "query %" PRIu64 " is dropped, but no request of it was refused", query);
    if (end == QUERY_LATE && now_ns <= q->deadline_ns && !q->lost)
        wrong(w, "query %" PRIu64 " is late before its deadline", query);
    for (uint32_t v = 0; v < graph_of(w, q)->stage_count && end == QUERY_GOOD; v++)
        if (!(q->begun >> v & 1) || q->done[v] != q->items[v] || now_ns > q->deadline_ns)
            wrong(w, "query %" PRIu64 " is good without all outputs in time", query);
}

/* A request is sent once more, with the number behind its own: if it was refused at its stage's deadline, and there is
 * more time. */
static struct checked_request on_again(struct watch *w, uint64_t handle, int64_t deadline_ns) {
    const struct checked_request *first = &w->requests[(sim_request_number(handle) - 1) % REQUESTS_MAX];
    if (first->query == NOBODY || !first->late || first->again || w->queries[first->query].ended ||
        deadline_ns <= first->deadline_ns || deadline_ns > w->queries[first->query].deadline_ns) {
        wrong(w, "a request arrives that no stage has sent");
        return (struct checked_request){.query = NOBODY};
    }
    struct checked_request again = *first;
    again.again = true;
    again.late = false;
    w->queries[first->query].unanswered--;
    w->again++;
    return again;
}

static void on_arrived(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items, uint8_t priority,
                       int64_t deadline_ns) {
    struct watch *w = context;
    struct checked_request *request = &w->requests[sim_request_number(handle) % REQUESTS_MAX];
    w->inner.arrived(w->checker, now_ns, handle, model, items, priority, deadline_ns);
    request->query = NOBODY;
    if (handle == sim_request_number(handle))
        return;
    const struct checked_query *q = &w->queries[w->query];
    if (!w->expected) {
        *request = on_again(w, handle, deadline_ns);
        return;
    }
    w->expected--;
    if (model != graph_of(w, q)->stages[w->stage].model || deadline_ns > q->deadline_ns || items != 1)
        wrong(w, "a request of query %u is of another stage, or due later than the query", w->query);
    *request = (struct checked_request){.query = w->query, .stage = w->stage, .deadline_ns = deadline_ns};
}

static void on_refused(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason) {
    struct watch *w = context;
    struct checked_request *request = &w->requests[sim_request_number(handle) % REQUESTS_MAX];
    request->late = reason == REFUSAL_DEADLINE;
    w->inner.refused(w->checker, now_ns, model, handle, reason);
    if (request->query == NOBODY || reason == REFUSAL_CANCELLED)
        return;
    struct checked_query *q = &w->queries[request->query];
    q->refused = true;
    q->unanswered++;
    q->refused_ns = now_ns;
}

static void on_sent(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items,
                    int64_t expected_end_ns) {
    struct watch *w = context;
    w->inner.sent(w->checker, now_ns, model, accelerator, items, expected_end_ns);
}

static void on_joined(void *context, uint64_t handle) {
    struct watch *w = context;
    uint32_t query = w->requests[sim_request_number(handle) % REQUESTS_MAX].query;
    w->inner.joined(w->checker, handle);
    if (query != NOBODY && w->queries[query].ended)
        wrong(w, "a request of query %u starts after the query has ended", query);
}

static void on_began(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items,
                     int64_t end_ns) {
    struct watch *w = context;
    w->inner.began(w->checker, now_ns, model, accelerator, items, end_ns);
}

static void on_ended(void *context, int64_t now_ns, uint32_t accelerator) {
    struct watch *w = context;
    w->inner.ended(w->checker, now_ns, accelerator);
}

static void on_answered(void *context, int64_t now_ns, uint64_t handle, bool ran) {
    struct watch *w = context;
    const struct checked_request *request = &w->requests[sim_request_number(handle) % REQUESTS_MAX];
    w->inner.answered(w->checker, now_ns, handle, ran);
    if (request->query == NOBODY)
        return;
    struct checked_query *q = &w->queries[request->query];
    q->done[request->stage] += ran;
    q->lost |= !ran;
}

static struct sim_observer observer_of(struct watch *w) {
    return (struct sim_observer){
        .context = w,
        .arrived = on_arrived,
        .refused = on_refused,
        .sent = on_sent,
        .joined = on_joined,
        .began = on_began,
        .ended = on_ended,
        .answered = on_answered,
        .query_arrived = on_query_arrived,
        .stage_began = on_stage_began,
        .query_ended = on_query_ended,
    };
}

static const char *watch_verdict(struct watch *w, const struct sim_result *result) {
    uint64_t offered = 0;
    for (uint64_t i = 0; i < w->query_count; i++)
        if (!w->queries[i].ended)
            wrong(w, "query %" PRIu64 " never ends", i);
    for (uint32_t i = 0; i < w->config->pipeline_count; i++) {
        const struct sim_pipeline_result *p = &result->pipelines[i];
        const uint64_t *counts = w->counts[i];
        offered += p->offered;
        if (p->good != counts[QUERY_GOOD] || p->dropped != counts[QUERY_DROPPED] || p->late != counts[QUERY_LATE] ||
            p->cancelled != counts[QUERY_CANCELLED])
            wrong(w, "the results do not count the queries of pipeline %u as they ended", i);
    }
    if (offered != w->query_count)
        wrong(w, "%" PRIu64 " queries were offered, and %" PRIu64 " came", offered, w->query_count);
    const char *requests = checker_verdict(w->checker, result);
    return w->wrong[0] ? w->wrong : requests;
}

/* ---- drawn pipelines ---- */

static const char *fan_out_draw_text(struct rng *rng, char *text, size_t bytes) {
    uint64_t kind = rng_below(rng, 5);
    if (kind == 0)
        snprintf(text, bytes, "{fixed: %d}", (int)rng_below(rng, 4));
    else if (kind == 1)
        snprintf(text, bytes, "{chance: %.3f}", rng_uniform(rng));
    else if (kind == 2)
        snprintf(text, bytes, "{uniform: [%d, %d]}", (int)rng_below(rng, 2), 1 + (int)rng_below(rng, 4));
    else if (kind == 3)
        snprintf(text, bytes, "{query: %d}", (int)rng_below(rng, 3));
    else
        snprintf(text, bytes, "%.3f", by_size(rng, 0.1, 8));
    return text;
}

/* Any graph of up to six stages. */
static void pipeline_draw(struct rng *rng, const char *name, uint32_t models, struct text *to) {
    char fan_out[64];
    uint32_t stages = 1 + (uint32_t)rng_below(rng, 6);
    text_printf(to, "  - name: %s\n    slo_ms: %g\n    deadlines: %s\n    split: nexus\n    stages:\n", name,
                by_size(rng, 100, 600), rng_below(rng, 3) ? "floating" : "fixed");
    for (uint32_t v = 0; v < stages; v++) {
        text_printf(to, "      - {name: s%u, model: m%u", v, (uint32_t)rng_below(rng, models));
        if (v && rng_below(rng, 6))
            text_printf(to, ", after: [s%u, s%u]", (uint32_t)rng_below(rng, v), v - 1);
        text_printf(to, v ? ", fan_out: %s}\n" : "}\n", fan_out_draw_text(rng, fan_out, sizeof(fan_out)));
    }
}

/* One or two pipelines over up to three models, on accelerators of one or two types; some models have traffic of their
 * own. */
static void scenario_draw(uint64_t seed, const struct policy_ops *policy, struct text *to) {
    struct rng rng;
    rng_seed(&rng, seed);
    uint32_t models = 1 + (uint32_t)rng_below(&rng, 3), accelerators = 1 + (uint32_t)rng_below(&rng, 8);
    bool two = rng_below(&rng, 3) == 0, types = rng_below(&rng, 3) == 0;
    types |= policy->central && policy->central->needs_types;
    text_printf(to, "cluster:\n  noise: %g\n", rng_below(&rng, 3) ? 0 : 0.2);
    if (types)
        text_printf(to, "  accelerators: [{type: fast, count: %u}, {type: slow, count: %u}]\n", accelerators,
                    1 + (uint32_t)rng_below(&rng, 4));
    else
        text_printf(to, "  accelerators: %u\n  type: fast\n", accelerators);
    text_printf(to, "models:\n");
    for (uint32_t m = 0; m < models; m++) {
        double alpha_ms = by_size(&rng, 0.1, 3), beta_ms = by_size(&rng, 0.1, 10), slower = between(&rng, 1, 4);
        text_printf(to, "  - {name: m%u, alpha_ms: %g, beta_ms: %g, slo_ms: 200", m, alpha_ms, beta_ms);
        if (types)
            text_printf(to, ", types: {slow: {alpha_ms: %g, beta_ms: %g}}", slower * alpha_ms, slower * beta_ms);
        text_printf(to, "}\n");
    }
    text_printf(to, "pipelines:\n");
    pipeline_draw(&rng, "p", models, to);
    if (two)
        pipeline_draw(&rng, "q", models, to);
    text_printf(to, "policy: {name: %s}\nworkload: {rate_rps: %g, popularity: {shares: {p: 1, %s: %g}}}\n",
                policy->name, by_size(&rng, 10, 1500), two ? "q" : "m0", two || rng_below(&rng, 2) ? 0.5 : 0);
    text_printf(to, "run: {seconds: 2, warmup_seconds: 0, seed: %" PRIu64 "}\n", seed);
}

static void changes_draw(struct sim_config *c, uint64_t seed) {
    struct rng rng;
    rng_seed(&rng, seed + 1000003);
    c->cancel_share = rng_below(&rng, 2) ? rng_uniform(&rng) : 0;
    c->message_ns = rng_below(&rng, 3) ? 0 : (int64_t)between(&rng, 0, 1e6);
    c->queue_capacity = rng_below(&rng, 6) ? 0 : 1 + (uint32_t)rng_below(&rng, 50);
    c->reply_margin_ns = rng_below(&rng, 3) ? 0 : NS_PER_MS;
    if (!rng_below(&rng, 4)) {
        c->fault_every_s = 0.3;
        c->fault_s = 0.1;
        c->fault_stalls = 0.5;
    }
}

/* A scenario's cluster; the text is freed. False: one of its pipelines has no time for its items. */
static bool cluster_of(struct text *text, struct cluster *cluster) {
    struct scenario scenario;
    struct sy_error err = {""};
    int rc = scenario_read_text("drawn", text_end(text), text->length, NULL, 0, &scenario, &err);
    bool possible = !rc || !strstr(err.text, "ms is too short: one item at a time takes");
    if (possible && (rc || cluster_make(cluster, &scenario, &err)))
        fail_msg("%s\n%s", err.text, text_end(text));
    if (possible)
        scenario_free(&scenario);
    text_free(text);
    return possible;
}

static void run_checked(const struct policy_ops *policy, uint64_t seed, struct watch *w, uint64_t *counts,
                        uint64_t *again) {
    struct cluster cluster;
    struct text text;
    text_init(&text, NULL, 0);
    scenario_draw(seed, policy, &text);
    if (!cluster_of(&text, &cluster))
        return;
    struct sim_config *c = &cluster.config;
    changes_draw(c, seed);
    memset(w, 0, sizeof(*w));
    w->config = c;
    w->checker = malloc(checker_bytes(c, REQUESTS_MAX));
    void *memory = malloc(sim_bytes(c));
    assert_true(w->checker && memory);
    checker_init(w->checker, c, REQUESTS_MAX, &w->inner);
    if (policy->deadline_blind || policy->central)
        checker_ignore_deadlines(w->checker); /* what they promise about requests is random_clusters' to check */
    struct sim_observer observer = observer_of(w);
    struct sim_result result;
    c->observer = &observer;
    sim_run(c, memory, &result);
    const char *verdict = watch_verdict(w, &result);
    if (verdict)
        fail_msg("%s, seed %" PRIu64 ": %s", policy->name, seed, verdict);
    for (uint32_t p = 0; p < c->pipeline_count; p++)
        for (int i = 0; i <= QUERY_CANCELLED; i++)
            counts[i] += w->counts[p][i];
    *again += w->again;
    free(w->checker);
    free(memory);
    cluster_free(&cluster);
}

TEST(every_query_ends_once_and_nothing_of_a_dead_one_starts) {
    struct watch *w = malloc(sizeof(*w));
    uint64_t runs = histories_count(RUNS), first = histories_first(), again = 0;
    assert_non_null(w);
    for (const struct policy_ops *const *policy = policies; *policy; policy++) {
        uint64_t counts[QUERY_CANCELLED + 1] = {0};
        for (uint64_t i = 0; i < runs; i++)
            run_checked(*policy, first + i, w, counts, &again);
        for (int end = QUERY_GOOD; end <= QUERY_CANCELLED && runs >= RUNS; end++)
            if (!counts[end] && end != QUERY_LATE)
                fail_msg("%s: no query ended in way %d", (*policy)->name, end);
    }
    assert_true(again > 0 || runs < RUNS);
    free(w);
}

/* ---- accelerators needed: numbers are compared, and no code is run that the pipelines above do not run, so sanitizers
 * do without ---- */
#ifndef HISTORIES_SANITIZED

/* A chain, a fork or a fork with a join of models with large fixed costs, fan-outs of 0.1 to 10. */
static void compared_draw(uint64_t seed, const char *split, struct text *to) {
    struct rng rng;
    rng_seed(&rng, seed + 7000000);
    enum { CHAIN, FORK, JOIN } shape = (int)rng_below(&rng, 3);
    uint32_t stages = 2 + (shape != CHAIN) + (uint32_t)rng_below(&rng, 2);
    double least_ms = 0, deepest_ms = 0, items = 1, work_ms = 0, last_ms = 0;
    struct text models;
    text_init(&models, NULL, 0);
    text_printf(to, "cluster: {accelerators: 1}\nmodels:\n");
    for (uint32_t v = 0; v < stages; v++) {
        double alpha_ms = by_size(&rng, 0.2, 4), beta_ms = alpha_ms * by_size(&rng, 1, 20);
        double fan_out = v ? by_size(&rng, 0.1, 10) : 1, one_ms = alpha_ms + beta_ms;
        bool joins = shape == JOIN && v == stages - 1;
        text_printf(to, "  - {name: m%u, alpha_ms: %g, beta_ms: %g}\n", v, alpha_ms, beta_ms);
        text_printf(&models, "      - {name: s%u, model: m%u", v, v);
        if (joins)
            text_printf(&models, ", after: [s%s1], fan_out: {query: 1}", stages == 4 ? "2, s" : "");
        else if (v)
            text_printf(&models, ", after: s%u, fan_out: %g", shape == CHAIN ? v - 1 : 0, fan_out);
        text_printf(&models, "}\n");
        items = joins ? 1 : shape == CHAIN ? items * fan_out : fan_out;
        work_ms += items * (alpha_ms + beta_ms / 8);
        least_ms += v == 0 || shape == CHAIN || joins ? one_ms : 0;
        last_ms = v && shape != CHAIN && !joins ? fmax(last_ms, one_ms) : last_ms;
    }
    deepest_ms = least_ms + last_ms;
    double rate = 1000 / work_ms * by_size(&rng, 6, 40) * (double)histories_setting("SYMPHONY_RATE", 1);
    text_printf(to, "pipelines:\n  - name: p\n    slo_ms: %g\n    split: %s\n    stages:\n%s",
                deepest_ms * by_size(&rng, 2.5, 12), split, text_end(&models));
    text_printf(to, "workload: {rate_rps: %g}\nrun: {seconds: %g, warmup_seconds: 1, seed: %" PRIu64 "}\n", rate,
                fmax(3, fmin(30, 2000 / rate)), seed);
    text_free(&models);
}

/* Of how many draws of arrivals and items together 99 % of the queries must be good. With one, a pipeline in 50 needs
 * an accelerator more or less than with another. */
#define ARRIVALS 3
#define COMPARED 24 /* pipelines, of which a short run takes two thirds of its share, and does not try even parts */
#define BAD_MOST 0.01

static bool holds(const struct cluster *cluster, uint32_t accelerators) {
    uint64_t bad = 0, offered = 0;
    bool gave_up = false;
    uint8_t *types = calloc(accelerators, 1);
    assert_non_null(types);
    for (uint64_t i = 0; i < ARRIVALS && !gave_up; i++) {
        struct sim_config config = cluster->config;
        config.accelerators = accelerators;
        config.accelerator_type = types;
        config.seed += i * 1000003;
        config.give_up_bad = 2 * ARRIVALS * BAD_MOST;
        void *memory = malloc(sim_bytes(&config));
        struct sim_result result;
        assert_non_null(memory);
        sim_run(&config, memory, &result);
        bad += result.pipelines->dropped + result.pipelines->late;
        offered += result.pipelines->offered;
        gave_up = result.gave_up;
        free(memory);
    }
    free(types);
    return !gave_up && (double)bad <= BAD_MOST * (double)offered;
}

/* The least number that holds, sought from a guess on. */
static uint32_t needed(const struct cluster *cluster, uint32_t guess) {
    uint32_t low = 0, high = guess;
    while (!holds(cluster, high)) {
        low = high;
        high += high / 8 + 1;
    }
    while (high - low > 1) {
        uint32_t middle = low ? (low + high) / 2 : high - high / 16 - 1;
        *(holds(cluster, middle) ? &high : &low) = middle;
    }
    return high;
}

/* A pipeline's cluster; false: with this split not even lone requests are in time. */
static bool compared_make(uint64_t seed, const char *split, enum pipeline_deadlines deadlines,
                          struct cluster *cluster) {
    struct scenario scenario;
    struct sy_error err = {""};
    struct text text;
    text_init(&text, NULL, 0);
    compared_draw(seed, split, &text);
    bool fits = !scenario_read_text("drawn", text_end(&text), text.length, NULL, 0, &scenario, &err);
    text_free(&text);
    if (!fits)
        return false;
    assert_int_equal(cluster_make(cluster, &scenario, &err), 0);
    scenario_free(&scenario);
    cluster->pipelines[0].graph.deadlines = deadlines;
    return true;
}

/* The numbers of docs/pipelines.md: SYMPHONY_COMPARED=300 SYMPHONY_SEED=5001, and 100 from 9001 on. */
TEST(floating_deadlines_need_fewer_accelerators_than_fixed_ones) {
    enum { EVEN, FIXED, OURS, WAYS };
    static const struct {
        const char *name, *split;
        enum pipeline_deadlines deadlines;
    } ways[WAYS] = {{"even parts, fixed deadlines", "even", PIPELINE_FIXED},
                    {"Nexus's parts, fixed deadlines", "nexus", PIPELINE_FIXED},
                    {"parts of batches that gather, floating deadlines", "gathering", PIPELINE_FLOATING}};
    bool few = histories_count(COMPARED) < COMPARED;
    uint64_t runs = histories_setting("SYMPHONY_COMPARED", histories_count(few ? 2 * COMPARED / 3 : COMPARED));
    uint64_t first = histories_first();
    uint32_t sum[WAYS] = {0}, without_even = 0, fewer = 0, more = 0, impossible = 0;
    for (uint64_t i = first; i < first + runs; i++) {
        uint32_t n[WAYS] = {0};
        for (int way = WAYS; way-- > (few ? FIXED : EVEN);) {
            struct cluster cluster;
            if (!compared_make(i, ways[way].split, ways[way].deadlines, &cluster))
                continue;
            n[way] = needed(&cluster, way == OURS ? 16 : n[way + 1]);
            sum[way] += n[way];
            cluster_free(&cluster);
        }
        assert_true(n[FIXED] && n[OURS]);
        without_even += n[EVEN] ? 0 : n[FIXED];
        impossible += !n[EVEN];
        fewer += n[OURS] < n[FIXED];
        more += n[OURS] > n[FIXED];
        if (n[OURS] > n[FIXED])
            print_message("pipeline %" PRIu64 ": %u accelerators instead of %u\n", i, n[OURS], n[FIXED]);
    }
    for (int way = few ? FIXED : EVEN; way < WAYS; way++)
        print_message("%s: %u accelerators\n", ways[way].name, sum[way]);
    print_message("%" PRIu64 " pipelines; floating instead of fixed deadlines: fewer for %u, more for %u\n", runs,
                  fewer, more);
    if (!few)
        print_message("even parts are too short for %u, which need %u\n", impossible, without_even);
    assert_true(sum[OURS] <= sum[FIXED]);
    if (few || runs < COMPARED ||
        histories_setting("SYMPHONY_RATE", 1) != 1) /* few say little, and larger clusters gain less */
        return;
    assert_true(100 * sum[OURS] <= 96 * sum[FIXED]);
    assert_true(9 * fewer >= 4 * runs && 50 * more <= runs);
}
#endif
