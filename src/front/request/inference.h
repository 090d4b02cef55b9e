/* inference.h - an infer request of any protocol, from its first byte to the last byte of its answer: its slot, its
 * memory, its way to the scheduler and back, how it ended.
 *
 *     UPLOAD ---whole body, parsed---> RUNNING ---inferences_next()---> FINISHED ---answer built---> SENDING --> free
 *        \---mistake in it----------------------------------------------------------------------/
 *
 * In RUNNING the scheduler and an executor own `request`. In BULK a bulk thread owns everything, and calls
 * inference_block() and inference_result(). Otherwise the frontend's thread owns all of it, and only that thread calls
 * these functions. Slots are a fixed pool; memory for bodies and inputs comes from a slab. */
#pragma once

#include "core/data/output_block.h"
#include "front/bulk/bulk.h"
#include "front/bulk/infer_answer.h"
#include "front/bulk/slab.h"
#include "front/request/infer_call.h"
#include "front/request/infer_counters.h"
#include "front/request/port.h"
#include "front/request/shared_memory.h"
#include "model/repository/model_index.h"
#include "sched/plan/pipeline.h"

/* Up to four for the body, two for what is known of many inputs and outputs, and inputs that cannot stay in it. */
#define INFERENCE_BLOCKS_MAX (6 + TENSORS_MAX)
#define INFERENCE_BLOCKS_FEW 16   /* of these find room in the slot */
#define INFERENCE_TEXT_BYTES 1024 /* an answer's text that is no longer than this lies in the slot */

enum inference_state {
    INFERENCE_FREE,
    INFERENCE_UPLOAD,
    INFERENCE_RUNNING,
    INFERENCE_ORDERED, /* no inference: an order (repository_order.h) that is being carried out */
    INFERENCE_BULK,    /* a bulk thread has it (bulk.h): it reads the body, or writes the answer */
    INFERENCE_FINISHED,
    INFERENCE_SENDING,
    INFERENCE_READ, /* over, but something still uses its inputs (request_is_read()) */
};

struct inference {
    struct inferences *home;
    struct ensemble_run *run;         /* of an ensemble's request that was submitted; else NULL */
    struct preparation *preparation;  /* of inputs. NULL: they are what the client sent */
    const struct served_model *model; /* NULL: not known, or the slot serves something else */
    enum inference_state state;
    bool local; /* its client is on this machine, and may name shared memory */
    bool cancelled;
    bool limited;     /* the client's own deadline comes first */
    uint32_t *holder; /* counts the slots of its client's address; NULL: nobody does */
    uint32_t free_next;
    uint32_t block_count;
    uint32_t region_count; /* the call's first outputs, which may hold shared memory */
    void **blocks;         /* [block_count] in `few_blocks`, or in INFERENCE_BLOCKS_MAX pointers of the slab */
    void *few_blocks[INFERENCE_BLOCKS_FEW];
    struct slab *slab;   /* where blocks come from now */
    unsigned status;     /* of the answer */
    bool slow;           /* the client did not take the answer at once */
    bool bulk;           /* a bulk thread had it: its time tells nothing of other answers' */
    int64_t answered_ns; /* when the answer was built */
    struct infer_call call;
    struct infer_answer answer;
    struct text text;
    struct text classes;    /* of outputs that are classified; on the heap */
    struct text packed;     /* the compressed answer, on the heap; empty: not compressed */
    struct request request; /* while RUNNING: owned by the scheduler */
    char text_memory[INFERENCE_TEXT_BYTES];
};

/* How long the steps of an ensemble take, as a frontend has seen it. */
struct inference_times {
    const struct ensemble_plan *of; /* which plan this is about: its address, */
    uint64_t number;                /* and by its number */
    uint64_t divisions;             /* the count of the plan's divisions whose parts `graph` has */
    uint32_t runs;                  /* that have these */
    struct pipeline graph;
    struct pipeline_times times;
};

/* All infer requests of one frontend. */
struct inferences {
    struct slab *slab;
    struct port *port;
    struct shared_view shared;
    struct infer_counters counters; /* read by any thread */
    uint32_t running;               /* requests that the scheduler has */
    uint32_t preparing;             /* preparations under way, */
    struct list_node preparations;  /* and a list of them */
    struct preparer *preparer;      /* NULL: nobody prepares inputs */
    struct inbox *inbox;            /* where preparations come back; the frontend sets it */
    int64_t busy_ns;                /* when inferences_trim() last saw the slab in use */
    char *slots;                    /* each begins with a struct inference */
    size_t slot_bytes;
    uint32_t slot_count;
    uint32_t fresh;                   /* slots from here on were never used */
    uint32_t free;                    /* first of the slots given back, the last used first: it is in the cache */
    const struct model_index *models; /* as they are now: the steps of ensembles are looked up there. The frontend sets
                                       * it; NULL: ensembles are not served */
    struct inference_times **times;   /* [counters.model_count] of ensembles that were asked for */
    struct ensemble_run *runs_over;   /* ensembles' requests that were over as soon as they began */
    uint32_t read;                    /* first of the slots that are READ: given back once nothing uses their inputs */
};

