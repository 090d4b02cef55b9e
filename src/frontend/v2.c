/* v2.c - served models by name, and paths. */
#include "frontend/v2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/container.h"

/* FNV-1a. */
static uint32_t name_hash(const char *name, size_t length) {
    uint32_t hash = 0x811c9dc5;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 0x01000193;
    return hash;
}

int v2_models_init_listed(struct v2_models *index, struct served_model *models, const uint32_t *listed, uint32_t count,
                          const struct v2_absent *absent, uint32_t absent_count) {
    uint32_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    *index = (struct v2_models){.models = models, .count = count, .absent_count = absent_count, .mask = slots - 1};
    index->slots = calloc(slots, sizeof(*index->slots));
    index->listed = calloc(count + 1, sizeof(*index->listed));
    index->absent = calloc(absent_count + 1, sizeof(*index->absent));
    if (!index->slots || !index->listed || !index->absent)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = index->listed[i] = listed ? listed[i] : i;
        uint32_t slot = name_hash(models[number].name, strlen(models[number].name));
        while (index->slots[slot & index->mask] != 0)
            slot++;
        index->slots[slot & index->mask] = number + 1;
    }
    if (absent_count > 0)
        memcpy(index->absent, absent, absent_count * sizeof(*absent));
    return 0;
}

int v2_models_init(struct v2_models *index, struct served_model *models, uint32_t count) {
    return v2_models_init_listed(index, models, NULL, count, NULL, 0);
}

void v2_models_destroy(struct v2_models *index) {
    free(index->slots);
    free(index->listed);
    free(index->absent);
    *index = (struct v2_models){.models = NULL};
}

static bool name_is(const char *model, const char *name, size_t length) {
    return strlen(model) == length && memcmp(model, name, length) == 0;
}

/* Of two versions, the one to ask where none is named: one that is ready, then the higher one. */
static bool version_precedes(const struct served_model *model, const struct served_model *other) {
    bool ready = v2_model_state(model) == MODEL_READY, other_ready = v2_model_state(other) == MODEL_READY;
    return ready != other_ready ? ready : model->version > other->version;
}

