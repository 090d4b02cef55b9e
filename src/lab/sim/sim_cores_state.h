/* sim_cores_state.h - model cores and the rank cores of the sub-clusters ("parts") in virtual time. For two files only:
 *
 *     sim_cores.c  steps the cores and delivers their messages
 *     sim_moves.c  models that move between parts
 */
#pragma once

#include "lab/sim/sim_bus.h"
#include "lab/sim/sim_state.h"
#include "sched/plan/balance.h"

struct sim_grant { /* rank core, or an executor -> model core */
    int64_t at_ns;
    enum model_event_kind kind;
    bool left; /* GRANT_LEFT, and no event of a model core */
    uint32_t model;
    union {
        struct grant_message grant;
        struct ran_message ran;
    };
};

struct sim_message { /* model core -> rank core */
    int64_t at_ns;
    bool candidates; /* not a message: the newest candidates of message.model, as on the board of the live threads */
    struct rank_message message;
};

struct sim_notice { /* accelerator -> rank core */
    int64_t at_ns;
    enum rank_event_kind kind; /* RANK_BATCH_ENDED, RANK_ACCELERATOR_UP or _DOWN */
    uint32_t accelerator;
    int64_t said_ns;
};

/* A sub-cluster: its rank core, and the messages to and from it. */
struct sim_part {
    struct bus to_model, to_rank, notices;
    struct rank_core *rank;
    int64_t rank_timer_ns;
};

/* Where a model is; only with several parts. */
struct sim_place {
    uint32_t part, next;  /* SIM_NOTHING: of none; where it is to go */
    bool leaving;         /* the old part has not let it go yet */
    bool away;            /* once it has left it stays away, until sim_moves_due() sends for it */
    int64_t forgotten_ns; /* when a rank core forgot it */
    struct model_rates rates;
};

struct cores {
    uint32_t part_count;
    struct sim_part *parts;                             /* [part_count] */
    uint64_t to_rank_some, to_model_some, notices_some; /* a bit for each part: its bus holds messages */
    uint8_t *part_of_accelerator, *part_of_model;       /* the latter at the beginning */
    struct model_core **models;
    int64_t *timer_ns; /* [models] when they want to be stepped; the heap may still hold an earlier time */
    struct rank_output rank_out;
    struct model_output model_out;
    /* with several parts: */
    struct sim_place *places; /* [models] */
    struct candidate *board;  /* [models][types] the newest candidates */
    struct balance *balance;
    struct balance_model *loads; /* [models] */
    struct balance_part *up;     /* [part_count] */
    struct balance_move *moves;  /* [models] */
    struct rng rng;              /* of moves that are forced */
};

/* The driver's sources, counted from sim->sources.driver: the models' timers, then each of PART_SOURCES for every part,
 * then the moves'. */
enum { TO_MODEL, TO_RANK, NOTICES, RANK_TIME, PART_SOURCES };
enum { EPOCHS, FORCED, MOVES_SOURCES };

static inline struct cores *cores_of(const struct sim *sim) {
    return sim->driver_state;
}

static inline uint32_t parts_of(const struct sim_config *c) {
    return c->subclusters ? c->subclusters : 1;
}

static inline uint32_t part_of(const struct sim *sim, uint32_t model) {
    const struct cores *cores = cores_of(sim);
    return cores->places ? cores->places[model].part : 0;
}

static inline uint32_t moves_source(const struct sim *sim, uint32_t source) {
    return sim->sources.driver + sim->config->model_count + PART_SOURCES * parts_of(sim->config) + source;
}

/* ---- sim_cores.c ---- */

/* A message to the rank core of the model's part; the caller fills in the rest at once. */
struct rank_message *sim_rank_message(struct sim *sim, enum rank_message_kind kind, uint32_t model);

/* ---- sim_moves.c ---- */

/* Memory, and the first assignment. After the accelerators' parts are known, before the rank cores are made. */
void sim_moves_layout(struct sim *sim, struct arena *arena);
/* Sets the first times of the moves' sources. */
void sim_moves_begin(struct sim *sim);
/* The time of EPOCHS or FORCED has come. */
void sim_moves_due(struct sim *sim, uint32_t source);
/* The model has no rank core any more: GRANT_LEFT has come. */
void sim_moves_left(struct sim *sim, uint32_t model);
/* A message has come to a rank core. */
void sim_moves_delivered(struct sim *sim, const struct rank_message *message);
