/* v2_answer.c - the answers of paths other than infer. Nothing here is on the hot path. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/util/time.h"
#include "front/v2/accelerators_answer.h"
#include "front/v2/describe.h"
#include "front/v2/json_put.h"
#include "front/v2/message_json.h"
#include "front/v2/request_json.h"
#include "front/v2/settings.h"

#include "front/v2/v2.h"
#include "model/repository/start_progress.h"

void v2_error(struct v2_answer *answer, unsigned status, const char *fmt, ...) {
    char sentence[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    answer->status = status;
    json_put_error(&answer->text, sentence);
}

/* For inputs of open shape: the shape that the profile was measured with, which a client may try first. An
 * ensemble was not measured, only its steps' models were. */
static json_t *item_shapes_json(const struct served_model *model) {
    json_t *shapes = json_object();
    bool measured = model->signature.variable_shapes && !model->ensemble;
    for (uint32_t i = 0; measured && i < model->signature.input_count; i++) {
        const struct tensor_spec *input = &model->signature.inputs[i];
        if (model->prepared & tensor_bit(i)) /* clients send no shape of it */
            continue;
        json_t *dims = json_array();
        for (uint32_t d = model->signature.batched ? 1 : 0; d < input->dim_count; d++)
            json_array_append_new(dims, json_integer(model->reference_dims[i][d]));
        json_object_set_new(shapes, input->name, dims);
    }
    return shapes;
}

/* Answers with a message, as JSON. */
static void message_answer(struct v2_answer *answer, const ProtobufCMessage *message) {
    message_json_put(&answer->text, message, false);
}

/* The metadata, then what the protocol has no field for. */
static void model_answer(struct v2_answer *answer, struct description *d, const struct served_model *model,
                         const struct model_index *models, bool one_version) {
    json_t *parameters = json_object();
    if (!model->best_effort)
        json_object_set_new(parameters, "slo_ms", json_real((double)served_model_slo_ns(model) / (double)NS_PER_MS));
    json_object_set_new(parameters, "max_batch_size", json_integer(served_model_items_max(model)));
    if (model->mixes)
        json_object_set_new(parameters, "batch_mixes", json_string(model->mixes));
    json_object_set_new(parameters, "item_shapes", item_shapes_json(model));
    char *json = json_dumps(parameters, JSON_COMPACT);
    message_answer(answer, describe_model(d, models, model, one_version));
    if (json && answer->text.length > 0) {
        answer->text.length--; /* its closing brace */
        text_put(&answer->text, ",\"parameters\":");
        text_put(&answer->text, json);
        text_put_char(&answer->text, '}');
    }
    free(json);
    json_decref(parameters);
}

/* Appends an element of the array in which the text ends. */
static void statistics_put(void *text, const Inference__ModelStatistics *statistics) {
    struct text *out = text;
    if (out->length > 0 && out->data[out->length - 1] == '}')
        text_put_char(out, ',');
    message_json_put(out, &statistics->base, false);
}

/* Answers with the statistics of all versions of the model; `versioned`: of this version alone; NULL: of all models. */
static int statistics_answer(struct v2_answer *answer, const struct v2_server *server, const struct served_model *model,
                             bool versioned, struct sy_error *err) {
    text_put(&answer->text, "{\"model_stats\":[");
    if (describe_statistics(server->models, model, versioned, &server->statistics, statistics_put, &answer->text) < 0) {
        text_clear(&answer->text);
        return error_set(err, 503, "out of memory for the answer");
    }
    text_put(&answer->text, "]}");
    return 0;
}

static int index_answer(struct v2_answer *answer, struct description *d, const struct model_index *models,
                        const json_t *request, struct sy_error *err) {
    const json_t *ready = json_object_get(request, "ready");
    if (ready && !json_is_boolean(ready))
        return error_set(err, 400, "expected true or false for 'ready'");
    const Inference__RepositoryIndexResponse *index = describe_index(d, models, json_is_true(ready));
    text_put_char(&answer->text, '[');
    for (size_t i = 0; i < index->n_models; i++) {
        if (i > 0)
            text_put_char(&answer->text, ',');
        message_json_put(&answer->text, &index->models[i]->base, true);
    }
    text_put_char(&answer->text, ']');
    return 0;
}

