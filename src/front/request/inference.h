/* inference.h - an infer request of any protocol, from its first byte to the last byte of its answer: its slot, its
 * memory, its way to the scheduler and back, its end.
 *
 *     UPLOAD ---whole body, parsed---> RUNNING ---inferences_next()---> FINISHED ---answer built---> SENDING --> free
 *        \---mistake in it----------------------------------------------------------------------/
 *
 * In RUNNING the scheduler and an executor own `request`. In BULK a bulk thread owns everything, and calls
 * inference_block() and inference_result(). Otherwise the frontend's thread owns all of it, and only that thread calls
 * these functions. Slots are a fixed pool; memory for bodies and inputs comes from a slab. */
#pragma once

#include "core/data/output_block.h"
#include "core/data/trail.h"
#include "front/bulk/bulk.h"
#include "front/bulk/infer_answer.h"
#include "front/bulk/slab.h"
#include "front/request/infer_call.h"
#include "front/request/infer_counters.h"
#include "front/request/port.h"
#include "front/request/request_id.h"
#include "front/request/request_kind.h"
#include "front/request/shared_memory.h"
#include "front/request/tracing.h"
#include "model/repository/model_index.h"
#include "sched/plan/pipeline.h"

/* Most blocks of an inference: four for the body, two for the views of many inputs and outputs, one for each input that
 * cannot stay in the body. */
#define INFERENCE_BLOCKS_MAX (6 + TENSORS_MAX)
#define INFERENCE_BLOCKS_FEW 16   /* blocks whose addresses find room in the slot */
#define INFERENCE_TEXT_BYTES 1024 /* longest text of an answer that lies in the slot */

enum inference_state {
    INFERENCE_FREE,
    INFERENCE_UPLOAD,
    INFERENCE_RUNNING,
    INFERENCE_ORDERED, /* the slot serves no inference but an order (repository_order.h) that is being carried out */
    INFERENCE_BULK,    /* a bulk thread (bulk.h) has the inference: it reads the body, or writes the answer */
    INFERENCE_FINISHED,
    INFERENCE_SENDING,
    INFERENCE_READ, /* the inference is over, but a run or a preparation still uses its inputs (request_is_read()) */
};

struct inference {
    struct inferences *home;
    union {                              /* by the request's kind; NULL: not submitted */
        struct ensemble_run *run;        /* of an ensemble */
        struct preparation *preparation; /* of a prepared one */
    };
    const struct served_model *model; /* model of the request; NULL: not known yet, or the slot serves something else */
    enum inference_state state;
    bool local;         /* the client is on this machine, and may name shared memory */
    bool cancelled;     /* inference_cancel() was called */
    bool limited;       /* the client's own deadline is the earliest */
    uint32_t *holder;   /* count of the slots of the client's address; NULL: not counted */
    uint32_t free_next; /* next slot in the list of free ones, or of those that are READ */
    uint32_t block_count;
    uint32_t region_count; /* number of the call's outputs that may hold a region of shared memory, from output 0 on */
    void **blocks; /* [block_count] memory of the inference; the array is `few_blocks`, or INFERENCE_BLOCKS_MAX pointers
                      in the slab */
    void *few_blocks[INFERENCE_BLOCKS_FEW];
    struct slab *slab;   /* slab that new blocks come from: the frontend's, or in BULK the bulk threads' */
    unsigned status;     /* status of the answer */
    bool slow;           /* the client did not take the answer at once */
    bool bulk;           /* a bulk thread had the inference, so the reply margin does not learn from it */
    int64_t answered_ns; /* time at which the answer was built */
    struct infer_call call;
    struct infer_answer answer;
    struct text text;
    struct text classes;    /* classes of classified outputs, on the heap */
    struct text packed;     /* compressed answer, or copied outputs (inference_detach()), on the heap; empty: neither */
    struct request_id id;   /* the client's; or, when it is answered, one that was made */
    bool trail;             /* the client wants its request's times with the answer */
    struct request request; /* request for the scheduler, which owns it while RUNNING */
    char text_memory[INFERENCE_TEXT_BYTES];
};

