/* describe.c - composes messages from the served models. */
#include "front/v2/describe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/assert.h"
#include "core/util/container.h"
#include "model/config/ensemble.h"
#include "model/config/model_config.h"

#define BYTES_FIXED     ((size_t)1024 * 1024) /* 1024 regions take 700 KB; untouched pages cost nothing */
#define BYTES_PER_ENTRY ((size_t)128)         /* bytes for each model in the list, and each version of a model */
#define BYTES_PER_SIZE  ((size_t)256)         /* bytes for each batch size of a model */
#define BYTES_PER_STEP  ((size_t)256)         /* bytes for each step of an ensemble */
#define BYTES_PER_FLOW  ((size_t)96)          /* bytes for each input or output of a step */

static size_t model_bytes(const struct model_index *models, const struct served_model *model) {
    const struct ensemble *ensemble = model->ensemble;
    struct model_versions versions = model_index_versions(models, model->name, strlen(model->name));
    size_t bytes = model->batch_max * BYTES_PER_SIZE;
    while (model_versions_next(&versions) >= 0)
        bytes += BYTES_PER_ENTRY;
    for (uint32_t t = 0; t < ACCELERATOR_TYPES_MAX; t++)
        bytes += model->on[t].count * sizeof(int32_t); /* GPUs are listed */
    for (uint32_t s = 0; ensemble && s < ensemble->step_count; s++)
        bytes += BYTES_PER_STEP + (ensemble->steps[s].input_count + ensemble->steps[s].output_count) * BYTES_PER_FLOW;
    return bytes;
}

/* Forgets what is described, and has room for so many bytes. */
static int begin_again(struct description *d, size_t bytes) {
    d->used = 0;
    if (bytes <= d->bytes)
        return 0;
    free(d->memory);
    d->memory = malloc(bytes);
    d->bytes = d->memory ? bytes : 0;
    return d->memory ? 0 : -ENOMEM;
}

int describe_begin(struct description *d, const struct model_index *models, const struct served_model *model) {
    size_t listed = (models->count + models->absent_count) * BYTES_PER_ENTRY;
    *d = (struct description){0};
    return begin_again(d, BYTES_FIXED + (model ? model_bytes(models, model) : listed));
}

void describe_end(struct description *d) {
    free(d->memory);
    d->memory = NULL;
}

static void *take(struct description *d, size_t bytes) {
    void *piece = d->memory + d->used;
    d->used += (bytes + 15) & ~(size_t)15;
    CHECK_LE(d->used, d->bytes);
    return piece;
}

/* Takes memory for a message of the type, and initialises it. */
#define NEW(d, type, initialiser) memcpy(take(d, sizeof(type)), &(type)initialiser, sizeof(type))

static char *version_text(struct description *d, uint32_t version) {
    char *text = take(d, 12);
    snprintf(text, 12, "%u", version);
    return text;
}

/* Casts a constant string for a field that is not const. */
static char *text_of(const char *literal) {
    return (char *)literal;
}

const ProtobufCMessage *describe_server(struct description *d, const char *name, bool takes_orders, bool shares) {
    static const char *const extensions[] = {
        "binary_tensor_data", "parameters", "model_configuration", "statistics", "logging", "classification",
    };
    static const char *const orders[] = {"model_repository", "model_repository(unload_dependents)"};
    Inference__ServerMetadataResponse *server =
        NEW(d, Inference__ServerMetadataResponse, INFERENCE__SERVER_METADATA_RESPONSE__INIT);
    server->name = text_of(name ? name : "symphony");
    server->version = text_of(SYMPHONY_VERSION);
    server->extensions = take(d, (ARRAY_COUNT(extensions) + 1 + ARRAY_COUNT(orders)) * sizeof(*server->extensions));
    for (size_t i = 0; i < ARRAY_COUNT(extensions); i++)
        server->extensions[server->n_extensions++] = text_of(extensions[i]);
    if (shares)
        server->extensions[server->n_extensions++] = text_of("system_shared_memory");
    for (size_t i = 0; takes_orders && i < ARRAY_COUNT(orders); i++)
        server->extensions[server->n_extensions++] = text_of(orders[i]);
    return &server->base;
}

