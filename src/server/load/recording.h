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
 * server_recording.c fills in a struct recording. Any thread. */
#pragma once

#include "core/data/profile.h"
#include "core/data/recorder.h"
#include "core/data/tensor.h"
#include "core/util/text.h"
#include "sched/core/policy.h"

#define RECORDING_REQUESTS_MAX  1000000 /* requests of a document, the newest ones; some 35 MB */
#define RECORDING_SECONDS       300     /* length of a document; the HTTP request may name another number */
#define RECORDING_SECONDS_MAX   86400
#define RECORDING_LOOKS_MAX     1024 /* looks that are remembered, one a second */
#define RECORDING_WARMUP_PART   10   /* divisor: this part of the time is warm-up, in which the cores learn the rates */
#define RECORDING_WARMUP_MOST_S 5    /* most seconds of warm-up */

struct recording_type {
    const char *name;
    uint32_t count; /* accelerators in service; 0: the type is left out */
};

struct recording_model {
    char name[MODEL_NAME_MAX];
    uint32_t version, batch_max;
    int64_t slo_ns;
    double weight;                              /* weight of the model; 0: 1 */
    uint32_t priorities;                        /* number of priority levels; 0: one */
    uint64_t weights_bytes;                     /* where memory is limited: bytes of the weights */
    int64_t load_ns;                            /* time to load them */
    bool pinned;                                /* whether one accelerator keeps them */
    int64_t *latency_ns[ACCELERATOR_TYPES_MAX]; /* [batch_max + 1] by type: time of a batch, gathering included; NULL:
                                                 * the model does not run on the type */
    int64_t since_ns;  /* time from which requests under its number are this model's, and not another model's */
    uint64_t requests; /* requests in the recording, which recording_head_write() counts */
};

/* The server's counts since its start, at one look. */
struct recording_look {
    int64_t at_ns;
    uint64_t requests, bad; /* requests that have ended, and those of them that were bad */
    double needed_ns;       /* accelerator time that the load has needed */
    int64_t wanted;         /* accelerators that the server advises; ADVICE_NONE: no advice */
    uint32_t present;       /* accelerators in service */
};

struct recording {
    struct recording_type types[ACCELERATOR_TYPES_MAX];
    char type_names[ACCELERATOR_TYPES_MAX][64]; /* memory for names in `types` that nothing else keeps */
    uint32_t type_count;
    struct recording_model *models; /* [model_count] */
    uint32_t model_count;
    uint32_t *model_of; /* [served] indexes in `models`, by the model's number in a recorded request; UINT32_MAX:
                         * none */
    uint32_t served;
    const struct policy_ops *policy;
    struct policy_options options;
    uint64_t memory_bytes; /* memory for weights of each accelerator; 0: enough for all models */
    int64_t ctrl_ns, reply_margin_ns;
    int64_t start_ns, end_ns; /* period of which the recording has all requests */
    struct recorded_request *requests;
    uint64_t request_count, overwritten;
    struct recording_look *looks; /* [look_count] in the order of their times */
    uint32_t look_count;
    bool cluster; /* whether the server is a cluster's scheduler: bad requests are those that it refused, as it sees no
                   * answers */
};

/* The one of `models` that a recorded request was for; NULL: a model that is not served any more. */
struct recording_model *recording_model_of(const struct recording *recording, const struct recorded_request *request);
/* Writes the document up to the first line of the trace, and keeps only requests of models in the document. 0, or with
 * a sentence: -ENOENT: no request was recorded in that time, or no model is served; -EFBIG: the scenario would be
 * larger than a scenario may be; -ENOMEM. Call it once. */
int recording_head_write(struct recording *recording, struct text *out, struct sy_error *err);
/* Appends the lines of requests, from request `next` on, until `out` has `bytes` bytes. Returns the number of the next
 * request; request_count: no request is left. */
uint64_t recording_trace_write(const struct recording *recording, uint64_t next, size_t bytes, struct text *out);
/* Frees what it holds. */
void recording_free(struct recording *recording);