/* Answers with the names of all models, as KServe's server does, and with those that are not ready, as the index has
 * them. */
static void models_answer(struct v2_answer *answer, struct description *d, const struct model_index *models) {
    const Inference__RepositoryIndexResponse *index = describe_index(d, models, false);
    const char *before = "";
    bool first = true;
    text_put(&answer->text, "{\"models\":[");
    for (size_t i = 0; i < index->n_models; i++) {
        const char *name = index->models[i]->name;
        int number = model_index_number(models, name, strlen(name), 0);
        /* of the versions of a name the one that is asked; of those that are not served, the first */
        if (i < models->count ? number != (int)models->listed[i] : number >= 0 || strcmp(name, before) == 0)
            continue;
        text_put(&answer->text, first ? "" : ",");
        json_put_string(&answer->text, name);
        before = name;
        first = false;
    }
    text_put(&answer->text, "],\"not_ready\":[");
    first = true;
    for (size_t i = 0; i < index->n_models; i++) {
        if (strcmp(index->models[i]->state, "READY") == 0)
            continue;
        text_put(&answer->text, first ? "" : ",");
        message_json_put(&answer->text, &index->models[i]->base, true);
        first = false;
    }
    text_put(&answer->text, "]}");
}

/* Answers who asks for nothing: a person, most often. */
static void root_answer(struct v2_answer *answer, const char *name) {
    text_put(&answer->text, "{\"name\":");
    json_put_string(&answer->text, name ? name : "symphony");
    text_put(&answer->text,
             ",\"version\":\"" SYMPHONY_VERSION "\",\"paths\":{"
             "\"GET /v2/models\":\"names of the models\","
             "\"GET /v2/models/M\":\"inputs and outputs of model M\","
             "\"POST /v2/models/M/infer\":\"a request\","
             "\"GET /v2/health/ready\":\"200 once all models serve or are set aside\","
             "\"GET /v2\":\"version and extensions of the protocol\"},"
             "\"see\":\"for browsers, and for Prometheus, there is the metrics port, 8002 by default\"}\n");
}

/* ---- settings ---- */

static void log_settings_answer(struct v2_answer *answer) {
    struct setting settings[LOG_SETTINGS];
    log_settings_read(settings);
    for (int i = 0; i < LOG_SETTINGS; i++) {
        text_put(&answer->text, i == 0 ? "{" : ",");
        json_put_string(&answer->text, settings[i].name);
        text_put_char(&answer->text, ':');
        if (settings[i].kind == SETTING_TEXT)
            json_put_string(&answer->text, settings[i].text);
        else if (settings[i].kind == SETTING_NUMBER)
            json_put_unsigned(&answer->text, settings[i].number);
        else
            text_put(&answer->text, settings[i].flag ? "true" : "false");
    }
    text_put_char(&answer->text, '}');
}

/* 0 or a status with a sentence. */
static int log_settings_read_json(json_t *request, struct sy_error *err) {
    struct setting settings[LOG_SETTINGS];
    size_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach(request, key, value) {
        if (count == LOG_SETTINGS)
            return error_set(err, 400, "there are not so many log settings");
        settings[count++] =
            (struct setting){.name = key,
                             .kind = json_is_string(value)    ? SETTING_TEXT
                                     : json_is_integer(value) ? SETTING_NUMBER
                                                              : SETTING_BOOL,
                             .flag = json_is_true(value),
                             .number = json_integer_value(value) > 0 ? 1 : 0, /* every level above 0 is the same */
                             .text = json_string_value(value)};
        if (!json_is_string(value) && !json_is_integer(value) && !json_is_boolean(value))
            return error_set(err, 400, "'%.64s' is neither a string nor a number nor true or false", key);
    }
    return log_settings_change(settings, count, err);
}

