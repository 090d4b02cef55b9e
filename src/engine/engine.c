/* engine.c - the engines this program was built with. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"

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

struct failure {
    struct output_block block;
    char sentence[];
};

static void failure_release(struct output_block *block) {
    free(container_of(block, struct failure, block));
}

struct output_block *output_block_failed(const char *sentence) {
    size_t bytes = strlen(sentence) + 1;
    struct failure *failure = malloc(sizeof(*failure) + bytes);
    if (!failure)
        return NULL;
    failure->block = (struct output_block){.failure = failure->sentence, .release = failure_release};
    atomic_init(&failure->block.references, 1);
    memcpy(failure->sentence, sentence, bytes);
    return &failure->block;
}
