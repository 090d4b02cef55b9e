/* trace_build.h - what the readers of the formats hand to trace.c. For the files trace*.c. */
#pragma once

#include "core/util/lines.h"
#include "core/util/rng.h"
#include "lab/scenario/trace.h"

struct trace_entry {
    double at_s;
    union {
        double rate_rps; /* of a piece */
        struct {
            uint32_t items, priority; /* of an arrival, as in trace_request */
        };
    };
    uint32_t model, slo_us;
};

/* A name that a line may give: a model's, or one that stands for the copies of a model, which take turns. */
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
    uint64_t count, capacity;
    bool rates;
    bool requests; /* some line says more of its arrival than time and model */
    double length_s;
    struct lines lines;
};

/* Adds an entry, shifted so that the trace begins where it is to; entries that are over by then are left out.
 * -EINVAL over the limit. */
int trace_add(struct trace_builder *b, struct trace_entry entry, struct sy_error *err);
/* The model that a line names; an error if there is none. NULL or "": one drawn by the shares. */
int trace_model_find(struct trace_builder *b, const char *name, uint32_t *model, struct sy_error *err);

/* Reads the whole file, whose first line is in b->lines already. */
int trace_read_azure(struct trace_builder *b, struct sy_error *err);
int trace_read_timestamps(struct trace_builder *b, struct sy_error *err);
int trace_read_blox(struct trace_builder *b, struct sy_error *err);
