/* output_block.c - a batch without outputs, and the sentence that says why. */
#include "link/output_block.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"

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