static Inference__ModelMetadataResponse__TensorMetadata **
tensors_describe(struct description *d, const struct tensor_spec *specs, uint32_t count) {
    Inference__ModelMetadataResponse__TensorMetadata **tensors = take(d, count * sizeof(*tensors));
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = NEW(d, Inference__ModelMetadataResponse__TensorMetadata,
                         INFERENCE__MODEL_METADATA_RESPONSE__TENSOR_METADATA__INIT);
        tensors[i]->name = text_of(specs[i].name);
        tensors[i]->datatype = text_of(datatype_name(specs[i].type));
        tensors[i]->n_shape = specs[i].dim_count;
        tensors[i]->shape = (int64_t *)specs[i].dims;
    }
    return tensors;
}

const ProtobufCMessage *describe_model(struct description *d, const struct model_index *models,
                                       const struct served_model *model, bool versioned) {
    Inference__ModelMetadataResponse *m =
        NEW(d, Inference__ModelMetadataResponse, INFERENCE__MODEL_METADATA_RESPONSE__INIT);
    const struct signature *signature = served_model_offered(model);
    m->name = text_of(model->name);
    m->platform = text_of(model->platform);
    struct model_versions counted = model_index_versions(models, model->name, strlen(model->name)), versions = counted;
    size_t count = 0;
    while (model_versions_next(&counted) >= 0)
        count++;
    m->versions = take(d, count * sizeof(*m->versions));
    for (int i; (i = model_versions_next(&versions)) >= 0;)
        if (!versioned || &models->models[i] == model)
            m->versions[m->n_versions++] = version_text(d, models->models[i].version);
    m->n_inputs = signature->input_count;
    m->inputs = tensors_describe(d, signature->inputs, signature->input_count);
    m->n_outputs = signature->output_count;
    m->outputs = tensors_describe(d, signature->outputs, signature->output_count);
    return &m->base;
}

/* ---- configuration ---- */

static Inference__DataType config_type(enum datatype type) {
    static const Inference__DataType types[DATATYPE_COUNT] = {
        [DATATYPE_INVALID] = INFERENCE__DATA_TYPE__TYPE_INVALID, [DATATYPE_BOOL] = INFERENCE__DATA_TYPE__TYPE_BOOL,
        [DATATYPE_UINT8] = INFERENCE__DATA_TYPE__TYPE_UINT8,     [DATATYPE_UINT16] = INFERENCE__DATA_TYPE__TYPE_UINT16,
        [DATATYPE_UINT32] = INFERENCE__DATA_TYPE__TYPE_UINT32,   [DATATYPE_UINT64] = INFERENCE__DATA_TYPE__TYPE_UINT64,
        [DATATYPE_INT8] = INFERENCE__DATA_TYPE__TYPE_INT8,       [DATATYPE_INT16] = INFERENCE__DATA_TYPE__TYPE_INT16,
        [DATATYPE_INT32] = INFERENCE__DATA_TYPE__TYPE_INT32,     [DATATYPE_INT64] = INFERENCE__DATA_TYPE__TYPE_INT64,
        [DATATYPE_FP16] = INFERENCE__DATA_TYPE__TYPE_FP16,       [DATATYPE_FP32] = INFERENCE__DATA_TYPE__TYPE_FP32,
        [DATATYPE_FP64] = INFERENCE__DATA_TYPE__TYPE_FP64,       [DATATYPE_BF16] = INFERENCE__DATA_TYPE__TYPE_BF16,
        [DATATYPE_BYTES] = INFERENCE__DATA_TYPE__TYPE_STRING};
    return types[type];
}

/* dims as in Triton's configuration: without the batch. */
static void config_dims(const struct signature *signature, const struct tensor_spec *spec, size_t *count,
                        int64_t **dims) {
    uint32_t skip = signature->batched ? 1 : 0;
    *count = spec->dim_count - skip;
    *dims = (int64_t *)spec->dims + skip;
}

/* The shape that the model file has, where it is another one; NULL: it is not, or is a single number, of which Triton
 * needs no reshape to be told. */
