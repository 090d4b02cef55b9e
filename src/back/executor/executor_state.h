/* executor_state.h - the state of an executor; for the executor's files only. */
#pragma once

#include "back/executor/executor.h"
#include "core/system/doorbell.h"

struct emulation; /* executor_emulated.c: the accelerators of an engine that emulates them */
struct run_watch; /* executor_watch.c: the state of the present run, for the thread that watches */

/* A model as an executor has it. */
struct executor_model {
    struct engine_model *model;  /* NULL: not loaded */
    struct input_values *values; /* of trial runs; NULL: random. Its own */
    bool tried;                  /* a trial run has worked, so a later failure means that the engine is broken */
};

/* The membership of an accelerator. */
struct member {
    bool dead;     /* all batches that it has, or that are sent to it, are lost */
    bool out;      /* it gets no more batches: it is dead or drains */
    bool told_out; /* `out` as the scheduler knows it */
};

/* What one suffix made of its requests, which lie behind each other in a batch of models that share a prefix. */
struct run_slice {
    struct output_block *block;
    uint32_t requests, items;
};

/* The batch that runs on a real engine (no emulation). It is not on the thread's stack, so that another thread can take
 * it over. */
struct batch_under_way {
    const struct batch_plan *plan; /* in its ring, consumed by the executor; NULL: nothing runs */
    uint32_t model_thread;
    uint32_t slots; /* of the plan, which is the first of its ring until batch_run() ends; else 0 */
    struct ran_message ran;
    int64_t start_ns, ended_ns;
    uint32_t unready;    /* requests at the front whose inputs are not prepared: they go back, and do not run */
    uint32_t together;   /* end (an index) of those that may run together, behind them; every later one runs alone */
    uint32_t done;       /* requests at the front that are answered */
    uint32_t run_count;  /* requests that run now, behind the answered ones */
    uint32_t reading;    /* index, among those, of the request whose place must not be freed during the run: a suffix's
                            first */
    int64_t apart_ns;    /* until when parts of a divided batch may run; 0: the batch has not been divided */
    uint32_t bad_end;    /* end (an index) of the requests of which one makes runs fail; 0: none is known */
    uint32_t failed_end; /* one past the last request of a run that failed */
    bool engine_ran;     /* a run of this batch has worked */
    bool failed;         /* a run of this batch has failed */
    struct batch_plan *part;  /* the requests that run, if not all do; room for the greatest plan */
    uint64_t *handles;        /* [PROFILE_BATCH_MAX] all, those that may run together first */
    bool *alone;              /* [PROFILE_BATCH_MAX] in the plan's order: the request runs alone */
    bool sorted;              /* `handles` are ordered by suffix: no part is the plan itself */
    struct run_slice *slices; /* [PART_SUFFIXES_MAX] of the run that ended last, if it was a prefix's */
};

/* owned by the executor's thread; counters and load_status are read by anyone */
struct executor {
    struct executor_config config;
    struct wiring *wiring;
    struct engine *engine;
    struct executor_model *models; /* [model_count] resident */
    struct executor_model *beside; /* [model_count] loaded, not resident; owned by the thread that loads models.
                                    * Commands and their answers hand a model over from one array to the other */
    char *gather;                  /* inputs of a batch of several requests, one after the other */
    size_t gather_bytes;
    bool gather_pinned;                 /* it is the engine's memory */
    struct executor_counters *counters; /* [config.accelerators] */
    struct emulation *emulation;        /* NULL: the engine is real and runs one batch at a time */
    struct member *members;             /* [config.accelerators] */
    bool news;                          /* changes of some members have not been told to the scheduler yet */
    bool engine_lost;                   /* until the run that was given up ends; without such a run, for good */
    struct batch_under_way batch;
    int64_t tried_ns;        /* when a trial run last showed that the engine works */
    int64_t ended_ns;        /* of the last batch on a real engine */
    int64_t spin_until_ns;   /* it does not sleep before then */
    int64_t wake_ns;         /* something is due then; TIME_NEVER: nothing is */
    struct doorbell loaded;  /* rung when loading is over */
    _Atomic int load_status; /* 1: loading, else 0 or -errno */
    struct sy_error load_error;
    bool *plan_waits;                 /* [model_threads] the ring's first plan waits for its earliest start */
    bool *frontend_rung, *model_rung; /* whose bells are to ring when the pushed messages are published */
    bool link_rung;   /* in a process without scheduler and frontends: ring the link thread's bell instead */
    uint32_t reports; /* since the bells were last rung */
    pthread_t thread;
    _Atomic bool stop;
    /* owned by the executor's thread; by the thread that started it, while that has taken the executor away */
    struct run_watch *watch; /* NULL: runs cannot hang */
    struct run_watch *lost;  /* of a thread whose run was given up and has not come back; NULL: none */
    pthread_t lost_thread;
    bool lost_reads; /* its run may still read the request lost_handle, and the frontend was told so */
    uint64_t lost_handle;
    struct {           /* owned by the thread that started it */
        uint64_t word; /* of the watch, at the last look */
        int64_t looked_ns, waited_ns;
        bool vacant; /* no thread has the executor: the substitute thread could not be started yet, or has ended */
    } watching;
};

