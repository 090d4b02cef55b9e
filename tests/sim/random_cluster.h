/* random_cluster.h - small random clusters, drawn from a seed and held to the checker's invariants. */
#pragma once

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/util/rng.h"
#include "lab/sim/checker.h"
#include "sched/core/central.h"

#define MODELS_MAX   6
#define TYPES_MAX    3
#define CLUSTER_MAX  8
#define BATCH_MAX    24
#define REQUESTS_MAX 400000
#define LOOKS_MOST   1000 /* of 8,192 events each; the longest runs have some 60,000 events */

/* A broken invariant inside the cores aborts; the handler says in which run. Signal handlers have no other argument. */
static char running[96];
static int running_length;

static void on_abort(int signal) {
    (void)signal;
    ssize_t written = write(STDERR_FILENO, running, (size_t)running_length);
    (void)written;
}

/* Whether a policy starts nothing that cannot finish in time. Kairos serves what is late if it is told to, and may err
 * on latencies. */
static inline bool is_prompt(const struct sim_config *c) {
    static const char *const set[][2] = {{"late", "refuse"}, {"start", "profile"}, {"noise", "0"}};
    struct policy_options promising = c->options;
    struct sy_error err;
    for (size_t i = 0; c->policy == &policy_kairos && i < sizeof(set) / sizeof(set[0]); i++)
        if (policy_option_read(c->policy, set[i][0], set[i][1], &promising, &err))
            abort();
    return !c->policy->deadline_blind && memcmp(&promising, &c->options, sizeof(promising)) == 0;
}

/* A cluster with its tables. */
struct scenario {
    struct sim_config config;
    struct sim_model models[MODELS_MAX];
    struct profile *profiles[MODELS_MAX][TYPES_MAX];
    uint8_t accelerator_type[CLUSTER_MAX];
    struct sim_rate_step steps[2];
    struct autoscale_config autoscale; /* of whoever draws it */
};

static inline double between(struct rng *rng, double low, double high) {
    return low + (high - low) * rng_uniform(rng);
}

static inline bool chance(struct rng *rng, double p) {
    return rng_uniform(rng) < p;
}

static inline void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory)
        abort();
    return memory;
}

/* A line, or a table with bends; returns its l(1). */
static inline int64_t profile_draw(struct rng *rng, struct profile *profile, uint32_t batch_max) {
    double alpha_ns = between(rng, 0.05, 3) * NS_PER_MS;
    double beta_ns = chance(rng, 0.2) ? 0 : alpha_ns * between(rng, 0, 10);
    profile_set_line(profile, batch_max, alpha_ns, beta_ns);
    if (chance(rng, 0.3)) {
        for (uint32_t b = 1; b <= batch_max + 1; b++)
            profile->latency_ns[b] = profile->latency_ns[b - 1] + (int64_t)(alpha_ns * between(rng, 0, 2)) + 1;
        profile_fit(profile);
    }
    return profile->latency_ns[1];
}

static inline void model_draw(struct scenario *s, struct rng *rng, uint32_t m) {
    struct sim_model *model = &s->models[m];
    uint32_t batch_max = 1 + (uint32_t)rng_below(rng, BATCH_MAX);
    int64_t slowest_ns = 0;
    *model =
        (struct sim_model){.batch_max = batch_max, .share = between(rng, 0.1, 1), .items_least = 1, .items_most = 1};
    for (uint32_t t = 0; t < s->config.types; t++) {
        s->profiles[m][t] = NULL;
        if (t != m % s->config.types && chance(rng, 0.2))
            continue; /* does not run on this type */
        s->profiles[m][t] = allocate(profile_bytes(batch_max));
        model->profiles[t] = s->profiles[m][t];
        int64_t one_ns = profile_draw(rng, s->profiles[m][t], batch_max);
        slowest_ns = one_ns > slowest_ns ? one_ns : slowest_ns;
    }
    model->slo_ns = (int64_t)((double)slowest_ns * between(rng, 0.8, 12)); /* some are hopeless */
    if (chance(rng, 0.4))
        model->slo_spread = between(rng, 0, 0.9);
    if (chance(rng, 0.4))
        model->items_most = 1 + (uint32_t)rng_below(rng, batch_max + 1); /* some are larger than any batch */
}

/* Requests per second and accelerator, from nearly idle to a multiple of what it can do, evenly on a logarithmic scale.
 */
static inline void classes_draw(struct sim_model *model, struct rng *rng) {
    if (chance(rng, 0.3))
        model->best_effort = between(rng, 0, 1.1);
    if (!chance(rng, 0.3))
        return;
    model->priority_count = 1 + (uint32_t)rng_below(rng, 5);
    for (uint32_t i = 0; i < model->priority_count; i++)
        model->priorities[i] = 1.0 / model->priority_count;
}

static inline double rate_draw(struct rng *rng) {
    double rate = between(rng, 10, 20);
    for (uint64_t doublings = rng_below(rng, 9); doublings > 0; doublings--)
        rate *= 2;
    return rate;
}

/* A policy's options; numbers near the least, or up to four times their preset. */
static inline void options_draw(struct sim_config *c, struct rng *rng) {
    policy_options_preset(c->policy, &c->options);
    for (uint32_t i = 0; c->policy->options && c->policy->options[i].key; i++) {
        const struct policy_option *option = &c->policy->options[i];
        uint32_t words = 0;
        while (option->words && option->words[words])
            words++;
        if (option->flag)
            c->options.value[i] = chance(rng, 0.3);
        else if (words)
            c->options.value[i] = (double)rng_below(rng, words);
        else if (chance(rng, 0.7)) {
            double most = chance(rng, 0.5) ? option->least * 10 : option->preset * 4;
            c->options.value[i] = between(rng, option->least, most < option->most ? most : option->most);
            c->options.value[i] = option->whole ? floor(c->options.value[i]) : c->options.value[i];
        }
    }
}

