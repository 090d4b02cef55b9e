/* v2.c - paths, and the JSON of everything but infer. Nothing here is on the hot path but v2_route(). */
#include "frontend/v2.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "frontend/describe.h"
#include "frontend/json_put.h"
#include "frontend/message_json.h"

/* FNV-1a. */
static uint32_t name_hash(const char *name, size_t length) {
    uint32_t hash = 0x811c9dc5;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 0x01000193;
    return hash;
}

int v2_models_init(struct v2_models *index, struct served_model *models, uint32_t count) {
    uint32_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    *index = (struct v2_models){.models = models, .count = count, .mask = slots - 1};
    index->slots = calloc(slots, sizeof(*index->slots));
    if (!index->slots)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = name_hash(models[i].name, strlen(models[i].name));
        while (index->slots[slot & index->mask] != 0)
            slot++;
        index->slots[slot & index->mask] = i + 1;
    }
    return 0;
}

void v2_models_destroy(struct v2_models *index) {
    free(index->slots);
    index->slots = NULL;
}

static bool name_is(const struct served_model *model, const char *name, size_t length) {
    return strncmp(model->name, name, length) == 0 && model->name[length] == '\0';
}

int v2_models_find(const struct v2_models *index, const char *name, size_t length, uint32_t version) {
    int found = -1;
    if (length >= MODEL_NAME_MAX)
        return -1;
    for (uint32_t slot = name_hash(name, length); index->slots[slot & index->mask] != 0; slot++) {
        int i = (int)index->slots[slot & index->mask] - 1;
        const struct served_model *model = &index->models[i];
        if (!name_is(model, name, length) || (version != 0 && model->version != version))
            continue;
        if (found < 0 || model->version > index->models[found].version)
            found = i;
    }
    return found;
}

/* A version is digits; 0 when it is not, or too large for one. */
static uint32_t version_parse(const char *word, size_t length) {
    uint64_t version = 0;
    for (size_t i = 0; i < length; i++) {
        if (word[i] < '0' || word[i] > '9' || version > UINT32_MAX)
            return 0;
        version = version * 10 + (uint64_t)(word[i] - '0');
    }
    return version > UINT32_MAX ? 0 : (uint32_t)version;
}

int v2_model_find(const struct v2_models *index, const char *name, size_t length, const char *version,
                  size_t version_length, struct sy_error *err) {
    uint32_t number = version_length > 0 ? version_parse(version, version_length) : 0;
    int shown = length < MODEL_NAME_MAX ? (int)length : MODEL_NAME_MAX;
    int found = version_length > 0 && number == 0 ? -1 : v2_models_find(index, name, length, number);
    if (found < 0 && version_length > 0)
        error_set(err, 0, "model '%.*s' has no version %.*s", shown, name,
                  version_length < 20 ? (int)version_length : 20, version);
    else if (found < 0)
        error_set(err, 0, "there is no model '%.*s'", shown, name);
    return found;
}

int v2_model_state(const struct served_model *model) {
    return atomic_load_explicit(&model->state, memory_order_acquire); /* `reason` is written before it */
}

bool v2_model_ready(const struct served_model *model, bool *retry, struct sy_error *err) {
    int state = v2_model_state(model);
    *retry = state == MODEL_LOADING;
    if (state == MODEL_LOADING)
        error_set(err, 0, "model '%s' is still loading", model->name);
    else if (state == MODEL_UNAVAILABLE)
        error_set(err, 0, "model '%s' is not available: %.300s", model->name, model->reason);
    return state == MODEL_READY;
}

/* Takes the path's next element: "/word". NULL at the end. */
static const char *path_next(const char **path, size_t *length) {
    *length = 0;
    if (**path != '/')
        return NULL;
    const char *word = *path + 1;
    *length = strcspn(word, "/");
    *path = word + *length;
    return word;
}

static bool word_is(const char *word, size_t length, const char *literal) {
    return word && strlen(literal) == length && memcmp(word, literal, length) == 0;
}

/* What follows /v2/models. */
static enum v2_kind model_path(struct v2_route *route, const struct v2_models *models, const char *path) {
    size_t length;
    route->name = path_next(&path, &route->name_length);
    if (!route->name || route->name_length == 0)
        return V2_NOT_FOUND;
    const char *word = path_next(&path, &length);
    if (word_is(word, length, "versions")) {
        route->version = path_next(&path, &route->version_length);
        if (!route->version || route->version_length == 0 ||
            strspn(route->version, "0123456789") < route->version_length)
            return V2_NOT_FOUND;
        word = path_next(&path, &length);
    }
    if (*path != '\0')
        return V2_NOT_FOUND;
    route->model = v2_model_find(models, route->name, route->name_length, route->version, route->version_length, NULL);
    return !word                             ? V2_MODEL
           : word_is(word, length, "infer")  ? V2_INFER
           : word_is(word, length, "ready")  ? V2_MODEL_READY
           : word_is(word, length, "config") ? V2_MODEL_CONFIG
                                             : V2_NOT_FOUND;
}

static enum v2_kind path_kind(struct v2_route *route, const struct v2_models *models, const char *path) {
    static const struct {
        const char *path;
        enum v2_kind kind;
    } fixed[] = {{"", V2_SERVER}, {"/", V2_SERVER}, {"/health/live", V2_LIVE}, {"/health/ready", V2_READY}};
    size_t length;
    if (strncmp(path, "/v2", 3) != 0)
        return V2_NOT_FOUND;
    path += 3;
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (strcmp(path, fixed[i].path) == 0)
            return fixed[i].kind;
    const char *word = path_next(&path, &length);
    if (word_is(word, length, "models"))
        return model_path(route, models, path);
    if (!word_is(word, length, "repository"))
        return V2_NOT_FOUND;
    word = path_next(&path, &length);
    if (word && !word_is(word, length, "index"))
        word = path_next(&path, &length); /* behind a repository's name */
    return word_is(word, length, "index") && *path == '\0' ? V2_INDEX : V2_NOT_FOUND;
}