/* ---- executor.c ---- */

/* Polls and sleeps until it is to stop. False: its thread has lost the executor to another. */
bool executor_serve(struct executor *x);

/* ---- executor_models.c ---- */

/* Opens the engine and loads the models that are there from the start. */
int executor_load_all(struct executor *x);
void executor_unload_all(struct executor *x);
/* Makes a loaded model resident, or no longer resident, and answers. */
void executor_model_obey(struct executor *x, const struct accelerator_command *command);

/* ---- executor_batch.c: for every batch, on a real or an emulated engine ---- */

struct run_result {
    enum request_status status;
    struct output_block *block;     /* of OK; batch_answer() hands it on */
    const struct run_slice *slices; /* instead, where each suffix has a block of its own: all requests, in order; */
    uint32_t slice_count;           /* 0: `block` is for all requests */
    bool whole;                     /* of OK: the outputs are a lone request's, however many rows they have */
    bool suspect, broke, read;      /* of LOST: as in result_message; `read` of the first request alone */
    bool absent;                    /* of LOST: the model is not resident */
    bool unready;                   /* of LOST: the requests' inputs are not prepared */
    int64_t start_ns, end_ns;
    struct sy_error error; /* of FAILED */
};

/* Whether it is too late to start a batch: every request's deadline has passed, or the latest start that the scheduler
 * set. */
bool batch_expired(const struct executor *x, const struct batch_plan *plan, int64_t now_ns);
/* The items of a batch. */
uint32_t batch_items(const struct executor *x, const struct batch_plan *plan);
/* Makes the inputs of a whole batch: for one request they stay in place, if that is memory of this process, else they
 * are copied one after the other. The requests are alike, or the engine does not look at its inputs. 0, or -ENOMEM with
 * a sentence. */
int batch_gather(struct executor *x, const struct batch_plan *plan, struct tensor_view *inputs, struct sy_error *err);
/* Gives the memory for gathered inputs back, while the engine is open. */
void gather_release(struct executor *x);
/* Marks the requests whose shapes differ from the first one's to run alone. The scheduler knows shapes only by a hash,
 * and equal hashes are no proof of equal shapes. */
void batch_part(const struct executor *x, const struct batch_plan *plan, bool *alone);
/* Gives those requests of a held plan back whose inputs are not prepared, and takes them out of the plan, which may
 * then have no requests. */
void batch_unready_give(struct executor *x, struct batch_plan *plan);
/* Whether a request's inputs are still being prepared. If false, the caller may read them. */
bool request_unready(const struct executor *x, uint64_t handle);
/* The report of a batch that an accelerator takes up now; the accelerator's last batch ended at ended_ns. */
struct ran_message batch_ran(const struct executor *x, const struct batch_plan *plan, int64_t now_ns, int64_t ended_ns);
/* How many of a batch's requests are late. All, if it was too late to start. Else those whose deadline had passed when
 * it ended; they come first in the batch. None, if it failed for another reason. */
uint32_t batch_late(const struct executor *x, const struct batch_plan *plan, const struct run_result *result);
void batch_count(struct executor *x, const struct batch_plan *plan, const struct run_result *result);
/* Tells the rank thread that the accelerator is free, and the model thread what the run took. */
void batch_report(struct executor *x, uint32_t model_thread, const struct ran_message *ran, int64_t ended_ns);
/* Tells the frontends what became of the batch's requests. */
void batch_answer(struct executor *x, const struct batch_plan *plan, const struct run_result *result);
/* Tells a request's frontend that the run which read its inputs, and had been given up, is over. False: the ring is
 * full now. */
bool request_release(struct executor *x, uint64_t handle);
/* Publishes what was reported and answered. */
void executor_publish(struct executor *x);
/* Publishes only the messages that accelerators are free, before the others are ready. */
void executor_publish_freed(struct executor *x);

/* ---- executor_run.c: batches that really run ---- */

