/* served_model.c - completes a model from its files. */
#include "model/config/served_model.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/profile.h"
#include "core/util/utf8.h"
#include "model/config/ensemble.h"
#include "model/config/labels.h"
#include "model/config/model_config.h"
#include "model/config/preparations.h"
#include "model/config/symphony_yaml.h"

#define BATCH_MAX_DEFAULT 64

void served_model_draw_secret(struct served_model *model) {
    int rc = siphash_key_draw(&model->shape_secret);
    if (rc)
        served_model_refuse(model, "no random numbers for model '%s': %s", model->name, strerror(-rc));
}

uint64_t served_model_key(const struct served_model *model) {
    static const struct siphash_key key; /* no secret: who names two models alike only replaces a model of their own */
    uint64_t words[MODEL_NAME_MAX / sizeof(uint64_t) + 1] = {0};
    memcpy(words, model->name, strlen(model->name));
    words[MODEL_NAME_MAX / sizeof(uint64_t)] = model->version;
    uint64_t hash = siphash_words(&key, words, MODEL_NAME_MAX / sizeof(uint64_t) + 1);
    return hash ? hash : 1;
}

/* ---- holders ---- */

void served_model_move(struct served_model *to, struct served_model *from) {
    memcpy(to, from, sizeof(*to));
    from->memory = NULL;
    from->ensemble = NULL;
}

void served_model_share(struct served_model *to, const struct served_model *from) {
    memcpy(to, from, sizeof(*to));
    mem_pool_hold(to->memory);
}

void served_model_release(struct served_model *model) {
    const size_t first = offsetof(struct served_model, platform), behind = offsetof(struct served_model, lone);
    mem_pool_release(model->memory);
    model->memory = NULL;
    memset((char *)model + first, 0, behind - first); /* threads may look at the state of a place that holds no model */
}

void served_models_free(struct served_model *models, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        served_model_release(&models[i]);
    free(models);
}

/* ---- what is in the pool ---- */

int served_model_tensors_set(struct served_model *model, const struct signature *from, struct sy_error *err) {
    struct mem_pool **pool = &model->memory;
    struct signature to = *from;
    to.inputs = mem_pool_take(pool, to.input_count * sizeof(*to.inputs));
    to.outputs = mem_pool_take(pool, to.output_count * sizeof(*to.outputs));
    model->reference_dims = mem_pool_take(pool, to.input_count * sizeof(*model->reference_dims));
    model->formats = mem_pool_take(pool, to.input_count * sizeof(*model->formats));
    model->label_files = mem_pool_take(pool, to.output_count * sizeof(*model->label_files));
    model->labels = mem_pool_take(pool, to.output_count * sizeof(struct labels *));
    if (!to.inputs || !to.outputs || !model->reference_dims || !model->formats || !model->label_files || !model->labels)
        return error_set(err, -ENOMEM, "no memory for the tensors of model '%s'", model->name);
    for (uint32_t i = 0; i < to.input_count; i++)
        to.inputs[i] = from->inputs[i];
    for (uint32_t i = 0; i < to.output_count; i++)
        to.outputs[i] = from->outputs[i];
    model->signature = to;
    return 0;
}

static void ensemble_end(void *ensemble) {
    ensemble_free(ensemble);
}

int served_model_ensemble_take(struct served_model *model, struct ensemble *ensemble, struct sy_error *err) {
    int rc = mem_pool_own(&model->memory, ensemble_end, ensemble);
    if (rc)
        return error_set(err, rc, "no memory for the steps of ensemble '%s'", model->name);
    model->ensemble = ensemble;
    return 0;
}

static void labels_end(void *labels) {
    labels_free(labels);
}

int served_model_labels_take(struct served_model *model, uint32_t output, struct labels *labels, struct sy_error *err) {
    int rc = labels ? mem_pool_own(&model->memory, labels_end, labels) : 0;
    if (rc) {
        labels_free(labels);
        return error_set(err, rc, "no memory for labels");
    }
    model->labels[output] = labels;
    return 0;
}

int served_model_labels_read(struct served_model *model, struct sy_error *err) {
    int rc = 0;
    for (uint32_t i = 0; i < model->signature.output_count && rc == 0; i++) {
        char path[PATH_MAX];
        struct labels *labels = NULL;
        if (!model->label_files || !model->label_files[i])
            continue;
        if (snprintf(path, sizeof(path), "%s/%s", model->folder, model->label_files[i]) >= (int)sizeof(path))
            return error_set(err, -ENAMETOOLONG, "%.400s/%s: %s", model->folder, model->label_files[i],
                             strerror(ENAMETOOLONG));
        rc = labels_read(path, &labels, err);
        rc = rc ? rc : served_model_labels_take(model, i, labels, err);
    }
    return rc;
}

/* ---- what is known of a model ---- */

int served_model_state(const struct served_model *model) {
    return atomic_load_explicit(&model->state, memory_order_acquire); /* `reason` is written before it */
}

