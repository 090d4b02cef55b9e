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
    double a, b;           /* constant: a; uniform: a to b, whole numbers; Gaussian: mean a, standard deviation b */
    const char *published; /* a name of data/query_size_distributions.csv, as query_size_published() gives it */
    char table_path[4096]; /* lines `size` or `size,weight` */
};

struct query_sizes {
    uint32_t least, most;
    double up_to[QUERY_SIZE_MAX + 1]; /* the probability of at most so many; 1 at `most` */
};

#define QUERY_DEEPRECSYS_NAMES "experiments, run_deeprecsys or run_deeprecinfra"
/* The published distribution of a system ("kairos", "deeprecsys") and name; NULL if there is none. */
const char *query_size_published(const char *system, const char *name);

/* Fills the table. A Gaussian is rounded to whole numbers, and what lies outside 1 to QUERY_SIZE_MAX becomes the nearer
 * of them. -errno, "PATH:LINE: sentence" of a table's file. */
int query_sizes_fill(const struct query_size_spec *spec, struct query_sizes *sizes, struct sy_error *err);

uint32_t query_sizes_draw(const struct query_sizes *sizes, struct rng *rng);
double query_sizes_mean(const struct query_sizes *sizes);
