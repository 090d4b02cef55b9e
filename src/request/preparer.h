/* preparer.h - threads that make the inputs of requests from what clients sent, while the requests wait in the
 * scheduler's queue.
 *
 * So far there is one way: a JPEG or PNG becomes UINT8 [height,width,3] (image/image_decode.h). The frontend has read
 * the image's header, taken memory for its pixels and submitted the request with a time for which its inputs are
 * promised (request/preparation.h). The promise is what as many pixels of such files took lately, after what waits
 * before it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "base/push_list.h"
#include "image/image_header.h"

struct inbox;
struct inference;
struct preparer;

/* Preparations under way, of all frontends; more requests are refused with 503. */
#define PREPARATIONS_MAX 1024

enum preparation_end {
    PREPARATION_DONE,
    PREPARATION_BAD,  /* the image cannot be decoded: `error` */
    PREPARATION_LATE, /* nobody waits for it any more; not tried */
    PREPARATION_ENDS,
};

struct preparation_image {
    struct image_header header;
    const void *data; /* the file */
    size_t bytes;
    uint8_t *rgb;
    const char *input; /* the input's name, */
    uint32_t item;     /* and which of its images it is: for mistakes */
};

/* One request's. Its memory, the files and the pixels stay in place until it has come back. */
struct preparation {
    /* set before preparer_promise() */
    struct inbox *home;          /* where it comes back */
    struct inference *inference; /* the frontend's */
    int64_t give_up_ns;          /* it is not begun after that */
    uint32_t image_count;
    /* set before preparer_submit() */
    _Atomic uint8_t *unready; /* cleared (release) when all inputs are there: the request's card */
    /* any thread: nobody waits for it any more */
    _Atomic bool dropped;
    /* set when it comes back */
    enum preparation_end end;
    int64_t took_ns;       /* of the thread's time */
    struct sy_error error; /* of BAD */
    /* for preparer.c and the frontend */
    int64_t estimate_ns;
    struct list_node link;
    struct push_node back;
    bool over; /* it has come back */
    struct preparation_image images[];
};

/* For so many threads, 1 or more, which preparer_start() starts. 0 or -errno with a sentence. */
int preparer_create(struct preparer **preparer, uint32_t threads, struct sy_error *err);
/* Starts the threads, unless they run: call it before a model that prepares inputs is shown to frontends. One thread at
 * a time. 0 or -errno with a sentence. */
int preparer_start(struct preparer *preparer, struct sy_error *err);
/* Call it when nothing is under way. NULL is allowed. */
void preparer_destroy(struct preparer *preparer);
/* Takes one of PREPARATIONS_MAX places. Returns the time for which the inputs can be promised, or 0: all are taken.
 * Then preparer_submit() or preparer_forget() must follow. Any thread. */
int64_t preparer_promise(struct preparer *preparer, struct preparation *preparation);
void preparer_submit(struct preparer *preparer, struct preparation *preparation);
/* Gives the place back. For the frontend, also once a preparation has come back. */
void preparer_forget(struct preparer *preparer);
/* The oldest preparation that came back to this frontend, and the one after it; ask for that before you go on. NULL:
 * there is none. The frontend's thread. */
struct preparation *preparations_returned(struct inbox *home);
struct preparation *preparation_next(const struct preparation *preparation);
