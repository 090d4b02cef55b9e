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
    double shape; /* shape of ARRIVALS_GAMMA; 1: Poisson; less: burstier */
};

/* Reads "poisson", "uniform" (constant gaps) or "gamma:K". -EINVAL with a sentence for any other text. */
int arrivals_parse(const char *text, struct arrivals_spec *spec, struct sy_error *err);

/* Reads "equal" (exponent 0) or "zipf:S": the i-th model's share is proportional to 1 / i^S. */
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
    double *due_ns; /* [count] time of the model's next request since start_ns; a double, so that rounding does not add
                     * up */
    int64_t start_ns;
};

struct arrival {
    int64_t due_ns;
    uint32_t model;
    int64_t slo_ns; /* SLO of the request; 0: that of the model */
};

/* `weights` (adding up to 1) share rate_rps > 0 among `count` models. 0 or -ENOMEM; free with arrivals_free. */
int arrivals_init(struct arrivals *arrivals, const struct arrivals_spec *spec, double rate_rps, const double *weights,
                  uint32_t count, uint64_t seed, int64_t start_ns);
void arrivals_free(struct arrivals *arrivals);
/* The next request; never earlier than the one before. The process does not end. */
struct arrival arrivals_next(struct arrivals *arrivals);
