/* ensemble.c - reads ensemble_scheduling of config.pbtxt into a graph of steps and tensors. */
#include "model/config/ensemble.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/utf8.h"
#include "model/config/model_config.h"
#include "model/config/model_name.h"
#include "model/config/version_choice.h"

_Static_assert(ENSEMBLE_STEPS_MAX <= 64, "a step is a bit of `after`");

struct reader {
    struct ensemble *e;
    const struct model_config *config;
    struct sy_error *err;
};

/* ---- mistakes ---- */

int ensemble_step_error(const struct ensemble *e, const struct ensemble_step *step, uint32_t line, uint32_t column,
                        struct sy_error *err, const char *fmt, ...) {
    char sentence[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return error_set(err, -EINVAL, "%s:%u:%u: step %s%s%s%s: %.400s", e->path, line, column, step->label,
                     step->model[0] ? " (" : "", step->model, step->model[0] ? ")" : "", sentence);
}

#define node_error(r, step, node, ...)                                                                                 \
    ensemble_step_error((r)->e, step, (node)->line, (node)->column, (r)->err, __VA_ARGS__)

/* ---- tensors ---- */

uint32_t ensemble_tensor_find(const struct ensemble *e, const char *name) {
    for (uint32_t t = 0; t < e->tensor_count; t++)
        if (strcmp(e->tensors[t].name, name) == 0)
            return t;
    return ENSEMBLE_NONE;
}

uint32_t ensemble_tensor_of(struct ensemble *e, const char *name) {
    uint32_t t = ensemble_tensor_find(e, name);
    if (t != ENSEMBLE_NONE || e->tensor_count == ENSEMBLE_TENSORS_MAX)
        return t;
    t = e->tensor_count++;
    e->tensors[t] = (struct ensemble_tensor){.step = ENSEMBLE_NONE, .output = ENSEMBLE_NONE};
    snprintf(e->tensors[t].name, sizeof(e->tensors[t].name), "%s", name);
    return t;
}

/* ---- a step ---- */

/* Reads a name, which may be neither empty nor too long, of a step or of an entry of its maps. */
static int name_read(const struct reader *r, const struct ensemble_step *step, const struct pbtxt_node *in,
                     const char *field, char *name, size_t bytes) {
    const struct pbtxt_node *node = pbtxt_find(in, field);
    if (!node || !node->length)
        return node_error(r, step, in, "%s: %s is missing", in->name, field);
    if (node->length >= bytes)
        return node_error(r, step, node, "%s: longer than %zu bytes", field, bytes - 1);
    if (memchr(node->text, '\0', node->length) || !utf8_is_valid(node->text))
        return node_error(r, step, node, "%s: not UTF-8, or a zero byte in it", field);
    memcpy(name, node->text, node->length + 1);
    return 0;
}

/* Reads one entry of input_map or output_map. */
static int flow_read(struct reader *r, const struct ensemble_step *step, const struct pbtxt_node *node,
                     const char *what, struct ensemble_flow *flows, uint32_t *count) {
    char tensor[TENSOR_NAME_MAX];
    struct ensemble_flow *flow = &flows[*count];
    int rc = name_read(r, step, node, "key", flow->name, sizeof(flow->name));
    if (!rc)
        rc = name_read(r, step, node, "value", tensor, sizeof(tensor));
    if (rc)
        return rc;
    for (uint32_t i = 0; i < *count; i++)
        if (strcmp(flows[i].name, flow->name) == 0)
            return node_error(r, step, node, "%s: the model's %s '%s' is given twice", node->name, what, flow->name);
    flow->tensor = ensemble_tensor_of(r->e, tensor);
    flow->line = node->line;
    flow->column = node->column;
    if (flow->tensor == ENSEMBLE_NONE)
        return node_error(r, step, node, "'%s' is one tensor too many; an ensemble has at most %d", tensor,
                          ENSEMBLE_TENSORS_MAX);
    ++*count;
    return 0;
}

static int flows_read(struct reader *r, const struct ensemble_step *step, const struct pbtxt_node *node,
                      const char *map, const char *what, struct ensemble_flow *flows, uint32_t *count) {
    int rc = 0;
    for (const struct pbtxt_node *entry = pbtxt_find(node, map); entry && !rc; entry = pbtxt_next(entry))
        rc = *count < TENSORS_MAX ? flow_read(r, step, entry, what, flows, count)
                                  : node_error(r, step, entry, "%s: more than %d entries", entry->name, TENSORS_MAX);
    return rc || *count ? rc : node_error(r, step, node, "%s is missing", map);
}

/* The number of entries of a map, counted up to TENSORS_MAX. */
static uint32_t entries_of(const struct pbtxt_node *node, const char *map) {
    uint32_t count = 0;
    for (const struct pbtxt_node *entry = pbtxt_find(node, map); entry && count < TENSORS_MAX;
         entry = pbtxt_next(entry))
        count++;
    return count;
}

static int step_read(struct reader *r, const struct pbtxt_node *node, struct ensemble_step *step) {
    const struct pbtxt_node *name = pbtxt_find(node, "model_name");
    char model[MODEL_NAME_MAX];
    step->line = node->line;
    step->column = node->column;
    step->each = step->when = ENSEMBLE_NONE;
    if (!name || !name->length)
        return node_error(r, step, node, "model_name is missing");
    int rc = name_read(r, step, node, "model_name", model, sizeof(model));
    if (rc)
        return rc;
    if (!model_name_is_valid(model))
        return node_error(r, step, name, "'%s' will not do as a model's name: expected " MODEL_NAME_EXPECTED, model);
    memcpy(step->model, model, sizeof(model));
    const struct pbtxt_node *wanted = pbtxt_find(node, "model_version");
    struct sy_error why;
    int64_t version = -1; /* as no version at all: the latest */
    if (wanted && pbtxt_get_int(r->e->path, wanted, -1, VERSION_MAX, &version, &why) != 0)
        version = 0;
    if (version == 0)
        return node_error(r, step, wanted,
                          "model_version: '%.30s' is neither -1 (the latest) nor a version from 1 to %u", wanted->text,
                          VERSION_MAX);
    step->version = version > 0 ? (uint32_t)version : 0;
    rc = ensemble_step_room(r->e, step, entries_of(node, "input_map"), entries_of(node, "output_map"), r->err);
    if (!rc)
        rc = flows_read(r, step, node, "input_map", "input", step->inputs, &step->input_count);
    if (!rc)
        rc = flows_read(r, step, node, "output_map", "output", step->outputs, &step->output_count);
    return rc;
}

int ensemble_step_room(const struct ensemble *e, struct ensemble_step *step, uint32_t inputs, uint32_t outputs,
                       struct sy_error *err) {
    step->inputs = calloc(inputs ? inputs : 1, sizeof(*step->inputs));
    step->outputs = calloc(outputs ? outputs : 1, sizeof(*step->outputs));
    return step->inputs && step->outputs ? 0 : error_set(err, -ENOMEM, "%s: out of memory", e->path);
}

static int steps_read(struct reader *r, const struct pbtxt_node *scheduling) {
    const struct pbtxt_node *first = pbtxt_find(scheduling, "step");
    uint32_t count = 0;
    int rc = 0;
    for (const struct pbtxt_node *node = first; node; node = pbtxt_next(node), count++)
        if (count == ENSEMBLE_STEPS_MAX)
            return pbtxt_error(r->e->path, node, r->err, "step: an ensemble has at most %d steps", ENSEMBLE_STEPS_MAX);
    if (!count)
        return pbtxt_error(r->e->path, scheduling, r->err, "ensemble_scheduling: it has no step");
    r->e->steps = calloc(count, sizeof(*r->e->steps));
    if (!r->e->steps)
        return error_set(r->err, -ENOMEM, "%s: out of memory", r->e->path);
    for (const struct pbtxt_node *node = first; node && !rc; node = pbtxt_next(node)) {
        struct ensemble_step *step = &r->e->steps[r->e->step_count++];
        step->written = r->e->step_count;
        snprintf(step->label, sizeof(step->label), "%u", step->written);
        rc = step_read(r, node, step);
    }
    return rc;
}

/* ---- who gives what ---- */

int ensemble_link(struct ensemble *e, struct sy_error *err) {
    for (uint32_t s = 0; s < e->step_count; s++) {
        const struct ensemble_step *step = &e->steps[s];
        for (uint32_t i = 0; i < step->output_count; i++) {
            const struct ensemble_flow *flow = &step->outputs[i];
            struct ensemble_tensor *tensor = &e->tensors[flow->tensor];
            if (flow->tensor < e->input_count)
                return ensemble_step_error(e, step, flow->line, flow->column, err,
                                           "it gives '%s', which is an input of the ensemble", tensor->name);
            if (tensor->step != ENSEMBLE_NONE)
                return ensemble_step_error(e, step, flow->line, flow->column, err,
                                           "it gives '%s', as step %u (%s) does", tensor->name,
                                           e->steps[tensor->step].written, e->steps[tensor->step].model);
            tensor->step = s;
            tensor->place = i;
        }
    }
    for (uint32_t s = 0; s < e->step_count; s++) {
        struct ensemble_step *step = &e->steps[s];
        for (uint32_t i = 0; i < step->input_count; i++) {
            const struct ensemble_flow *flow = &step->inputs[i];
            const struct ensemble_tensor *tensor = &e->tensors[flow->tensor];
            if (flow->tensor >= e->input_count && tensor->step == ENSEMBLE_NONE)
                return ensemble_step_error(e, step, flow->line, flow->column, err,
                                           "it takes '%s', which no step gives and which is no input of the ensemble",
                                           tensor->name);
            if (tensor->step != ENSEMBLE_NONE)
                step->after |= (uint64_t)1 << tensor->step;
        }
    }
    return 0;
}

static int graph_read(struct reader *r, const struct pbtxt_node *scheduling) {
    if (!r->config->input_count || !r->config->output_count)
        return pbtxt_error(r->e->path, scheduling, r->err, "ensemble_scheduling: the ensemble has no %s",
                           r->config->input_count ? "output" : "input");
    /* the inputs and outputs are the first tensors, so that there is room for all */
    _Static_assert(2 * TENSORS_MAX <= ENSEMBLE_TENSORS_MAX, "ensemble_tensor_of() finds room");
    for (uint32_t i = 0; i < r->config->input_count; i++) {
        uint32_t t = ensemble_tensor_of(r->e, r->config->inputs[i].name);
        r->e->tensors[t].place = i;
        r->e->tensors[t].line = r->config->inputs[i].line;
        r->e->tensors[t].column = r->config->inputs[i].column;
    }
    r->e->input_count = r->config->input_count;
    for (uint32_t i = 0; i < r->config->output_count; i++)
        r->e->tensors[ensemble_tensor_of(r->e, r->config->outputs[i].name)].output = i;
    int rc = steps_read(r, scheduling);
    if (!rc)
        rc = ensemble_link(r->e, r->err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < r->config->output_count; i++) {
        const struct model_config_tensor *output = &r->config->outputs[i];
        if (r->e->tensors[ensemble_tensor_find(r->e, output->name)].step == ENSEMBLE_NONE)
            return pbtxt_error(r->e->path, output, r->err, "output '%s': no step gives it", output->name);
    }
    return ensemble_sort(r->e, r->err);
}

int ensemble_read(const char *origin, const struct pbtxt_node *root, const struct model_config *config,
                  struct ensemble **ensemble, struct sy_error *err) {
    const struct pbtxt_node *scheduling = pbtxt_find(root, "ensemble_scheduling");
    struct ensemble *e = calloc(1, sizeof(*e));
    if (!e)
        return error_set(err, -ENOMEM, "%s: out of memory", origin);
    snprintf(e->path, sizeof(e->path), "%s", origin);
    struct reader r = {.e = e, .config = config, .err = err};
    int rc = graph_read(&r, scheduling ? scheduling : root);
    if (rc)
        ensemble_free(e);
    else
        *ensemble = e;
    return rc;
}

void ensemble_free(struct ensemble *ensemble) {
    if (!ensemble)
        return;
    for (uint32_t s = 0; s < ensemble->step_count; s++) {
        free(ensemble->steps[s].inputs);
        free(ensemble->steps[s].outputs);
    }
    free(ensemble->steps);
    free(ensemble);
}