double served_model_item_bytes(const struct served_model *model) {
    double bytes = 0;
    for (uint32_t i = 0; i < model->signature.input_count; i++) {
        const struct tensor_spec *input = &model->signature.inputs[i];
        int64_t elements = dims_product(model->reference_dims[i], 0, input->dim_count);
        bytes += elements > 0 ? (double)elements * (double)datatype_bytes_min(input->type) : 0;
    }
    return bytes;
}

void served_model_refuse(struct served_model *model, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(model->reason, sizeof(model->reason), fmt, ap);
    va_end(ap);
    utf8_clean(model->reason, strlen(model->reason)); /* the reason may quote a path, a configuration, the engine */
    /* release: who reads the state with acquire sees the reason */
    atomic_store_explicit(&model->state, MODEL_UNAVAILABLE, memory_order_release);
}

/* Fills the profiled item: dims are the model's own, the batch dimension 1; open dims are from symphony.yaml, or 0. */
static int reference_fill(struct served_model *model, const struct symphony_yaml *settings, struct sy_error *err) {
    const struct signature *s = &model->signature;
    uint32_t skip = s->batched ? 1 : 0;
    model->item_elements = 0;
    for (uint32_t i = 0; i < s->input_count; i++)
        for (uint32_t d = 0; d < s->inputs[i].dim_count; d++) {
            int64_t dim = s->inputs[i].dims[d];
            model->reference_dims[i][d] = d < skip ? 1 : dim == -1 ? 0 : dim;
        }
    for (uint32_t k = 0; k < settings->shape_count; k++) {
        const struct symphony_yaml_shape *shape = &settings->shapes[k];
        int i = tensor_spec_find(s->inputs, s->input_count, shape->input, strlen(shape->input));
        if (i < 0)
            return error_set(err, -EINVAL, "%s/" SYMPHONY_YAML_FILE ": shapes: the model has no input '%s'",
                             model->folder, shape->input);
        bool same = shape->dim_count + skip == s->inputs[i].dim_count;
        for (uint32_t d = 0; same && d < shape->dim_count; d++) {
            int64_t *dim = &model->reference_dims[i][d + skip];
            same = *dim == 0 || *dim == shape->dims[d];
            *dim = shape->dims[d];
        }
        if (!same) {
            char wanted[128], found[128];
            dims_format(shape->dims, 0, shape->dim_count, wanted, sizeof(wanted));
            dims_format(s->inputs[i].dims, skip, s->inputs[i].dim_count, found, sizeof(found));
            return error_set(err, -EINVAL, "%s/" SYMPHONY_YAML_FILE ": shapes.%s is %s, but the model's input is %s%s",
                             model->folder, shape->input, wanted, found, skip ? " behind the batch dimension" : "");
        }
    }
    for (uint32_t i = 0; i < s->input_count; i++) {
        int64_t elements = dims_product(model->reference_dims[i], 0, s->inputs[i].dim_count);
        if (s->inputs_optional & tensor_bit(i))
            continue; /* optional inputs are no part of the item */
        if (elements < 0)
            return error_set(err, -EINVAL, "%s: input '%s' is too large", model->path, s->inputs[i].name);
        model->item_elements += elements;
    }
    return 0;
}

void signature_unbatch(struct signature *s) {
    s->batched = false;
    for (uint32_t i = 0; i < s->input_count; i++)
        s->variable_shapes |= s->inputs[i].dim_count > 0 && s->inputs[i].dims[0] < 0;
}

/* Sets whether items of several requests may be run together, as far as the configuration says. */
static int batch_set(struct served_model *model, const struct symphony_yaml *settings,
                     const struct model_config *config, struct sy_error *err) {
    model->batch_told = settings->batch || config->max_batch_size > 0;
    if (settings->batch && !model->signature.batched)
        return error_set(err, -EINVAL,
                         "%s/" SYMPHONY_YAML_FILE
                         ": batch: the model's inputs and outputs have no common batch dimension",
                         model->folder);
    if (settings->batch_given && !settings->batch && config->max_batch_size > 0)
        return error_set(err, -EINVAL,
                         "%s/" SYMPHONY_YAML_FILE ": batch is false, but max_batch_size in config.pbtxt is %lld",
                         model->folder, (long long)config->max_batch_size);
    if (settings->batch_given && !settings->batch && model->signature.batched)
        signature_unbatch(&model->signature);
    return 0;
}

static int batch_max_set(struct served_model *model, const struct symphony_yaml *settings,
                         const struct model_config *config, struct sy_error *err) {
    int64_t wanted = settings->batch_max ? settings->batch_max : config->max_batch_size;
    if (!model->signature.batched && settings->batch_max > 1)
        return error_set(err, -EINVAL,
                         "%s/" SYMPHONY_YAML_FILE
                         ": max_batch is %lld, but the model has no batch dimension, so that its "
                         "batches are of 1",
                         model->folder, (long long)settings->batch_max);
    if (!model->signature.batched)
        wanted = 1;
    else if (!wanted)
        wanted = BATCH_MAX_DEFAULT;
    model->batch_max = (uint32_t)(wanted < PROFILE_BATCH_MAX ? wanted : PROFILE_BATCH_MAX);
    return 0;
}

