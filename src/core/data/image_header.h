/* image_header.h - the size that a JPEG or PNG says it has, read from its first bytes.
 *
 * Nothing is decoded and no memory is taken. So a small file that would unpack to gigabytes is found out before it is
 * decoded. Pure; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

enum image_kind { IMAGE_KIND_JPEG, IMAGE_KIND_JPEG_PROGRESSIVE, IMAGE_KIND_PNG, IMAGE_KIND_COUNT };

struct image_header {
    enum image_kind kind;
    uint32_t width, height; /* pixels, at least 1 */
};

/* bytes of a decoded pixel: red, green, blue */
#define IMAGE_CHANNELS 3

static inline uint64_t image_pixels(const struct image_header *header) {
    return (uint64_t)header->width * header->height;
}

/* The work of decoding a file of `bytes` bytes, in a unit of its kind. Pixels alone do not tell: a pixel took 1.2 to
 * 142 ns in the JPEGs of one program. The file's bytes cost time, too, and so do a JPEG's blocks of 16 x 16 pixels, of
 * which the last of a row is decoded whole, and a PNG's rows. A unit took 1 to 8 ns in JPEGs, mostly 3 to 12 in
 * progressive ones, 1 to 10 in PNGs. */
double image_work(const struct image_header *header, size_t bytes);

/* Reads a header. 0, or -EINVAL with what is wrong with the bytes: a sentence without a subject ("is neither a JPEG nor
 * a PNG"). A JPEG is read up to its frame header, and over at most IMAGE_SEGMENTS_MAX segments. */
#define IMAGE_SEGMENTS_MAX 1024
int image_header_read(const void *data, size_t bytes, struct image_header *header, struct sy_error *err);