int v2_models_find(const struct v2_models *index, const char *name, size_t length, uint32_t version) {
    int found = -1;
    if (length >= MODEL_NAME_MAX)
        return -1;
    for (uint32_t slot = name_hash(name, length); index->slots[slot & index->mask] != 0; slot++) {
        int i = (int)index->slots[slot & index->mask] - 1;
        const struct served_model *model = &index->models[i];
        if (!name_is(model->name, name, length) || (version != 0 && model->version != version))
            continue;
        if (found < 0 || version_precedes(model, &index->models[found]))
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

/* Triton's words, by which its clients know what they asked for wrongly; behind them the reason, which it does not
 * tell. */
#define UNKNOWN    "Request for unknown model: "
#define NO_VERSION UNKNOWN "'%s' has no available versions: "

static int absent_error(const struct v2_absent *absent, struct sy_error *err) {
    if (absent->state == MODEL_LOADING)
        return error_set(err, -503, NO_VERSION "it is still loading", absent->name);
    if (absent->failed)
        return error_set(err, -503, NO_VERSION "%.300s", absent->name, absent->reason);
    return error_set(err, -404, NO_VERSION "it is not loaded", absent->name);
}

int v2_model_find(const struct v2_models *index, const char *name, size_t length, const char *version,
                  size_t version_length, struct sy_error *err) {
    uint32_t number = version_length > 0 ? version_parse(version, version_length) : 0;
    int shown = length < MODEL_NAME_MAX ? (int)length : MODEL_NAME_MAX;
    int found = version_length > 0 && number == 0 ? -1 : v2_models_find(index, name, length, number);
    if (found >= 0)
        return found;
    for (uint32_t i = 0; i < index->absent_count && length < MODEL_NAME_MAX; i++)
        if (name_is(index->absent[i].name, name, length))
            return absent_error(&index->absent[i], err);
    if (version_length > 0)
        return error_set(err, -404, UNKNOWN "'%.*s' version %.*s is not found", shown, name,
                         version_length < 20 ? (int)version_length : 20, version);
    return error_set(err, -404, UNKNOWN "'%.*s' is not found", shown, name);
}

int v2_model_state(const struct served_model *model) {
    return atomic_load_explicit(&model->state, memory_order_acquire); /* `reason` is written before it */
}

bool v2_model_ready(const struct served_model *model, bool *retry, struct sy_error *err) {
    int state = v2_model_state(model);
    *retry = state == MODEL_LOADING;
    if (state == MODEL_LOADING)
        error_set(err, 0, NO_VERSION "it is still loading", model->name);
    else if (state == MODEL_UNAVAILABLE)
        error_set(err, 0, NO_VERSION "%.300s", model->name, model->reason);
    return state == MODEL_READY;
}

enum verbs { READS, POSTS, READS_OR_POSTS };

/* '*' stands for a name, '#' for digits; of two names the last counts. */
static const struct {
    const char *path;
    enum v2_kind kind;
    enum verbs verbs;
} rows[] = {
    {"/models/*/infer", V2_INFER, POSTS},
    {"/models/*/versions/#/infer", V2_INFER, POSTS},
    {"", V2_SERVER, READS},
    {"/", V2_SERVER, READS},
    {"/health/live", V2_LIVE, READS},
    {"/health/ready", V2_READY, READS},
    {"/models/stats", V2_STATISTICS_ALL, READS},
    {"/models/*", V2_MODEL, READS},
    {"/models/*/versions/#", V2_MODEL, READS},
    {"/models/*/ready", V2_MODEL_READY, READS},
    {"/models/*/versions/#/ready", V2_MODEL_READY, READS},
    {"/models/*/config", V2_MODEL_CONFIG, READS},
    {"/models/*/versions/#/config", V2_MODEL_CONFIG, READS},
    {"/models/*/stats", V2_STATISTICS, READS},
    {"/models/*/versions/#/stats", V2_STATISTICS, READS},
    {"/models/*/trace/setting", V2_MODEL_TRACE, READS_OR_POSTS},
    {"/trace/setting", V2_TRACE, READS_OR_POSTS},
    {"/logging", V2_LOGGING, READS_OR_POSTS},
    {"/repository/index", V2_INDEX, POSTS},
    {"/repository/*/index", V2_INDEX, POSTS},
    {"/repository/models/*/load", V2_LOAD, POSTS},
    {"/repository/*/models/*/load", V2_LOAD, POSTS},
    {"/repository/models/*/unload", V2_UNLOAD, POSTS},
    {"/repository/*/models/*/unload", V2_UNLOAD, POSTS},
    {"/systemsharedmemory/status", V2_SHARED_STATUS, READS},
    {"/systemsharedmemory/region/*/status", V2_SHARED_STATUS, READS},
    {"/systemsharedmemory/region/*/register", V2_SHARED_REGISTER, POSTS},
    {"/systemsharedmemory/region/*/unregister", V2_SHARED_UNREGISTER, POSTS},
    {"/systemsharedmemory/unregister", V2_SHARED_UNREGISTER, POSTS},
    {"/cudasharedmemory/status", V2_CUDA_STATUS, READS},
    {"/cudasharedmemory/region/*/status", V2_CUDA_REGION, READS},
    {"/cudasharedmemory/region/*/register", V2_CUDA_REGISTER, POSTS},
    {"/cudasharedmemory/region/*/unregister", V2_CUDA_UNREGISTER, POSTS},
    {"/cudasharedmemory/unregister", V2_CUDA_UNREGISTER, POSTS},
};

/* Whether the path is of the pattern; its names then are in the route. */
static bool path_match(struct v2_route *route, const char *pattern, const char *path) {
    route->name = route->version = NULL;
    for (; *pattern; pattern++) {
        if (*pattern != '*' && *pattern != '#') {
            if (*path++ != *pattern)
                return false;
            continue;
        }
        size_t length = *pattern == '*' ? strcspn(path, "/") : strspn(path, "0123456789");
        if (length == 0)
            return false;
        *(*pattern == '*' ? &route->name : &route->version) = path;
        *(*pattern == '*' ? &route->name_length : &route->version_length) = length;
        path += length;
    }
    return *path == '\0';
}

static bool of_a_model(enum v2_kind kind) {
    return kind == V2_INFER || kind == V2_MODEL || kind == V2_MODEL_READY || kind == V2_MODEL_CONFIG ||
           kind == V2_STATISTICS || kind == V2_MODEL_TRACE;
}

/* Behind the server's name, where a request has it as clients of proxies send it (RFC 9112, 3.2.2). */
static const char *path_of(const char *target) {
    if (*target == '/')
        return target;
    size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    return scheme > 0 ? target + scheme + strcspn(target + scheme, "/") : target;
}

void v2_route(struct v2_route *route, const struct v2_models *models, const char *method, const char *target) {
    const char *path = path_of(target);
    *route = (struct v2_route){.kind = V2_NOT_FOUND, .model = -1};
    if (strncmp(path, "/v2", 3) != 0)
        return;
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        if (!path_match(route, rows[i].path, path + 3))
            continue;
        bool read = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
        route->posted = strcmp(method, "POST") == 0;
        bool fits = (read && rows[i].verbs != POSTS) || (route->posted && rows[i].verbs != READS);
        route->kind = fits ? rows[i].kind : V2_WRONG_VERB;
        route->allow = rows[i].verbs == READS ? "GET, HEAD" : rows[i].verbs == POSTS ? "POST" : "GET, HEAD, POST";
        int model = of_a_model(rows[i].kind) ? v2_model_find(models, route->name, route->name_length, route->version,
                                                             route->version_length, NULL)
                                             : -1;
        route->model = model < 0 ? -1 : model;
        return;
    }
    route->name = route->version = NULL;
}
