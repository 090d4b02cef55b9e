/* sim_cores_state.h - model cores and the rank cores of the sub-clusters in virtual time. For two files only:
 *
 *     sim_cores.c  steps the cores and delivers their messages
 *     sim_moves.c  models that move between sub-clusters
 */
#pragma once

#include "lab/sim/sim_bus.h"
#include "lab/sim/sim_state.h"
#include "sched/plan/balance.h"

struct sim_grant { /* rank core, or an executor -> model core */
    int64_t at_ns;
    enum model_event_kind kind;
    bool left; /* whether the message is GRANT_LEFT, which is no event of a model core */
    uint32_t model;
    union {
        struct grant_message grant;
        struct ran_message ran;
    };
};

struct sim_message { /* model core -> rank core */
    int64_t at_ns;
    bool candidates; /* whether this stands for the newest candidates of message.variant, as on the board of the live
                      * threads, instead of a message */
    struct rank_message message;
};

struct sim_notice { /* accelerator -> rank core */
    int64_t at_ns;
    enum rank_event_kind kind;     /* RANK_BATCH_ENDED, RANK_ACCELERATOR_UP or _DOWN */
    uint32_t accelerator, variant; /* variant: of the batch that ended */
    int64_t said_ns;
    struct memory_moved moved; /* RANK_MOVED */
};

/* A sub-cluster: its rank core, and the messages to and from it. */
struct sim_subcluster {
    struct bus to_model, to_rank, notices;
    struct rank_core *rank;
    int64_t rank_timer_ns;
};

/* The sub-cluster that a model is in; only with several sub-clusters. */
struct sim_place {
    uint32_t subcluster,
        next;     /* sub-cluster of the model, SIM_NOTHING: none; sub-cluster that the model is to move to */
    bool leaving; /* whether the old sub-cluster has not let the model go yet */
    bool away;    /* whether the model, once it has left, is in no sub-cluster until sim_moves_due() gives it one */
    int64_t forgotten_ns; /* time at which a rank core forgot the model */
    struct model_rates rates;
};

struct cores {
    uint32_t subcluster_count;
    struct sim_subcluster *subclusters; /* [subcluster_count] */
    uint64_t to_rank_some, to_model_some,
        notices_some;             /* a bit for each sub-cluster, set if the sub-cluster's bus holds messages */
    struct rank_weights *weights; /* [models], where memory is limited */
    uint8_t *subcluster_of_accelerator,
        *subcluster_of_model; /* sub-clusters of accelerators, and the first sub-clusters of models */
    struct model_core **models;
    int64_t *timer_ns; /* [models] time at which the model core wants its next step; the model's source may have an
                        * earlier time */
    struct rank_output rank_out;
    struct model_output model_out;
    /* with several sub-clusters: */
    struct sim_place *places; /* [models] */
    struct candidate *board;  /* [models][types] the newest candidates */
    struct balance *balance;
    struct balance_model *loads;   /* [models] */
    struct balance_subcluster *up; /* [subcluster_count] accelerators in service */
    struct balance_move *moves;    /* [models] */
    struct rng rng;                /* random numbers of forced moves */
};

/* The driver's sources, counted from sim->sources.driver: the models' timers, then each of SUBCLUSTER_SOURCES for every
 * sub-cluster, then the moves'. */
enum { TO_MODEL, TO_RANK, NOTICES, RANK_TIME, SUBCLUSTER_SOURCES };
enum { EPOCHS, FORCED, MOVES_SOURCES };

static inline struct cores *cores_of(const struct sim *sim) {
    return sim->driver_state;
}

static inline uint32_t subclusters_of(const struct sim_config *c) {
    return c->subclusters ? c->subclusters : 1;
}

static inline uint32_t subcluster_of(const struct sim *sim, uint32_t model) {
    const struct cores *cores = cores_of(sim);
    return cores->places ? cores->places[model].subcluster : 0;
}

static inline uint32_t moves_source(const struct sim *sim, uint32_t source) {
    return sim->sources.driver + sim->config->model_count + SUBCLUSTER_SOURCES * subclusters_of(sim->config) + source;
}

/* ---- sim_cores.c ---- */

/* Adds a message to the rank core of the model's sub-cluster; the caller fills in the rest at once. */
struct rank_message *sim_rank_message(struct sim *sim, enum rank_message_kind kind, uint32_t model);

/* ---- sim_moves.c ---- */

/* Takes memory, and assigns models to sub-clusters for the first time. Call it when the sub-clusters of accelerators
 * are known, before the rank cores are made. */
void sim_moves_layout(struct sim *sim, struct arena *arena);
/* Sets the first times of the moves' sources. */
void sim_moves_begin(struct sim *sim);
/* The time of EPOCHS or FORCED has come. */
void sim_moves_due(struct sim *sim, uint32_t source);
/* The model has no rank core any more: GRANT_LEFT has come. */
void sim_moves_left(struct sim *sim, uint32_t model);
/* A message has come to a rank core. */
void sim_moves_delivered(struct sim *sim, const struct rank_message *message);