static Inference__ModelTensorReshape *config_reshape(struct description *d, const struct signature *signature,
                                                     const struct tensor_spec *spec) {
    uint32_t skip = signature->batched ? 1 : 0;
    if (!spec->reshaped || spec->file_dim_count == 0)
        return NULL;
    Inference__ModelTensorReshape *reshape =
        NEW(d, Inference__ModelTensorReshape, INFERENCE__MODEL_TENSOR_RESHAPE__INIT);
    reshape->n_shape = spec->file_dim_count - skip;
    reshape->shape = (int64_t *)spec->file_dims + skip;
    return reshape;
}

static Inference__ModelQueuePolicy *queue_policy(struct description *d, const struct queue_rule *rule) {
    Inference__ModelQueuePolicy *policy = NEW(d, Inference__ModelQueuePolicy, INFERENCE__MODEL_QUEUE_POLICY__INIT);
    policy->timeout_action = rule->delay ? INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__DELAY
                                         : INFERENCE__MODEL_QUEUE_POLICY__TIMEOUT_ACTION__REJECT;
    policy->default_timeout_microseconds = (uint64_t)(rule->timeout_ns / NS_PER_US);
    policy->allow_timeout_override = rule->may_shorten;
    policy->max_queue_size = rule->queue_max;
    return policy;
}

/* dynamic_batching as it is in force: the scheduler batches every model that can be batched. */
static Inference__ModelDynamicBatching *dynamic_batching(struct description *d, const struct queue_rules *rules) {
    Inference__ModelDynamicBatching *b =
        NEW(d, Inference__ModelDynamicBatching, INFERENCE__MODEL_DYNAMIC_BATCHING__INIT);
    const struct queue_rule *usual = &rules->rules[queue_rules_priority(rules, 0)];
    b->max_queue_delay_microseconds = (uint64_t)(rules->wait_ns / NS_PER_US);
    b->n_preferred_batch_size = rules->preferred_count;
    b->preferred_batch_size = (int32_t *)rules->preferred;
    b->priority_levels = rules->priorities;
    b->default_priority_level = rules->priority_default;
    if (usual->timeout_ns || usual->delay || usual->queue_max)
        b->default_queue_policy = queue_policy(d, usual);
    b->priority_queue_policy = take(d, PRIORITIES_MAX * sizeof(*b->priority_queue_policy));
    for (uint32_t i = 0; i < rules->priorities; i++) {
        const struct queue_rule *rule = &rules->rules[i];
        if (queue_rule_equals(rule, usual))
            continue;
        Inference__ModelDynamicBatching__PriorityQueuePolicyEntry *entry =
            NEW(d, Inference__ModelDynamicBatching__PriorityQueuePolicyEntry,
                INFERENCE__MODEL_DYNAMIC_BATCHING__PRIORITY_QUEUE_POLICY_ENTRY__INIT);
        entry->key = i + 1;
        entry->value = queue_policy(d, rule);
        b->priority_queue_policy[b->n_priority_queue_policy++] = entry;
    }
    return b;
}

/* The accelerators that run the model, a group for each type. As Triton counts, `count` is of each GPU in `gpus`, or of
 * all instances where none are named: CPUs, and accelerators that only stand for GPUs. */
static void instance_groups(struct description *d, const struct served_model *model, Inference__ModelConfig *c) {
    c->instance_group = take(d, ACCELERATOR_TYPES_MAX * sizeof(*c->instance_group));
    for (const struct served_on *on = model->on; on < model->on + ACCELERATOR_TYPES_MAX; on++) {
        if (on->count == 0)
            continue;
        Inference__ModelInstanceGroup *group =
            NEW(d, Inference__ModelInstanceGroup, INFERENCE__MODEL_INSTANCE_GROUP__INIT);
        group->name = text_of(on->type);
        group->kind =
            on->gpu ? INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU : INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU;
        group->count = (int32_t)on->count;
        if (on->gpu && !on->emulated) {
            group->count = 1;
            group->n_gpus = on->count;
            group->gpus = take(d, on->count * sizeof(*group->gpus));
            for (uint32_t i = 0; i < on->count; i++)
                group->gpus[i] = (int32_t)i;
        }
        c->instance_group[c->n_instance_group++] = group;
    }
}

