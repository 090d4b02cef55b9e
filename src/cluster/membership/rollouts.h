/* rollouts.h - which version of a model gets the requests that name none, where somebody has stated that. Pure but for
 * memory; any thread.
 *
 * The leading scheduler decides, and the whole table is passed on as one text:
 *
 *     {"term":7,"number":2,"rollouts":[{"model":"resnet50","version":2,"share":1000,"before":1}]}
 *
 * Each decision has the term of its scheduler, and a number within the term; of two tables the later one counts. All
 * members of the cluster keep the text for the next scheduler, and etcd has it, if there is one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"

#define ROLLOUTS_MAX      256
#define ROLLOUT_SHARE_ALL 10000 /* a share is this many parts at most */

struct rollout {
    char model[MODEL_NAME_MAX];
    uint32_t version; /* version that is rolled out */
    uint32_t share;   /* parts of the requests without a version that go to it, 1 to ROLLOUT_SHARE_ALL */
    uint32_t before;  /* version that gets the others, and all if too few backends have `version`; 0: none was there */
};

struct rollouts {
    uint64_t term, number; /* of the last decision; 0: there was none */
    uint32_t count;
    struct rollout of[ROLLOUTS_MAX];
};

/* What somebody wants of a model's versions. */
enum rollout_wish { ROLLOUT_TO, ROLLOUT_BACK, ROLLOUT_NEWEST };
struct rollout_order {
    enum rollout_wish wish;
    char model[MODEL_NAME_MAX];
    uint32_t version, share; /* with ROLLOUT_TO */
};

/* A table as text, the caller's to free(). NULL: no memory. */
char *rollouts_write(const struct rollouts *rollouts);
/* Reads a table. 0; -EPROTO with a sentence: the text is none. */
int rollouts_read(const char *text, size_t bytes, struct rollouts *rollouts, struct sy_error *err);
/* Whether a table is of a later decision than another. */
bool rollouts_later(const struct rollouts *rollouts, const struct rollouts *other);
/* What is stated of a model. NULL: nothing. */
const struct rollout *rollouts_find(const struct rollouts *rollouts, const char *model);

/* An order as text, the caller's to free(); NULL: no memory. And read; 0 or -EPROTO with a sentence. */
char *rollout_order_write(const struct rollout_order *order);
int rollout_order_read(const char *text, size_t bytes, struct rollout_order *order, struct sy_error *err);
/* Carries out an order, in the scheduler's term. `carries`: version that carries the model's requests without a version
 * while nothing is stated; 0: none. 0, or -EINVAL with a sentence: there is nothing to go back from; -ENOSPC: too many
 * models. The caller has checked that backends have the version. */
int rollouts_order(struct rollouts *rollouts, const struct rollout_order *order, uint32_t carries, uint64_t term,
                   struct sy_error *err);