/* How long the steps of an ensemble take, as a frontend has seen it. */
struct inference_times {
    const struct ensemble_plan *of; /* plan that the times belong to */
    uint64_t number;                /* number of that plan, since another plan may get its address */
    uint64_t divisions;             /* plan->divisions when `graph` was filled */
    uint32_t runs;                  /* runs that use this struct */
    struct pipeline graph;          /* stages, with the present parts of the SLO */
    struct pipeline_times times;
};

/* All infer requests of one frontend. */
struct inferences {
    struct slab *slab;
    struct port *port;
    struct shared_view shared;
    struct infer_counters counters; /* counts, read by any thread */
    struct trails trails;           /* trails of requests, read by any thread */
    uint64_t id_next;               /* number from which the next id is made */
    uint32_t running;               /* requests that the scheduler has */
    uint32_t preparing;             /* preparations under way */
    struct list_node preparations;  /* list of the preparations under way */
    struct preparer *preparer;      /* threads that prepare inputs; NULL: none */
    struct inbox *inbox;            /* inbox for preparations that come back; set by the frontend */
    int64_t busy_ns;                /* last time that inferences_trim() saw the slab in use */
    char *slots;                    /* [slot_count] slots of slot_bytes, each begins with a struct inference */
    size_t slot_bytes;
    uint32_t slot_count;
    uint32_t fresh; /* first of the slots that were never used */
    uint32_t free;  /* first of the free slots; the last one used comes first, since it is in the cache */
    const struct model_index *models; /* present list of models, for the steps of ensembles; set by the frontend; NULL:
                                         ensembles are not served */
    struct tracing *tracing;          /* which requests leave a trace; NULL: none does */
    uint32_t *untraced;               /* [counters.model_count] requests since the last one that left a trace */
    struct inference_times **times;   /* [counters.model_count] times of ensembles that had requests; else NULL */
    struct ensemble_run *runs_over;   /* runs of ensembles that were over as soon as they began */
    uint32_t read;                    /* first of the slots that are READ */
};

struct inferences_config {
    struct port *port;            /* port to the scheduler; NULL: no request is submitted */
    uint32_t model_count;         /* bound of the models' numbers */
    uint32_t slot_count;          /* number of slots: infer requests at once */
    size_t slot_bytes;            /* size of a slot, which begins with a struct inference */
    uint64_t inputs_bytes_max;    /* bound of the memory for the inputs of all requests */
    struct shared_memory *shared; /* registry of shared memory; NULL: not served */
    struct preparer *preparer;    /* threads that prepare inputs; NULL: models that need them are not served */
    uint32_t trails_keep;         /* trails of each state that are kept; 0: none */
    uint32_t trails_every;        /* one in so many requests in time leaves a trail; 0: none */
    struct tracing *tracing;      /* which requests leave a trace; NULL: none does */
};

/* 0 or -ENOMEM; call inferences_destroy() in either case. */
int inferences_init(struct inferences *home, const struct inferences_config *config);
void inferences_destroy(struct inferences *home);

/* A slot for a request that arrives now (UPLOAD); NULL: all slots are taken. The bytes behind the struct inference are
 * as the slot's last user left them, zeros at first. */
void *inference_take(struct inferences *home, int64_t now_ns);
/* Gives back the slot and all that it holds; not while RUNNING, ORDERED or BULK. While a hanging run may read the
 * inputs, or a preparation uses them, the inputs, the reference to the model and the slot itself stay. */
void inference_free(struct inference *inference);
/* The request is for the served model of this index. At most once a slot; the model stays until the slot is given back.
 */
void inference_model(struct inference *inference, const struct served_model *models, uint32_t index);
/* Adds n references to a served model, or removes -n references. The model stays while it has any. */
void inferences_hold(struct inferences *home, uint32_t model, int32_t n);
/* A block of the inference's slab, kept until the inputs are given back; NULL: the memory is exhausted. It serves as
 * infer_memory.take(), with the inference as the context. */
void *inference_block(void *inference, size_t bytes);
/* Gives such a block back early. */
void inference_block_give(void *inference, void *block);
/* The room for a body of which `arrived` bytes have come and `expected` are announced (SIZE_MAX: not known). While
 * memory is plenty: the announced length, up to 1 MiB at once. Else twice `arrived`, so that an announcement alone
 * takes hardly any memory. */
