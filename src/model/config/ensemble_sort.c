/* ensemble_sort.c - finds an order in which an ensemble's steps may run. */
#include <errno.h>
#include <stdlib.h>

#include "model/config/ensemble.h"

#define CIRCLE_BYTES 300 /* bytes of the list of steps in a sentence */

static uint64_t bit(uint32_t step) {
    return (uint64_t)1 << step;
}

/* Names the steps of a circle. Each step that is left waits for another step that is left: so going from step to step
 * comes back to a step that was seen before. */
static int circle_error(const struct ensemble *e, uint64_t done, struct sy_error *err) {
    uint32_t way[ENSEMBLE_STEPS_MAX + 1], length = 0, first = 0;
    uint64_t seen = 0;
    for (uint32_t s = (uint32_t)__builtin_ctzll(~done);; s = (uint32_t)__builtin_ctzll(e->steps[s].after & ~done)) {
        way[length++] = s;
        if (seen & bit(s))
            break;
        seen |= bit(s);
    }
    while (way[first] != way[length - 1])
        first++;
    uint32_t lowest = first; /* step at which the sentence begins */
    for (uint32_t i = first; i < length - 1; i++)
        if (e->steps[way[i]].written < e->steps[way[lowest]].written)
            lowest = i;
    char text[CIRCLE_BYTES] = "";
    size_t at = 0;
    uint32_t round = length - 1 - first;
    for (uint32_t i = 0; i <= round && at < sizeof(text); i++) {
        const struct ensemble_step *step = &e->steps[way[first + (lowest - first + i) % round]];
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u (%s)", i ? ", which waits for " : "", step->written,
                               step->model);
    }
    const struct ensemble_step *step = &e->steps[way[lowest]];
    return ensemble_step_error(e, step, step->line, step->column, err, "the steps wait for each other in a circle: %s",
                               text);
}

int ensemble_sort(struct ensemble *e, struct sy_error *err) {
    uint32_t from[ENSEMBLE_STEPS_MAX], to[ENSEMBLE_STEPS_MAX];
    uint64_t done = 0;
    for (uint32_t i = 0; i < e->step_count; i++) {
        uint32_t first = ENSEMBLE_NONE; /* first step in the file that may run after the steps `done` */
        for (uint32_t s = 0; s < e->step_count; s++)
            if (!(done & bit(s)) && !(e->steps[s].after & ~done) &&
                (first == ENSEMBLE_NONE || e->steps[s].written < e->steps[first].written))
                first = s;
        if (first == ENSEMBLE_NONE)
            return circle_error(e, done, err);
        from[i] = first;
        to[first] = i;
        done |= bit(first);
    }
    struct ensemble_step *sorted = calloc(e->step_count, sizeof(*sorted));
    if (!sorted)
        return error_set(err, -ENOMEM, "%s: out of memory", e->path);
    for (uint32_t i = 0; i < e->step_count; i++) {
        sorted[i] = e->steps[from[i]];
        sorted[i].after = 0;
        for (uint64_t after = e->steps[from[i]].after; after; after &= after - 1)
            sorted[i].after |= bit(to[__builtin_ctzll(after)]);
    }
    for (uint32_t t = 0; t < e->tensor_count; t++)
        if (e->tensors[t].step != ENSEMBLE_NONE)
            e->tensors[t].step = to[e->tensors[t].step];
    free(e->steps);
    e->steps = sorted;
    return 0;
}
