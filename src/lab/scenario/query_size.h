/* query_size.h - how many items a request has: distributions, kept as tables over 1 to QUERY_SIZE_MAX.
 *
 * The same bits on every machine. Set-up reads files; a draw is pure. Any thread. */
#pragma once

#include <stdint.h>

#include "core/data/profile.h"
#include "core/util/error.h"
#include "core/util/rng.h"

#define QUERY_SIZE_MAX PROFILE_BATCH_MAX

enum query_size_kind { QUERY_CONSTANT, QUERY_UNIFORM, QUERY_GAUSSIAN, QUERY_PUBLISHED, QUERY_TABLE };

struct query_size_spec {
    enum query_size_kind kind;
    double a, b; /* parameters: constant: a; uniform: whole numbers from a to b; Gaussian: mean a, standard deviation
                  * b */
    const char *published; /* name in data/query_size_distributions.csv, as query_size_published() returns it */
    char table_path[4096]; /* path of a file with lines `size` or `size,weight` */
};

struct query_sizes {
    uint32_t least, most;
    double up_to[QUERY_SIZE_MAX + 1]; /* [n] probability of at most n items; 1 at `most` */
};

#define QUERY_DEEPRECSYS_NAMES "experiments, run_deeprecsys or run_deeprecinfra"
/* The published distribution of a system ("kairos", "deeprecsys") and name; NULL if there is none. */
const char *query_size_published(const char *system, const char *name);

/* Fills the table. A Gaussian is rounded to whole numbers; a number outside 1 to QUERY_SIZE_MAX becomes the nearer end.
 * 0, or -errno with a sentence, "PATH:LINE: sentence" for a table's file. */
int query_sizes_fill(const struct query_size_spec *spec, struct query_sizes *sizes, struct sy_error *err);

uint32_t query_sizes_draw(const struct query_sizes *sizes, struct rng *rng);
double query_sizes_mean(const struct query_sizes *sizes);
