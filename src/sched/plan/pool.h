/* pool.h - which instances to rent for queries of different sizes under a budget (Kairos, HPDC '23, section 5.2): an
 * upper bound of every configuration's throughput, a choice among the best, and a search that evaluates few. Pure.
 *
 * The base type can serve every query within the SLO. An auxiliary type can serve only queries up to a size s, the
 * share f of all queries; larger queries are left to the base type. Throughputs are in queries per second. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/messages.h"

#define POOL_TYPES_MAX     ACCELERATOR_TYPES_MAX
#define POOL_CONFIGS_MAX   5000000    /* configurations that may be ranked */
#define POOL_PICK_MOST     20000      /* configurations that pool_pick() looks at: 2 ms */
#define POOL_INSTANCES_MAX UINT16_MAX /* instances of a type */
#define POOL_BASE_NONE     UINT32_MAX

struct pool_type {
    const int64_t *latency_ns; /* [items_max + 1] by size; never falls; NULL: the model does not run on the type */
    double price;              /* price of an instance for an hour; over 0, at least budget / POOL_INSTANCES_MAX */
    uint32_t count_max;        /* most instances of the type; 0: as many as the budget allows */
};

struct pool_input {
    uint32_t types;
    struct pool_type type[POOL_TYPES_MAX];
    uint32_t items_max;  /* most items of a query */
    const double *up_to; /* [items_max + 1] share of queries of at most so many items; 0 at 0, 1 at items_max */
    int64_t slo_ns;
    double budget; /* budget for an hour */
};

/* The parts of the bound (the paper's figure 6). */
struct pool_rates {
    uint32_t types, base;
    double base_qps;                                  /* Q_b: throughput of one base instance, all queries */
    uint32_t size[POOL_TYPES_MAX];                    /* s: largest query that a type serves in time; 0: none */
    double small[POOL_TYPES_MAX];                     /* f: share of queries up to size s */
    double base_large_qps[POOL_TYPES_MAX];            /* Q_b^s+: throughput of one base instance, queries over s */
    double small_qps[POOL_TYPES_MAX][POOL_TYPES_MAX]; /* [t][s] Q_a: throughput of one t, queries up to size[s] */
};

enum pool_status { POOL_OPEN, POOL_EVALUATED, POOL_BOUND_PRUNED, POOL_PART_PRUNED };

struct pool_config {
    uint16_t count[POOL_TYPES_MAX];
    double price, bound;
    double evaluated; /* throughput that pool_search() was told */
    enum pool_status status;
};

/* The type with the most queries per dollar, among those that serve every query within the SLO; POOL_BASE_NONE: there
 * is none. */
uint32_t pool_base(const struct pool_input *input);
/* Fills the rates; `base` serves every query within the SLO. */
void pool_rates_derive(const struct pool_input *input, uint32_t base, struct pool_rates *rates);
/* Upper bound of the throughput (equation 15) with count[t] instances of each type t. */
double pool_bound(const struct pool_rates *rates, const uint16_t *count);

/* How many configurations that serve something the budget allows. POOL_CONFIGS_MAX + 1: there are more than
 * POOL_CONFIGS_MAX, those that serve nothing included. */
size_t pool_count(const struct pool_input *input, const struct pool_rates *rates);
/* Writes these configurations to configs[pool_count()], the highest bound first; equal bounds by price, then by their
 * counts. */
void pool_rank(const struct pool_input *input, const struct pool_rates *rates, struct pool_config *configs);
/* The similarity rule: the index of the configuration to take without evaluating any. count > 0. */
size_t pool_choose(const struct pool_rates *rates, const struct pool_config *configs, size_t count);
/* What pool_choose() takes of pool_rank()'s configurations, without memory for all of them. False: there is none, or
 * the budget allows more than POOL_PICK_MOST. */
bool pool_pick(const struct pool_input *input, const struct pool_rates *rates, struct pool_config *picked);
/* The most base instances that the budget allows, and the queries per second of Q_b that they would serve. */
uint32_t pool_homogeneous(const struct pool_input *input, const struct pool_rates *rates, double *qps);

/* The throughput of a configuration as measured or simulated; negative ends the search. */
typedef double pool_evaluate(void *context, const struct pool_config *config);
/* Kairos+ (Algorithm 1): evaluates ranked configurations from the highest bound down. It leaves out those whose bound
 * is not above the best result so far, and those that are parts of an evaluated one. Sets their status; returns how
 * many were evaluated, and the best one's index (count if there is none). */
size_t pool_search(struct pool_config *configs, size_t count, uint32_t types, pool_evaluate *evaluate, void *context,
                   size_t *best);

/* The paper's oracle: `queries` queries, all there from the beginning, sorted by size. A base instance takes the
 * largest query that is left, an auxiliary instance the smallest, if it is in time there. Returns queries per second.
 */
double pool_oracle(const struct pool_input *input, const struct pool_rates *rates, const uint16_t *count,
                   uint32_t queries);
