/* ensemble_description.c - graphs to JSON and back. Steps are in the order of their file; tensors go by their names. */
#include "model/repository/ensemble_description.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/config/ensemble.h"
#include "model/config/model_name.h"

#define STEP(member, name, kind, scope, ...) FIELD(struct ensemble_step, member, name, kind, scope, __VA_ARGS__)
static const char *const beyond_words[] = {[ENSEMBLE_REFUSE] = "refuse", [ENSEMBLE_CUT] = "cut"};
static const struct field step_fields[] = {
    STEP(model, "model", FIELD_TEXT, OF_REQUESTS),
    STEP(version, "version", FIELD_U32, OF_REQUESTS, FROM_TO(0, UINT32_MAX)),
    STEP(each_most, "limit", FIELD_U32, OF_REQUESTS, FROM_TO(0, ENSEMBLE_EACH_MAX)),
    STEP(beyond, "beyond", FIELD_WORD, OF_REQUESTS, .most = ARRAY_COUNT(beyond_words) - 1, .words = beyond_words),
    STEP(line, "line", FIELD_U32, OF_MACHINE, FROM_TO(0, UINT32_MAX)),
    STEP(column, "column", FIELD_U32, OF_MACHINE, FROM_TO(0, UINT32_MAX)),
};

#define FLOW(member, kind, scope, ...) FIELD(struct ensemble_flow, member, #member, kind, scope, __VA_ARGS__)
static const struct field flow_fields[] = {
    FLOW(name, FIELD_TEXT, OF_REQUESTS),
    FLOW(line, FIELD_U32, OF_MACHINE, FROM_TO(0, UINT32_MAX)),
    FLOW(column, FIELD_U32, OF_MACHINE, FROM_TO(0, UINT32_MAX)),
};

/* ---- writing ---- */

static json_t *tensor_pack(const struct ensemble *e, uint32_t tensor) {
    return tensor == ENSEMBLE_NONE ? json_null() : json_string(e->tensors[tensor].name);
}

static json_t *flows_pack(struct field_writer *w, const struct ensemble *e, const struct ensemble_flow *flows,
                          uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_t *flow = json_object();
        FIELDS_PUT(w, flow, flow_fields, &flows[i]);
        field_put(w, flow, "tensor", tensor_pack(e, flows[i].tensor));
        field_append(w, list, flow);
    }
    return list;
}

json_t *ensemble_description_pack(struct field_writer *w, const struct ensemble *e) {
    json_t *object = json_object(), *steps = json_array();
    for (uint32_t number = 1; number <= e->step_count; number++) {
        const struct ensemble_step *step = e->steps;
        while (step->written != number)
            step++;
        json_t *one = json_object();
        FIELDS_PUT(w, one, step_fields, step);
        field_put(w, one, "inputs", flows_pack(w, e, step->inputs, step->input_count));
        field_put(w, one, "outputs", flows_pack(w, e, step->outputs, step->output_count));
        field_put(w, one, "for_each", tensor_pack(e, step->each));
        field_put(w, one, "when", tensor_pack(e, step->when));
        field_append(w, steps, one);
    }
    field_put(w, object, "steps", steps);
    return object;
}

/* ---- reading ---- */

static int flow_read(struct field_reader *r, const json_t *object, struct ensemble *e, struct ensemble_flow *flow) {
    const char *tensor = NULL;
    int rc = FIELDS_READ(r, object, flow_fields, flow);
    rc = rc ? rc : field_string(r, object, "tensor", TENSOR_NAME_MAX, &tensor);
    if (rc)
        return rc;
    if (!*flow->name || !*tensor)
        return field_wrong(r, *flow->name ? "tensor" : "name", "expected a name");
    flow->tensor = ensemble_tensor_of(e, tensor);
    return flow->tensor != ENSEMBLE_NONE
               ? 0
               : field_wrong(r, "tensor", "'%.100s' is one tensor too many; an ensemble has at most %d", tensor,
                             ENSEMBLE_TENSORS_MAX);
}

/* `kind` is "inputs" or "outputs". */
static int flows_read(struct field_reader *r, const json_t *step, uint32_t number, const char *kind, struct ensemble *e,
                      struct ensemble_flow **all, uint32_t *count) {
    struct ensemble_flow *flows;
    char place[FIELD_PLACE_BYTES / 2];
    json_t *list, *object;
    uint32_t most = 0;
    snprintf(place, sizeof(place), "ensemble.steps[%u].%s", number, kind);
    int rc = field_list(r, step, kind, 1, TENSORS_MAX, &list, &most);
    *all = flows = rc ? NULL : calloc(most, sizeof(*flows));
    if (!rc && !flows)
        rc = error_set(r->err, -ENOMEM, "no memory for an ensemble");
    for (uint32_t i = 0; i < most && !rc; i++) {
        rc = field_object_at(r, list, place, i, &object);
        rc = rc ? rc : flow_read(r, object, e, &flows[i]);
        for (uint32_t k = 0; k < i && !rc; k++)
            if (strcmp(flows[k].name, flows[i].name) == 0)
                rc = field_wrong(r, "name", "'%.100s' is given twice", flows[i].name);
        *count = i + 1;
    }
    return rc;
}

