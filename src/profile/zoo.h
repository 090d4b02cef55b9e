/* zoo.h - tables of published model profiles (data/symphony_model_zoo.csv): latency lines by model and accelerator
 * type.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "profile/profile.h"

#define ZOO_NAME_MAX 48

struct zoo_entry {
    char model[ZOO_NAME_MAX], type[ZOO_NAME_MAX];
    double alpha_ms, beta_ms, slo_ms;
};

struct zoo {
    struct zoo_entry *entries; /* [count], in the file's order */
    uint32_t count;
};

/* Which models of a type: by beta/alpha over or under 2. */
enum zoo_set { ZOO_ALL, ZOO_GT2, ZOO_LT2 };

/* Reads a table: comments start with #, the first other line names the columns (model, gpu, alpha_ms, beta_ms, slo_ms
 * are used). 0, or -errno with the file and line. Free with zoo_free(). */
int zoo_read(struct zoo *zoo, const char *path, struct sy_error *err);
void zoo_free(struct zoo *zoo);
/* Whether an entry is of the type (letter case does not matter) and in the set. */
bool zoo_entry_in(const struct zoo_entry *entry, const char *type, enum zoo_set set);
/* The entry of a model and type, or NULL. */
const struct zoo_entry *zoo_find(const struct zoo *zoo, const char *model, const char *type);
/* Largest batch whose latency is within the SLO by the line, 1..PROFILE_BATCH_MAX. */
uint32_t zoo_batch_max(double alpha_ms, double beta_ms, double slo_ms);
