/* worker.h - the messages between a process that wants a model profiled and the child that does it.
 *
 * The child is this same program (`symphony profile --worker`), so the messages are plain structs: one request on its
 * standard input, then messages on descriptor WORKER_FD until an answer or its death. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/system/child_call.h"
#include "model/config/served_model.h"
#include "model/profile/store.h"

#define WORKER_FD       CHILD_FD
#define WORKER_ARGUMENT "--worker" /* after "profile" */

/* parent -> child */
struct worker_request {
    char engine[32], provider[16];
    int device, core; /* core to run on; -1: any */
    char cache_dir[4096];
    bool has_cache_dir;
    uint32_t batch_max;        /* 0: the model's own */
    bool untried;              /* a child before this one has died while it ran unlike items together */
    uint32_t attempt;          /* the first form of optimised model to try; after a crash with one, the next */
    uint32_t values;           /* the first step of values.h to try; after a crash with one, the next */
    struct served_model model; /* as the repository found it: without what is in its file */
};
/* The parent writes it before it starts the child, so it must fit into a pipe. */
#define WORKER_REQUEST_BYTES (offsetof(struct worker_request, model) + offsetof(struct served_model, signature))
_Static_assert(WORKER_REQUEST_BYTES <= 65536, "a pipe's buffer");

enum worker_kind { WORKER_PROGRESS, WORKER_RESULT, WORKER_FAILED };

/* child -> parent */
struct worker_message {
    enum worker_kind kind;
    char phase[16];               /* progress: what begins now: "loading", "preparing", "optimising", "measuring",
                                   * "trying", "warming up", "trying values" */
    uint32_t batch;               /* measuring, trying, warming up: of how many items */
    uint32_t attempt;             /* the form of optimised model in use */
    bool blame_cache;             /* a death from here on is the optimised model's fault until proved otherwise */
    uint32_t values;              /* the step of values in use */
    bool blame_values;            /* a death from here on may be the fault of these values */
    char text[512];               /* failed: why; warming up: the sample's name */
    struct profile_record record; /* result; without fingerprint, engine and accelerator, which the parent knows */
};

/* Reads or writes all of it. 0, -EPIPE at the end of the input, or -errno. */
int worker_read(int fd, void *data, size_t bytes);
int worker_write(int fd, const void *data, size_t bytes);

/* The child's main(): returns its exit status. */
int worker_main(void);
