/* decision_log.h - every step of a scheduling thread's cores: what a core was told, at which time, and what it said.
 * From the log the thread's decisions can be made again, message by message (lab/sim/decision_replay.h), for tests and
 * to find out why a server decided as it did. The looks at the load, from which advice on accelerators comes, have a
 * log of their own. Pure.
 *
 * A log is memory of the caller's that is filled from its beginning, since a replay begins with cores that know
 * nothing. When the log is full, nothing more is logged. One thread writes a log, and only the program that wrote it
 * can read it: structs are kept as they lie in memory. */
#pragma once

#include "sched/core/model_core.h"
#include "sched/core/rank_core.h"
#include "sched/plan/advisor.h"

#define DECISION_MAGIC "symphony steps 4"

/* Kinds of entries, each with what follows its struct decision_entry. */
enum decision_kind {
    DECISION_MODEL_THREAD,    /* struct decision_thread */
    DECISION_MODEL_INIT,      /* struct decision_init; the core's configuration; the arrays that it points to */
    DECISION_MODEL_STEP,      /* struct decision_step; the event's message; what the core said */
    DECISION_RANK_INIT,       /* struct decision_thread; the core's configuration; the arrays that it points to */
    DECISION_RANK_STEP,       /* struct decision_step; the event and its message; what rank_core_step() said */
    DECISION_RANK_TAKE,       /* struct decision_step; the event and its message; what rank_core_take() said */
    DECISION_RANK_PARAMETERS, /* struct decision_step; the message to a model */
    DECISION_RANK_LOAD,       /* struct decision_step; a double: accelerator time that the load has needed so far */
    DECISION_ADVICE_INIT, /* struct decision_step; struct decision_advisor; doubles: needed_ns of each sub-cluster */
    DECISION_ADVICE_LOOK, /* struct decision_step; the load of all sub-clusters together, and of each if there are
                           * several; doubles: needed_ns of each sub-cluster; the advice */
};

/* The beginning of a log. */
struct decision_head {
    char magic[16], version[32];
    uint64_t used;   /* bytes of the log, this struct included */
    uint64_t missed; /* entries that found no room */
};

struct decision_entry {
    uint32_t bytes; /* bytes of the entry, this struct included; a multiple of 8 */
    uint32_t kind;  /* enum decision_kind */
};

struct decision_thread {
    char policy[32];
    struct policy_options options;
    uint32_t types, pool; /* accelerator types; nodes in the pool of requests, or 0 for a rank core */
};

struct decision_init {
    uint32_t core;   /* number of the model core: the one by which the rank core knows the variant */
    uint32_t levels; /* index of the model's queue limits within the thread; UINT32_MAX: the model has none */
    uint32_t most[PRIORITIES_MAX]; /* queue limits: requests of each priority that may wait */
};

struct decision_advisor {
    struct autoscale_config config;
    uint32_t subclusters;
};

struct decision_step {
    int64_t now_ns;
    uint32_t core;  /* number of the model core; RANK_PARAMETERS: the model; else 0 */
    uint32_t event; /* kind of the event: enum model_event_kind or enum rank_event_kind */
};

struct decision_log {
    char *memory;
    size_t bytes, used; /* bytes of `memory`; bytes written */
    size_t from;        /* offset at which the entry that is being written begins */
    bool full;          /* an entry did not fit: no more are written */
};

/* Begins a log in `bytes` of memory, which are at least sizeof(struct decision_head). */
void decision_log_init(struct decision_log *log, char *memory, size_t bytes);

/* ---- for the threads: after each step of a core, before the thread acts on what the core said ---- */

void decision_model_thread(struct decision_log *log, const struct policy_ops *policy,
                           const struct policy_options *options, uint32_t types, uint32_t pool);
/* `levels`: the array of the thread's limits, in which config->levels lies. */
void decision_model_init(struct decision_log *log, struct variant_id core, const struct model_core_config *config,
                         const struct queue_levels *levels);
void decision_model_step(struct decision_log *log, struct variant_id core, uint32_t types, int64_t now_ns,
                         const struct model_event *event, const struct model_output *out,
                         const struct request_pool *pool);
void decision_rank_init(struct decision_log *log, const struct rank_core_config *config);
/* `takes`: the step was rank_core_take() instead of rank_core_step(). */
void decision_rank_step(struct decision_log *log, uint32_t types, int64_t now_ns, const struct rank_event *event,
                        bool takes, const struct rank_output *out);
void decision_rank_parameters(struct decision_log *log, const struct grant_message *message);
/* Logs rank_core_needed_ns(). Called after a step that changed the parameters, before other threads are told. */
void decision_rank_load(struct decision_log *log, int64_t now_ns, double needed_ns);

/* ---- for the thread that looks at the load; `needed_ns`: [subclusters] what each rank core has said last ---- */

void decision_advice_init(struct decision_log *log, int64_t now_ns, const struct autoscale_config *config,
                          uint32_t subclusters, const double *needed_ns);
void decision_advice_look(struct decision_log *log, int64_t now_ns, const struct advisor_load *load,
                          const double *needed_ns, const struct advisor *advisor);

/* ---- for replays ---- */

/* Bytes of the message that an event of a model core carries. */
size_t decision_model_event_bytes(enum model_event_kind kind);
/* These write what cores say field by field, since the padding between fields is undefined. */
void decision_put_model_output(struct decision_log *log, enum model_event_kind kind, uint32_t types,
                               const struct model_output *out, const struct request_pool *pool);
void decision_put_rank_output(struct decision_log *log, bool takes, const struct rank_output *out);
void decision_put_grant(struct decision_log *log, const struct grant_message *message);
void decision_put_double(struct decision_log *log, double value);
void decision_put_advice(struct decision_log *log, const struct advisor *advisor);