static Inference__ModelEnsembling__Step__InputMapEntry *input_entry(struct description *d, const char *name,
                                                                    const char *tensor) {
    Inference__ModelEnsembling__Step__InputMapEntry *entry = NEW(
        d, Inference__ModelEnsembling__Step__InputMapEntry, INFERENCE__MODEL_ENSEMBLING__STEP__INPUT_MAP_ENTRY__INIT);
    entry->key = text_of(name);
    entry->value = text_of(tensor);
    return entry;
}

static Inference__ModelEnsembling__Step__OutputMapEntry *output_entry(struct description *d, const char *name,
                                                                      const char *tensor) {
    Inference__ModelEnsembling__Step__OutputMapEntry *entry = NEW(
        d, Inference__ModelEnsembling__Step__OutputMapEntry, INFERENCE__MODEL_ENSEMBLING__STEP__OUTPUT_MAP_ENTRY__INIT);
    entry->key = text_of(name);
    entry->value = text_of(tensor);
    return entry;
}

static Inference__ModelEnsembling__Step *step_describe(struct description *d, const struct ensemble *ensemble,
                                                       const struct ensemble_step *step) {
    Inference__ModelEnsembling__Step *s =
        NEW(d, Inference__ModelEnsembling__Step, INFERENCE__MODEL_ENSEMBLING__STEP__INIT);
    s->model_name = text_of(step->model);
    s->model_version = step->version ? (int64_t)step->version : -1;
    s->n_input_map = step->input_count;
    s->input_map = take(d, step->input_count * sizeof(*s->input_map));
    for (uint32_t i = 0; i < step->input_count; i++)
        s->input_map[i] = input_entry(d, step->inputs[i].name, ensemble->tensors[step->inputs[i].tensor].name);
    s->n_output_map = step->output_count;
    s->output_map = take(d, step->output_count * sizeof(*s->output_map));
    for (uint32_t i = 0; i < step->output_count; i++)
        s->output_map[i] = output_entry(d, step->outputs[i].name, ensemble->tensors[step->outputs[i].tensor].name);
    return s;
}

/* The steps as they are written, in the file's order. */
static Inference__ModelEnsembling *ensemble_describe(struct description *d, const struct ensemble *ensemble) {
    Inference__ModelEnsembling *e = NEW(d, Inference__ModelEnsembling, INFERENCE__MODEL_ENSEMBLING__INIT);
    e->n_step = ensemble->step_count;
    e->step = take(d, e->n_step * sizeof(*e->step));
    for (uint32_t s = 0; s < ensemble->step_count; s++)
        e->step[ensemble->steps[s].written - 1] = step_describe(d, ensemble, &ensemble->steps[s]);
    return e;
}

static void scheduling_describe(struct description *d, const struct served_model *model, Inference__ModelConfig *c) {
    const struct queue_rules *rules = &model->queue;
    if (model->ensemble) {
        c->scheduling_choice_case = INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING;
        c->ensemble_scheduling = ensemble_describe(d, model->ensemble);
    } else if (model->signature.batched || rules->priorities || rules->rules[0].queue_max ||
               rules->rules[0].timeout_ns) {
        c->scheduling_choice_case = INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING;
        c->dynamic_batching = dynamic_batching(d, rules);
    }
}

