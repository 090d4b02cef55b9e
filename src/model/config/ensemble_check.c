/* ensemble_check.c - makes the signature of an ensemble, and checks whether its steps' models fit together. */
#include <errno.h>
#include <string.h>

#include "core/util/utf8.h"
#include "model/config/ensemble.h"
#include "model/config/model_config.h"
#include "model/config/served_model.h"
#include "model/config/symphony_yaml.h"

#define DIMS_BYTES 100

/* ---- the ensemble's signature ---- */

static int tensor_error(const struct model_config *config, const struct model_config_tensor *tensor, const char *what,
                        struct sy_error *err, const char *sentence) {
    return pbtxt_error(config->path, tensor, err, "%s '%s': %s", what, tensor->name, sentence);
}

static int spec_fill(const struct model_config *config, const struct model_config_tensor *tensor, const char *what,
                     struct tensor_spec *spec, struct sy_error *err) {
    uint32_t skip = config->max_batch_size > 0 ? 1 : 0;
    if (tensor->type == DATATYPE_INVALID)
        return tensor_error(config, tensor, what, err, "an ensemble's needs a data_type");
    if (!utf8_is_valid(tensor->name))
        return tensor_error(config, tensor, what, err, "the name is not UTF-8");
    if (!tensor->has_dims)
        return tensor_error(config, tensor, what, err, "an ensemble's needs dims");
    if (tensor->dim_count + skip > TENSOR_DIMS_MAX)
        return tensor_error(config, tensor, what, err, "too many dimensions, the batch's included");
    *spec = (struct tensor_spec){.type = tensor->type, .dim_count = tensor->dim_count + skip, .dims = {-1}};
    memcpy(spec->name, tensor->name, sizeof(spec->name));
    memcpy(spec->dims + skip, tensor->dims, tensor->dim_count * sizeof(spec->dims[0]));
    return 0;
}

int ensemble_signature(const struct model_config *config, struct signature *signature, struct sy_error *err) {
    int rc = 0;
    *signature = (struct signature){.input_count = config->input_count,
                                    .output_count = config->output_count,
                                    .batched = config->max_batch_size > 0,
                                    .inputs = signature->inputs,
                                    .outputs = signature->outputs};
    for (uint32_t i = 0; i < config->input_count && !rc; i++) {
        struct tensor_spec *spec = &signature->inputs[i];
        rc = spec_fill(config, &config->inputs[i], "input", spec, err);
        signature->inputs_optional |= config->inputs[i].optional ? tensor_bit(i) : 0;
        for (uint32_t d = signature->batched ? 1 : 0; !rc && d < spec->dim_count; d++)
            signature->variable_shapes |= spec->dims[d] == -1;
    }
    for (uint32_t i = 0; i < config->output_count && !rc; i++)
        rc = spec_fill(config, &config->outputs[i], "output", &signature->outputs[i], err);
    signature->variable_shapes |= signature->inputs_optional != 0;
    return rc;
}

/* ---- its steps' models ---- */

/* A tensor as it is in a model, or in the ensemble. */
struct checked_tensor {
    const struct tensor_spec *spec;
    bool batched; /* whether the first dimension is the batch's */
};

struct checker {
    const struct ensemble *e;
    const struct served_model *ensemble;
    struct checked_tensor given[ENSEMBLE_TENSORS_MAX]; /* tensors as they are where they are given, by number */
    struct sy_error *err;
};

#define FLOW_ERROR(c, step, flow, ...)                                                                                 \
    ensemble_step_error((c)->e, step, (flow)->line, (flow)->column, (c)->err, __VA_ARGS__)

static int flow_find(const struct checker *c, const struct ensemble_step *step, const struct ensemble_flow *flow,
                     const char *what, const struct tensor_spec *specs, uint32_t count) {
    int at = tensor_spec_find(specs, count, flow->name, strlen(flow->name));
    if (at >= 0)
        return at;
    return FLOW_ERROR(c, step, flow, "the model has no %s '%.100s' (it has %u, the first is '%.100s')", what,
                      flow->name, count, count ? specs[0].name : "");
}

