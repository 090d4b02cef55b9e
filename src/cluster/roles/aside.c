/* aside.c - lists of models that are not served, with their reasons. */
#include "cluster/roles/aside.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/utf8.h"

static json_t *cleaned(const char *text) {
    char *copy = strdup(text);
    if (copy)
        utf8_clean(copy, strlen(copy));
    json_t *json = copy ? json_string(copy) : NULL;
    free(copy);
    return json;
}

void aside_add(json_t *list, const char *name, uint32_t version, const char *reason) {
    json_t *one = json_object();
    int rc = json_object_set_new(one, "name", cleaned(name));
    rc |= json_object_set_new(one, "version", version ? json_integer(version) : json_null());
    rc |= json_object_set_new(one, "reason", cleaned(reason));
    if (rc)
        json_decref(one);
    else
        json_array_append_new(list, one);
}

char *aside_write(json_t *list, size_t bytes_max) {
    for (;;) {
        char *text = json_dumps(list, JSON_COMPACT);
        size_t count = json_array_size(list);
        if (!text || strlen(text) <= bytes_max || count == 0)
            return text;
        free(text);
        for (size_t left = count / 2; count > left; count--)
            json_array_remove(list, count - 1);
    }
}

static bool is_entry(const json_t *one) {
    const json_t *version = json_object_get(one, "version");
    json_int_t number = json_integer_value(version);
    return json_is_string(json_object_get(one, "name")) && json_is_string(json_object_get(one, "reason")) &&
           (json_is_null(version) || (json_is_integer(version) && number >= 1 && number <= UINT32_MAX));
}

json_t *aside_read(const char *text, size_t bytes, struct sy_error *err) {
    json_t *list = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_array(list);
    for (size_t i = 0; i < json_array_size(list); i++)
        good &= is_entry(json_array_get(list, i));
    if (good)
        return list;
    json_decref(list);
    error_set(err, -EPROTO, "a list of models that are not served, which is none");
    return NULL;
}
