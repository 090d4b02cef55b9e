/* preparer.h - threads that make the inputs of requests from what clients sent, while the requests wait in the
 * scheduler's queue.
 *
 * Each item of an input goes through one step or two: a JPEG or PNG becomes UINT8 [height,width,3]
 * (core/data/image_decode.h), and a model that prepares makes a tensor of that image, or of what the client sent
 * (model/engine/transform.h). Before that the frontend has read the image's header, taken memory for the results and
 * submitted the request with the time for which its inputs are promised (front/request/preparation.h). The promise is
 * the time that the same work (image_work()) on such files, and the same number of input elements of that model, took
 * lately, after the time for the preparations that wait before. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/data/image_header.h"
#include "core/util/error.h"
#include "core/util/list.h"
#include "core/util/push_list.h"
#include "model/engine/transform.h"

struct inbox;
struct inferences;
struct preparer;
struct request;

/* Most preparations under way, of all frontends; more requests are refused with 503. */
#define PREPARATIONS_MAX 1024

/* Two blocks for each input: its result, and what lies between the two steps. */
#define PREPARATION_BLOCKS_MAX (2 * TENSORS_MAX)

enum preparation_end {
    PREPARATION_DONE,
    PREPARATION_BAD,    /* the image cannot be decoded: `error` */
    PREPARATION_FAILED, /* the model that prepares failed: `error` */
    PREPARATION_LATE,   /* nobody waits for the preparation any more: it was not begun, or was stopped */
    PREPARATION_ENDS,
};

struct preparation_item {
    const char *input; /* name of the input, for error messages */
    uint32_t number;   /* number of the item in the input, for error messages */
    /* of an image */
    const void *file; /* the image as it was sent; NULL: no image is decoded */
    size_t file_bytes;
    struct image_header header;
    uint8_t *rgb; /* pixels of the decoded image */
    /* of a model that prepares */
    struct transform *transform;    /* NULL: no model prepares the item */
    const char *transform_name;     /* name of the model's file */
    struct tensor_view given, made; /* input and output of the model */
};

/* The preparation of one request. This struct, the data that were sent and the memory of the results stay in place
 * until the preparation has come back. */
struct preparation {
    /* set before preparer_promise() */
    struct inbox *home; /* inbox in which the preparation comes back */
    uint32_t item_count;
    bool best_effort; /* the request is best effort: the preparation gives way to others */
    /* set before preparer_submit() */
    int64_t give_up_ns;       /* time after which the preparation is not begun */
    _Atomic uint8_t *unready; /* `unready` of the request's card, cleared (release) when all inputs are there */
    /* any thread. `dropped`: nobody waits for the preparation any more; `halt`: the running step is to end now, since
     * the preparation was dropped or gives way */
    _Atomic bool dropped, halt;
    const struct transform_ops *stop_ops; /* functions to stop the running model; under the preparer's lock */
    struct transform_stop *stop; /* handle to stop the running model; under the lock; NULL: none can be stopped */
    /* set before the preparation comes back */
    enum preparation_end end;
    int64_t took_ns;       /* time of the preparing thread */
    struct sy_error error; /* reason, if `end` is BAD or FAILED */
    /* for preparer.c and the frontend */
    int64_t estimate_ns; /* time that the preparation is expected to take */
    bool waits;          /* the preparation waits for a thread; under the preparer's lock */
    uint32_t next_item;  /* first item that is not made yet */
    struct list_node link;
    struct push_node back;
    struct inferences *inferences; /* inferences of the frontend */
    struct request *request;       /* request that waits for the preparation */
    struct list_node under_way;    /* place in `inferences.preparations`, until the preparation has come back */
    bool over;                     /* the preparation has come back to its frontend */
    uint32_t block_count;
    void *blocks[PREPARATION_BLOCKS_MAX]; /* [block_count] memory of the results */
    struct preparation_item items[];
};

/* `threads`, 1 or more: the threads that preparer_start() starts. 0 or -errno with a sentence. */
int preparer_create(struct preparer **preparer, uint32_t threads, struct sy_error *err);
/* Starts the threads, unless they run. Call it before frontends see a model that prepares inputs; one thread at a time.
 * 0 or -errno with a sentence. */
int preparer_start(struct preparer *preparer, struct sy_error *err);
/* Call it when no preparation is under way, and before the frontends are freed: a thread that has handed back the last
 * preparation may still be about to wake its frontend. NULL is allowed. */
void preparer_destroy(struct preparer *preparer);
/* Takes one of PREPARATIONS_MAX places. Returns the time for which the inputs can be promised, and preparer_submit() or
 * preparer_forget() must follow; or 0: all places are taken. Any thread. */
int64_t preparer_promise(struct preparer *preparer, struct preparation *preparation);
void preparer_submit(struct preparer *preparer, struct preparation *preparation);
/* Nobody waits for the preparation any more: if it has not begun, it comes back at once; otherwise its decoding or its
 * model ends soon. Called by the frontend's thread, before the preparation has come back. */
void preparer_drop(struct preparer *preparer, struct preparation *preparation);
/* Gives a place back: for a promise that is not submitted, and for each preparation that has come back. Any thread. */
void preparer_forget(struct preparer *preparer);
/* preparations_returned() takes all preparations that came back to this frontend and returns the oldest.
 * preparation_next() returns the one after a preparation: call it before you handle that preparation. NULL: there is
 * none. The frontend's thread. */
struct preparation *preparations_returned(struct inbox *home);
struct preparation *preparation_next(const struct preparation *preparation);
