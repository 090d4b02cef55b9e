/* fuzz_inflate.c - compressed bodies from anywhere. The input's first byte picks the encoding. */
/* runs: 2500 */
#include <stdint.h>

#include "blocks.h"
#include "front/bulk/inflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MAX ((size_t)1 << 20)
#define LEAD      5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct inflater inflater;
    struct memory memory = {.count = 0};
    struct sy_error err = {""};
    char *out;
    size_t bytes;
    if (size < 1)
        return 0;
    int status = inflate_body(&inflater, data[0] & 1 ? BODY_GZIP : BODY_DEFLATE, data + 1, size - 1, BYTES_MAX, LEAD,
                              (struct block_memory){memory_take, memory_give, &memory}, &out, &bytes, &err);
    CHECK(status == 0 || ((status == 400 || status == 413) && err.text[0] != '\0'));
    CHECK_LE(memory.count, 1);
    if (status == 0) {
        CHECK_EQ(out, memory.blocks[0]);
        CHECK_LE(bytes, BYTES_MAX);
    }
    memory_free(&memory);
    return 0;
}
