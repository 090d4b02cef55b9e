/* ensemble_flatten.c - replaces steps whose models are ensembles by the steps of these ensembles. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/config/ensemble.h"

/* The tensor of the outer ensemble that its step takes as this input of the inner one, or gives as this output;
 * ENSEMBLE_NONE: none, or the tensor stays within the inner one. */
static uint32_t tensor_outside(const struct ensemble_step *outer, const struct ensemble *inner, uint32_t tensor) {
    const struct ensemble_tensor *t = &inner->tensors[tensor];
    bool input = tensor < inner->input_count;
    const struct ensemble_flow *flows = input ? outer->inputs : outer->outputs;
    uint32_t count = input ? outer->input_count : t->output != ENSEMBLE_NONE ? outer->output_count : 0;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(flows[i].name, t->name) == 0)
            return flows[i].tensor;
    return ENSEMBLE_NONE;
}

/* Fills `map`: the number in the flat ensemble of each tensor of the inner ensemble. */
static int tensors_map(struct ensemble *flat, const struct ensemble_step *outer, const struct ensemble *inner,
                       uint32_t map[ENSEMBLE_TENSORS_MAX], struct sy_error *err) {
    for (uint32_t t = 0; t < inner->tensor_count; t++) {
        map[t] = tensor_outside(outer, inner, t);
        if (map[t] != ENSEMBLE_NONE || t < inner->input_count) /* t is an optional input that is left out */
            continue;
        if (flat->tensor_count == ENSEMBLE_TENSORS_MAX)
            return ensemble_step_error(flat, outer, outer->line, outer->column, err,
                                       "with the tensors of its ensembles the ensemble has more than %d",
                                       ENSEMBLE_TENSORS_MAX);
        map[t] = flat->tensor_count++;
        flat->tensors[map[t]] = inner->tensors[t];
        flat->tensors[map[t]].output = ENSEMBLE_NONE;
    }
    return 0;
}

/* Appends a copy of a step to the flat ensemble. NULL: out of memory. */
static struct ensemble_step *step_copy(struct ensemble *flat, const struct ensemble_step *step, struct sy_error *err) {
    struct ensemble_step *to = &flat->steps[flat->step_count++];
    *to = *step;
    to->written = flat->step_count;
    to->after = 0;
    if (ensemble_step_room(flat, to, step->input_count, step->output_count, err))
        return NULL;
    memcpy(to->inputs, step->inputs, step->input_count * sizeof(to->inputs[0]));
    memcpy(to->outputs, step->outputs, step->output_count * sizeof(to->outputs[0]));
    return to;
}

/* Links the last step, whose flows are those of the flat ensemble. */
static void step_link(struct ensemble *flat) {
    uint32_t s = flat->step_count - 1;
    struct ensemble_step *to = &flat->steps[s];
    for (uint32_t i = 0; i < to->input_count; i++)
        if (flat->tensors[to->inputs[i].tensor].step != ENSEMBLE_NONE)
            to->after |= (uint64_t)1 << flat->tensors[to->inputs[i].tensor].step;
    if (to->when != ENSEMBLE_NONE)
        ensemble_when(flat, to, to->when);
    for (uint32_t i = 0; i < to->output_count; i++) {
        flat->tensors[to->outputs[i].tensor].step = s;
        flat->tensors[to->outputs[i].tensor].place = i;
    }
}