/* Whether two shapes fit: a dimension that either side leaves open fits any size. `lead`: number of leading dimensions
 * that only the first shape has. */
static bool dims_fit(const struct tensor_spec *one, uint32_t lead, const struct tensor_spec *other) {
    bool fit = one->dim_count == other->dim_count + lead;
    for (uint32_t d = 0; fit && d < other->dim_count; d++)
        fit = one->dims[d + lead] == -1 || other->dims[d] == -1 || one->dims[d + lead] == other->dims[d];
    return fit;
}

/* In an ensemble without batching a batch dimension that only one side has is one item: the run adds it or takes it off
 * (front/request/ensemble_tensors.c). A step with for_each takes its tensors by rows, as they are. */
static bool shapes_fit(const struct checker *c, const struct ensemble_step *step, const struct checked_tensor *one,
                       const struct checked_tensor *other) {
    if (dims_fit(one->spec, 0, other->spec))
        return true;
    if (c->ensemble->signature.batched || step->each != ENSEMBLE_NONE || one->batched == other->batched)
        return false;
    return one->batched ? dims_fit(one->spec, 1, other->spec) : dims_fit(other->spec, 1, one->spec);
}

/* Checks a tensor of a step. `mine` is the input or output of the step's model, `other` the tensor elsewhere. */
static int specs_fit(const struct checker *c, const struct ensemble_step *step, const struct ensemble_flow *flow,
                     const char *what, const struct checked_tensor *mine, const struct checked_tensor *other) {
    const char *tensor = c->e->tensors[flow->tensor].name, *name = mine->spec->name;
    char dims[DIMS_BYTES], others[DIMS_BYTES];
    if (mine->spec->type != other->spec->type)
        return FLOW_ERROR(c, step, flow, "the model's %s '%.100s' is %s, but '%.100s' is %s", what, name,
                          datatype_name(mine->spec->type), tensor, datatype_name(other->spec->type));
    if (shapes_fit(c, step, mine, other))
        return 0;
    dims_format(mine->spec->dims, 0, mine->spec->dim_count, dims, sizeof(dims));
    dims_format(other->spec->dims, 0, other->spec->dim_count, others, sizeof(others));
    return FLOW_ERROR(c, step, flow, "the model's %s '%.100s' is %s, but '%.100s' is %s", what, name, dims, tensor,
                      others);
}

static int outputs_check(struct checker *c, const struct ensemble_step *step, const struct signature *s) {
    const struct signature *whole = &c->ensemble->signature;
    int rc = 0;
    for (uint32_t i = 0; i < step->output_count && !rc; i++) {
        const struct ensemble_flow *flow = &step->outputs[i];
        uint32_t output = c->e->tensors[flow->tensor].output;
        int at = flow_find(c, step, flow, "output", s->outputs, s->output_count);
        if (at < 0)
            return at;
        struct checked_tensor *given = &c->given[flow->tensor];
        *given = (struct checked_tensor){&s->outputs[at], s->batched};
        if (output != ENSEMBLE_NONE)
            rc = specs_fit(c, step, flow, "output", given,
                           &(struct checked_tensor){&whole->outputs[output], whole->batched});
    }
    return rc;
}

/* Whether a tensor is an input that the client may leave out. */
static bool may_miss(const struct checker *c, uint32_t tensor) {
    const struct ensemble_tensor *t = &c->e->tensors[tensor];
    return t->step == ENSEMBLE_NONE && c->ensemble->signature.inputs_optional >> t->place & 1;
}

