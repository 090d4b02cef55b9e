/* child.h - profiles a model in a child process, so that a model that crashes the engine, hangs in it or takes all
 * memory does so there. */
#pragma once

#include <stdatomic.h>

#include "model/config/served_model.h"
#include "model/engine/engine.h"
#include "model/profile/store.h"

struct profile_progress {
    const char *model;     /* its name */
    const char *phase;     /* "loading", "preparing", "optimising", "measuring", "warming up" */
    uint32_t batch;        /* measuring, warming up: of how many items */
    uint32_t index, count; /* the model's place among those to profile */
};

struct profile_options {
    const struct engine_ops *engine; /* one that has files */
    const char *provider;            /* as in engine_options */
    int device;
    int core;                 /* the accelerator's core; -1: any */
    const char *cache_dir;    /* may be NULL: the user's own cache folder */
    uint32_t batch_max;       /* greatest batch to measure; 0: each model's own */
    bool force;               /* measure even models with a valid profile */
    int64_t silence_ns;       /* a child that says nothing for so long is killed; 0: two minutes */
    const char *program;      /* the program to run as a child; NULL: this one */
    const _Atomic bool *stop; /* set by a signal handler to end early, with -EINTR; may be NULL */
    void (*progress)(void *context, const struct profile_progress *progress); /* may be NULL */
    void *context;
};

/* Profiles one model, which the repository found but need not have completed. After a crash while an optimised copy was
 * made or used, it tries again without that form of copy, at last without any. Fills all of the record but fingerprint,
 * engine and accelerator. -errno and a sentence: the engine's own, or "killed by signal 11 (Segmentation fault) while
 * measuring a batch of 8", or that it said nothing for too long. `progress` is completed with phase and batch. One
 * thread at a time. */
int profile_in_child(const struct served_model *model, const struct profile_options *options,
                     struct profile_progress *progress, struct profile_record *record, struct sy_error *err);
