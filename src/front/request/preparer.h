/* preparer.h - threads that make the inputs of requests from what clients sent, while the requests wait in the
 * scheduler's queue.
 *
 * Each item of an input goes through one step or two: a JPEG or PNG becomes UINT8 [height,width,3]
 * (core/data/image_decode.h), and a model that prepares makes a tensor of that, or of what the client sent
 * (model/engine/transform.h). The frontend has read the image's header, taken memory for what is made and submitted the
 * request with a time for which its inputs are promised (front/request/preparation.h). The promise is the time that as
 * much work (image_work()) on such files, and as many elements of that model's input, took lately, behind the time for
 * what waits before it. */
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

/* Preparations under way, of all frontends; more requests are refused with 503. */
#define PREPARATIONS_MAX 1024

/* For each input: what is made of it, and what lies between its two steps. */
#define PREPARATION_BLOCKS_MAX (2 * TENSORS_MAX)

enum preparation_end {
    PREPARATION_DONE,
    PREPARATION_BAD,    /* the image cannot be decoded: `error` */
    PREPARATION_FAILED, /* the model that prepares failed: `error` */
    PREPARATION_LATE,   /* nobody waits for it any more; not tried, or stopped */
    PREPARATION_ENDS,
};

struct preparation_item {
    const char *input; /* the input's name, */
    uint32_t number;   /* and which of its items this is: for error messages */
    /* an image; NULL: none */
    const void *file;
    size_t file_bytes;
    struct image_header header;
    uint8_t *rgb; /* what it becomes */
    /* the model that prepares; NULL: none */
    struct transform *transform;
    const char *transform_name; /* its file's */
    struct tensor_view given, made;
};

/* The preparation of one request. Its memory, what was sent and what is made stay in place until it has come back. */
struct preparation {
    /* set before preparer_promise() */
    struct inbox *home; /* where it comes back */
    uint32_t item_count;
    bool best_effort; /* it gives way to preparations that are not */
    /* set before preparer_submit() */
    int64_t give_up_ns;       /* it is not begun after that */
    _Atomic uint8_t *unready; /* cleared (release) when all inputs are there: the request's card */
    /* any thread. `dropped`: nobody waits for it any more. `halt`: the step that runs for it is to end now, since it
     * was dropped or gives way */
    _Atomic bool dropped, halt;
    const struct transform_ops *stop_ops; /* how to stop the model that runs for it now: under the preparer's lock */
    struct transform_stop *stop;          /* NULL: no model runs that can be stopped */
    /* set when it comes back */
    enum preparation_end end;
    int64_t took_ns;       /* of the thread's time */
    struct sy_error error; /* of BAD and FAILED */
    /* for preparer.c and the frontend */
    int64_t estimate_ns;
    bool waits;         /* for a thread: under the preparer's lock */
    uint32_t next_item; /* those before it are made */
    struct list_node link;
    struct push_node back;
    struct inferences *inferences; /* for the frontend: where it belongs, */
    struct request *request;       /* and the request that waits for it */
    struct list_node under_way;    /* in `inferences.preparations`, until it has come back */
    bool over;                     /* it has come back to its frontend */
    uint32_t block_count;
    void *blocks[PREPARATION_BLOCKS_MAX]; /* [block_count] the memory of what is made */
    struct preparation_item items[];
};

/* For so many threads, 1 or more, which preparer_start() starts. 0 or -errno with a sentence. */
int preparer_create(struct preparer **preparer, uint32_t threads, struct sy_error *err);
/* Starts the threads, unless they run: call it before a model that prepares inputs is shown to frontends. One thread at
 * a time. 0 or -errno with a sentence. */
int preparer_start(struct preparer *preparer, struct sy_error *err);
/* Call it when nothing is under way, and before the frontends are freed: a thread that has handed back the last
 * preparation may still be about to wake its frontend. NULL is allowed. */
void preparer_destroy(struct preparer *preparer);
/* Takes one of PREPARATIONS_MAX places. Returns the time for which the inputs can be promised, or 0: all are taken.
 * Then preparer_submit() or preparer_forget() must follow. Any thread. */
int64_t preparer_promise(struct preparer *preparer, struct preparation *preparation);
void preparer_submit(struct preparer *preparer, struct preparation *preparation);
/* Nobody waits for the preparation any more: if it has not begun it comes back at once; otherwise the decoding or the
 * model that runs for it is ended soon. The frontend's thread, before the preparation has come back. */
void preparer_drop(struct preparer *preparer, struct preparation *preparation);
/* Gives a place back: for a promise that is not submitted, and for each preparation that has come back. Any thread. */
void preparer_forget(struct preparer *preparer);
/* preparations_returned() takes all preparations that came back to this frontend and returns the oldest;
 * preparation_next() returns the one after it: ask for that before you go on with the first. NULL: there is none. The
 * frontend's thread. */
struct preparation *preparations_returned(struct inbox *home);
struct preparation *preparation_next(const struct preparation *preparation);
