/* sweep.c - keys that take several values. */
#include "lab/report/sweep.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/array.h"

#define ROUNDING 1e-9 /* tolerance, in steps: 0.1 + 0.1 + 0.1 still meets 0.3 */

static int value_add(struct sweep *sweep, const char *text, size_t length, struct sy_error *err) {
    if (sweep->count == SWEEP_POINTS_MAX)
        return error_set(err, -EINVAL, "more than %d values", SWEEP_POINTS_MAX);
    char **grown = array_room(sweep->values, sweep->count, sizeof(*grown));
    if (!grown)
        return error_set(err, -ENOMEM, "out of memory");
    sweep->values = grown;
    char *value = strndup(text, length);
    if (!value)
        return error_set(err, -ENOMEM, "out of memory");
    sweep->values[sweep->count++] = value;
    return 0;
}

/* "FROM:TO:STEP" and nothing else. */
static bool range_scan(const char *text, double number[3]) {
    for (int i = 0; i < 3; i++) {
        char *end;
        number[i] = strtod(text, &end);
        if (end == text || *end != (i < 2 ? ':' : '\0') || !isfinite(number[i]))
            return false;
        text = end + 1;
    }
    return true;
}

static int range_add(struct sweep *sweep, const double number[3], struct sy_error *err) {
    double from = number[0], to = number[1], step = number[2], steps = floor((to - from) / step + ROUNDING);
    if (!(steps >= 0) || step == 0)
        return error_set(err, -EINVAL, "a step of %g does not lead from %g to %g", step, from, to);
    if (steps >= SWEEP_POINTS_MAX)
        return error_set(err, -EINVAL, "more than %d values", SWEEP_POINTS_MAX);
    int rc = 0;
    for (uint32_t i = 0; !rc && i <= (uint32_t)steps; i++) {
        char text[64];
        double value = from + i * step;
        if (fabs(value) < fabs(step) * ROUNDING)
            value = 0;
        bool whole = value == rint(value) && fabs(value) < 1e15; /* "10000000001", not "1e+10" */
        int length = snprintf(text, sizeof(text), whole ? "%.0f" : "%.10g", value);
        rc = value_add(sweep, text, (size_t)length, err);
    }
    return rc;
}

/* The length of a value: up to the next comma that is not inside brackets or quotes. */
static size_t value_length(const char *text) {
    int depth = 0;
    char quote = '\0';
    size_t at = 0;
    for (; text[at]; at++) {
        char c = text[at];
        if (quote)
            quote = c == quote ? '\0' : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        else if (c == ',' && depth <= 0)
            break;
    }
    return at;
}

static int list_add(struct sweep *sweep, const char *text, struct sy_error *err) {
    for (;;) {
        text += strspn(text, " ");
        size_t length = value_length(text);
        if (!length)
            return error_set(err, -EINVAL, "a value is empty");
        int rc = value_add(sweep, text, length, err);
        if (rc || !text[length])
            return rc;
        text += length + 1;
    }
}

int sweep_parse(const char *text, struct sweep *sweep, struct sy_error *err) {
    double number[3];
    const char *equals = strchr(text, '=');
    *sweep = (struct sweep){.key = NULL};
    if (!equals || equals == text || !equals[1])
        return error_set(err, -EINVAL, "'%s': expected KEY=FROM:TO:STEP or KEY=VALUE,VALUE,...", text);
    sweep->key = strndup(text, (size_t)(equals - text));
    if (!sweep->key)
        return error_set(err, -ENOMEM, "out of memory");
    struct sy_error why;
    int rc = range_scan(equals + 1, number) ? range_add(sweep, number, &why) : list_add(sweep, equals + 1, &why);
    return rc ? error_set(err, rc, "%s: %s", sweep->key, why.text) : 0;
}

void sweep_free(struct sweep *sweep) {
    for (uint32_t i = 0; i < sweep->count; i++)
        free(sweep->values[i]);
    free(sweep->values);
    free(sweep->key);
    *sweep = (struct sweep){.key = NULL};
}

uint32_t sweep_points(const struct sweep *sweeps, uint32_t count) {
    uint64_t points = 1;
    for (uint32_t i = 0; i < count && points <= SWEEP_POINTS_MAX; i++)
        points *= sweeps[i].count;
    return points <= SWEEP_POINTS_MAX ? (uint32_t)points : 0;
}

const char *sweep_value(const struct sweep *sweeps, uint32_t count, uint32_t which, uint32_t point) {
    for (uint32_t i = count - 1; i > which; i--)
        point /= sweeps[i].count;
    return sweeps[which].values[point % sweeps[which].count];
}