const Inference__ModelConfig *describe_config(struct description *d, const struct served_model *model) {
    static const Inference__ModelInput__Format formats[] = {
        [IMAGE_NONE] = INFERENCE__MODEL_INPUT__FORMAT__FORMAT_NONE,
        [IMAGE_NHWC] = INFERENCE__MODEL_INPUT__FORMAT__FORMAT_NHWC,
        [IMAGE_NCHW] = INFERENCE__MODEL_INPUT__FORMAT__FORMAT_NCHW,
    };
    const struct signature *signature = served_model_offered(model);
    const char *backend = strncmp(model->platform, "onnxruntime", 11) == 0 ? "onnxruntime" : model->platform;
    Inference__ModelConfig *c = NEW(d, Inference__ModelConfig, INFERENCE__MODEL_CONFIG__INIT);
    c->name = text_of(model->name);
    c->platform = text_of(model->platform);
    c->backend = text_of(model->ensemble ? "" : backend); /* an ensemble has none */
    c->max_batch_size = signature->batched ? (int32_t)served_model_items_max(model) : 0;
    c->n_input = signature->input_count;
    c->input = take(d, c->n_input * sizeof(*c->input));
    for (size_t i = 0; i < c->n_input; i++) {
        c->input[i] = NEW(d, Inference__ModelInput, INFERENCE__MODEL_INPUT__INIT);
        c->input[i]->name = text_of(signature->inputs[i].name);
        c->input[i]->data_type = config_type(signature->inputs[i].type);
        config_dims(signature, &signature->inputs[i], &c->input[i]->n_dims, &c->input[i]->dims);
        c->input[i]->reshape = config_reshape(d, signature, &signature->inputs[i]);
        c->input[i]->format = formats[model->formats[i]];
        c->input[i]->optional = signature->inputs_optional >> i & 1;
    }
    c->n_output = signature->output_count;
    c->output = take(d, c->n_output * sizeof(*c->output));
    for (size_t i = 0; i < c->n_output; i++) {
        c->output[i] = NEW(d, Inference__ModelOutput, INFERENCE__MODEL_OUTPUT__INIT);
        c->output[i]->name = text_of(signature->outputs[i].name);
        c->output[i]->data_type = config_type(signature->outputs[i].type);
        config_dims(signature, &signature->outputs[i], &c->output[i]->n_dims, &c->output[i]->dims);
        c->output[i]->reshape = config_reshape(d, signature, &signature->outputs[i]);
        c->output[i]->label_filename = text_of(model->label_files[i] ? model->label_files[i] : "");
    }
    scheduling_describe(d, model, c);
    instance_groups(d, model, c);
    return c;
}

/* ---- repository ---- */

static void index_add(struct description *d, Inference__RepositoryIndexResponse *index, const char *name,
                      uint32_t version, int state, const char *reason) {
    static const char *const states[] = {[MODEL_LOADING] = "LOADING",
                                         [MODEL_READY] = "READY",
                                         [MODEL_UNAVAILABLE] = "UNAVAILABLE",
                                         [MODEL_UNLOADING] = "UNLOADING"};
    Inference__RepositoryIndexResponse__ModelIndex *entry =
        NEW(d, Inference__RepositoryIndexResponse__ModelIndex, INFERENCE__REPOSITORY_INDEX_RESPONSE__MODEL_INDEX__INIT);
    entry->name = text_of(name);
    entry->version = version ? version_text(d, version) : text_of("");
    entry->state = text_of(states[state]);
    entry->reason = text_of(reason);
    index->models[index->n_models++] = entry;
}

const Inference__RepositoryIndexResponse *describe_index(struct description *d, const struct model_index *models,
                                                         bool ready_only) {
    Inference__RepositoryIndexResponse *index =
        NEW(d, Inference__RepositoryIndexResponse, INFERENCE__REPOSITORY_INDEX_RESPONSE__INIT);
    index->models = take(d, (models->count + models->absent_count) * sizeof(*index->models));
    for (uint32_t i = 0; i < models->count; i++) {
        const struct served_model *model = &models->models[models->listed[i]];
        int state = served_model_state(model);
        if (!ready_only || state == MODEL_READY)
            index_add(d, index, model->name, model->version, state, state == MODEL_UNAVAILABLE ? model->reason : "");
    }
    for (uint32_t i = 0; i < models->absent_count && !ready_only; i++) {
        const struct model_absent *absent = &models->absent[i];
        index_add(d, index, absent->name, absent->version, (int)absent->state, absent->reason);
    }
    return index;
}

/* ---- statistics ---- */

static Inference__StatisticDuration *duration(struct description *d, uint64_t count, uint64_t ns) {
    Inference__StatisticDuration *duration = NEW(d, Inference__StatisticDuration, INFERENCE__STATISTIC_DURATION__INIT);
    duration->count = count;
    duration->ns = ns;
    return duration;
}

