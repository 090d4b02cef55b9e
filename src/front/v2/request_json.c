/* request_json.c - reads a JSON object. */
#include "front/v2/request_json.h"

json_t *request_json(const char *body, size_t bytes, struct sy_error *err) {
    json_error_t error;
    json_t *request = bytes > 0 ? json_loadb(body, bytes, 0, &error) : json_object();
    if (json_is_object(request))
        return request;
    if (request || bytes == 0)
        error_set(err, 400, "expected an object");
    else
        error_set(err, 400, "the request's JSON is wrong: %s at byte %d", error.text, error.position);
    json_decref(request);
    return NULL;
}
