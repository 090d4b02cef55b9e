/* executor_state.h - the state of an executor; for the executor's files only. */
#pragma once

#include "back/executor/executor.h"
#include "core/system/doorbell.h"

struct emulation; /* executor_emulated.c: the accelerators of an engine that emulates them */
struct loader;    /* executor_loader.c: loads and unloads the models of a real engine */
struct run_watch; /* executor_watch.c: the state of the present run, for the thread that watches */

/* A model as an executor has it. */
struct executor_model {
    struct engine_model *model;  /* NULL: not loaded */
    struct input_values *values; /* inputs of trial runs, owned by this struct; NULL: random ones */
    uint32_t key;                /* low bits of served_model_key(), for the timeline */
    bool tried;                  /* a trial run has worked: if one fails later, the engine is broken */
};

/* The membership of an accelerator. */
struct member {
    bool dead;     /* the accelerator has failed: all batches that it has, or that are sent to it, are lost */
    bool out;      /* the accelerator gets no more batches: it is dead or drains */
    bool told_out; /* value of `out` that the scheduler was told */
};

/* The outputs of one suffix. Its requests are next to each other in a batch of models that share a prefix. */
struct run_slice {
    struct output_block *block;
    uint32_t requests, items;
};

/* The batch that runs on a real engine (no emulation). The struct is not on the thread's stack, so that another thread
 * can take the batch over.
 *
 *     handles, at first      | unready | run together ... | run alone ... |
 *                            0      unready           together
 *     handles, later         | answered | run now | the others ...        |
 *                            0        done      done + run_count
 */
struct batch_under_way {
    const struct batch_plan *plan; /* plan in its ring, which the executor consumes; NULL: nothing runs */
    uint32_t model_thread;
    uint32_t slots; /* slots of the plan, which is the first of its ring until batch_run() ends; else 0 */
    struct ran_message ran;
    int64_t start_ns, ended_ns; /* start of the batch; end of its last run */
    uint32_t before;            /* batch_before() */
    uint32_t unready;           /* number of requests whose inputs are not prepared: they go back, and do not run */
    uint32_t together;  /* index of the first request that must run alone; those from `unready` on may run together */
    uint32_t done;      /* number of requests that are answered */
    uint32_t run_count; /* number of requests that run now */
    uint32_t reading;   /* request, counted from `done`, that keeps its model from being freed during the run */
    int64_t apart_ns;   /* time until which sub-batches of a divided batch may run; 0: the batch has not been divided */
    uint32_t bad_end; /* end (an index) of the requests, from `done` on, of which one makes runs fail; 0: none known */
    uint32_t failed_end;         /* end (an index) of the requests that were in a run that failed */
    bool engine_ran;             /* a run of this batch has worked */
    bool failed;                 /* a run of this batch has failed */
    struct batch_plan *subbatch; /* plan of the requests that run, if not all do; has room for the greatest plan */
    uint64_t *handles;           /* [PROFILE_BATCH_MAX] handles of all requests, in the order of running */
    bool *alone;                 /* [PROFILE_BATCH_MAX] in the plan's order: whether the request runs alone */
    bool sorted;                 /* `handles` are ordered by suffix, so that no sub-batch is the plan itself */
    struct run_slice *slices;    /* [PART_SUFFIXES_MAX] outputs of the last run, if the model is a prefix */
};

