/* trace_build.h - the entries that the readers of formats hand to trace.c. For the files trace*.c only. */
#pragma once

#include "core/util/lines.h"
#include "core/util/rng.h"
#include "lab/scenario/trace.h"

struct trace_entry {
    double at_s;
    union {
        double rate_rps; /* rate of a piece */
        struct {
            uint32_t items, priority; /* items and priority of an arrival, as in trace_request */
        };
    };
    uint32_t model, slo_us;
};

/* A name that a line may give: the name of a model, or a name for all copies of a model, which then take turns. */
struct trace_name {
    const char *text;
    uint32_t length, first, count, next;
};

struct trace_builder {
    const struct trace_spec *spec;
    const struct trace_model *models;
    uint32_t model_count;
    struct rng rng;
    double *share_sums; /* [model_count] */
    struct trace_name *names;
    uint32_t name_count;
    struct trace_entry *entries;
    uint64_t count;
    bool rates;
    bool requests; /* whether some line says more of its arrival than time and model */
    double length_s;
    struct lines lines;
};

/* Adds an entry, with its time counted from the beginning of the trace (spec->start_s). Leaves out entries that end
 * before it. -EINVAL when there are too many entries. */
int trace_add(struct trace_builder *b, struct trace_entry entry, struct sy_error *err);
/* Finds the model that a line names; an error if there is none. `name` NULL or "": draws a model by the shares. */
int trace_model_find(struct trace_builder *b, const char *name, uint32_t *model, struct sy_error *err);

/* Each reads a whole file of one format; b->lines has read the first line already. */
int trace_read_azure(struct trace_builder *b, struct sy_error *err);
int trace_read_timestamps(struct trace_builder *b, struct sy_error *err);
int trace_read_blox(struct trace_builder *b, struct sy_error *err);