size_t inference_room(const struct inference *inference, size_t arrived, size_t expected);
/* Gives the inputs' memory back. Call it once the answer is built, which points only into the outputs. */
void inference_blocks_give(struct inference *inference);

/* Before a request is parsed: whether it comes too late. That is so if the deadline by its model, or `limit_ns` (0:
 * none), has passed. If this thread is `behind`, it is so when half of the time until then has passed: such a request
 * would hardly be in time, and would make others late. A request whose words (JSON, or protobuf without tensors) may
 * ask for another deadline is never too late. 0: not too late; or the status of the refusal with a sentence. */
unsigned inference_late(struct inference *inference, const char *words, size_t bytes, int64_t limit_ns, bool behind,
                        int64_t now_ns, struct sy_error *err);
/* Submits a request whose `call` is filled; inputs in shared memory are read first. Its deadline comes from its timeout
 * or its model's SLO, or is `limit_ns` if that is earlier (0: none). 0: RUNNING; or a status with a sentence. */
unsigned inference_submit(struct inference *inference, int64_t limit_ns, struct sy_error *err);
/* Submits a request of a client or of a step. `preparation`: of its inputs; NULL: they are there. The preparation may
 * move the request's deadline, up to deadline_most_ns (0: it may not). 0; or a status with a sentence. */
int inferences_submit(struct inferences *home, struct request *request, struct preparation *preparation,
                      int64_t deadline_most_ns, struct sy_error *err);
/* The client no longer waits for the inference, or, with inferences_cancel(), for any inference. A cancelled inference
 * still comes back. Does nothing unless RUNNING. */
void inference_cancel(struct inference *inference);
void inferences_cancel(struct inferences *home);
/* Whether the scheduler, a bulk thread or a preparing thread still has any inference. */
bool inferences_away(const struct inferences *home);
/* The next inference that the scheduler gives back, FINISHED; NULL: none now. */
struct inference *inferences_next(struct inferences *home);
/* Makes classes, and writes outputs that go to shared memory. 200, or the status of the refusal or failure with a
 * sentence. *retry: worth trying again soon. */
unsigned inference_result(struct inference *inference, bool *retry, struct sy_error *err);
/* The answer is built, with this status: SENDING. */
void inference_answered(struct inference *inference, unsigned status);
/* The client does not take the answer at once. If the outputs of the whole batch are more than twice as large as the
 * client's part, copies that part and gives the outputs back. Otherwise one slow client would keep outputs in memory
 * that all others of the batch have long been sent. */
void inference_detach(struct inference *inference);
/* Counts a request, a client's or a step's, that ended at end_ns. */
void inferences_count(struct inferences *home, const struct request *request, enum outcome outcome, int64_t end_ns);
/* Gives the inference an id, if it has none yet: that of its protocol's headers, if there is one, else one that is
 * made. Call it before the answer is sent. */
void inference_id_complete(struct inference *inference, const struct request_id *of_headers);
/* The trail of an inference whose answer is to go out now, with this status. */
struct trail inference_trail(const struct inference *inference, unsigned status, int64_t now_ns);
/* Counts an inference at its end. `sent_ns` is when the kernel had the last of its answer; 0: the answer did not go
 * out. */
void inference_count(const struct inference *inference, int64_t sent_ns);

/* The size of the bulk job that writes the answer of a request that has run: the bytes of its outputs. 0: no bulk job
 * is needed, since few bytes are to be written as JSON, sorted, compressed or copied, or the request failed. `as_json`:
 * outputs are JSON unless the client asked otherwise. */
size_t inference_answer_work(const struct inference *inference, bool as_json, bool compressed);
/* Hands a job, whose `run`, `home`, `client` and `bytes` are set, to a bulk thread, which owns the whole inference
 * (BULK) until the job comes back. Then inference_from_bulk() sets the inference's state. */
void inference_to_bulk(struct inference *inference, struct bulk *bulk, struct bulk_job *job);
void inference_from_bulk(struct inference *inference, enum inference_state state);

/* Publishes the slab's bytes in the counters. */
void inferences_publish(struct inferences *home);
/* Returns memory to the system that was not used for a while, and calls inferences_look(). */
void inferences_trim(struct inferences *home, int64_t now_ns);
/* Gives back the slots that are READ and whose inputs nothing uses any more. */
void inferences_look(struct inferences *home);