/* owned by the executor's thread; counters and load_status are read by anyone */
struct executor {
    struct executor_config config;
    struct wiring *wiring;
    struct engine *engine;
    struct executor_model *models; /* [model_count] resident models */
    struct executor_model *beside; /* [model_count] loaded models that are not resident; owned by the thread that loads
                                    * models. Commands and their answers hand a model over between the two arrays */
    char *gather;                  /* buffer for the inputs of several requests, one after the other */
    size_t gather_bytes;
    bool gather_pinned;                 /* `gather` is memory of the engine */
    struct executor_counters *counters; /* [config.accelerators] */
    struct emulation *emulation;        /* NULL: the engine is real and runs one batch at a time */
    struct loader *loader; /* NULL: memory is not limited, or emulated. Else only the loader and, by its leave, the
                            * executor's thread change `beside` */
    /* where memory is limited: models that are to be resident no longer, for good, once no accelerator has their
     * weights */
    struct accelerator_command *takes; /* [model_count] commands that are not answered */
    uint32_t take_count;
    struct member *members; /* [config.accelerators] */
    bool news;              /* changes of members may not have been told to the scheduler yet */
    bool engine_lost;       /* the engine failed: until the run that was given up ends; else for good */
    struct batch_under_way batch;
    int64_t tried_ns;        /* time at which a trial run last showed that the engine works */
    int64_t ended_ns;        /* end of the last batch on a real engine; 0: there was none */
    uint32_t ended_model;    /* served model of that batch */
    int64_t spin_until_ns;   /* time before which the thread does not sleep */
    int64_t failure_next_ns; /* time from which on a failed request is a line of the log again */
    int64_t wake_ns;         /* time at which the next start or end is due; TIME_NEVER: none is */
    struct doorbell told;    /* bell of the thread that started the executor: loading is over, or the thread ends */
    _Atomic int load_status; /* result of loading: 0 or -errno; 1: the thread still loads */
    struct sy_error load_error;
    bool *plan_waits;                 /* [model_threads] whether the ring's first plan waits for its earliest start */
    bool *frontend_rung, *model_rung; /* threads to wake when the pushed messages are published */
    bool link_rung;                   /* link thread to wake instead, in a process without scheduler and frontends */
    uint32_t reports;                 /* batches reported since the bells were last rung */
    pthread_t thread;
    _Atomic bool stop, over; /* the thread is to end; has nothing left to do */
    _Atomic bool lent;       /* another thread takes this turn */
    /* owned by the executor's thread, or by the watching thread, while that has taken the executor away */
    struct run_watch *watch; /* watch of the executor's thread; NULL: runs cannot hang */
    struct run_watch *lost;  /* watch of the thread whose run was given up and has not come back; NULL: none */
    pthread_t lost_thread;
    bool lost_reads; /* the run of lost_thread may still read request lost_handle, and the frontend was told so */
    uint64_t lost_handle;
    struct {                          /* owned by the watching thread, which started the executor */
        uint64_t word;                /* word of the watch at the last look */
        int64_t looked_ns, waited_ns; /* time of the last look; how long the word has not changed */
        bool vacant; /* no thread has the executor: the substitute thread could not be started yet, or has ended */
    } watching;
};

/* ---- executor.c ---- */

/* Polls and sleeps until the executor is to stop, or the thread has lost the executor to another thread. */
void executor_serve(struct executor *x);

/* ---- executor_models.c ---- */

/* Opens the engine and loads the models that are there from the start. */
int executor_load_all(struct executor *x);
void executor_unload_all(struct executor *x);
/* Loads a model into `beside` for its first requests: its trial runs are of one item. 0 or -errno with a sentence,
 * -EINTR when `stop` becomes true. */
int executor_load_beside(struct executor *x, struct place_id place, const _Atomic bool *stop, struct sy_error *err);
void executor_unload_beside(struct executor *x, struct place_id place);
/* Makes a loaded model resident, or no longer resident, and answers: where memory is limited, once no accelerator has
 * its weights (executor_takes_look()). */
void executor_model_obey(struct executor *x, const struct accelerator_command *command);
/* Once a turn, after the orders that have come were read: has the weights of models that go unloaded where no order has
 * done that, and answers. */
void executor_takes_look(struct executor *x);

/* ---- executor_orders.c: what rank threads order where memory is limited ---- */

/* Hands each order that has come to `take`, which answers it, at once or later. True: there was one. */
bool orders_poll(struct executor *x, void (*take)(struct executor *x, const struct move_order *order));
/* Answers an order; executor_publish() publishes the answer. */
void order_answer(struct executor *x, const struct move_order *order, bool done, bool failed, int64_t took_ns);

/* ---- executor_loader.c ---- */

/* Starts the thread that loads and unloads as rank threads order. 0 or -errno. */
int loader_start(struct executor *x);
/* Ends it, after what it loads now. */
void loader_stop(struct executor *x);
/* Passes orders on, and takes what has been loaded. True: there was something. */
bool loader_poll(struct executor *x);
/* Whether something has been loaded or unloaded that loader_poll() has not seen. */
bool loader_pending(struct executor *x);
/* Whether the model's weights are there, or on their way in or out; if nothing else happens to them, they are unloaded.
 */
bool loader_holds(struct executor *x, struct place_id place);

