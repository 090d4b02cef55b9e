/* trace_put.h - what accelerators did, in the Trace Event Format (JSON) of Perfetto and chrome://tracing: of a
 * simulation, or of a server.
 *
 * Each accelerator has a row, grouped by type, with a box for each batch, and a second row with a box for each model
 * that was loaded. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/text.h"

struct trace_put {
    struct text *out;
    bool wrote; /* an event was written */
};

void trace_begin(struct trace_put *trace, struct text *out);
/* `zero_ns`: time of the host's monotonic clock that is 0 in the trace; TIME_NEVER: it has nothing to do with one. */
void trace_end(struct trace_put *trace, int64_t zero_ns);
void trace_name_group(struct trace_put *trace, uint32_t group, const char *name);
void trace_name_row(struct trace_put *trace, uint32_t group, uint32_t row, const char *name);

/* A batch; `end` NULL: it ran. predicted_ns 0: not known. */
struct trace_batch {
    const char *model;
    uint32_t items;
    int64_t start_ns, took_ns, predicted_ns;
    const char *end;
};
void trace_batch(struct trace_put *trace, uint32_t group, uint32_t row, const struct trace_batch *batch);
/* A model was loaded (`in`), or unloaded. */
void trace_load(struct trace_put *trace, uint32_t group, uint32_t row, const char *model, bool in, int64_t start_ns,
                int64_t took_ns);
/* The accelerator did nothing, for this reason. */
void trace_idle(struct trace_put *trace, uint32_t group, uint32_t row, const char *why, int64_t start_ns,
                int64_t took_ns);
void trace_refused(struct trace_put *trace, uint32_t group, uint32_t row, int64_t at_ns, uint64_t request,
                   const char *reason);
