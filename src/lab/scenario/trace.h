/* trace.h - recorded arrivals: a file read at set-up, and a cursor that a model's stream moves through it.
 *
 * Two kinds of recording are one struct. Arrivals say when each request came. Rates say how many were to be expected:
 * pieces of one length, each a Poisson process while it lasts, those of a model possibly overlapping. Entries lie by
 * model, ascending in time. Reading allocates and draws the models of anonymous arrivals from the seed; the rest is
 * pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"

#define TRACE_ENTRIES_MAX 10000000 /* arrivals, jobs, or minutes of a model with requests */
#define TRACE_COUNTS_MAX  32000000 /* models times minutes of an Azure Functions table */
#define TRACE_MINUTES_MAX 10080    /* columns of one: a week; its header fits into a line */

enum trace_format {
    TRACE_DETECT,
    TRACE_AZURE,      /* HashOwner,HashApp,HashFunction,Trigger,1,2,...: a function's calls in each minute */
    TRACE_TIMESTAMPS, /* seconds[,model[,items[,slo_ms[,priority]]]]: an arrival */
    TRACE_BLOX        /* job_id,model,slo_ms,rate,arrival_s: a job offers its rate from then on, for spec.job_s */
};

struct trace_spec {
    char path[4096];
    enum trace_format format;
    double scale;   /* rates are multiplied by it; arrivals are replayed so many times as fast */
    double start_s; /* where in the file to begin */
    double job_s;   /* how long a job of TRACE_BLOX lasts */
    bool by_rows;   /* TRACE_AZURE: row i is the i-th model's, further rows nobody's; else they go round all models */
};

/* A scenario's models, as far as the reader needs them. */
struct trace_model {
    const char *name;
    double share;        /* of arrivals that name no model */
    uint32_t priorities; /* that its requests may have; 0: one */
};

/* What a line says of its request. */
struct trace_request {
    uint32_t slo_us;  /* 0: as the scenario says */
    uint16_t items;   /* the same */
    uint8_t priority; /* TRACE_PRIORITY_ANY: the same; or PRIORITY_BEST_EFFORT */
};

#define TRACE_PRIORITY_ANY 254

struct trace {
    uint32_t models;
    uint64_t *first;                /* [models + 1] of a model's entries */
    double *at_s;                   /* an arrival, or the start of a piece, which may be before 0 */
    double *rate_sum;               /* rates: of the model's pieces up to and including this one; NULL: arrivals */
    int64_t *slo_ns;                /* of the requests of a piece; NULL: the model's */
    struct trace_request *requests; /* arrivals: what is said of each; NULL: nothing of any */
    double length_s;                /* of a piece */
    double mean_rps;                /* in the run, before scaling */
    double *model_rps;              /* [models] the same of each model */
};

/* Reads a file for the models of a scenario. `run_s`: how long the run is, over which the means are taken. -EINVAL with
 * "PATH:LINE: sentence", also for a file over a limit and one without any request in the run, or the file's -errno.
 * Free it with trace_free(); after an error it is empty. */
int trace_read(const struct trace_spec *spec, const struct trace_model *models, uint32_t count, double run_s,
               uint64_t seed, struct trace *trace, struct sy_error *err);
void trace_free(struct trace *trace);

/* Where a model's stream is. Time does not go back. */
struct trace_cursor {
    uint64_t first, end; /* the model's */
    uint64_t from, to;   /* pieces in force: [from, to); arrivals: `to` is the next */
};

struct trace_cursor trace_cursor_at_start(const struct trace *trace, uint32_t model);
/* Arrivals: the time of the next one, which is taken. False when there is none. */
bool trace_arrival(const struct trace *trace, struct trace_cursor *cursor, double *at_s);
/* What the file says of the arrival that was taken last. */
struct trace_request trace_request_taken(const struct trace *trace, const struct trace_cursor *cursor);
/* Rates: the model's rate at at_s, and until when it holds. */
double trace_rate(const struct trace *trace, struct trace_cursor *cursor, double at_s, double *until_s);
/* Rates: the SLO of a request that comes where trace_rate() was asked last; `u` is uniform in [0, 1). 0: the model's.
 */
int64_t trace_slo_ns(const struct trace *trace, const struct trace_cursor *cursor, double u);