struct inferences_config {
    struct port *port;            /* NULL: none is submitted */
    uint32_t model_count;         /* their numbers are below this */
    uint32_t slot_count;          /* infer requests at once */
    size_t slot_bytes;            /* a slot; it begins with a struct inference */
    uint64_t inputs_bytes_max;    /* memory for the inputs of all requests */
    struct shared_memory *shared; /* NULL: shared memory is not served */
    struct preparer *preparer;    /* NULL: models that prepare inputs are not served */
};

/* 0 or -ENOMEM; call inferences_destroy() in either case. */
int inferences_init(struct inferences *home, const struct inferences_config *config);
void inferences_destroy(struct inferences *home);

/* A slot for a request that arrives now (UPLOAD), or NULL: all are taken. The bytes behind the struct inference are as
 * their last user left them, zeros at first. */
void *inference_take(struct inferences *home, int64_t now_ns);
/* Gives back the slot and all that it holds. The inputs, the model and the slot itself stay while a hanging run may
 * read the inputs, or a preparation uses them. Not while RUNNING or ORDERED. */
void inference_free(struct inference *inference);
/* The request is for the served model of this index. At most once a slot; the model stays until the slot is given back.
 */
void inference_model(struct inference *inference, const struct served_model *models, uint32_t index);
/* Adds n references to a served model, or removes them if n is negative. The model stays while it has any. */
void inferences_hold(struct inferences *home, uint32_t model, int32_t n);
/* A block of the inference's slab, held until the inputs are given back; NULL: the memory is exhausted. As
 * infer_memory.take() its context is the inference. */
void *inference_block(void *inference, size_t bytes);
/* Gives such a block back early. */
void inference_block_give(void *inference, void *block);
/* How much room to give a body of which `arrived` bytes have come, and `expected` are announced (SIZE_MAX: not known).
 * While memory is plenty, all that is announced, up to 1 MiB at once. Else twice what has come, so that an announcement
 * alone takes hardly any memory. */
size_t inference_room(const struct inference *inference, size_t arrived, size_t expected);
/* Gives the inputs' memory back, once the answer is built: it points into the outputs only. */
void inference_blocks_give(struct inference *inference);

/* Before the request is parsed: whether it comes too late. The deadline that its model gives it, or `limit_ns` (0:
 * none), has passed; or, if this thread is `behind`, half of that time has, since with the rest it would hardly be in
 * time and only make others late. A request whose words (JSON, or protobuf without tensors) may ask for another
 * deadline does not. 0: it does not; or the status of its refusal with a sentence. */
unsigned inference_late(struct inference *inference, const char *words, size_t bytes, int64_t limit_ns, bool behind,
                        int64_t now_ns, struct sy_error *err);
/* Submits a request whose `call` is filled; inputs in shared memory are read first. Its deadline comes from its timeout
 * or its model's SLO, or is `limit_ns` if that is earlier (0: none). 0: RUNNING; or a status with a sentence. */
unsigned inference_submit(struct inference *inference, int64_t limit_ns, struct sy_error *err);
/* The client no longer waits for the inference; it comes back all the same. Does nothing unless RUNNING. The second
 * does so for all. */
void inference_cancel(struct inference *inference);
void inferences_cancel(struct inferences *home);
/* Whether the scheduler, a bulk thread or a preparing thread has some inference. */
bool inferences_away(const struct inferences *home);
/* The next inference that the scheduler gives back, FINISHED; NULL: none now. */
struct inference *inferences_next(struct inferences *home);
/* Makes classes, and writes outputs that go to shared memory. 200, or the status of the refusal or failure with a
 * sentence. *retry: worth trying again soon. */
unsigned inference_result(struct inference *inference, bool *retry, struct sy_error *err);
/* The answer is built, with this status: SENDING. */
void inference_answered(struct inference *inference, unsigned status);
/* The client does not take the answer at once: if the outputs of its batch are more than twice as large, copies what is
 * its own and lets them go. Else one slow client would keep what all others of the batch have long been sent. */
void inference_detach(struct inference *inference);
/* Counts a request, a client's or a step's, that ended at end_ns. */
void inferences_count(struct inferences *home, const struct request *request, enum outcome outcome, int64_t end_ns);
/* Counts an inference at its end. `sent_ns` is when the kernel had the last of its answer; 0: the answer did not go
 * out. */
void inference_count(const struct inference *inference, int64_t sent_ns);

/* What a bulk job makes the answer from, of a request that has run: the bytes of all its outputs. 0: no such job, since
 * few bytes are to be written as JSON, sorted, compressed or copied, or the request failed. `as_json`: outputs are JSON
 * unless the client asked otherwise. */
size_t inference_answer_work(const struct inference *inference, bool as_json, bool compressed);
/* Hands the job (`run`, `home`, `client` and `bytes` are set) to a bulk thread, which owns all of the inference until
 * the job comes back: BULK. inference_from_bulk() then puts the inference into `state`. */
void inference_to_bulk(struct inference *inference, struct bulk *bulk, struct bulk_job *job);
void inference_from_bulk(struct inference *inference, enum inference_state state);

/* The first publishes how much the slab holds. The second gives memory back that nothing used for a while, or that a
 * hanging run has read, once that run is over. */
void inferences_publish(struct inferences *home);
void inferences_trim(struct inferences *home, int64_t now_ns);
/* Gives back the slots that ended while something still used their inputs, and which nothing uses any more. */
void inferences_look(struct inferences *home);