/* Describes the batch sizes that were run. */
static void batches_describe(struct description *d, Inference__ModelStatistics *m,
                             const struct statistics_source *source, uint32_t number, uint32_t batch_max) {
    struct batch_statistics *by_size = take(d, batch_max * sizeof(*by_size));
    m->batch_stats = take(d, batch_max * sizeof(*m->batch_stats));
    source->read_batches(source->context, number, by_size);
    for (uint32_t b = 0; b < batch_max; b++) {
        const struct batch_statistics *size = &by_size[b];
        if (size->batches == 0)
            continue;
        Inference__InferBatchStatistics *batch =
            NEW(d, Inference__InferBatchStatistics, INFERENCE__INFER_BATCH_STATISTICS__INIT);
        batch->batch_size = b + 1;
        batch->compute_input = duration(d, size->batches, size->gather_ns);
        batch->compute_infer = duration(d, size->batches, size->run_ns);
        batch->compute_output = duration(d, size->batches, 0); /* not measured a batch */
        m->batch_stats[m->n_batch_stats++] = batch;
    }
}

/* The memory that it takes, as profiled. */
static void memory_describe(struct description *d, Inference__ModelStatistics *m, uint64_t cpu_bytes) {
    Inference__MemoryUsage *usage = NEW(d, Inference__MemoryUsage, INFERENCE__MEMORY_USAGE__INIT);
    usage->type = text_of("CPU");
    usage->byte_size = cpu_bytes;
    m->memory_usage = take(d, sizeof(*m->memory_usage));
    m->memory_usage[m->n_memory_usage++] = usage;
}

static const Inference__ModelStatistics *statistics_of(struct description *d, const struct served_model *model,
                                                       uint32_t number, const struct statistics_source *source) {
    Inference__ModelStatistics *m = NEW(d, Inference__ModelStatistics, INFERENCE__MODEL_STATISTICS__INIT);
    Inference__InferStatistics *i = NEW(d, Inference__InferStatistics, INFERENCE__INFER_STATISTICS__INIT);
    struct model_statistics s = {0};
    if (source->read)
        source->read(source->context, number, &s);
    i->success = duration(d, s.answered, s.answered_ns);
    i->fail = duration(d, s.refused + s.failed, s.unanswered_ns);
    i->queue = duration(d, s.answered, s.queue_ns);
    i->compute_input = duration(d, s.answered, 0); /* counts as queueing */
    i->compute_infer = duration(d, s.answered, s.run_ns);
    i->compute_output = duration(d, s.answered, s.reply_ns);
    i->cache_hit = duration(d, 0, 0);
    i->cache_miss = duration(d, 0, 0);
    m->name = text_of(model->name);
    m->version = version_text(d, model->version);
    m->last_inference = (uint64_t)s.last_ms;
    m->inference_count = s.items;
    m->execution_count = s.batches;
    m->inference_stats = i;
    if (s.cpu_bytes > 0)
        memory_describe(d, m, s.cpu_bytes);
    if (source->read_batches)
        batches_describe(d, m, source, number, model->batch_max);
    return m;
}

int describe_statistics(const struct model_index *models, const struct served_model *model, bool versioned,
                        const struct statistics_source *source,
                        void (*put)(void *context, const Inference__ModelStatistics *statistics), void *context) {
    struct model_versions versions = {0};
    struct description d = {0};
    uint32_t listed = 0;
    int number, rc = 0;
    if (model)
        versions = model_index_versions(models, model->name, strlen(model->name));
    while (rc == 0 && (number = model                    ? model_versions_next(&versions)
                                : listed < models->count ? (int)models->listed[listed++]
                                                         : -1) >= 0) {
        const struct served_model *one = &models->models[number];
        if (versioned && one != model)
            continue;
        rc = begin_again(&d, BYTES_FIXED + one->batch_max * BYTES_PER_SIZE);
        if (rc == 0)
            put(context, statistics_of(&d, one, (uint32_t)number, source));
    }
    describe_end(&d);
    return rc;
}

/* ---- settings ---- */

