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
