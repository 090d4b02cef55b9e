/* inference.h - an infer request from the first byte of it to the last of its answer, whatever protocol it came by: its
 * slot, its memory, its way to the scheduler and back, how it ended.
 *
 *     UPLOAD ---whole body, parsed---> RUNNING ---inferences_next()---> FINISHED ---answer built---> SENDING --> free
 *        \---mistake in it----------------------------------------------------------------------/
 *
 * In RUNNING the scheduler and an executor own `request`; in BULK a bulk thread owns everything, and calls
 * inference_block() and inference_result(); else all of it is the frontend's thread's, which alone calls these
 * functions. Slots are a fixed pool; memory for bodies and inputs comes from a slab. */
#pragma once

#include "engine/engine.h"
#include "request/bulk.h"
#include "request/infer_answer.h"
#include "request/infer_call.h"
#include "request/infer_counters.h"
#include "request/port.h"
#include "request/shared_memory.h"
#include "request/slab.h"

#define INFERENCE_BLOCKS_MAX (4 + TENSORS_MAX) /* the body in up to four, inputs that cannot stay in it */
#define INFERENCE_TEXT_BYTES 1024              /* an answer's text lies in the slot itself while it is no longer */

enum inference_state {
    INFERENCE_FREE,
    INFERENCE_UPLOAD,
    INFERENCE_RUNNING,
    INFERENCE_ORDERED, /* no inference: an order (repository_order.h) that is being carried out */
    INFERENCE_BULK,    /* a bulk thread has it (bulk.h): it reads the body, or writes the answer */
    INFERENCE_FINISHED,
    INFERENCE_SENDING,
    INFERENCE_READ, /* over, but a run that hangs may still read its inputs (request_is_read()) */
};

struct inference {
    struct inferences *home;
    const struct served_model *model; /* NULL: not known, or the slot serves something else */
    enum inference_state state;
    bool cancelled;
    bool limited; /* the client's own deadline is the one that binds */
    uint32_t free_next;
    uint32_t block_count;
    void *blocks[INFERENCE_BLOCKS_MAX];
    struct slab *slab;   /* where they come from now */
    unsigned status;     /* of the answer */
    bool slow;           /* the client did not take the answer at once */
    bool bulk;           /* a bulk thread had it: how long that took tells nothing of others' answers */
    int64_t answered_ns; /* when the answer was built */
    struct infer_call call;
    uint32_t region_count;
    struct shared_region *regions[TENSORS_MAX]; /* of outputs; a reference each */
    struct infer_answer answer;
    struct text text;
    struct text classes;    /* of outputs that are classified; on the heap */
    struct text packed;     /* the answer compressed, on the heap; empty: it is not */
    struct request request; /* while RUNNING: of the scheduler */
    char text_memory[INFERENCE_TEXT_BYTES];
};

/* One frontend's. */
struct inferences {
    struct slab *slab;
    struct port *port;
    struct shared_view shared;
    struct infer_counters counters; /* read by any thread */
    uint32_t running;               /* those that the scheduler has */
    int64_t busy_ns;                /* when the slab was last in use */
    char *slots;                    /* each begins with a struct inference */
    size_t slot_bytes;
    uint32_t slot_count;
    uint32_t fresh; /* from here on never used */
    uint32_t free;  /* first of those given back, the last used first: it is in the cache */
    uint32_t read;  /* first of those that will be, when no run reads them any more: one a run that hangs, at most */
};

struct inferences_config {
    struct port *port;            /* NULL: none is submitted */
    uint32_t model_count;         /* their numbers are below this */
    uint32_t slot_count;          /* infer requests at once */
    size_t slot_bytes;            /* of a slot, which begins with a struct inference */
    uint64_t inputs_bytes_max;    /* memory for the inputs of all */
    struct shared_memory *shared; /* NULL: shared memory is not served */
};

/* 0 or -ENOMEM; destroy in either case. */
int inferences_init(struct inferences *home, const struct inferences_config *config);
void inferences_destroy(struct inferences *home);

/* A slot for a request that arrives now (UPLOAD), or NULL: all are taken. What lies behind the struct inference is as
 * its last user left it, zeros at first. */
void *inference_take(struct inferences *home, int64_t now_ns);
/* Gives back the slot and all that it holds; the inputs, the model and the slot itself only once no run that hangs may
 * read them. Not while RUNNING or ORDERED. */
void inference_free(struct inference *inference);
/* The request is for this model: its index among the served ones. At most once a slot; the model stays until the slot
 * is given back. */
void inference_model(struct inference *inference, const struct served_model *models, uint32_t index);
/* A block of its slab, held until the inputs are given back; NULL: the memory is exhausted. The context of an
 * infer_memory is the inference. */
void *inference_block(void *inference, size_t bytes);
/* Gives one back before that. */
void inference_block_give(void *inference, void *block);
/* How much room a body of `expected` bytes gets (SIZE_MAX: not known) of which `arrived` have come: all of it while
 * memory is plenty, else twice what has come, so that an announcement alone takes next to nothing. */
size_t inference_room(const struct inference *inference, size_t arrived, size_t expected);
/* Gives the inputs' memory back: the answer is built, and points into the outputs only. */
void inference_blocks_give(struct inference *inference);

/* Hands a request over whose `call` is filled (what it has in shared memory is read first), for a deadline of the
 * timeout it gives or its model's SLO, and of `limit_ns` if that is earlier (0: none). 0: RUNNING; or a status with a
 * sentence. */
unsigned inference_submit(struct inference *inference, int64_t limit_ns, struct sy_error *err);
/* Nobody waits for it any more; it comes back all the same. Does nothing unless RUNNING. */
void inference_cancel(struct inference *inference);
void inferences_cancel(struct inferences *home);
/* Whether the scheduler or a bulk thread has some. */
bool inferences_away(const struct inferences *home);
/* The next one that the scheduler gives back, FINISHED; NULL: none now. */
struct inference *inferences_next(struct inferences *home);
/* 200, or the status of its refusal or failure with a sentence. *retry: worth trying again soon. Outputs that go to
 * shared memory are there then. */
unsigned inference_result(struct inference *inference, bool *retry, struct sy_error *err);
/* The answer is built. */
void inference_answered(struct inference *inference, unsigned status);
/* The end: counts it. `sent_ns` is when the kernel had the last of its answer; 0: it did not go out. */
void inference_count(const struct inference *inference, int64_t sent_ns);

/* A bulk thread does the job (its `run`, `home` and `bytes` are set), and owns all of the inference until it comes
 * back: BULK. Then inference_from_bulk(): it is in that state again. */
void inference_to_bulk(struct inference *inference, struct bulk *bulk, struct bulk_job *job);
void inference_from_bulk(struct inference *inference, enum inference_state state);

/* Publishes what the slab holds; gives memory back when nothing used it for a while, or when a run that read it is
 * over. */
void inferences_publish(struct inferences *home);
void inferences_trim(struct inferences *home, int64_t now_ns);
