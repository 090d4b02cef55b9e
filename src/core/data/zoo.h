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
    const char *model, *type; /* "ResNet50", "GTX1080Ti" */
    double alpha_ms, beta_ms; /* l(b) = alpha*b + beta, if there are no points */
    double slo_ms;            /* 0: the source has none */
    const char *source;
    uint32_t points;       /* measured l(b): */
    const uint32_t *batch; /* [points], ascending */
    const int64_t *latency_ns;
    double weights_mb, load_ms; /* 10^6 bytes, and what loading them takes; 0: not known */
};

/* A choice of models as scenarios name it: those of a source on its usual type. */
struct zoo {
    const char *name, *source, *type;
};

/* Which models of a type: by beta/alpha over or under 2, which only those with a line can be. */
enum zoo_set { ZOO_ALL, ZOO_GT2, ZOO_LT2 };

/* All of them, ended by an entry whose model is NULL; those of one type are together, in the order of the tables. */
extern const struct zoo_entry zoo_entries[];

#define ZOO_NAMES "gtx1080ti, a100, clockwork, kairos, nexus or nexus-example"
/* The zoo of a name, in any case; NULL if there is none. */
const struct zoo *zoo_named(const char *name);

/* Whether any entry is of the accelerator type. */
bool zoo_has_type(const char *type);
/* The source of a type's entries; NULL if there is none. */
const char *zoo_type_source(const char *type);
/* Whether an entry is of the type and in the set. */
bool zoo_entry_in(const struct zoo_entry *entry, const char *type, enum zoo_set set);
/* The entry of a model and type, or NULL. */
const struct zoo_entry *zoo_find(const char *model, const char *type);
/* The price of an hour on an accelerator of the type, in dollars; 0: not known. Amazon's instances, as Kairos lists
 * them. */
double zoo_price(const char *type);
/* Largest batch whose latency is within the SLO by the line, 1..PROFILE_BATCH_MAX. */
uint32_t zoo_batch_max(double alpha_ms, double beta_ms, double slo_ms);
