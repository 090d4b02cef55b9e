/* recording.h - a server's requests of the last minutes, as a document that can be simulated (docs/whatif.md).
 *
 *     symphony recording 1
 *     --- server
 *     {JSON: how long, how many requests, the server's counts in that time}
 *     --- scenario
 *     a scenario's YAML: accelerators, models with measured latencies, policy, margins
 *     --- trace
 *     seconds,model,items,slo_ms,priority
 *
 * server_recording.c fills it in. Any thread. */
#pragma once

#include "core/data/profile.h"
#include "core/data/recorder.h"
#include "core/data/tensor.h"
#include "core/util/text.h"
#include "sched/core/policy.h"

#define RECORDING_REQUESTS_MAX  1000000 /* in a document: the newest; some 35 MB */
#define RECORDING_SECONDS       300     /* unless the request names another number */
#define RECORDING_SECONDS_MAX   86400
#define RECORDING_LOOKS_MAX     1024 /* that are remembered, one a second */
#define RECORDING_WARMUP_PART   10   /* the first of so many parts is warm-up, for the cores to learn the rates, */
#define RECORDING_WARMUP_MOST_S 5    /* of at most so many seconds */

struct recording_type {
    const char *name;
    uint32_t count; /* in service; 0: it is left out */
};

struct recording_model {
    char name[MODEL_NAME_MAX];
    uint32_t version, batch_max;
    int64_t slo_ns;
    double weight;                              /* 0: 1 */
    uint32_t priorities;                        /* levels; 0: one */
    int64_t *latency_ns[ACCELERATOR_TYPES_MAX]; /* [batch_max + 1] by type, what batches take, gathering included; NULL:
                                                   does not run there */
    int64_t since_ns;                           /* earlier requests under its number are another model's */
    uint64_t requests;                          /* recording_head_write() counts them */
};

/* The server's counts since its start, at one look. */
struct recording_look {
    int64_t at_ns;
    uint64_t requests, bad; /* that have ended */
    double needed_ns;       /* time of accelerators that the load has needed */
    int64_t wanted;         /* accelerators, by its advice; ADVICE_NONE */
    uint32_t present;       /* accelerators in service */
};

struct recording {
    struct recording_type types[ACCELERATOR_TYPES_MAX];
    char type_names[ACCELERATOR_TYPES_MAX][64]; /* for names in `types` that nothing else keeps */
    uint32_t type_count;
    struct recording_model *models; /* [model_count] */
    uint32_t model_count;
    uint32_t *model_of; /* [served] in `models`, by the number in a recorded request; UINT32_MAX: none */
    uint32_t served;
    const struct policy_ops *policy;
    struct policy_options options;
    int64_t ctrl_ns, reply_margin_ns;
    int64_t start_ns, end_ns; /* the recording has all requests of this period */
    struct recorded_request *requests;
    uint64_t request_count, overwritten;
    struct recording_look *looks; /* ascending */
    uint32_t look_count;
    bool cluster; /* the server is a cluster's scheduler: bad is what it refused, as it does not see answers arrive */
};

/* Which of `models` a recorded request was for; NULL: one that does not serve any more. */
struct recording_model *recording_model_of(const struct recording *recording, const struct recorded_request *request);
/* Writes the document up to the first line of the trace, and keeps only requests that it is of. 0; -ENOENT: nothing was
 * recorded in that time, or nothing serves; -EFBIG: the scenario would be larger than one may be; -ENOMEM; with a
 * sentence. Once. */
int recording_head_write(struct recording *recording, struct text *out, struct sy_error *err);
/* Appends lines of requests from the n-th on, until `out` is that long. Returns which is next; request_count: none. */
uint64_t recording_trace_write(const struct recording *recording, uint64_t next, size_t bytes, struct text *out);
/* Frees what it holds. */
void recording_free(struct recording *recording);
