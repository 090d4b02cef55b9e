/* query_size.c - draws the number of items of a request. Every distribution becomes a table of probabilities, then of
 * their sums, in which a draw searches. */
#include "lab/scenario/query_size.h"

#include <errno.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/decimal.h"
#include "core/util/fmath.h"
#include "core/util/lines.h"

/* A part of a published distribution. What a continuous part has outside min to max is drawn again from the next part,
 * if that is a REDRAW, and is clipped otherwise. */
enum part_kind { UNIFORM, NORMAL, LOGNORMAL, REDRAW };

static const struct part {
    const char *system, *name;
    double probability;
    enum part_kind kind;
    double a, b;
    uint32_t min, max;
} parts[] = {
#include "query_sizes.inc" /* made by cmake/zoo.cmake */
};

/* The standard normal distribution function (Marsaglia, Evaluating the Normal Distribution, 2004): a Taylor series
 * whose terms are all of one sign. */
static double normal_below(double z) {
    if (z < -8 || z > 8)
        return z < 0 ? 0 : 1;
    double sum = z, term = z;
    for (int i = 3; term > 1e-18 || term < -1e-18; i += 2) {
        term *= z * z / i;
        sum += term;
    }
    double below = 0.5 + sum * fmath_exp(-0.5 * z * z) * 0.39894228040143267794;
    return below < 0 ? 0 : below > 1 ? 1 : below;
}

static double part_below(const struct part *part, double x) {
    if (part->kind == NORMAL)
        return normal_below((x - part->a) / part->b);
    return x <= 0 ? 0 : normal_below((fmath_log(x) - part->a) / part->b);
}

/* Adds a continuous part, cut to whole numbers; `redraw` takes the place of what is outside, or NULL: it is clipped. */
static void continuous_add(const struct part *part, const struct part *redraw, double *weight) {
    double inside = part_below(part, part->max) - part_below(part, part->min);
    for (uint32_t k = part->min; k <= part->max; k++) {
        double from = part_below(part, k), to = part_below(part, k + 1.0);
        if (k == part->max)
            to = redraw ? from : 1;
        if (k == part->min && !redraw)
            from = 0;
        if (to > from) /* but for rounding, always */
            weight[k] += part->probability * (to - from);
    }
    for (uint32_t k = redraw ? redraw->min : 1; redraw && k <= redraw->max; k++)
        weight[k] += part->probability * (1 - inside) / (redraw->max - redraw->min + 1);
}

static void uniform_add(uint32_t min, uint32_t max, double probability, double *weight) {
    for (uint32_t k = min; k <= max; k++)
        weight[k] += probability / (max - min + 1);
}

static void published_fill(const char *name, double *weight) {
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        const struct part *part = &parts[i];
        if (strcmp(part->name, name) != 0)
            continue;
        bool redrawn = i + 1 < ARRAY_COUNT(parts) && part[1].kind == REDRAW;
        if (part->kind == UNIFORM)
            uniform_add(part->min, part->max, part->probability, weight);
        else if (part->kind != REDRAW)
            continuous_add(part, redrawn ? part + 1 : NULL, weight);
    }
}

const char *query_size_published(const char *system, const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++)
        if (strcmp(parts[i].system, system) == 0 && strcmp(parts[i].name, name) == 0)
            return parts[i].name;
    return NULL;
}

static int table_fill(const char *path, double *weight, struct sy_error *err) {
    struct lines lines;
    int rc = lines_open(&lines, path, err);
    if (rc)
        return rc;
    double sum = 0;
    while ((rc = lines_next(&lines, err)) > 0) {
        char *rest = lines.text, *size_field = lines_field(&rest), *weight_field = lines_field(&rest);
        double size, more = 1;
        bool good = decimal_double(size_field, 1, QUERY_SIZE_MAX, &size) == 0 && size == (uint32_t)size && !rest &&
                    (!weight_field || decimal_double(weight_field, 0, 1e15, &more) == 0);
        if (!good) {
            rc = lines_error(&lines, err,
                             "expected 'size' or 'size,weight': a whole number from 1 to %d, and a number "
                             "from 0",
                             QUERY_SIZE_MAX);
            break;
        }
        weight[(uint32_t)size] += more;
        sum += more;
    }
    lines_close(&lines);
    if (!rc && sum <= 0)
        rc = error_set(err, -EINVAL, "%s: the weights of the sizes add up to nothing", path);
    return rc;
}

int query_sizes_fill(const struct query_size_spec *spec, struct query_sizes *sizes, struct sy_error *err) {
    double weight[QUERY_SIZE_MAX + 1] = {0};
    /* rounding x is cutting x + 1/2 */
    const struct part normal = {
        .probability = 1, .kind = NORMAL, .a = spec->a + 0.5, .b = spec->b, .min = 1, .max = QUERY_SIZE_MAX};
    int rc = 0;
    switch (spec->kind) {
    case QUERY_CONSTANT:
        weight[(uint32_t)spec->a] = 1;
        break;
    case QUERY_UNIFORM:
        uniform_add((uint32_t)spec->a, (uint32_t)spec->b, 1, weight);
        break;
    case QUERY_GAUSSIAN:
        continuous_add(&normal, NULL, weight);
        break;
    case QUERY_PUBLISHED:
        published_fill(spec->published, weight);
        break;
    case QUERY_TABLE:
        rc = table_fill(spec->table_path, weight, err);
        break;
    }
    if (!rc) {
        double total = 0, sum = 0;
        sizes->least = sizes->most = 0;
        for (uint32_t k = 1; k <= QUERY_SIZE_MAX; k++) {
            total += weight[k];
            if (weight[k] > 0)
                sizes->most = k;
            if (weight[k] > 0 && !sizes->least)
                sizes->least = k;
        }
        for (uint32_t k = 0; k <= QUERY_SIZE_MAX; k++) {
            sum += weight[k];
            sizes->up_to[k] = k < sizes->most ? sum / total : 1;
        }
    }
    return rc;
}

uint32_t query_sizes_draw(const struct query_sizes *sizes, struct rng *rng) {
    return (uint32_t)weight_find(sizes->up_to, sizes->least, sizes->most, rng_uniform(rng));
}

double query_sizes_mean(const struct query_sizes *sizes) {
    double mean = 0;
    for (uint32_t k = 1; k <= sizes->most; k++)
        mean += k * (sizes->up_to[k] - sizes->up_to[k - 1]);
    return mean;
}
