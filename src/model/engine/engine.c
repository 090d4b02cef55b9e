/* engine.c - the engines this program was built with. */
#include "model/engine/engine.h"

#include <string.h>

const struct engine_ops *const engines[] = {
#ifdef SYMPHONY_HAVE_ONNXRUNTIME
    &engine_onnxruntime,
#endif
    &engine_emulated,
    NULL,
};

const struct engine_ops *engine_find(const char *name) {
    for (const struct engine_ops *const *engine = engines; *engine; engine++)
        if (strcmp((*engine)->name, name) == 0)
            return *engine;
    return NULL;
}

static uint64_t run_memory;

void engine_run_memory_set(uint64_t bytes) {
    run_memory = bytes;
}

uint64_t engine_run_memory(void) {
    return run_memory;
}