void v2_route(struct v2_route *route, const struct v2_models *models, const char *method, const char *path) {
    *route = (struct v2_route){.model = -1};
    route->path_kind = path_kind(route, models, path);
    bool posts = route->path_kind == V2_INFER || route->path_kind == V2_INDEX;
    bool fits = posts ? strcmp(method, "POST") == 0 : strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    route->kind = route->path_kind == V2_NOT_FOUND || fits ? route->path_kind : V2_WRONG_VERB;
}

void v2_error(struct v2_answer *answer, unsigned status, const char *fmt, ...) {
    char sentence[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    answer->status = status;
    json_put_error(&answer->text, sentence);
}

/* The item that the profile was measured with, for inputs whose shape is open: what a client may try first. */
static json_t *item_shapes_json(const struct served_model *model) {
    json_t *shapes = json_object();
    for (uint32_t i = 0; model->signature.variable_shapes && i < model->signature.input_count; i++) {
        const struct tensor_spec *input = &model->signature.inputs[i];
        json_t *dims = json_array();
        for (uint32_t d = model->signature.batched ? 1 : 0; d < input->rank; d++)
            json_array_append_new(dims, json_integer(model->reference_dims[i][d]));
        json_object_set_new(shapes, input->name, dims);
    }
    return shapes;
}

/* What is said in a message, as JSON. */
static void message_answer(struct v2_answer *answer, const ProtobufCMessage *message) {
    message_json_put(&answer->text, message, false);
}

/* The metadata, and behind them what the protocol has no field for. */
static void model_answer(struct v2_answer *answer, struct description *d, const struct served_model *model,
                         const struct v2_models *models, bool one_version) {
    json_t *parameters = json_pack("{s:f,s:i,s:o}", "slo_ms", (double)model->slo_ns / (double)NS_PER_MS,
                                   "max_batch_size", (int)model->batch_max, "item_shapes", item_shapes_json(model));
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

static void index_answer(struct v2_answer *answer, struct description *d, const struct v2_models *models,
                         const char *body, size_t bytes) {
    bool ready_only = false;
    if (bytes > 0) {
        json_error_t error;
        json_t *request = json_loadb(body, bytes, 0, &error);
        json_t *ready = json_object_get(request, "ready");
        if (!json_is_object(request) || (ready && !json_is_boolean(ready))) {
            if (!request)
                v2_error(answer, 400, "the request's JSON is wrong: %s at byte %d", error.text, error.position);
            else
                v2_error(answer, 400, "expected an object, with true or false for 'ready'");
            json_decref(request);
            return;
        }
        ready_only = json_is_true(ready);
        json_decref(request);
    }
    const Inference__RepositoryIndexResponse *index = describe_index(d, models, ready_only);
    text_put_char(&answer->text, '[');
    for (size_t i = 0; i < index->n_models; i++) {
        if (i > 0)
            text_put_char(&answer->text, ',');
        message_json_put(&answer->text, &index->models[i]->base, true);
    }
    text_put_char(&answer->text, ']');
}

/* Whether the route's model exists and is ready; if not, the answer says so with the given status. */
static bool model_admit(struct v2_answer *answer, const struct v2_route *route, const struct v2_models *models,
                        unsigned not_ready_status) {
    struct sy_error err;
    if (v2_model_find(models, route->name, route->name_length, route->version, route->version_length, &err) < 0) {
        v2_error(answer, 404, "%s", err.text);
        return false;
    }
    if (v2_model_ready(&models->models[route->model], &answer->retry, &err))
        return true;
    v2_error(answer, not_ready_status, "%s", err.text);
    return false;
}

bool v2_infer_admit(struct v2_answer *answer, const struct v2_route *route, const struct v2_models *models) {
    return model_admit(answer, route, models, 503);
}

void v2_answer(struct v2_answer *answer, const struct v2_route *route, const struct v2_models *models,
               const struct v2_state *state, const char *body, size_t body_bytes) {
    const struct served_model *model = route->model < 0 ? NULL : &models->models[route->model];
    struct description d;
    if (describe_begin(&d, models) < 0) {
        v2_error(answer, 503, "out of memory for the answer");
        return;
    }
    answer->status = 200;
    switch (route->kind) {
    case V2_LIVE:
        break;
    case V2_READY:
        if (state->draining || !state->ready)
            answer->status = state->draining ? 503 : 400;
        break;
    case V2_SERVER:
        message_answer(answer, describe_server(&d));
        break;
    case V2_MODEL:
        if (model_admit(answer, route, models, 503))
            model_answer(answer, &d, model, models, route->version != NULL);
        break;
    case V2_MODEL_CONFIG:
        if (model_admit(answer, route, models, 503))
            message_answer(answer, &describe_config(&d, model)->base);
        break;
    case V2_MODEL_READY:
        model_admit(answer, route, models, 400);
        break;
    case V2_INDEX:
        index_answer(answer, &d, models, body, body_bytes);
        break;
    case V2_WRONG_VERB:
        answer->allow = route->path_kind == V2_INFER || route->path_kind == V2_INDEX ? "POST" : "GET, HEAD";
        v2_error(answer, 405, "this path takes %s only", answer->allow);
        break;
    case V2_INFER:
    case V2_NOT_FOUND:
        v2_error(answer, 404, "there is no such path; the protocol's begin with /v2");
        break;
    }
    describe_end(&d);
}
