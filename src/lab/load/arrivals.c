/* arrivals.c - draws the times and models of a load's requests. */
#include "lab/load/arrivals.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/decimal.h"
#include "core/util/fmath.h"

/* The number after "name:", in [min, max]; false if the text is something else. */
static bool named_number(const char *text, const char *name, double min, double max, double *value) {
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && text[length] == ':' &&
           decimal_double(text + length + 1, min, max, value) == 0;
}

int arrivals_parse(const char *text, struct arrivals_spec *spec, struct sy_error *err) {
    double shape = 1.0;
    if (strcmp(text, "poisson") == 0)
        *spec = (struct arrivals_spec){.kind = ARRIVALS_POISSON};
    else if (strcmp(text, "uniform") == 0)
        *spec = (struct arrivals_spec){.kind = ARRIVALS_UNIFORM};
    else if (named_number(text, "gamma", 0.001, 1000.0, &shape))
        *spec = (struct arrivals_spec){.kind = ARRIVALS_GAMMA, .shape = shape};
    else
        return error_set(err, -EINVAL, "'%s' is not poisson, uniform or gamma:K with K in 0.001 to 1000", text);
    return 0;
}

int popularity_parse(const char *text, double *exponent, struct sy_error *err) {
    if (strcmp(text, "equal") == 0)
        *exponent = 0.0;
    else if (!named_number(text, "zipf", 0.0, 10.0, exponent))
        return error_set(err, -EINVAL, "'%s' is not equal or zipf:S with S in 0 to 10", text);
    return 0;
}

void popularity_weights(double exponent, double *weights, uint32_t count) {
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++)
        sum += weights[i] = fmath_exp(-exponent * fmath_log(i + 1.0));
    for (uint32_t i = 0; i < count; i++)
        weights[i] /= sum;
}

static double gap_draw(struct arrivals *a) {
    switch (a->spec.kind) {
    case ARRIVALS_POISSON:
        return rng_exponential(&a->rng);
    case ARRIVALS_GAMMA:
        return rng_gamma(&a->rng, a->spec.shape);
    default:
        return 1.0;
    }
}

int arrivals_init(struct arrivals *a, const struct arrivals_spec *spec, double rate_rps, const double *weights,
                  uint32_t count, uint64_t seed, int64_t start_ns) {
    *a = (struct arrivals){.spec = *spec, .start_ns = start_ns};
    a->entries = calloc(count, sizeof(*a->entries));
    a->position = calloc(count, sizeof(*a->position));
    a->gap_ns = calloc(count, sizeof(*a->gap_ns));
    a->due_ns = calloc(count, sizeof(*a->due_ns));
    if (!a->entries || !a->position || !a->gap_ns || !a->due_ns) {
        arrivals_free(a);
        return -ENOMEM;
    }
    rng_seed(&a->rng, seed);
    heap_init(&a->heap, a->entries, a->position, count);
    for (uint32_t i = 0; i < count; i++) {
        a->gap_ns[i] = 1e9 / (rate_rps * weights[i]);
        /* Constant gaps start at a random phase, else all models would fire together. */
        a->due_ns[i] = a->gap_ns[i] * (spec->kind == ARRIVALS_UNIFORM ? rng_uniform(&a->rng) : gap_draw(a));
        heap_set(&a->heap, i, start_ns + (int64_t)fmin(a->due_ns[i], 9e18 - (double)start_ns));
    }
    return 0;
}

void arrivals_free(struct arrivals *a) {
    free(a->entries);
    free(a->position);
    free(a->gap_ns);
    free(a->due_ns);
    *a = (struct arrivals){0};
}

struct arrival arrivals_next(struct arrivals *a) {
    struct heap_entry top = heap_top(&a->heap);
    a->due_ns[top.item] += a->gap_ns[top.item] * gap_draw(a);
    heap_set(&a->heap, top.item, a->start_ns + (int64_t)fmin(a->due_ns[top.item], 9e18 - (double)a->start_ns));
    return (struct arrival){.due_ns = top.key, .model = top.item};
}
