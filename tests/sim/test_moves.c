/* test_moves.c - models that move between sub-clusters: nothing is lost, doubled, or late for it.
 *
 * In the drawn clusters there are so many moves of models, joins and departures of accelerators at the least as
 * histories.h says; a failure prints what repeats it. */
#include <signal.h>
#include <unistd.h>

#include "core/util/container.h"
#include "histories.h"
#include "sched/plan/autoscale.h"
#include "sim/random_cluster.h"

#define MOVES 100000

/* ---- drawn clusters: accelerators come and go, clients leave, models move all the time and go nowhere for a while
 * ---- */

static const struct policy_ops *const moving[] = {&policy_deferred, &policy_symphony, &policy_eager, &policy_timeout,
                                                  &policy_fifo};

/* As the load of a few milliseconds advises: they end what they have before they are gone. A policy that refuses
 * nothing would wait forever in a sub-cluster without any. */
static void accelerators_follow(struct scenario *s, struct rng *rng) {
    struct sim_config *c = &s->config;
    uint32_t least = c->policy->deadline_blind ? c->subclusters : 1;
    if (least > c->accelerators || c->types > 1)
        return;
    c->fault_every_s = 0;
    c->autoscale = &s->autoscale;
    c->accelerators_first[0] = least + (uint32_t)rng_below(rng, c->accelerators - least + 1);
    s->autoscale = (struct autoscale_config){.min = least,
                                             .max = c->accelerators,
                                             .headroom = between(rng, 0, 0.5),
                                             .every_ns = (int64_t)between(rng, 1e5, 1e7),
                                             .start_delay_ns = (int64_t)between(rng, 0, 1e7)};
}

static void moves_draw(struct scenario *s, uint64_t seed) {
    struct sim_config *c = &s->config;
    struct rng rng;
    rng_seed(&rng, ~seed);
    c->subclusters = 2 + (uint32_t)rng_below(&rng, 3); /* some may have no accelerator */
    c->forced_moves_rate = between(&rng, 100, 10000);
    c->forced_away = chance(&rng, 0.5) ? 0 : between(&rng, 0, 0.5);
    c->epoch_s = chance(&rng, 0.5) ? 0 : between(&rng, 0.01, 0.1);
    if (chance(&rng, 0.3)) { /* faster than any link: moves overlap with grants all the time */
        c->message_ns = (int64_t)between(&rng, 1e5, 2e6);
        c->forced_moves_rate *= 4;
    }
    if (chance(&rng, 0.3))
        accelerators_follow(s, &rng);
    else if (chance(&rng, 0.9)) { /* they die and come back all the time */
        c->fault_every_s = between(&rng, 1e-5, 1e-3);
        c->fault_s = between(&rng, 1e-5, 1e-3);
        c->fault_stalls = between(&rng, -0.5, 0.5);
    }
}

static bool drawn_clusters(uint64_t least, uint64_t seed) {
    struct sim_result totals = {0};
    uint64_t runs = 0;
    for (; totals.moves < least || totals.joins < least || totals.departures < least; runs++) {
        struct scenario scenario;
        char text[256];
        uint64_t at = seed + runs;
        scenario_draw(&scenario, moving[at % ARRAY_COUNT(moving)], at);
        moves_draw(&scenario, at);
        running_length = snprintf(running, sizeof(running), "moves: seed %" PRIu64 " aborts\n", at);
        const char *wrong = scenario_run(&scenario, text, sizeof(text), &totals);
        scenario_free(&scenario);
        if (wrong) {
            fprintf(stderr, "seed %" PRIu64 ": %s\nrepeat: SYMPHONY_RUNS=1 SYMPHONY_SEED=%" PRIu64 " sim_moves\n", at,
                    wrong, at);
            return false;
        }
    }
    printf("%" PRIu64 " clusters, %" PRIu64 " moves, %" PRIu64 " joins, %" PRIu64 " departures, %" PRIu64
           " requests: %" PRIu64 " good, %" PRIu64 " dropped, %" PRIu64 " late, %" PRIu64 " cancelled\n",
           runs, totals.moves, totals.joins, totals.departures, totals.requests, totals.good, totals.dropped,
           totals.late, totals.cancelled);
    return true;
}

/* ---- clusters with room, and one that changes: numbers are compared, and no code is run that drawn ones do not run,
 * so sanitizers do without ---- */
#ifndef HISTORIES_SANITIZED

#define MODELS       12
#define ACCELERATORS 24
#define SUBCLUSTERS  4

struct fixed {
    struct sim_config config;
    struct sim_model models[MODELS];
    uint8_t types[ACCELERATORS];
    struct sim_rate_step step;
};