/* 0 or -ENOMEM. */
int batch_under_way_init(struct executor *x);
void batch_under_way_destroy(struct executor *x);
/* Runs a batch until all its requests are answered: together if possible, else in parts. If a part of several requests
 * fails, or batch_gather() cannot put its inputs together, it is halved. So a request that makes runs fail is answered
 * alone; executor_run.c has the bounds. False: the thread has lost the executor, and must not touch it. */
bool batch_run(struct executor *x, uint32_t model_thread, const struct batch_plan *plan);
/* For the thread that takes over from one whose run hangs. The batch's requests without an answer are lost. The hanging
 * run may still read its requests until it ends (result_message.read). */
void batch_abandon(struct executor *x);

/* ---- executor_shared.c: batches of models that share a prefix ---- */

enum shared_end {
    SHARED_DONE,    /* result->slices are there */
    SHARED_FAILED,  /* result->error says why */
    SHARED_STOPPED, /* a run took too long, and was stopped */
    SHARED_ABSENT,  /* the prefix, or a suffix, is not resident */
    SHARED_LOST,    /* the thread has lost the executor, and must not touch it */
};

/* The suffix that a request takes, by its number. */
uint32_t request_suffix(const struct executor *x, uint64_t handle);
/* Orders the handles [from, to) of the batch under way by suffix; otherwise they stay in order. */
void suffixes_order(struct executor *x, uint32_t from, uint32_t to);
/* Runs the prefix for all requests of a part, ordered by suffix, and each suffix for its own. `inputs` are those of the
 * whole models. */
enum shared_end shared_run(struct executor *x, const struct batch_plan *part, const struct tensor_view *inputs,
                           struct run_result *result);

/* ---- executor_watch.c: runs that hang ---- */

/* How a run, or several, ended. */
enum run_end {
    RUN_ENDED,   /* by itself */
    RUN_STOPPED, /* it was told to */
    RUN_LOST,    /* it ended too late: another thread has the executor, and the caller must not touch it */
};

/* 0 or -ENOMEM. */
int run_watch_init(struct executor *x);
void run_watch_destroy(struct executor *x);
/* run_begin() and run_over() enclose every call of the engine that may hang; they say how long it may take, and which
 * model to stop. The watch belongs to the thread, even after it has lost the executor. */
struct run_watch *run_begin(struct executor *x, struct engine_model *model, int64_t limit_ns);
enum run_end run_over(struct run_watch *watch, const struct engine_ops *engine, struct engine_model *model);
/* How long a batch may take whose items cost `work` times the profiled ones. */
int64_t run_limit(const struct executor *x, uint32_t served_model, uint32_t items, float work);
/* Says that the run of a thread which lost the executor has ended, and reads nothing any more. It is the last thing
 * that the thread does. */
void run_back(struct run_watch *watch);
/* Whether the lost thread's run has ended; then the thread may be joined. */
bool run_is_back(const struct run_watch *watch);

/* ---- executor_membership.c ---- */

struct member *executor_member(struct executor *x, uint32_t accelerator);
/* Reports a batch that is not run, since its accelerator failed, and hands its requests back to be sent again. */
void batch_lose(struct executor *x, uint32_t model_thread, const struct batch_plan *plan);
/* All that the accelerator has, and what is sent to it until it joins again, is lost. */
void accelerator_fail(struct executor *x, uint32_t accelerator);
/* After a failed run: whether a trial run of any model still works, among those whose trial run once worked. On a GPU
 * whose context is broken everything fails from then on. A trial run that works counts for a second. RUN_LOST as
 * run_over(). */
enum run_end engine_works(struct executor *x, bool *works);
/* The engine does not work any more, so its accelerator has failed. */
void engine_lose(struct executor *x, uint32_t accelerator, const char *reason);
/* If the run that was given up has ended, and the engine works, the accelerator serves again. False: the thread has
 * lost the executor. */
bool engine_return(struct executor *x);
/* Obeys the commands, tells the scheduler of changes, and publishes. True if there was a command. x->news: not all
 * changes are told yet, call it again soon. */
bool membership_poll(struct executor *x);

/* ---- executor_emulated.c ---- */

/* NULL: no memory. */
struct emulation *emulation_new(const struct executor_config *config);
void emulation_free(struct emulation *emulation);
/* Takes up plans and ends runs that are due; sets x->wake_ns. True if there was any. */
bool emulation_poll(struct executor *x);
/* Loses all batches that an accelerator has. */
void emulation_lose(struct executor *x, uint32_t accelerator);