/* The tensor that an entry names; ENSEMBLE_NONE for null. */
static int tensor_read(struct field_reader *r, const json_t *object, const char *name, const struct ensemble *e,
                       uint32_t *tensor) {
    const char *text = NULL;
    *tensor = ENSEMBLE_NONE;
    if (json_is_null(json_object_get(object, name)))
        return 0;
    int rc = field_string(r, object, name, TENSOR_NAME_MAX, &text);
    if (rc)
        return rc;
    *tensor = ensemble_tensor_find(e, text);
    return *tensor != ENSEMBLE_NONE ? 0 : field_wrong(r, name, "there is no tensor '%.100s'", text);
}

static int step_read(struct field_reader *r, const json_t *list, uint32_t i, struct ensemble *e) {
    struct ensemble_step *step = &e->steps[i];
    json_t *object;
    int rc = field_object_at(r, list, "ensemble.steps", i, &object);
    step->written = i + 1;
    snprintf(step->label, sizeof(step->label), "%u", step->written);
    step->each = step->when = ENSEMBLE_NONE;
    rc = rc ? rc : FIELDS_READ(r, object, step_fields, step);
    if (!rc && !model_name_is_valid(step->model))
        rc = field_wrong(r, "model", "expected " MODEL_NAME_EXPECTED);
    rc = rc ? rc : flows_read(r, object, i, "inputs", e, &step->inputs, &step->input_count);
    rc = rc ? rc : field_object_at(r, list, "ensemble.steps", i, &object); /* names in sentences are the step's again */
    return rc ? rc : flows_read(r, object, i, "outputs", e, &step->outputs, &step->output_count);
}

/* Reads what symphony.yaml has added to a step, once the giver of each tensor is known. */
static int settings_read(struct field_reader *r, const json_t *list, uint32_t i, struct ensemble *e) {
    struct ensemble_step *step = &e->steps[i];
    json_t *object;
    uint32_t when;
    int rc = field_object_at(r, list, "ensemble.steps", i, &object);
    rc = rc ? rc : tensor_read(r, object, "for_each", e, &step->each);
    if (!rc && step->each != ENSEMBLE_NONE && (!ensemble_step_takes(step, step->each) || !step->each_most))
        rc = field_wrong(r, "for_each", "expected a tensor that the step takes, and a limit");
    rc = rc ? rc : tensor_read(r, object, "when", e, &when);
    if (!rc && when != ENSEMBLE_NONE)
        ensemble_when(e, step, when);
    return rc;
}

/* The ensemble's inputs become its first tensors. */
static int signature_add(struct field_reader *r, const struct signature *s, struct ensemble *e) {
    for (uint32_t i = 0; i < s->input_count; i++) {
        if (ensemble_tensor_of(e, s->inputs[i].name) != i)
            return field_wrong(r, "inputs", "'%.100s' is given twice", s->inputs[i].name);
        e->tensors[i].place = i;
    }
    e->input_count = s->input_count;
    for (uint32_t i = 0; i < s->output_count; i++) {
        struct ensemble_tensor *tensor = &e->tensors[ensemble_tensor_of(e, s->outputs[i].name)];
        if (tensor->output != ENSEMBLE_NONE)
            return field_wrong(r, "outputs", "'%.100s' is given twice", s->outputs[i].name);
        tensor->output = i;
    }
    return 0;
}

static int graph_read(struct field_reader *r, const json_t *root, const struct served_model *model,
                      struct ensemble *e) {
    json_t *list;
    uint32_t count = 0;
    snprintf(e->path, sizeof(e->path), "%s/config.pbtxt", model->name);
    int rc = signature_add(r, &model->signature, e);
    strcpy(r->place, "ensemble.");
    rc = rc ? rc : field_list(r, root, "steps", 1, ENSEMBLE_STEPS_MAX, &list, &count);
    e->steps = rc ? NULL : calloc(count, sizeof(*e->steps));
    if (!rc && !e->steps)
        rc = error_set(r->err, -ENOMEM, "no memory for an ensemble");
    for (uint32_t i = 0; i < count && !rc; i++) {
        e->step_count = i + 1;
        rc = step_read(r, list, i, e);
    }
    rc = rc ? rc : ensemble_link(e, r->err);
    for (uint32_t i = 0; i < count && !rc; i++)
        rc = settings_read(r, list, i, e);
    r->place[0] = '\0';
    for (uint32_t t = 0; t < e->tensor_count && !rc; t++)
        if (e->tensors[t].output != ENSEMBLE_NONE && e->tensors[t].step == ENSEMBLE_NONE)
            rc = field_wrong(r, "outputs", "no step gives '%.100s'", e->tensors[t].name);
    return rc ? rc : ensemble_finish(e, r->err);
}

int ensemble_description_read(struct field_reader *r, const json_t *object, struct served_model *model) {
    struct ensemble *e = calloc(1, sizeof(*e));
    if (!e)
        return error_set(r->err, -ENOMEM, "no memory for an ensemble");
    int rc = graph_read(r, object, model, e);
    rc = rc ? rc : served_model_ensemble_take(model, e, r->err);
    if (rc)
        ensemble_free(e);
    return rc;
}
