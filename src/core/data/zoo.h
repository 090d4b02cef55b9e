/* zoo.h - published latency profiles of well-known models, and prices: the tables of data/, built into the program.
 * Pure.
 *
 *     zoo            source           types
 *     gtx1080ti      symphony         GTX1080Ti, A100
 *     a100           symphony         the same
 *     clockwork      clockwork        V100
 *     kairos         kairos           g4dn.xlarge, c5n.2xlarge, r5n.large, t3.xlarge
 *     nexus          nexus            TITAN_X_Pascal
 *     nexus-example  nexus-example    example
 *
 * A type is of one source only. The case of a type's letters never matters. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct zoo_entry {
    const char *model, *type;   /* "ResNet50", "GTX1080Ti" */
    double alpha_ms, beta_ms;   /* l(b) = alpha*b + beta, if there are no points */
    double slo_ms;              /* SLO in milliseconds; 0: the source gives none */
    const char *source;         /* measurements that the entry comes from, as in the table above */
    uint32_t points;            /* number of measured points; 0: only the line is known */
    const uint32_t *batch;      /* [points] batch sizes of the points, ascending */
    const int64_t *latency_ns;  /* [points] latencies of the points */
    double weights_mb, load_ms; /* size of the weights in 10^6 bytes, and time to load them; 0: not known */
};

/* A set of models that scenarios name: all models of a source, on its usual type. */
struct zoo {
    const char *name, *source, *type;
};

/* Which models of a type: all, or those whose beta/alpha is over or under 2. Models without a line are in neither of
 * the latter. */
enum zoo_set { ZOO_ALL, ZOO_GT2, ZOO_LT2 };

/* All entries, ended by one whose model is NULL. Entries of one type stand together, in the order of the tables. */
extern const struct zoo_entry zoo_entries[];

#define ZOO_NAMES "gtx1080ti, a100, clockwork, kairos, nexus or nexus-example"
/* The zoo of a name, in upper or lower case; NULL: there is none. */
const struct zoo *zoo_named(const char *name);

/* Whether any entry is of the accelerator type. */
bool zoo_has_type(const char *type);
/* The source of a type's entries; NULL if there is none. */
const char *zoo_type_source(const char *type);
/* Whether an entry is of the type and in the set. */
bool zoo_entry_in(const struct zoo_entry *entry, const char *type, enum zoo_set set);
/* The entry of a model and type, or NULL. */
const struct zoo_entry *zoo_find(const char *model, const char *type);
/* The price of an hour on an accelerator of the type, in dollars; 0: not known. Prices are of Amazon's instances, as
 * Kairos lists them. */
double zoo_price(const char *type);
/* The greatest batch, 1 to PROFILE_BATCH_MAX, whose latency by the line is within the SLO. */
uint32_t zoo_batch_max(double alpha_ms, double beta_ms, double slo_ms);
