/* child.h - profiles a model in a child process, so that a model which crashes the engine, hangs in it or takes all
 * memory harms only the child. */
#pragma once

#include <stdatomic.h>

#include "model/config/served_model.h"
#include "model/engine/engine.h"
#include "model/profile/store.h"

struct profile_progress {
    const char *model;     /* name of the model */
    const char *phase;     /* phase that begins, as in worker_message (worker.h) */
    uint32_t batch;        /* items of the batch, while measuring, trying or warming up */
    uint32_t index, count; /* place of the model among those to profile, and their number */
};

struct profile_options {
    const struct engine_ops *engine; /* engine, one that has files */
    const char *provider;            /* execution provider, as in engine_options */
    int device;
    int core;                    /* core of the accelerator; -1: any */
    const char *cache_dir;       /* cache folder; NULL: the user's own */
    struct profile_twins *twins; /* records of models that have others' graphs, which these models then need not be
                                  * measured for; NULL: each model is measured */
    uint32_t batch_max;          /* greatest batch to measure; 0: each model's batch_max */
    bool force;                  /* whether models with a valid profile are measured, too */
    bool cached;                 /* whether no model is measured: one without a valid profile is left, with -EAGAIN */
    bool missed;                 /* whether the models were left so, and have no valid profile */
    bool follows;                /* whether another process measures, so that a profile that is not valid is no news */
    int64_t silence_ns;          /* time after which a silent child is killed; 0: two minutes */
    const char *program;         /* program to run as a child; NULL: this program */
    const _Atomic bool *stop;    /* flag that a signal handler sets to end early, with -EINTR; may be NULL */
    void (*progress)(void *context, const struct profile_progress *progress); /* tells of a new phase; or NULL */
    void *context;
};

/* Profiles one model, which the repository found but need not have completed. If a child crashes while it makes or uses
 * an optimised copy, tries again without that form of copy, at last without any. Fills phase and batch of `progress`,
 * and all of the record but fingerprint, engine and accelerator. -errno and a sentence: the engine's own; or "killed by
 * signal 11 (Segmentation fault) while measuring a batch of 8"; or that the child said nothing for too long. One thread
 * at a time. */
int profile_in_child(const struct served_model *model, const struct profile_options *options,
                     struct profile_progress *progress, struct profile_record *record, struct sy_error *err);