static int inputs_check(const struct checker *c, const struct ensemble_step *step, const struct served_model *model) {
    const struct signature *s = served_model_offered(model);
    tensor_set given = 0;
    int rc = 0;
    for (uint32_t i = 0; i < step->input_count && !rc; i++) {
        const struct ensemble_flow *flow = &step->inputs[i];
        int at = flow_find(c, step, flow, "input", s->inputs, s->input_count);
        if (at < 0)
            return at;
        given |= tensor_bit(at);
        if (model->prepared >> at & 1 && c->e->tensors[flow->tensor].step != ENSEMBLE_NONE)
            return FLOW_ERROR(c, step, flow,
                              "the model prepares its input '%.100s' (prepare in its " SYMPHONY_YAML_FILE
                              "), which can only be an input of the ensemble, and '%.100s' is another step's",
                              flow->name, c->e->tensors[flow->tensor].name);
        if (may_miss(c, flow->tensor) && !(s->inputs_optional >> at & 1))
            return FLOW_ERROR(c, step, flow,
                              "the ensemble's input '%.100s' is optional, but the model's '%.100s' is not",
                              c->e->tensors[flow->tensor].name, flow->name);
        rc = specs_fit(c, step, flow, "input", &(struct checked_tensor){&s->inputs[at], s->batched},
                       &c->given[flow->tensor]);
    }
    for (uint32_t i = 0; i < s->input_count && !rc; i++)
        if (!(given >> i & 1) && !(s->inputs_optional >> i & 1))
            rc = FLOW_ERROR(c, step, step, "input_map lacks the model's input '%s'", s->inputs[i].name);
    return rc;
}

/* Checks the settings of a step in symphony.yaml, and the number of rows that the step may get. */
static int rows_check(const struct checker *c, const struct ensemble_step *step, const struct served_model *model) {
    const struct served_model *whole = c->ensemble;
    if (step->each != ENSEMBLE_NONE && !model->signature.batched)
        return FLOW_ERROR(c, step, step, "for_each: the model has no batch dimension");
    if (model->prepared && (step->each != ENSEMBLE_NONE || (model->signature.batched && !whole->signature.batched)))
        return FLOW_ERROR(c, step, step,
                          "the model prepares its inputs (prepare in its " SYMPHONY_YAML_FILE "), but %s",
                          step->each != ENSEMBLE_NONE ? "the step is run for each row"
                                                      : "the ensemble has no batch dimension, and the model has one");
    if (step->each != ENSEMBLE_NONE && may_miss(c, step->each))
        return FLOW_ERROR(c, step, step, "for_each: '%s' is optional", c->e->tensors[step->each].name);
    if (step->each == ENSEMBLE_NONE && whole->signature.batched && model->signature.batched &&
        model->batch_max < whole->batch_max)
        return FLOW_ERROR(c, step, step, "the ensemble's max_batch_size is %u, but the model's is %u", whole->batch_max,
                          model->batch_max);
    if (step->when == ENSEMBLE_NONE)
        return 0;
    if (c->given[step->when].spec->type != DATATYPE_BOOL)
        return FLOW_ERROR(c, step, step, "when: '%s' is %s, not BOOL", c->e->tensors[step->when].name,
                          datatype_name(c->given[step->when].spec->type));
    if (may_miss(c, step->when))
        return FLOW_ERROR(c, step, step, "when: '%s' is optional", c->e->tensors[step->when].name);
    return 0;
}

int ensemble_check(const struct served_model *whole, const struct ensemble *ensemble,
                   const struct served_model *const *models, struct sy_error *err) {
    struct checker c = {.e = ensemble, .ensemble = whole, .err = err};
    int rc = 0;
    for (uint32_t t = 0; t < c.e->tensor_count; t++)
        if (c.e->tensors[t].step == ENSEMBLE_NONE)
            c.given[t] =
                (struct checked_tensor){&whole->signature.inputs[c.e->tensors[t].place], whole->signature.batched};
    for (uint32_t s = 0; s < c.e->step_count && !rc;
         s++) { /* steps that give a tensor come before those that take it */
        const struct ensemble_step *step = &c.e->steps[s];
        rc = inputs_check(&c, step, models[s]);
        if (!rc)
            rc = outputs_check(&c, step, &models[s]->signature);
        if (!rc)
            rc = rows_check(&c, step, models[s]);
    }
    return rc;
}
