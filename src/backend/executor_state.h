/* executor_state.h - what an executor is made of; for the executor's files only. */
#pragma once

#include "backend/executor.h"
#include "base/doorbell.h"
#include "frontend/request.h"

struct emulation; /* executor_emulated.c: the accelerators of an engine that emulates them */

/* Whether an accelerator takes part. */
struct member {
    bool dead;     /* what it has is lost, and what is sent to it */
    bool out;      /* it is to get nothing more: dead, or to drain */
    bool told_out; /* the scheduler knows */
};

/* owned by the executor's thread; counters and load_status are read by anyone */
struct executor {
    struct executor_config config;
    struct wiring *wiring;
    struct engine *engine;
    struct executor_model *models; /* [model_count] */
    char *gather;                  /* inputs of a batch of several requests, one after the other */
    size_t gather_bytes;
    struct executor_counters *counters; /* [config.accelerators] */
    struct emulation *emulation;        /* NULL: batches really run, one at a time */
    struct member *members;             /* [config.accelerators] */
    bool news;                          /* there are members of whom the scheduler is to be told */
    bool engine_lost;                   /* for good */
    int64_t ended_ns;                   /* the last batch that really ran */
    int64_t spin_until_ns;              /* before that it does not sleep */
    int64_t wake_ns;                    /* something is due then; TIME_NEVER: nothing is */
    struct doorbell loaded;             /* rung when loading is over */
    _Atomic int load_status;            /* 1: loading, else 0 or -errno */
    struct sy_error load_error;
    bool *frontend_rung, *model_rung; /* who gets the bell when what was pushed is published */
    uint32_t reports;                 /* since the bells were last rung */
    pthread_t thread;
    _Atomic bool stop;
};

/* ---- executor_models.c ---- */

/* Opens the engine and loads what is there from the start. */
int executor_load_all(struct executor *x);
void executor_unload_all(struct executor *x);

/* ---- executor_batch.c: what every batch needs, however it runs ---- */

struct run_result {
    enum request_status status;
    struct output_block *block;
    int64_t start_ns, end_ns;
    struct sy_error error;
};

/* Whether it is too late to start: every request's deadline has passed, so that running it helps nobody, or the
 * scheduler said so. */
bool batch_expired(const struct batch_plan *plan, int64_t now_ns);
/* Makes whole-batch inputs: in place for one request, else copied one after the other. The requests are alike, or the
 * engine does not look at its inputs. */
int batch_gather(struct executor *x, const struct batch_plan *plan, struct tensor_view *inputs, struct sy_error *err);
/* What is told of a batch that an accelerator takes up now; its last batch ended at ended_ns. */
struct ran_message batch_ran(const struct executor *x, const struct batch_plan *plan, int64_t now_ns, int64_t ended_ns);
/* How many of a batch's requests are late: all if it was too late to start, else those of its first, which are due
 * first, whose deadline had passed when it ended. What failed for another reason is not. */
uint32_t batch_late(const struct batch_plan *plan, const struct run_result *result);
void batch_count(struct executor *x, const struct batch_plan *plan, const struct run_result *result);
/* Tells the rank thread that the accelerator is free, and the model thread what the run took. */
void batch_report(struct executor *x, uint32_t model_thread, const struct ran_message *ran, int64_t ended_ns);
/* Hands every request of the batch back to its frontend. */
void batch_answer(struct executor *x, const struct batch_plan *plan, const struct run_result *result);
/* Publish what was reported, and what was answered. */
void executor_publish_reports(struct executor *x);
void executor_publish_answers(struct executor *x);
/* Runs a batch until it is done. */
void batch_run(struct executor *x, uint32_t model_thread, const struct batch_plan *plan);

/* ---- executor_membership.c ---- */

struct member *executor_member(struct executor *x, uint32_t accelerator);
/* Reports a batch that is not run, since its accelerator failed, and hands its requests back to be sent again. */
void batch_lose(struct executor *x, uint32_t model_thread, const struct batch_plan *plan);
/* All that the accelerator has, and what is sent to it until it joins again, is lost. */
void accelerator_fail(struct executor *x, uint32_t accelerator);
/* After a run failed: whether some model still runs a trial, as all did once. A GPU whose context is broken fails
 * everything from then on. */
bool engine_works(struct executor *x);
/* The engine does not work any more, and takes its accelerator with it. */
void engine_lose(struct executor *x, uint32_t accelerator, const struct sy_error *reason);
/* Does as it was told, and tells of it; publishes. True if there was anything. x->news: look again soon. */
bool membership_poll(struct executor *x);

/* ---- executor_emulated.c ---- */

/* NULL: no memory. */
struct emulation *emulation_new(const struct executor_config *config);
void emulation_free(struct emulation *emulation);
/* Takes up plans and ends runs that are due; sets x->wake_ns. True if there was anything. */
bool emulation_poll(struct executor *x);
/* Loses all that an accelerator has. */
void emulation_lose(struct executor *x, uint32_t accelerator);