/* ---- executor_batch.c: for every batch, on a real or an emulated engine ---- */

/* The timeline of an accelerator; NULL: none is kept. */
static inline struct timeline *executor_timeline(const struct executor *x, uint32_t accelerator) {
    return x->config.timelines ? &x->config.timelines[accelerator - x->config.first_accelerator] : NULL;
}

struct run_result {
    enum request_status status;
    struct output_block *block;     /* OK: outputs, which batch_answer() hands on */
    const struct run_slice *slices; /* OK: [slice_count] outputs by suffix, in the order of the requests */
    uint32_t slice_count;           /* number of slices; 0: `block` has the outputs of all requests */
    bool whole;                     /* OK: the outputs belong to a lone request, however many rows they have */
    bool suspect, broke, read;      /* LOST: values for result_message; `read` is for the first request alone */
    bool absent;                    /* LOST: the model is not resident */
    bool unready;                   /* LOST: the requests' inputs are not prepared */
    int64_t start_ns, end_ns;
    uint32_t before;       /* batch_before() */
    struct sy_error error; /* FAILED: what the engine said */
};

/* Whether it is too late to start a batch: every request's deadline has passed, or the batch's latest start, which the
 * scheduler set, has passed. */
bool batch_expired(const struct executor *x, const struct batch_plan *plan, int64_t now_ns);
/* The items of a batch. */
uint32_t batch_items(const struct executor *x, const struct batch_plan *plan);
/* Makes the inputs of a whole batch. The inputs of a single request stay in place, if they are in memory of this
 * process; otherwise the inputs of all requests are copied one after the other. The requests have equal shapes, or the
 * engine does not look at its inputs. 0, or -ENOMEM with a sentence. */
int batch_gather(struct executor *x, const struct batch_plan *plan, struct tensor_view *inputs, struct sy_error *err);
/* Gives the memory for gathered inputs back, while the engine is open. */
void gather_release(struct executor *x);
/* Marks the requests whose shapes differ from those of the first request: they run alone. The scheduler knows shapes
 * only by a hash, and equal hashes are no proof of equal shapes. */
void batch_split(const struct executor *x, const struct batch_plan *plan, bool *alone);
/* Gives those requests of a held plan back whose inputs are not prepared, and takes them out of the plan. The plan may
 * have no requests after that. */
void batch_unready_give(struct executor *x, struct batch_plan *plan);
/* Whether a request's inputs are still being prepared. If false, the caller may read them. */
bool request_unready(const struct executor *x, uint64_t handle);
/* The report of a batch that an accelerator takes up now; the accelerator's last batch ended at ended_ns. */
struct ran_message batch_ran(const struct executor *x, const struct batch_plan *plan, int64_t now_ns, int64_t ended_ns);
/* How many of a batch's requests are late: all, if it was too late to start; those whose deadline had passed when the
 * batch ended (they come first), if it ran; none, if the batch failed for another reason. */
uint32_t batch_late(const struct executor *x, const struct batch_plan *plan, const struct run_result *result);
/* Counts a batch that is over, and notes it in the timeline of its accelerator. */
void batch_count(struct executor *x, const struct batch_plan *plan, const struct run_result *result);
/* Tells the rank thread that the accelerator is free, and the model thread what the run took. */
void batch_report(struct executor *x, uint32_t model_thread, const struct ran_message *ran, int64_t ended_ns);
/* Tells the frontends what became of the batch's requests. */
void batch_answer(struct executor *x, const struct batch_plan *plan, const struct run_result *result);
/* Tells a request's frontend that the run which read the request's inputs, and had been given up, is over. False: the
 * ring is full now. */
bool request_release(struct executor *x, uint64_t handle);
/* Publishes all reports and answers, and rings the bells. */
void executor_publish(struct executor *x);
/* Publishes only the messages that accelerators are free, before the other messages are ready. */
void executor_publish_freed(struct executor *x);

/* ---- executor_run.c: batches that really run ---- */

/* 0 or -ENOMEM. */
int batch_under_way_init(struct executor *x);
void batch_under_way_destroy(struct executor *x);
/* Runs a batch until all its requests are answered: together if possible, else in sub-batches. If a sub-batch of
 * several requests fails, or batch_gather() cannot put its inputs together, the sub-batch is halved. So a request that
 * makes runs fail is in the end alone; executor_run.c has the bounds. False: the thread has lost the executor, and must
 * not touch it. */
