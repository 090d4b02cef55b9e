/* kairos.h - the state of the policy `kairos` as its schemes see it. For src/sched/policy/kairos*.c only. Pure. */
#pragma once

#include "core/util/arena.h"
#include "core/util/rng.h"
#include "sched/core/central.h"
#include "sched/plan/pool_watch.h"
#include "sched/policy/kairos_latency.h"

#define KAIROS_ROWS_MAX 256 /* queries in one matching */

enum kairos_option {
    KAIROS_SCHEME,
    KAIROS_LATE,
    KAIROS_START,
    KAIROS_GUARD,
    KAIROS_PENALTY,
    KAIROS_WINDOW,
    KAIROS_THRESHOLD,
    KAIROS_CLIMB,
    KAIROS_NOISE,
    KAIROS_BUDGET,
};

enum { KAIROS_LATE_REFUSE, KAIROS_LATE_SERVE };
enum { KAIROS_START_PROFILE, KAIROS_START_NOTHING };

/* Queries in the order of their arrival, linked through request_node.links. */
struct kairos_queue {
    uint32_t first, last, count;
};

/* What request_node.links holds while a query is queued. */
enum kairos_link {
    KAIROS_NEXT,
    KAIROS_PREVIOUS,
    KAIROS_SPAN_US, /* in an instance's queue: expected time of the query on the instance, in us, rounded up */
};

struct kairos_instance {
    uint8_t type;
    bool up, busy;
    int64_t free_ns;           /* if busy: expected end of its query */
    struct kairos_queue queue; /* scheme clkwrk: queries that wait for this instance */
    int64_t queue_us;          /* expected time of all queries in `queue` */
};

/* The state of scheme drs' hill climbing, one a model. */
struct kairos_climb {
    uint32_t threshold; /* items up to which queries go to auxiliary types; larger ones go to the base type */
    uint32_t step;
    bool down;
    uint32_t queries, bad;
    double bad_before; /* share of bad queries in the period before; negative: there was no such period */
};

struct kairos_model {
    bool runs_on[CENTRAL_TYPES_MAX];
    uint32_t items_max;
    uint32_t base; /* type on which the largest query runs fastest */
    double coefficient[CENTRAL_TYPES_MAX];
    struct kairos_latency *latency[CENTRAL_TYPES_MAX];
    struct kairos_climb climb;
};

struct kairos {
    struct policy_options options;
    struct request_pool *pool;
    uint32_t model_count, instance_count, types;
    int64_t ctrl_ns, data_ns;
    bool late_refused; /* late queries do not start, and queries that would be late everywhere are refused */
    uint64_t seed;
    uint32_t up_count[CENTRAL_TYPES_MAX];
    bool stranded;       /* some model runs on no type that is in service */
    uint32_t idle_count; /* instances that are up and not busy */
    struct kairos_model *models;
    struct kairos_instance *instances;
    struct kairos_queue queue;
    int64_t wake_ns; /* time from which on the next query can no longer be in time */
    /* the pool chosen while serving (kairos_pool.c); pool_input.types 0: none is */
    struct pool_watch pool_watch;
    struct pool_input pool_input;
    int64_t *pool_span_ns[CENTRAL_TYPES_MAX]; /* [items_max + 1] of pool_input.type[].latency_ns */
    /* scratch of a round's matching */
    uint32_t rows_max;
    int64_t *cost;
    uint32_t *rows, *columns, *column_of;
    void *matching;
};

/* Gives waiting queries to idle instances; calls kairos_run() for each query. */
typedef void kairos_round(struct kairos *k, int64_t now_ns, struct central_output *out);
kairos_round kairos_round_matching, kairos_round_ribbon, kairos_round_drs, kairos_round_clkwrk, kairos_round_oracle;

static inline struct request_node *kairos_node(const struct kairos *k, uint32_t node) {
    return &k->pool->nodes[node];
}
static inline uint32_t kairos_next(const struct kairos *k, uint32_t node) {
    return kairos_node(k, node)->links[KAIROS_NEXT];
}
static inline uint32_t kairos_model_of(const struct kairos *k, uint32_t node) {
    return kairos_node(k, node)->model;
}
static inline bool kairos_idle(const struct kairos_instance *instance) {
    return instance->up && !instance->busy;
}

/* central_ops */
size_t kairos_bytes(const struct central_config *config);
void kairos_init(void *core, const struct central_config *config, struct request_pool *pool);

void kairos_pool_layout(struct kairos *k, struct arena *arena, const struct central_config *config);
/* Counts a query that arrives, and chooses the pool again if that is due. */
void kairos_pool_count(struct kairos *k, uint32_t items);
/* central_ops */
const uint16_t *kairos_pool_wanted(const void *core);
double kairos_pool_budget(const struct policy_options *options);
/* Sets k->stranded. */
void kairos_stranded(struct kairos *k);
/* Sets the coefficients of section 5.1: how much an instance's time is worth, judged by the largest query. */
void kairos_coefficients(struct kairos *k, struct kairos_model *model);
void kairos_queue_append(struct kairos *k, struct kairos_queue *queue, uint32_t node);
void kairos_queue_remove(struct kairos *k, struct kairos_queue *queue, uint32_t node);
/* Appends a query to an instance's own queue. */
void kairos_instance_append(struct kairos *k, struct kairos_instance *instance, uint32_t node);
void kairos_instance_remove(struct kairos *k, struct kairos_instance *instance, uint32_t node);
/* delay(b) plus the latency expected for a query, on a type on which its model runs. */
int64_t kairos_span_ns(const struct kairos *k, uint32_t node, uint32_t type);
/* kairos_span_ns() as a scheme sees it, with the noise of option `noise`. */
int64_t kairos_predicted_ns(const struct kairos *k, uint32_t node, uint32_t type);
/* Takes a query out of `queue` and sends it to an idle instance on which its model runs. If late queries are refused
 * and the query would be late there, refuses the query instead. False: no more actions fit into `out`, nothing was
 * done. */
bool kairos_run(struct kairos *k, int64_t now_ns, struct kairos_queue *queue, uint32_t node, uint32_t instance,
                struct central_output *out);
/* Counts a query of the model that has ended, well or badly, for the hill climbing. */
void kairos_climb_count(struct kairos *k, uint32_t model, bool bad);
void kairos_climb_init(struct kairos *k, uint32_t model);
