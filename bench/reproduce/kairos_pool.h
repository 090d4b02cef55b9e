/* kairos_pool.h - shared by Kairos's figures: pools of instances for one model, and their simulated throughput. */
#pragma once

#include "lab/planfile/pool_input.h"
#include "report.h"
#include "runner.h"

#define KAIROS_BUDGET  2.5
#define RUN_QUERIES    20000
#define RUN_LARGE      6000 /* for larger budgets, where the matching of a query takes far longer */
#define RUN_QUICK      400
#define SCHEME_TRIES   3  /* thresholds tried for DRS; the best counts */
#define SEARCH_TRAIL   10 /* configurations whose throughputs a search keeps */
#define ORACLE_QUERIES 5000

enum scheme { SCHEME_KAIROS, SCHEME_RIBBON, SCHEME_DRS, SCHEME_CLKWRK, SCHEMES };
extern const char *const scheme_names[SCHEMES];

struct kairos_model {
    const char *name, *path; /* a scenario */
};
#define KAIROS_MODELS 5
extern const struct kairos_model kairos_models[KAIROS_MODELS];
#define KAIROS_RM2 (&kairos_models[1])

/* A model's configurations under a budget, ranked by their bounds. */
struct kairos_pool {
    const struct kairos_model *model;
    const char *change;           /* of the scenario, "KEY=VALUE"; "": none */
    char seconds[64], warmup[64]; /* changes of the scenario's run: so long that it has about RUN_QUERIES queries */
    struct scenario scenario;
    struct cluster cluster;
    struct pool_input input;
    struct pool_rates rates;
    struct pool_config *configs; /* [count] */
    size_t count, chosen;
    uint16_t alike[POOL_TYPES_MAX]; /* the base type only, as many as the budget pays for */
    double alike_factor;            /* the budget divided by their cost: the paper counts the rest in their favour */
};

/* Mistakes end the program. The caller frees the pool. */
struct kairos_pool *kairos_pool_make(const struct context *c, const struct kairos_model *model, double budget,
                                     const char *change);
void kairos_pool_free(struct kairos_pool *pool);
/* "(1, 0, 13, 0)" */
const char *kairos_pool_text(const uint16_t *count, char text[64]);

/* The throughput of one configuration under one scheme. */
struct throughput {
    const struct outcome *tries[SCHEME_TRIES];
    uint32_t count;
};

/* Adds the searches for goodput; `noise`: Gaussian error of predictions, as a share. */
struct throughput throughput_add(struct context *c, const struct kairos_pool *pool, const uint16_t *count,
                                 enum scheme scheme, double noise);
double throughput_qps(const struct throughput *throughput);

/* Kairos+'s search with one scheme's throughputs: work, for work_add(). */
struct kairos_search {
    const struct kairos_pool *pool;
    enum scheme scheme;
    bool quick;      /* to 5 % */
    bool full;       /* every throughput is measured; otherwise only whether it is better than the best so far */
    size_t most;     /* evaluations; 0: as many as it takes */
    double best_qps; /* this and the next ones: results */
    uint16_t best[POOL_TYPES_MAX];
    size_t evaluations, found_at; /* the best one's number, from 1 */
    double trail[SEARCH_TRAIL];   /* with `full`: throughputs in the order of evaluation */
};
void kairos_search_do(void *search);