bool batch_run(struct executor *x, uint32_t model_thread, const struct batch_plan *plan);
/* Hands back the requests of the batch that have no answer: they are lost. Called by the thread that takes over from a
 * thread whose run hangs. The hanging run may still read its requests until it ends (result_message.read). */
void batch_abandon(struct executor *x);

/* ---- executor_shared.c: batches of models that share a prefix ---- */

enum shared_end {
    SHARED_DONE,    /* all runs have worked: result->slices has the outputs */
    SHARED_FAILED,  /* a run has failed: result->error says why */
    SHARED_STOPPED, /* a run took too long, and was stopped */
    SHARED_ABSENT,  /* the prefix, or a suffix, is not resident */
    SHARED_LOST,    /* the thread has lost the executor, and must not touch it */
};

/* Orders the handles [from, to) of the batch under way by suffix. Handles of one suffix keep their order. */
void suffixes_order(struct executor *x, uint32_t from, uint32_t to);
/* Runs the prefix for all requests of a sub-batch, which are ordered by suffix, and each suffix for its requests.
 * `inputs`: inputs of the whole models. */
enum shared_end shared_run(struct executor *x, const struct batch_plan *subbatch, const struct tensor_view *inputs,
                           struct run_result *result);

/* ---- executor_watch.c: runs that hang ---- */

/* How a run, or several runs, ended. */
enum run_end {
    RUN_ENDED,   /* the run ended by itself */
    RUN_STOPPED, /* the run ended after it was told to end */
    RUN_LOST,    /* the run ended too late: another thread has the executor, and the caller must not touch it */
};

/* 0 or -ENOMEM. */
int run_watch_init(struct executor *x);
void run_watch_destroy(struct executor *x);
/* run_begin() and run_over() enclose every call of the engine that may hang. The call may take limit_ns; `model` is
 * stopped if it takes longer. The watch belongs to the calling thread, even after it has lost the executor. */
struct run_watch *run_begin(struct executor *x, struct engine_model *model, int64_t limit_ns);
enum run_end run_over(struct run_watch *watch, const struct engine_ops *engine, struct engine_model *model);
/* How long a batch may take whose items cost `work` times the profiled ones. */
int64_t run_limit(const struct executor *x, struct place_id place, uint32_t items, float work);
/* Says that the run of a thread which lost the executor has ended, and reads nothing any more. The thread does nothing
 * after this call but end. */
void run_back(struct run_watch *watch);
/* Whether the run of a thread that lost the executor has ended; then the thread may be joined. */
bool run_is_back(const struct run_watch *watch);

/* ---- executor_membership.c ---- */

struct member *executor_member(struct executor *x, uint32_t accelerator);
/* Reports a batch that is not run, since its accelerator failed, and hands its requests back to be sent again. */
void batch_lose(struct executor *x, uint32_t model_thread, const struct batch_plan *plan);
/* After a failed run: sets *works to whether a trial run of any model still works, among the models whose trial run
 * once worked. On a GPU whose context is broken, every run fails. For a second after a trial run that worked, no
 * further one is made. Returns RUN_LOST as run_over() does. */
enum run_end engine_works(struct executor *x, bool *works);
/* The engine does not work any more, so its accelerator has failed. */
void engine_lose(struct executor *x, uint32_t accelerator, const char *reason);
/* If the run that was given up has ended, and the engine works, the accelerator serves again. False: the thread has
 * lost the executor. */
bool engine_return(struct executor *x);
/* Obeys the commands, tells the scheduler of changes, and publishes. True: there was a command. If x->news is true
 * afterwards, not all changes are told yet, and the caller calls again soon. */
bool membership_poll(struct executor *x);

/* ---- executor_emulated.c ---- */

/* Makes the accelerators of an emulating engine; NULL: memory is out. */
struct emulation *emulation_new(const struct executor_config *config);
void emulation_free(struct emulation *emulation);
/* Takes up plans, and ends runs that are due; sets x->wake_ns. True: there was a plan or an end. */
bool emulation_poll(struct executor *x);
/* As loader_holds(), of all accelerators. */
bool emulation_holds(struct executor *x, struct place_id place);
/* Loses all batches that an accelerator has. */
void emulation_lose(struct executor *x, uint32_t accelerator);
