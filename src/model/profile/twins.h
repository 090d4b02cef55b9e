/* twins.h - models of the same graph with other weights: these need not be measured, for their runs take as long.
 *
 * Keeps a record for each graph. Only small models are twins: a large one that is measured gets an optimised copy,
 * which is worth more than the time. Set-up only, one thread. */
#pragma once

#include "model/config/served_model.h"
#include "model/profile/store.h"

#define TWINS_MAX      256                  /* graphs whose records are kept */
#define TWIN_BYTES_MAX ((uint64_t)16 << 20) /* bytes of the files of a model that may be a twin */

struct profile_twins {
    struct profile_record *records[TWINS_MAX]; /* [count] records, each allocated */
    uint32_t count;
};

/* Fills in the text of graph_fingerprint() of a model that may be, or have, twins; "" for others: those that are large,
 * have operators of their own, or whose file is not read here. */
void twins_graph(const struct served_model *model, char graph[40]);
/* The record of a graph; NULL: there is none. */
const struct profile_record *twins_find(const struct profile_twins *twins, const char *graph);
/* Keeps a copy of a record that names its graph, unless there is one already, or no room. */
void twins_add(struct profile_twins *twins, const struct profile_record *record);
void twins_free(struct profile_twins *twins);
