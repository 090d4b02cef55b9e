/* pool.h - which instances to rent for queries of different sizes under a budget (Kairos, HPDC '23, section 5.2): an
 * upper bound of every configuration's throughput, a choice among the best, and a search that evaluates few. Pure.
 *
 * The base type can serve every query within the SLO. An auxiliary type can serve those up to a size s only, the share
 * f of all queries; the rest is left to the base type. Throughputs are in queries per second. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/messages.h"

#define POOL_TYPES_MAX     ACCELERATOR_TYPES_MAX
#define POOL_CONFIGS_MAX   5000000    /* that may be ranked */
#define POOL_INSTANCES_MAX UINT16_MAX /* of a type */
#define POOL_BASE_NONE     UINT32_MAX

struct pool_type {
    const int64_t *latency_ns; /* [items_max + 1] by size; never falls. NULL: the model does not run on it */
    double price;              /* of an instance, an hour; over 0, and the budget pays for at most POOL_INSTANCES_MAX */
    uint32_t count_max;        /* most instances of it; 0: as many as the budget allows */
};

struct pool_input {
    uint32_t types;
    struct pool_type type[POOL_TYPES_MAX];
    uint32_t items_max;  /* of a query */
    const double *up_to; /* [items_max + 1] share of queries of at most so many items; 0 at 0, 1 at items_max */
    int64_t slo_ns;
    double budget; /* an hour */
};

/* The parts of the bound (the paper's figure 6). */
struct pool_rates {
    uint32_t types, base;
    double base_qps;                                  /* Q_b: of all queries, on one base instance */
    uint32_t size[POOL_TYPES_MAX];                    /* s of a type; 0: it can serve nothing */
    double small[POOL_TYPES_MAX];                     /* f: share of queries up to that size */
    double base_large_qps[POOL_TYPES_MAX];            /* Q_b^s+: of larger ones only, on one base instance */
    double small_qps[POOL_TYPES_MAX][POOL_TYPES_MAX]; /* [t][s]: Q_a, of sizes up to size[s], on one t */
};

enum pool_status { POOL_OPEN, POOL_EVALUATED, POOL_BOUND_PRUNED, POOL_PART_PRUNED };

struct pool_config {
    uint16_t count[POOL_TYPES_MAX];
    double price, bound;
    double evaluated; /* by pool_search() */
    enum pool_status status;
};

/* The type with the most queries per dollar of those that serve every query within the SLO; POOL_BASE_NONE: none does.
 */
uint32_t pool_base(const struct pool_input *input);
/* Fills the rates; `base` serves every query within the SLO. */
void pool_rates_derive(const struct pool_input *input, uint32_t base, struct pool_rates *rates);
/* Equation 15, for so many instances of each type. */
double pool_bound(const struct pool_rates *rates, const uint16_t *count);

/* How many configurations that serve something the budget allows. POOL_CONFIGS_MAX + 1: there are more than
 * POOL_CONFIGS_MAX, those that serve nothing included. */
size_t pool_count(const struct pool_input *input, const struct pool_rates *rates);
/* Writes these configurations to configs[pool_count()], the highest bound first; equal ones by price, then by their
 * counts. */
void pool_rank(const struct pool_input *input, const struct pool_rates *rates, struct pool_config *configs);
/* The similarity rule: the index of the configuration to take without evaluating any. count > 0. */
size_t pool_choose(const struct pool_rates *rates, const struct pool_config *configs, size_t count);
/* The most base instances that the budget allows, and the queries per second of Q_b that they would serve. */
uint32_t pool_homogeneous(const struct pool_input *input, const struct pool_rates *rates, double *qps);

/* The throughput of a configuration as measured or simulated; negative ends the search. */
typedef double pool_evaluate(void *context, const struct pool_config *config);
/* Kairos+ (Algorithm 1): evaluates ranked configurations from the highest bound down. It leaves out those whose bound
 * is not above the best result so far, and those that are parts of an evaluated one. Sets their status; returns how
 * many were evaluated, and the best one's index (count if there is none). */
size_t pool_search(struct pool_config *configs, size_t count, uint32_t types, pool_evaluate *evaluate, void *context,
                   size_t *best);

/* The paper's oracle: so many queries, all there from the beginning, sorted by size; a base instance takes the largest
 * that is left, an auxiliary one the smallest if it is in time there. Queries per second. */
double pool_oracle(const struct pool_input *input, const struct pool_rates *rates, const uint16_t *count,
                   uint32_t queries);