/* Notes the file of labels of each output. */
static int label_files_fill(struct served_model *model, const struct model_config *config, struct sy_error *err) {
    for (uint32_t k = 0; k < config->output_count; k++) {
        const struct model_config_tensor *output = &config->outputs[k];
        int i = tensor_spec_find(model->signature.outputs, model->signature.output_count, output->name,
                                 strlen(output->name));
        if (i >= 0 && output->label_file[0] &&
            !(model->label_files[i] = mem_pool_text(&model->memory, output->label_file)))
            return error_set(err, -ENOMEM, "no memory for the name of a file of labels");
    }
    return 0;
}

static void formats_fill(struct served_model *model, const struct model_config *config) {
    for (uint32_t k = 0; k < config->input_count; k++) {
        const char *name = config->inputs[k].name;
        int i = tensor_spec_find(model->signature.inputs, model->signature.input_count, name, strlen(name));
        if (i >= 0)
            model->formats[i] = (uint8_t)config->inputs[k].format;
    }
}

static int configured_apply(struct served_model *model, const struct symphony_yaml *settings,
                            const struct model_config *config, struct sy_error *err) {
    int rc = model_config_apply(config, &model->signature, err);
    model->queue = config->queue;
    if (!model->slo_ns)
        model->slo_ns = config->queue.rules[queue_rules_priority(&config->queue, 0)].timeout_ns;
    if (!rc)
        rc = batch_set(model, settings, config, err);
    if (!rc)
        rc = batch_max_set(model, settings, config, err);
    if (!rc)
        rc = served_model_tensors_set(model, &model->signature, err);
    if (!rc)
        rc = reference_fill(model, settings, err);
    if (!rc)
        rc = preparations_fill(model, settings, err);
    if (!rc)
        rc = label_files_fill(model, config, err);
    if (!rc)
        formats_fill(model, config);
    return rc;
}

int served_model_apply(struct served_model *model, const struct signature *signature, struct sy_error *err) {
    struct model_config *config = calloc(1, sizeof(*config));
    struct symphony_yaml *settings = calloc(1, sizeof(*settings));
    struct signature_room *room = malloc(sizeof(*room));
    const char *place = model->folder ? model->folder : model->path ? model->path : model->name;
    struct served_model completed;
    bool found;
    int rc = config && settings && room ? 0 : error_set(err, -ENOMEM, "%s: out of memory", place);
    if (!rc && model->folder)
        rc = model_config_read_folder(model->folder, true, config, &found, err);
    if (!rc && model->folder)
        rc = symphony_yaml_read_folder(model->folder, settings, &found, err);
    if (!rc) { /* the pool is the model's: what it got for nothing stays there until the model is given back */
        memcpy(&completed, model, sizeof(completed));
        completed.signature = *signature_room_fill(room, signature);
        rc = configured_apply(&completed, settings, config, err);
        model->memory = completed.memory;
        if (!rc)
            memcpy(model, &completed, sizeof(completed));
    }
    if (config)
        model_config_release(config);
    free(room);
    free(settings);
    free(config);
    return rc;
}

/* ---- ensembles ---- */

/* Refuses settings that only a model with a file has. */
static int ensemble_settings_check(const struct served_model *model, const struct symphony_yaml *settings,
                                   struct sy_error *err) {
    const char *key = settings->batch_max         ? "max_batch"
                      : settings->batch_given     ? "batch"
                      : settings->pinned          ? "pinned"
                      : settings->profile_path[0] ? "profile"
                      : settings->shape_count     ? "shapes"
                      : settings->sample_count    ? "sample"
                      : settings->prepare_count   ? "prepare"
                                                  : NULL;
    if (!key)
        return 0;
    return error_set(err, -EINVAL, "%s/" SYMPHONY_YAML_FILE ": %s: not for an ensemble, whose steps' models have it",
                     model->folder, key);
}

int served_model_make_ensemble(struct served_model *model, struct model_config *config, struct sy_error *err) {
    struct symphony_yaml *settings = calloc(1, sizeof(*settings));
    struct signature_room *room = calloc(1, sizeof(*room));
    int64_t most = config->max_batch_size;
    bool found;
    int rc = settings && room ? symphony_yaml_read_folder(model->folder, settings, &found, err)
                              : error_set(err, -ENOMEM, "%s: out of memory", model->folder);
    if (!rc)
        rc = ensemble_settings_check(model, settings, err);
    if (!rc)
        rc = ensemble_settings(config->ensemble, settings, err);
    if (!rc)
        rc = ensemble_signature(config, signature_room_open(room), err);
    if (!rc)
        rc = served_model_tensors_set(model, &room->signature, err);
    if (!rc)
        rc = label_files_fill(model, config, err);
    if (!rc)
        rc = served_model_ensemble_take(model, config->ensemble, err);
    free(room);
    free(settings);
    if (rc)
        return rc;
    strcpy(model->platform, "ensemble");
    model->batch_max = most < 1 ? 1 : most < PROFILE_BATCH_MAX ? (uint32_t)most : PROFILE_BATCH_MAX;
    formats_fill(model, config);
    config->ensemble = NULL;
    return 0;
}