/* A level is an array of strings, or one; the others are strings or numbers; null goes back to what was at first. */
static int trace_settings_change_json(json_t *request, struct tracing *tracing, uint32_t model, struct sy_error *err) {
    struct tracing_change changes[TRACE_FIELDS];
    const char *values[TRACE_FIELDS][2];
    char numbers[TRACE_FIELDS][TRACE_VALUE_BYTES];
    size_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach(request, key, value) {
        if (count == TRACE_FIELDS)
            return error_set(err, 400, "there are not so many trace settings that can be changed");
        struct tracing_change *change = &changes[count];
        size_t listed = json_is_array(value) ? json_array_size(value) : 1;
        *change = (struct tracing_change){.name = key, .values = values[count]};
        if (listed > 2)
            return error_set(err, 400, "'%.64s' has too many values", key);
        for (size_t i = 0; i < listed && !json_is_null(value); i++) {
            json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
            if (json_is_integer(one) && !json_is_array(value))
                snprintf(numbers[count], TRACE_VALUE_BYTES, "%lld", (long long)json_integer_value(one));
            else if (!json_is_string(one))
                return error_set(err, 400, "'%.64s' is neither a string nor a number nor null", key);
            values[count][change->count++] = json_is_string(one) ? json_string_value(one) : numbers[count];
        }
        count++;
    }
    return tracing_change(tracing, model, changes, count, err);
}

static void trace_settings_answer(struct v2_answer *answer, struct tracing *tracing, uint32_t model) {
    struct trace_setting settings[TRACE_SETTINGS];
    trace_settings_read(tracing, model, settings);
    for (int i = 0; i < TRACE_SETTINGS; i++) {
        text_printf(&answer->text, "%s\"%s\":%s", i ? "," : "{", settings[i].name, i ? "" : "[");
        json_put_string(&answer->text, settings[i].value);
        text_put(&answer->text, i ? "" : "]");
    }
    text_put_char(&answer->text, '}');
}

/* Changes what a POST wants changed, and shows the settings. */
static int settings_answer(struct v2_answer *answer, const struct v2_route *route, const struct v2_server *server,
                           json_t *request, struct sy_error *err) {
    bool logging = route->kind == V2_LOGGING;
    uint32_t model = route->kind == V2_MODEL_TRACE ? (uint32_t)route->model : TRACING_ALL;
    int status = logging ? log_settings_read_json(request, err)
                         : trace_settings_change_json(request, server->tracing, model, err);
    if (status == 0 && logging)
        log_settings_answer(answer);
    else if (status == 0)
        trace_settings_answer(answer, server->tracing, model);
    return status;
}

/* ---- shared memory ---- */

/* The name in a path, as a string of at most SHARED_NAME_MAX; "" if there is none. */
static int region_name(const struct v2_route *route, char name[SHARED_NAME_MAX], struct sy_error *err) {
    size_t length = route->name ? route->name_length : 0;
    if (length >= SHARED_NAME_MAX)
        return error_set(err, 400, "a region's name has at most %d bytes", SHARED_NAME_MAX - 1);
    memcpy(name, route->name ? route->name : "", length);
    name[length] = '\0';
    return 0;
}

static int regions_answer(struct v2_answer *answer, struct description *d, const struct v2_route *route,
                          const struct v2_server *server, struct sy_error *err) {
    const Inference__SystemSharedMemoryStatusResponse *regions;
    char name[SHARED_NAME_MAX];
    int status = region_name(route, name, err);
    status = status ? status : describe_regions(d, server->shared, server->local, name, &regions, err);
    if (status)
        return status;
    for (size_t i = 0; i < regions->n_regions; i++) {
        text_put_char(&answer->text, i == 0 ? '[' : ',');
        message_json_put(&answer->text, &regions->regions[i]->value->base, false);
    }
    text_put(&answer->text, regions->n_regions == 0 ? "[]" : "]");
    return 0;
}