static void fixed_make(struct fixed *f, double rate_rps, uint64_t seed) {
    *f = (struct fixed){.step = {0, rate_rps}};
    for (uint32_t m = 0; m < MODELS; m++)
        if (!sim_model_line(&f->models[m], 0.3 + 0.1 * m, 1 + 0.4 * m, 30 + 5 * m))
            abort();
    f->config = (struct sim_config){
        .models = f->models,
        .model_count = MODELS,
        .accelerator_type = f->types,
        .accelerators = ACCELERATORS,
        .types = 1,
        .subclusters = SUBCLUSTERS,
        .steps = &f->step,
        .step_count = 1,
        .message_ns = 50 * NS_PER_US,
        .message_jitter_ns = 50 * NS_PER_US,
        .seconds = 12,
        .seed = seed,
        .rates_known = true,
        .policy = &policy_deferred,
    };
    policy_options_preset(f->config.policy, &f->config.options);
}

static void fixed_free(struct fixed *f) {
    for (uint32_t m = 0; m < MODELS; m++)
        free((void *)f->models[m].profiles[0]);
}

static void fixed_run(struct fixed *f, struct sim_result *result) {
    uint64_t most = (uint64_t)(f->step.rate_rps * f->config.seconds * 4) + 1000;
    struct checker *checker = allocate(checker_bytes(&f->config, most));
    struct sim_observer observer;
    checker_init(checker, &f->config, most, &observer);
    f->config.observer = &observer;
    void *memory = allocate(sim_bytes(&f->config));
    sim_run(&f->config, memory, result);
    result->models = NULL; /* lies in `memory` */
    const char *wrong = checker_verdict(checker, result);
    if (wrong) {
        fprintf(stderr, "seed %" PRIu64 ": %s\n", f->config.seed, wrong);
        abort();
    }
    free(memory);
    free(checker);
}

static uint64_t bad(const struct sim_result *r) {
    return r->dropped + r->late;
}

static uint64_t seeds(uint64_t whole) {
    uint64_t count = histories_count(whole);
    return count < whole ? count : whole;
}

/* Where there is room, nothing is bad without moves, and nothing with a hundred a second. */
static bool nothing_is_late_for_a_move(void) {
    for (uint64_t seed = 1, last = seeds(5); seed <= last; seed++) {
        struct fixed f;
        struct sim_result still, moved;
        fixed_make(&f, 3000, seed);
        fixed_run(&f, &still);
        f.config.forced_moves_rate = 100;
        fixed_run(&f, &moved);
        fixed_free(&f);
        printf("seed %" PRIu64 ": %" PRIu64 " requests, bad without moves %" PRIu64 ", with %" PRIu64 " %" PRIu64 "\n",
               seed, moved.offered, bad(&still), moved.moves, bad(&moved));
        if (still.offered != moved.offered || moved.moves < 500 || bad(&still) || bad(&moved))
            return false;
    }
    return true;
}

/* One model becomes popular: its sub-cluster is too small for its models until some move. */
static bool moves_follow_the_load(void) {
    for (uint64_t seed = 1, last = seeds(3); seed <= last; seed++) {
        struct fixed f;
        struct sim_result still, moved;
        fixed_make(&f, 8000, seed);
        f.models[5].surge_at_s = 2;
        f.models[5].surge_factor = 8;
        fixed_run(&f, &still);
        f.config.epoch_s = 1;
        fixed_run(&f, &moved);
        fixed_free(&f);
        printf("seed %" PRIu64 ": %" PRIu64 " requests, bad without moves %" PRIu64 ", with %" PRIu64 " %" PRIu64 "\n",
               seed, moved.offered, bad(&still), moved.moves, bad(&moved));
        if (still.offered != moved.offered || !moved.moves || bad(&moved) * 2 > bad(&still) || !bad(&still))
            return false;
    }
    return true;
}

/* A load that does not change moves nobody. */
static bool an_even_load_moves_nobody(void) {
    for (uint64_t seed = 1, last = seeds(3); seed <= last; seed++) {
        struct fixed f;
        struct sim_result result;
        fixed_make(&f, 6000, seed);
        f.config.epoch_s = 0.5;
        fixed_run(&f, &result);
        fixed_free(&f);
        if (result.moves) {
            fprintf(stderr, "seed %" PRIu64 ": %" PRIu64 " moves\n", seed, result.moves);
            return false;
        }
    }
    return true;
}

static bool fixed_clusters(void) {
    running_length = 0;
    return nothing_is_late_for_a_move() && moves_follow_the_load() && an_even_load_moves_nobody();
}
#else
static bool fixed_clusters(void) {
    return true;
}
#endif

int main(void) {
    signal(SIGABRT, on_abort);
    return drawn_clusters(histories_count(MOVES), histories_first()) && fixed_clusters() ? 0 : 1;
}