/* Makes a step of the inner ensemble a step of the flat one. */
static int step_move(struct ensemble *flat, const struct ensemble_step *outer, const struct ensemble_step *step,
                     const uint32_t map[ENSEMBLE_TENSORS_MAX], uint32_t inner_inputs, struct sy_error *err) {
    struct ensemble_step *moved = step_copy(flat, step, err);
    bool first = false; /* whether the step takes an input of the inner ensemble */
    if (!moved)
        return -ENOMEM;
    snprintf(moved->label, sizeof(moved->label), "%.11s.%.19s", outer->label, step->label);
    moved->line = outer->line;
    moved->column = outer->column;
    moved->input_count = 0;
    for (uint32_t i = 0; i < step->input_count; i++) {
        struct ensemble_flow flow = step->inputs[i];
        first |= flow.tensor < inner_inputs;
        flow.tensor = map[flow.tensor];
        flow.line = outer->line;
        flow.column = outer->column;
        if (flow.tensor != ENSEMBLE_NONE)
            moved->inputs[moved->input_count++] = flow;
    }
    if (!moved->input_count)
        return ensemble_step_error(flat, outer, outer->line, outer->column, err,
                                   "input_map gives nothing that step %s (%s) of that ensemble takes", step->label,
                                   step->model);
    for (uint32_t i = 0; i < moved->output_count; i++) {
        moved->outputs[i].tensor = map[moved->outputs[i].tensor];
        moved->outputs[i].line = outer->line;
        moved->outputs[i].column = outer->column;
    }
    moved->each = step->each == ENSEMBLE_NONE ? ENSEMBLE_NONE : map[step->each];
    moved->when = step->when == ENSEMBLE_NONE ? ENSEMBLE_NONE : map[step->when];
    if (outer->when != ENSEMBLE_NONE && first && moved->when != ENSEMBLE_NONE)
        return ensemble_step_error(flat, outer, outer->line, outer->column, err,
                                   "when: step %s (%s) of that ensemble has one of its own", step->label, step->model);
    if (outer->when != ENSEMBLE_NONE && moved->when == ENSEMBLE_NONE)
        moved->when = outer->when; /* a step with its own condition needs steps that then do not run */
    step_link(flat);
    return 0;
}

int ensemble_flatten(const struct ensemble *e, const struct ensemble *const *inner, struct ensemble **flat,
                     struct sy_error *err) {
    struct ensemble *f = calloc(1, sizeof(*f));
    uint32_t map[ENSEMBLE_TENSORS_MAX], steps = 0;
    int rc = 0;
    for (uint32_t s = 0; s < e->step_count; s++)
        steps += inner[s] ? inner[s]->step_count : 1;
    if (f && steps <= ENSEMBLE_STEPS_MAX)
        f->steps = calloc(steps, sizeof(*f->steps));
    if (steps > ENSEMBLE_STEPS_MAX)
        rc = error_set(err, -EINVAL, "%s: with the steps of its ensembles it has %u; at most %d may be", e->path, steps,
                       ENSEMBLE_STEPS_MAX);
    else if (!f || !f->steps)
        rc = error_set(err, -ENOMEM, "%s: out of memory", e->path);
    if (rc) {
        ensemble_free(f);
        return rc;
    }
    memcpy(f->path, e->path, sizeof(f->path));
    f->tensor_count = e->tensor_count;
    f->input_count = e->input_count;
    for (uint32_t t = 0; t < e->tensor_count; t++) {
        f->tensors[t] = e->tensors[t];
        f->tensors[t].step = ENSEMBLE_NONE;
    }
    for (uint32_t s = 0; s < e->step_count && !rc; s++) { /* a step's tensors are given before it */
        const struct ensemble_step *step = &e->steps[s];
        if (!inner[s]) {
            rc = step_copy(f, step, err) ? 0 : -ENOMEM;
            if (!rc)
                step_link(f);
            continue;
        }
        rc = tensors_map(f, step, inner[s], map, err);
        for (uint32_t i = 0; i < inner[s]->step_count && !rc; i++)
            rc = step_move(f, step, &inner[s]->steps[i], map, inner[s]->input_count, err);
    }
    if (rc)
        ensemble_free(f);
    else
        *flat = f;
    return rc;
}

static bool flows_same(const struct ensemble_flow *a, const struct ensemble_flow *b, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (a[i].tensor != b[i].tensor || strcmp(a[i].name, b[i].name) != 0)
            return false;
    return true;
}

bool ensemble_same(const struct ensemble *a, const struct ensemble *b) {
    bool same = a->step_count == b->step_count && a->tensor_count == b->tensor_count;
    for (uint32_t s = 0; s < a->step_count && same; s++) {
        const struct ensemble_step *x = &a->steps[s], *y = &b->steps[s];
        same = strcmp(x->model, y->model) == 0 && strcmp(x->label, y->label) == 0 && x->version == y->version &&
               x->after == y->after && x->when == y->when && x->each == y->each && x->each_most == y->each_most &&
               x->beyond == y->beyond && x->input_count == y->input_count && x->output_count == y->output_count &&
               flows_same(x->inputs, y->inputs, x->input_count) && flows_same(x->outputs, y->outputs, x->output_count);
    }
    return same;
}