static int region_register(const struct v2_route *route, const struct v2_server *server, const json_t *request,
                           struct sy_error *err) {
    const json_t *key = json_object_get(request, "key"), *offset = json_object_get(request, "offset"),
                 *bytes = json_object_get(request, "byte_size");
    char name[SHARED_NAME_MAX];
    int status = region_name(route, name, err);
    if (status)
        return status;
    if (!json_is_string(key) || !json_is_integer(bytes) || json_integer_value(bytes) < 0 ||
        (offset && (!json_is_integer(offset) || json_integer_value(offset) < 0)))
        return error_set(err, 400,
                         "expected 'key', a string, 'byte_size' and perhaps 'offset', whole numbers of 0 or more");
    status = shared_memory_allows(server->shared, server->local, err);
    return status
               ? status
               : shared_memory_register(server->shared, name, json_string_value(key),
                                        (uint64_t)json_integer_value(offset), (uint64_t)json_integer_value(bytes), err);
}

static int region_unregister(const struct v2_route *route, const struct v2_server *server, struct sy_error *err) {
    char name[SHARED_NAME_MAX];
    int status = region_name(route, name, err);
    if (status || !server->shared) /* then there are none */
        return status;
    status = shared_memory_allows(server->shared, server->local, err);
    if (!status)
        shared_memory_unregister(server->shared, name);
    return status;
}

/* Whether the route's model exists: 0, or a status with a sentence. */
static int model_known(struct v2_answer *answer, const struct v2_route *route, const struct model_index *models,
                       struct sy_error *err) {
    int found = model_index_find(models, route->name, route->name_length, route->version, route->version_length, err);
    answer->retry = found == -503;
    return found < 0 ? -found : 0;
}

/* Whether the route's model exists and is ready: 0, or a status with a sentence. */
static int model_admit(struct v2_answer *answer, const struct v2_route *route, const struct model_index *models,
                       int not_ready_status, struct sy_error *err) {
    int status = model_known(answer, route, models, err);
    return status                                                                   ? status
           : served_model_ready(&models->models[route->model], &answer->retry, err) ? 0
                                                                                    : not_ready_status;
}

bool v2_infer_admit(struct v2_answer *answer, const struct v2_route *route, const struct model_index *models) {
    struct sy_error err;
    int status = model_admit(answer, route, models, 503, &err);
    if (status)
        v2_error(answer, (unsigned)status, "%s", err.text);
    return status == 0;
}

/* Answers that need the request's JSON. */
static int posted_answer(struct v2_answer *answer, struct description *d, const struct v2_route *route,
                         const struct v2_server *server, const char *body, size_t bytes, struct sy_error *err) {
    json_t *request = request_json(body, bytes, err);
    int status = !request                            ? 400
                 : route->kind == V2_INDEX           ? index_answer(answer, d, server->models, request, err)
                 : route->kind == V2_SHARED_REGISTER ? region_register(route, server, request, err)
                                                     : settings_answer(answer, route, server, request, err);
    json_decref(request);
    return status;
}

/* 503: the server will be ready, or ends; 400, Triton's answer: nobody knows when it will be. */
static void ready_answer(struct v2_answer *answer, const struct v2_server *server) {
    char words[START_PROGRESS_WORDS] = "";
    bool starting = !server->ready && server->start &&
                    !atomic_load_explicit(&server->start->over, memory_order_acquire); /* with readiness_begin() */
    if (starting)
        start_progress_words(server->start, words);
    if (server->draining || !server->ready)
        answer->status = server->draining || starting ? 503 : 400;
    answer->retry = starting;
    if (*words)
        text_printf(&answer->text, "{\"ready\":false,\"waits_for\":\"%s\"}", words);
    else
        text_put(&answer->text, answer->status == 200 ? "{\"ready\":true}" : "{\"ready\":false}");
}

#define NOT_EXPLICIT "explicit model load / unload is not allowed if polling is enabled: " /* Triton's words */

const char *v2_orders_refused(bool of_cluster) {
    return of_cluster
               ? NOT_EXPLICIT "a cluster's models are loaded and unloaded at its backends: at the metrics port of one "
                              "with --model-control-mode explicit"
               : NOT_EXPLICIT "models are loaded and unloaded by clients with --model-control-mode explicit only";
}

