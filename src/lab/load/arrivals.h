/* arrivals.h - when each request of a load is due and for which model: one renewal process a model, merged in time.
 *
 * Pure: a function of the seed. One thread. */
#pragma once

#include <stdint.h>

#include "core/util/error.h"
#include "core/util/heap.h"
#include "core/util/rng.h"

enum arrivals_kind { ARRIVALS_POISSON, ARRIVALS_UNIFORM, ARRIVALS_GAMMA };

/* How the gaps between a model's requests are spread around their mean. */
struct arrivals_spec {
    enum arrivals_kind kind;
    double shape; /* of gamma: 1 is Poisson, below 1 is burstier */
};

/* "poisson", "uniform" (constant gaps) or "gamma:K". -EINVAL and a sentence otherwise. */
int arrivals_parse(const char *text, struct arrivals_spec *spec, struct sy_error *err);

/* "equal" (exponent 0) or "zipf:S": the i-th model's share is proportional to 1 / i^S. */
int popularity_parse(const char *text, double *exponent, struct sy_error *err);
/* Fills weights[count], which add up to 1. */
void popularity_weights(double exponent, double *weights, uint32_t count);

struct arrivals {
    struct arrivals_spec spec;
    struct rng rng;
    struct heap heap;
    struct heap_entry *entries; /* [count] */
    uint32_t *position;         /* [count] */
    double *gap_ns;             /* [count] mean gap of the model */
    double *due_ns;             /* [count] next request, from start_ns on; a double so that roundings do not add up */
    int64_t start_ns;
};

struct arrival {
    int64_t due_ns;
    uint32_t model;
    int64_t slo_ns; /* its own; 0: the model's */
};

/* `weights` (adding up to 1) share rate_rps > 0 among `count` models. 0 or -ENOMEM; free with arrivals_free. */
int arrivals_init(struct arrivals *arrivals, const struct arrivals_spec *spec, double rate_rps, const double *weights,
                  uint32_t count, uint64_t seed, int64_t start_ns);
void arrivals_free(struct arrivals *arrivals);
/* The next request; never earlier than the one before. The process does not end. */
struct arrival arrivals_next(struct arrivals *arrivals);
