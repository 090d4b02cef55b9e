/* trace.h - recorded arrivals: a file read at set-up, and a cursor that a model's stream moves through it.
 *
 * Two kinds of recording are one struct. Arrivals say when each request came. Rates say how many requests were to be
 * expected: pieces of one length, each a Poisson process while it lasts. Pieces of a model may overlap. Entries are
 * sorted by model, then by time. Reading allocates, and draws the models of arrivals without a model from the seed; the
 * rest is pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"

#define TRACE_ENTRIES_MAX 10000000 /* arrivals, jobs, or minutes of a model with requests */
#define TRACE_COUNTS_MAX  32000000 /* models times minutes of an Azure Functions table */
#define TRACE_MINUTES_MAX 10080 /* columns of an Azure Functions table: a week; the table's header fits into a line */

enum trace_format {
    TRACE_DETECT,
    TRACE_AZURE,      /* HashOwner,HashApp,HashFunction,Trigger,1,2,...: a function's calls in each minute */
    TRACE_TIMESTAMPS, /* seconds[,model[,items[,slo_ms[,priority]]]]: an arrival */
    TRACE_BLOX        /* job_id,model,slo_ms,rate,arrival_s: a job offers its rate from then on, for spec.job_s */
};

struct trace_spec {
    char path[4096];
    enum trace_format format;
    double scale;   /* factor of rates; arrivals are replayed `scale` times as fast */
    double start_s; /* time in the file at which the trace begins */
    double job_s;   /* length of a job of TRACE_BLOX */
    bool by_rows;   /* TRACE_AZURE: whether row i is the i-th model's, and further rows are left out; else rows go round
                     * all models */
};

/* A scenario's models, as far as the reader needs them. */
struct trace_model {
    const char *name;
    double share;        /* share of the arrivals that name no model */
    uint32_t priorities; /* number of priorities that the model's requests may have; 0: one */
};

/* What a line of a trace says of its request. */
struct trace_request {
    uint32_t slo_us;  /* SLO; 0: that of the scenario */
    uint16_t items;   /* number of items; 0: that of the scenario */
    uint8_t priority; /* priority, or PRIORITY_BEST_EFFORT; TRACE_PRIORITY_ANY: that of the scenario */
};

#define TRACE_PRIORITY_ANY 254

struct trace {
    uint32_t models;
    uint64_t *first;  /* [models + 1] index of a model's first entry */
    double *at_s;     /* [entries] times of arrivals, or starts of pieces, which may be before 0 */
    double *rate_sum; /* [entries] sums of the rates of the model's pieces up to and including the entry; NULL: the
                       * entries are arrivals */
    int64_t *slo_ns;  /* [entries] SLOs of the requests of pieces; NULL: those of the models */
    struct trace_request *requests; /* [entries] what the file says of each arrival; NULL: only its time and model */
    double length_s;                /* length of a piece */
    double mean_rps;                /* mean rate in the run, before scaling */
    double *model_rps;              /* [models] mean rate of each model in the run, before scaling */
};

/* Reads a file for the models of a scenario. `run_s`: length of the run, over which the means are taken. 0; -EINVAL
 * with "PATH:LINE: sentence", also for a file over a limit and for one without any request in the run; or the file's
 * -errno. Free the trace with trace_free(); after an error it is empty. */
int trace_read(const struct trace_spec *spec, const struct trace_model *models, uint32_t count, double run_s,
               uint64_t seed, struct trace *trace, struct sy_error *err);
void trace_free(struct trace *trace);

/* How far a model's stream has come in a trace. Time does not go back. */
struct trace_cursor {
    uint64_t first, end; /* range of the model's entries */
    uint64_t from, to;   /* range of the pieces in force; for arrivals `to` is the next entry */
};

struct trace_cursor trace_cursor_at_start(const struct trace *trace, uint32_t model);
/* For arrivals: takes the next one, and sets at_s to its time. False when there is none. */
bool trace_arrival(const struct trace *trace, struct trace_cursor *cursor, double *at_s);
/* What the file says of the arrival that was taken last. */
struct trace_request trace_request_taken(const struct trace *trace, const struct trace_cursor *cursor);
/* For rates: the model's rate at at_s, and the time until which the rate holds. */
double trace_rate(const struct trace *trace, struct trace_cursor *cursor, double at_s, double *until_s);
/* For rates: the SLO of a request that arrives at the time for which trace_rate() was last called; `u` is uniform in
 * [0, 1). 0: the model's SLO. */
int64_t trace_slo_ns(const struct trace *trace, const struct trace_cursor *cursor, double u);