void v2_answer(struct v2_answer *answer, const struct v2_route *route, const struct v2_server *server, const char *body,
               size_t body_bytes) {
    const struct model_index *models = server->models;
    const struct served_model *model = route->model < 0 ? NULL : &models->models[route->model];
    struct description d;
    struct sy_error err;
    int status = 0;
    if (describe_begin(&d, models, model) < 0) {
        v2_error(answer, 503, "out of memory for the answer");
        return;
    }
    answer->status = 200;
    switch (route->kind) {
    case V2_ROOT:
        root_answer(answer, server->name);
        break;
    case V2_MODELS:
        models_answer(answer, &d, models);
        break;
    case V2_LIVE:
        answer->status = server->failed ? 400 : 200;
        text_put(&answer->text, server->failed ? "{\"live\":false}" : "{\"live\":true}");
        break;
    case V2_READY:
        ready_answer(answer, server);
        break;
    case V2_CUDA_UNREGISTER: /* there are none */
        break;
    case V2_SERVER:
        message_answer(answer, describe_server(&d, server->name, server->takes_orders, server->shared));
        break;
    case V2_MODEL:
        if (!(status = model_admit(answer, route, models, 503, &err)))
            model_answer(answer, &d, model, models, route->version != NULL);
        break;
    case V2_MODEL_CONFIG:
        if (!(status = model_admit(answer, route, models, 503, &err)))
            message_answer(answer, &describe_config(&d, model)->base);
        break;
    case V2_MODEL_READY:
        if (!(status = model_admit(answer, route, models, 400, &err))) {
            text_put(&answer->text, "{\"name\":");
            json_put_string(&answer->text, model->name);
            text_put(&answer->text, ",\"ready\":true}");
        }
        break;
    case V2_STATISTICS:
        if (!(status = model_known(answer, route, models, &err)))
            status = statistics_answer(answer, server, model, route->version != NULL, &err);
        break;
    case V2_STATISTICS_ALL:
        status = statistics_answer(answer, server, NULL, false, &err);
        break;
    case V2_MODEL_TRACE:
        if ((status = model_known(answer, route, models, &err)))
            break;
        /* fall through */
    case V2_TRACE:
    case V2_LOGGING:
    case V2_INDEX:
    case V2_SHARED_REGISTER:
        status = posted_answer(answer, &d, route, server, body, body_bytes, &err);
        break;
    case V2_LOAD:
    case V2_UNLOAD:
        status = error_set(&err, 503, "%s", v2_orders_refused(server->of_cluster));
        break;
    case V2_ACCELERATORS:
        accelerators_answer(answer, server->accelerators);
        break;
    case V2_ACCELERATOR:
        status = accelerator_answer(answer, route, server->accelerators, body, body_bytes, &err);
        break;
    case V2_SHARED_STATUS:
        status = regions_answer(answer, &d, route, server, &err);
        break;
    case V2_SHARED_UNREGISTER:
        status = region_unregister(route, server, &err);
        break;
    case V2_CUDA_STATUS:
        text_put(&answer->text, "[]");
        break;
    case V2_CUDA_REGION:
        status = error_set(&err, 404, "there is no CUDA shared memory region '%.*s'",
                           route->name_length < 64 ? (int)route->name_length : 64, route->name);
        break;
    case V2_CUDA_REGISTER:
        status = error_set(&err, 501, "CUDA shared memory is not supported");
        break;
    case V2_WRONG_VERB:
        answer->allow = route->allow;
        status = error_set(&err, 405, "this path takes %s only", answer->allow);
        break;
    case V2_GENERATE:
        status =
            error_set(&err, 501,
                      "generate is not served: it is for models that make text token by token; "
                      "ask /v2/models/%.*s/infer, which takes tensors and gives tensors",
                      (int)(route->name_length < MODEL_NAME_MAX ? route->name_length : MODEL_NAME_MAX), route->name);
        break;
    case V2_VERSION_1:
        status = error_set(&err, 404,
                           "there is no such path: this server speaks version 2 of the Open Inference Protocol "
                           "(POST /v2/models/M/infer), neither version 1 nor OpenAI's; GET / lists paths");
        break;
    case V2_INFER:
    case V2_NOT_FOUND:
        status = error_set(&err, 404, "there is no such path; GET / lists the most important ones");
        break;
    }
    if (status)
        v2_error(answer, (unsigned)status, "%s", err.text);
    describe_end(&d);
}
