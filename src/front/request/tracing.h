/* tracing.h - which requests leave a trace for the file of `--trace-file`, by Triton's trace settings: for the server,
 * and for models that differ from it.
 *
 * Clients change the settings, at any time. A frontend asks for each request that was answered; the traces go into a
 * ring of trails (core/data/trail.h), from which a thread writes the file. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"

#define TRACING_ALL UINT32_MAX /* in place of a model: the whole server */

enum tracing_field { TRACE_LEVEL, TRACE_RATE, TRACE_COUNT, TRACE_FREQUENCY, TRACE_FIELDS };

struct tracing_settings {
    bool on;            /* trace_level TIMESTAMPS, and not OFF */
    uint32_t rate;      /* trace_rate: one in so many requests, for each frontend */
    int64_t count;      /* trace_count: traces that are still to be made; -1: no bound */
    uint32_t frequency; /* log_frequency: traces in a file; 0: all are in one. The server's only */
};

struct traced_model {
    struct tracing_settings own;
    uint8_t given;         /* fields (a bit each) of `own` that count; the others are the server's */
    _Atomic uint32_t rate; /* one in so many requests leaves a trace; 0: none does */
    _Atomic int64_t left;  /* traces still to be made; -1: no bound */
};

struct tracing {
    const char *file;     /* file for the traces */
    pthread_mutex_t lock; /* lock of all but `rate` and `left` */
    struct tracing_settings server;
    struct traced_model *models; /* [model_count] */
    uint32_t model_count;
    _Atomic uint32_t frequency; /* as in `server` */
};

/* Nothing is traced at first. `file` must stay. 0 or -ENOMEM; free it in either case. */
int tracing_init(struct tracing *tracing, const char *file, uint32_t model_count);
void tracing_free(struct tracing *tracing);

/* One setting, as a client writes it. */
struct tracing_change {
    const char *name;
    const char *const *values; /* [count] values; count 0: back to what it was at first, or to the server's */
    size_t count;
};

/* Changes settings of the server or of a model, all or none. `tracing` NULL: the server writes no traces. 0, or a
 * status with a sentence: 400 for what is unknown or wrong, 501 for what cannot be changed. Any thread. */
int tracing_change(struct tracing *tracing, uint32_t model, const struct tracing_change *changes, size_t count,
                   struct sy_error *err);
/* The settings in force. Any thread. */
struct tracing_settings tracing_settings(struct tracing *tracing, uint32_t model);
/* A place gets another model, which has no settings of its own. Any thread. */
void tracing_forget(struct tracing *tracing, uint32_t model);

/* Whether a request of the model leaves a trace. *skipped: requests of the model since the last that did, by the
 * caller. Any thread. */
bool tracing_takes(struct tracing *tracing, uint32_t model, uint32_t *skipped);
