/* worker.h - the messages between a process that wants a model profiled and the child process that profiles it.
 *
 * The child is this same program (`symphony profile --worker`), so the messages are plain structs: one request on the
 * child's standard input, then messages on descriptor WORKER_FD until an answer or the child's death. */
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
    int device, core; /* number of the GPU; core to run on, -1: any */
    char cache_dir[4096];
    bool has_cache_dir;
    uint32_t batch_max;            /* greatest batch to measure; 0: the model's batch_max */
    bool untried;                  /* whether an earlier child died while it ran unlike items together */
    uint32_t attempt;              /* first form of optimised model to try; after a crash with a form, the next one */
    uint32_t values;               /* first step of values.h to try; after a crash with a step, the next one */
    char name[MODEL_NAME_MAX];     /* the model, as the repository found it */
    char path[4096], folder[4096]; /* as of the model; "": none */
    struct op_libraries op_libraries;
};
/* The parent writes the request before it starts the child, so the request must fit into a pipe. */
_Static_assert(sizeof(struct worker_request) <= 65536, "a pipe's buffer");

enum worker_kind { WORKER_PROGRESS, WORKER_RESULT, WORKER_FAILED };

/* child -> parent */
struct worker_message {
    enum worker_kind kind;
    char phase[16];    /* progress: phase that begins now: "loading", "preparing", "optimising", "measuring", "trying",
                          "warming up", "trying values" */
    uint32_t batch;    /* measuring, trying, warming up: items of the batch */
    uint32_t attempt;  /* form of optimised model in use */
    bool blame_cache;  /* whether a death from here on counts as the optimised model's fault */
    uint32_t values;   /* step of values in use */
    bool blame_values; /* whether a death from here on may be the fault of these values */
    char text[512];    /* failed: reason; warming up: name of the sample */
    struct profile_record record; /* result; fingerprint, engine and accelerator are left to the parent */
};

/* Read or write all `bytes` bytes. 0; -EPIPE at the end of the input; or -errno. */
int worker_read(int fd, void *data, size_t bytes);
int worker_write(int fd, const void *data, size_t bytes);

/* The main() of the child. Returns the child's exit status. */
int worker_main(void);
