/* op_libraries.h - shared libraries with operators of a model's own (model_operations of config.pbtxt), which the
 * engine loads before the model. */
#pragma once

#include <stdbool.h>

#define OP_LIBRARIES_MAX    4
#define OP_LIBRARY_PATH_MAX 1024 /* bytes, terminator included */

struct op_libraries {
    char paths[OP_LIBRARIES_MAX][OP_LIBRARY_PATH_MAX]; /* paths of the libraries, up to the first empty one */
};

/* Whether there are any libraries; NULL is allowed. */
static inline bool op_libraries_any(const struct op_libraries *libraries) {
    return libraries && libraries->paths[0][0];
}
