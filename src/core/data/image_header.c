/* image_header.c - reads the frame header of a JPEG (ITU-T T.81, annex B) or the IHDR chunk of a PNG (W3C 11.2). */
#include "core/data/image_header.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static uint32_t big_endian(const uint8_t *at, unsigned bytes) {
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* ---- PNG ---- */

static const uint8_t png_signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

#define PNG_IHDR_AT  (sizeof(png_signature) + 8) /* place of the IHDR chunk's data, behind its length and name */
#define PNG_IHDR     13
#define PNG_SIDE_MAX INT32_MAX

static int png_header(const uint8_t *data, size_t bytes, struct image_header *header, struct sy_error *err) {
    if (bytes < PNG_IHDR_AT + PNG_IHDR)
        return error_set(err, -EINVAL, "is a PNG of %zu bytes, which ends within its header", bytes);
    if (big_endian(data + 8, 4) != PNG_IHDR || memcmp(data + 12, "IHDR", 4) != 0)
        return error_set(err, -EINVAL, "is a PNG that does not begin with its IHDR chunk");
    uint32_t width = big_endian(data + PNG_IHDR_AT, 4), height = big_endian(data + PNG_IHDR_AT + 4, 4);
    if (width < 1 || height < 1 || width > PNG_SIDE_MAX || height > PNG_SIDE_MAX)
        return error_set(err, -EINVAL, "is a PNG of %u x %u pixels, which no PNG may have", width, height);
    *header = (struct image_header){IMAGE_KIND_PNG, width, height};
    return 0;
}

/* ---- JPEG ---- */

enum jpeg_marker {
    JPEG_TEM = 0x01,
    JPEG_SOF0 = 0xc0, /* baseline; 0xc1: extended, 0xc2: progressive */
    JPEG_SOF2 = 0xc2,
    JPEG_DHT = 0xc4,
    JPEG_JPG = 0xc8,
    JPEG_DAC = 0xcc,
    JPEG_SOF15 = 0xcf,
    JPEG_RST0 = 0xd0,
    JPEG_SOI = 0xd8,
    JPEG_EOI = 0xd9,
    JPEG_SOS = 0xda,
};

/* `at` is behind the segment's length, whose `bytes` are there. */
static int jpeg_frame(uint8_t marker, const uint8_t *at, size_t bytes, struct image_header *header,
                      struct sy_error *err) {
    if (bytes < 6)
        return error_set(err, -EINVAL, "is a JPEG whose frame header is cut off");
    uint32_t height = big_endian(at + 1, 2), width = big_endian(at + 3, 2);
    if (marker > JPEG_SOF2)
        return error_set(err, -EINVAL, "is a JPEG of a kind that is not decoded (SOF%u): baseline and progressive are",
                         (unsigned)(marker - JPEG_SOF0));
    if (at[0] != 8)
        return error_set(err, -EINVAL, "is a JPEG of %u bits a sample; 8 are decoded", at[0]);
    if (at[5] != 1 && at[5] != 3)
        return error_set(err, -EINVAL, "is a JPEG of %u components; 1 (grey) and 3 (colour) are decoded", at[5]);
    if (width < 1 || height < 1)
        return error_set(err, -EINVAL, "is a JPEG that does not say its size in its frame header");
    *header = (struct image_header){marker == JPEG_SOF2 ? IMAGE_KIND_JPEG_PROGRESSIVE : IMAGE_KIND_JPEG, width, height};
    return 0;
}

/* Goes through the segments, each of which is led by its length. */
static int jpeg_header(const uint8_t *data, size_t bytes, struct image_header *header, struct sy_error *err) {
    size_t at = 2;
    for (unsigned segment = 0; segment < IMAGE_SEGMENTS_MAX; segment++) {
        if (at < bytes && data[at] != 0xff)
            return error_set(err, -EINVAL, "is a JPEG without a marker at byte %zu, where one belongs", at);
        while (at < bytes && data[at] == 0xff) /* fill bytes */
            at++;
        if (at >= bytes)
            return error_set(err, -EINVAL, "is a JPEG that ends after %zu bytes, before its frame header", bytes);
        uint8_t marker = data[at++];
        if (marker == JPEG_TEM)
            continue;
        if (marker == JPEG_SOS || marker == 0 || (marker >= JPEG_RST0 && marker <= JPEG_EOI))
            return error_set(err, -EINVAL, "is a JPEG without a frame header before marker %02x at byte %zu", marker,
                             at - 1);
        if (bytes - at < 2 || big_endian(data + at, 2) < 2 || bytes - at < big_endian(data + at, 2))
            return error_set(err, -EINVAL, "is a JPEG that ends after %zu bytes, before its frame header", bytes);
        size_t length = big_endian(data + at, 2);
        bool frame = marker >= JPEG_SOF0 && marker <= JPEG_SOF15 && marker != JPEG_DHT && marker != JPEG_JPG &&
                     marker != JPEG_DAC;
        if (frame)
            return jpeg_frame(marker, data + at + 2, length - 2, header, err);
        at += length;
    }
    return error_set(err, -EINVAL, "is a JPEG of more than %d segments before its frame header", IMAGE_SEGMENTS_MAX);
}

double image_work(const struct image_header *header, size_t bytes) {
    double width = header->width, height = header->height;
    if (header->kind == IMAGE_KIND_PNG)
        return width * height + 12 * height + (double)bytes / 3;
    return (double)((header->width + 15) / 16 * 16) * ((header->height + 15) / 16 * 16) + 2 * (double)bytes;
}

int image_header_read(const void *data, size_t bytes, struct image_header *header, struct sy_error *err) {
    const uint8_t *at = data;
    if (bytes == 0)
        return error_set(err, -EINVAL, "is empty");
    if (bytes >= sizeof(png_signature) && memcmp(at, png_signature, sizeof(png_signature)) == 0)
        return png_header(at, bytes, header, err);
    if (bytes >= 3 && at[0] == 0xff && at[1] == JPEG_SOI && at[2] == 0xff)
        return jpeg_header(at, bytes, header, err);
    return error_set(err, -EINVAL, "is neither a JPEG nor a PNG");
}
