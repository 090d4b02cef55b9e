/* model_name.c - which names a model may have. */
#include "model/config/model_name.h"

#include <string.h>

#include "core/data/tensor.h"

_Static_assert(MODEL_NAME_MAX == 128, "MODEL_NAME_EXPECTED says 127");

bool model_name_is_valid(const char *name) {
    for (const char *c = name; *c; c++)
        if (*c <= ' ' || *c > '~' || strchr("/\\\"'", *c))
            return false;
    return *name && strlen(name) < MODEL_NAME_MAX;
}

uint32_t model_name_hash(const char *name, size_t length) {
    uint32_t hash = 0x811c9dc5; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 0x01000193;
    return hash;
}
