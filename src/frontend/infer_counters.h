/* infer_counters.h - what a frontend counts of infer requests, and how it looks to Prometheus. Written by the
 * frontend's thread, read by any: relaxed atomics, since nothing else is inferred from them. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/counter.h"
#include "base/fine_histogram.h"
#include "base/histogram.h"
#include "base/text.h"
#include "engine/tensor.h"
#include "frontend/slab.h"
#include "frontend/v2.h"

enum outcome {
    OUTCOME_OK,
    OUTCOME_REFUSED, /* by the scheduler or for want of memory: 503 */
    OUTCOME_CLIENT_ERROR,
    OUTCOME_FAILED,
    OUTCOME_CANCELLED, /* the client went away before its answer was sent */
    OUTCOME_COUNT,
};

struct model_infer_counters {
    _Atomic uint64_t outcomes[OUTCOME_COUNT];
    _Atomic uint64_t in_time;  /* answered OK by the deadline: the goodput */
    _Atomic uint64_t items;    /* of OK ones */
    _Atomic uint64_t run_ns;   /* of OK ones: what their batches ran, added up */
    _Atomic uint64_t reply_ns; /* of OK ones: from the end of the run until the kernel had the answer, added up */
    _Atomic uint64_t fail_ns;  /* of those refused or failed: from the first byte to the answer, added up */
    _Atomic uint32_t held;     /* requests that refer to the model: not freed yet */
    _Atomic int64_t last_ns;   /* when the last was answered; 0: none was */
    struct fine_histogram latency_ns; /* of OK ones: from its arrival until the kernel had the answer */
    struct histogram queue_ns;        /* of OK ones: from its arrival to the start of the run */
};

struct infer_counters {
    struct model_infer_counters *models; /* [model_count] */
    uint32_t model_count;
    _Atomic uint64_t body_bytes;
    _Atomic uint64_t inputs_bytes_taken, inputs_bytes_mapped;
    _Atomic uint32_t in_flight;
};

int infer_counters_init(struct infer_counters *counters, uint32_t model_count);
void infer_counters_destroy(struct infer_counters *counters);

/* "# HELP ..." and "# TYPE ..." of a metric. */
void metric_heading(struct text *out, const char *name, const char *type, const char *help);
/* A model's name as the value of a label: backslash, quote and line feed escaped. Folders whose name is no model's are
 * shown, too, as models that are set aside. */
struct metric_label {
    char text[2 * MODEL_NAME_MAX];
};
struct metric_label metric_label(const char *name);
/* A model's labels: model="NAME",version="N". */
struct metric_model {
    char text[2 * MODEL_NAME_MAX + 40];
};
struct metric_model metric_model(const struct served_model *model);
/* The frontends' counters, summed, of whatever protocol, and what the bulk threads hold. */
void infer_counters_render(const struct infer_counters *const *counters, uint32_t count, const struct v2_models *models,
                           struct slab_use bulk, struct text *out);
/* The histogram of latencies as finely as it is kept, with those edges only between which something was counted: for
 * one who compares it with what a client saw, not for a time series. */
void infer_counters_render_fine(const struct infer_counters *const *counters, uint32_t count,
                                const struct v2_models *models, struct text *out);
