/* v2.c - finds the route of a path. */
#include "front/v2/v2.h"

#include <string.h>
#include <strings.h>

#include "core/util/container.h"

enum verbs { READS, POSTS, READS_OR_POSTS };

/* The paths: '*' stands for a name, '#' for digits; of two names the last is used. */
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
    {"/models", V2_MODELS, READS},
    {"/models/", V2_MODELS, READS},
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
    {"/models/*/generate", V2_GENERATE, READS_OR_POSTS},
    {"/models/*/versions/#/generate", V2_GENERATE, READS_OR_POSTS},
    {"/models/*/generate_stream", V2_GENERATE, READS_OR_POSTS},
    {"/models/*/versions/#/generate_stream", V2_GENERATE, READS_OR_POSTS},
    {"/trace/setting", V2_TRACE, READS_OR_POSTS},
    {"/logging", V2_LOGGING, READS_OR_POSTS},
    {"/repository/index", V2_INDEX, POSTS},
    {"/repository/*/index", V2_INDEX, POSTS},
    {"/repository/models/*/load", V2_LOAD, POSTS},
    {"/repository/*/models/*/load", V2_LOAD, POSTS},
    {"/repository/models/*/unload", V2_UNLOAD, POSTS},
    {"/repository/*/models/*/unload", V2_UNLOAD, POSTS},
    {"/symphony/accelerators", V2_ACCELERATORS, READS},
    {"/symphony/accelerators/#", V2_ACCELERATOR, READS_OR_POSTS},
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

/* Whether the path matches the pattern; if so, the route has its names. */
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

/* The path without the server's name, which clients of proxies send before it (RFC 9112, 3.2.2). */
static const char *path_of(const char *target) {
    if (*target == '/')
        return target;
    size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    return scheme > 0 ? target + scheme + strcspn(target + scheme, "/") : target;
}

void v2_route(struct v2_route *route, const struct model_index *models, const char *method, const char *target) {
    const char *path = path_of(target);
    *route = (struct v2_route){.kind = V2_NOT_FOUND, .model = -1};
    bool read = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (strncmp(path, "/v2", 3) != 0) {
        if (read && strcmp(path, "/") == 0)
            route->kind = V2_ROOT;
        else if (strncmp(path, "/v1/", 4) == 0)
            route->kind = V2_VERSION_1;
        return;
    }
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        if (!path_match(route, rows[i].path, path + 3))
            continue;
        route->posted = strcmp(method, "POST") == 0;
        bool fits = (read && rows[i].verbs != POSTS) || (route->posted && rows[i].verbs != READS);
        route->kind = fits ? rows[i].kind : V2_WRONG_VERB;
        route->allow = rows[i].verbs == READS ? "GET, HEAD" : rows[i].verbs == POSTS ? "POST" : "GET, HEAD, POST";
        int model = of_a_model(rows[i].kind) ? model_index_find(models, route->name, route->name_length, route->version,
                                                                route->version_length, NULL)
                                             : -1;
        route->model = model < 0 ? -1 : model;
        return;
    }
    route->name = route->version = NULL;
}