const Inference__LogSettingsResponse *describe_log_settings(struct description *d) {
    typedef Inference__LogSettingsResponse__SettingValue Value;
    typedef Inference__LogSettingsResponse__SettingsEntry Entry;
    Inference__LogSettingsResponse *response =
        NEW(d, Inference__LogSettingsResponse, INFERENCE__LOG_SETTINGS_RESPONSE__INIT);
    struct setting settings[LOG_SETTINGS];
    log_settings_read(settings);
    response->n_settings = LOG_SETTINGS;
    response->settings = take(d, LOG_SETTINGS * sizeof(*response->settings));
    for (int i = 0; i < LOG_SETTINGS; i++) {
        Value *value = NEW(d, Value, INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__INIT);
        Entry *entry = NEW(d, Entry, INFERENCE__LOG_SETTINGS_RESPONSE__SETTINGS_ENTRY__INIT);
        if (settings[i].kind == SETTING_BOOL) {
            value->parameter_choice_case = INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM;
            value->bool_param = settings[i].flag;
        } else if (settings[i].kind == SETTING_NUMBER) {
            value->parameter_choice_case =
                INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM;
            value->uint32_param = settings[i].number;
        } else {
            value->parameter_choice_case =
                INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM;
            value->string_param = text_of(settings[i].text);
        }
        entry->key = text_of(settings[i].name);
        entry->value = value;
        response->settings[i] = entry;
    }
    return response;
}

const Inference__TraceSettingResponse *describe_trace_settings(struct description *d, struct tracing *tracing,
                                                               uint32_t model) {
    typedef Inference__TraceSettingResponse__SettingValue Value;
    typedef Inference__TraceSettingResponse__SettingsEntry Entry;
    struct trace_setting *settings = take(d, TRACE_SETTINGS * sizeof(*settings));
    Inference__TraceSettingResponse *response =
        NEW(d, Inference__TraceSettingResponse, INFERENCE__TRACE_SETTING_RESPONSE__INIT);
    trace_settings_read(tracing, model, settings);
    response->n_settings = TRACE_SETTINGS;
    response->settings = take(d, TRACE_SETTINGS * sizeof(*response->settings));
    for (int i = 0; i < TRACE_SETTINGS; i++) {
        Entry *entry = NEW(d, Entry, INFERENCE__TRACE_SETTING_RESPONSE__SETTINGS_ENTRY__INIT);
        entry->key = text_of(settings[i].name);
        entry->value = NEW(d, Value, INFERENCE__TRACE_SETTING_RESPONSE__SETTING_VALUE__INIT);
        entry->value->n_value = 1;
        entry->value->value = take(d, sizeof(*entry->value->value));
        entry->value->value[0] = text_of(settings[i].value);
        response->settings[i] = entry;
    }
    return response;
}

/* ---- shared memory ---- */

static char *text_copy(struct description *d, const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(take(d, bytes), text, bytes);
}

static Inference__SystemSharedMemoryStatusResponse__RegionsEntry *region_describe(struct description *d,
                                                                                  const struct shared_region *region) {
    typedef Inference__SystemSharedMemoryStatusResponse__RegionStatus Status;
    typedef Inference__SystemSharedMemoryStatusResponse__RegionsEntry Entry;
    Entry *entry = NEW(d, Entry, INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_RESPONSE__REGIONS_ENTRY__INIT);
    Status *status = NEW(d, Status, INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_RESPONSE__REGION_STATUS__INIT);
    status->name = entry->key = text_copy(d, region->name);
    status->key = text_copy(d, region->key);
    status->offset = region->offset;
    status->byte_size = region->bytes;
    entry->value = status;
    return entry;
}

int describe_regions(struct description *d, struct shared_memory *memory, bool local, const char *name,
                     const Inference__SystemSharedMemoryStatusResponse **response, struct sy_error *err) {
    int refused = shared_memory_allows(memory, local, err);
    if (refused)
        return refused;
    struct shared_region **regions = malloc(SHARED_REGIONS_MAX * sizeof(*regions));
    if (!regions)
        return error_set(err, 503, "out of memory for the answer");
    uint32_t count = shared_memory_list(memory, name, regions);
    Inference__SystemSharedMemoryStatusResponse *all =
        NEW(d, Inference__SystemSharedMemoryStatusResponse, INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_RESPONSE__INIT);
    all->n_regions = count;
    all->regions = take(d, count * sizeof(*all->regions));
    for (uint32_t i = 0; i < count; i++) {
        all->regions[i] = region_describe(d, regions[i]);
        shared_region_put(regions[i]);
    }
    free(regions);
    *response = all;
    return count == 0 && name[0] != '\0'
               ? error_set(err, 404, "Unable to find system shared memory region: '%.64s'", name)
               : 0;
}
