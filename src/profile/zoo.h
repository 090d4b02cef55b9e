/* zoo.h - the published latency profiles of well-known models: data/symphony_model_zoo.csv, built into the program.
 * Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct zoo_entry {
    const char *model, *type; /* "ResNet50", "GTX1080Ti" */
    double alpha_ms, beta_ms; /* l(b) = alpha*b + beta */
    double slo_ms;
};

/* Which models of a type: by beta/alpha over or under 2. */
enum zoo_set { ZOO_ALL, ZOO_GT2, ZOO_LT2 };

/* All of them, ended by an entry whose model is NULL; those of one type are together, in the order of the tables. */
extern const struct zoo_entry zoo_entries[];

/* Whether any entry is of the accelerator type. The case of a type's letters never matters. */
bool zoo_has_type(const char *type);
/* Whether an entry is of the type and in the set. */
bool zoo_entry_in(const struct zoo_entry *entry, const char *type, enum zoo_set set);
/* The entry of a model and type, or NULL. */
const struct zoo_entry *zoo_find(const char *model, const char *type);
/* Largest batch whose latency is within the SLO by the line, 1..PROFILE_BATCH_MAX. */
uint32_t zoo_batch_max(double alpha_ms, double beta_ms, double slo_ms);