/* Memory that is short, for policies that load models. */
static inline void memory_draw(struct scenario *s, struct rng *rng) {
    s->config.memory_bytes = 100ULL << 24; /* in units of Clockwork's pages */
    for (uint32_t m = 0; m < s->config.model_count; m++) {
        s->models[m].weights_bytes = (1 + rng_below(rng, 120)) << 24;
        s->models[m].load_ns = (int64_t)between(rng, 1e5, 1e7);
        s->models[m].pinned = (s->models[m].weights_bytes >> 24) % 5 == 0;
    }
}

static inline void scenario_draw(struct scenario *s, const struct policy_ops *policy, uint64_t seed) {
    struct rng rng;
    rng_seed(&rng, seed);
    *s = (struct scenario){0};
    struct sim_config *c = &s->config;
    c->models = s->models;
    c->model_count = 1 + (uint32_t)rng_below(&rng, MODELS_MAX);
    c->types = 1 + (uint32_t)rng_below(&rng, TYPES_MAX);
    c->accelerators = 1 + (uint32_t)rng_below(&rng, CLUSTER_MAX);
    c->accelerator_type = s->accelerator_type;
    for (uint32_t a = 0; a < c->accelerators; a++)
        s->accelerator_type[a] = (uint8_t)rng_below(&rng, c->types);
    for (uint32_t m = 0; m < c->model_count; m++)
        model_draw(s, &rng, m);
    c->arrivals = (enum sim_arrivals)rng_below(&rng, 3);
    c->gamma_shape = between(&rng, 0.05, 2);
    c->seconds = between(&rng, 0.05, 0.5);
    c->seed = seed;
    c->steps = s->steps;
    c->step_count = 1 + chance(&rng, 0.3);
    for (uint32_t i = 0; i < c->step_count; i++)
        s->steps[i] = (struct sim_rate_step){i * c->seconds / 2, rate_draw(&rng) * c->accelerators};
    if (chance(&rng, 0.5)) {
        c->ctrl_ns = (int64_t)between(&rng, 0, 2e5);
        c->data_ns = (int64_t)between(&rng, 0, 1e5);
        c->reply_margin_ns = (int64_t)between(&rng, 0, 5e5);
    }
    if (chance(&rng, 0.5)) {
        c->message_ns = (int64_t)between(&rng, 0, 1e6);
        c->message_jitter_ns = (int64_t)between(&rng, 0, 2e6);
    }
    c->noise = chance(&rng, 0.3) ? between(&rng, 0, 0.5) : 0;
    c->learn = chance(&rng, 0.5);
    c->cancel_share = chance(&rng, 0.4) ? between(&rng, 0, 1) : 0;
    if (chance(&rng, 0.3)) {
        c->fault_every_s = between(&rng, 0.005, 0.2);
        c->fault_s = between(&rng, 0.001, 0.1);
        c->fault_stalls = between(&rng, -0.5, 0.5);
    }
    c->queue_capacity = chance(&rng, 0.1) ? 1 + (uint32_t)rng_below(&rng, 50) : 0;
    c->policy = policy;
    options_draw(c, &rng);
    for (uint32_t m = 0; !policy->central && m < c->model_count; m++)
        classes_draw(&s->models[m], &rng);
    c->rates_known = chance(&rng, 0.5);
    if ((!policy->central || policy->central->uses_memory) && chance(&rng, 0.4))
        memory_draw(s, &rng);
}

static inline void scenario_free(struct scenario *s) {
    for (uint32_t m = 0; m < MODELS_MAX; m++)
        for (uint32_t t = 0; t < TYPES_MAX; t++)
            free(s->profiles[m][t]);
}

/* False once events follow each other without end. */
static inline bool goes_on(void *looks, int64_t now_ns) {
    (void)now_ns;
    return ++*(uint32_t *)looks < LOOKS_MOST;
}

/* NULL, or what went wrong (in `text`). */
static inline const char *scenario_run(struct scenario *s, char *text, size_t text_bytes, struct sim_result *totals) {
    struct sim_config *c = &s->config;
    struct checker *checker = allocate(checker_bytes(c, REQUESTS_MAX));
    struct sim_observer observer;
    struct sim_result result;
    checker_init(checker, c, REQUESTS_MAX, &observer);
    bool late_links = c->link_jitter_ns > 0 || c->link_loss > 0;
    if (!is_prompt(c) || late_links)
        checker_ignore_deadlines(checker);
    uint32_t looks = 0;
    c->observer = &observer;
    c->go_on = goes_on;
    c->go_on_context = &looks;
    void *memory = allocate(sim_bytes(c));
    sim_run(c, memory, &result);
    const char *wrong = result.stopped ? "it does not end" : checker_verdict(checker, &result);
    if (!wrong && result.offered != result.good + result.late + result.dropped + result.cancelled)
        wrong = "the results do not add up";
    if (!wrong && result.late && c->noise == 0 && c->fault_every_s == 0 && !late_links && is_prompt(c))
        wrong = "a run that took what the table says was late";
    if (wrong)
        snprintf(text, text_bytes, "%s", wrong);
    totals->requests += result.requests;
    totals->good += result.good;
    totals->dropped += result.dropped;
    totals->late += result.late;
    totals->cancelled += result.cancelled;
    totals->batches += result.batches;
    totals->moves += result.moves;
    totals->takeovers += result.takeovers;
    totals->sent_again += result.sent_again;
    totals->joins += result.joins;
    totals->departures += result.departures;
    free(memory);
    free(checker);
    return wrong ? text : NULL;
}
