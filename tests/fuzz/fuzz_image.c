/* fuzz_image.c - the sizes that images claim, and the decoding of those that claim little. */
/* runs: 150000 */
#include <stdint.h>
#include <stdlib.h>

#include "core/data/image_decode.h"
#include "core/util/assert.h"

#define PIXELS_MAX 65536 /* more would only be slow */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct image_header header;
    struct sy_error err;
    if (image_header_read(data, bytes, &header, &err) < 0)
        return 0;
    CHECK(header.width > 0 && header.height > 0);
    if (image_pixels(&header) > PIXELS_MAX)
        return 0;
    uint8_t *rgb = malloc(image_pixels(&header) * IMAGE_CHANNELS);
    CHECK(rgb);
    image_decode(&header, data, bytes, rgb, NULL, &err); /* whatever it says, it stays within the pixels */
    free(rgb);
    return 0;
}
