/* test_image.c - the sizes of images from their headers, and their pixels. */
#include "unit/test.h"

#include <errno.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <turbojpeg.h>
#include <zlib.h>

#include "core/data/image_decode.h"

#define W 37
#define H 23

static void fill(uint8_t *rgb, uint32_t width, uint32_t height) {
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *at = rgb + (y * width + x) * 3;
            at[0] = (uint8_t)(x * 5);
            at[1] = (uint8_t)(y * 7);
            at[2] = (uint8_t)(x + y);
        }
}

/* A JPEG of those pixels; tjFree() it. */
static unsigned char *jpeg_of(const uint8_t *rgb, int pixel_format, int flags, unsigned long *bytes) {
    tjhandle encoder = tjInitCompress();
    unsigned char *file = NULL;
    *bytes = 0;
    assert_int_equal(tjCompress2(encoder, rgb, W, 0, H, pixel_format, &file, bytes,
                                 pixel_format == TJPF_GRAY ? TJSAMP_GRAY : TJSAMP_420, 90, flags),
                     0);
    tjDestroy(encoder);
    return file;
}

/* A PNG in memory; free() it. */
static uint8_t *png_of(const void *pixels, uint32_t format, size_t *bytes) {
    png_image image = {.version = PNG_IMAGE_VERSION, .width = W, .height = H, .format = format};
    png_alloc_size_t needed = 0;
    assert_true(png_image_write_to_memory(&image, NULL, &needed, 0, pixels, 0, NULL));
    uint8_t *file = malloc(needed);
    assert_true(png_image_write_to_memory(&image, file, &needed, 0, pixels, 0, NULL));
    *bytes = needed;
    return file;
}

static void decoded(const void *file, size_t bytes, enum image_kind kind, uint8_t *rgb) {
    struct image_header header;
    struct sy_error err = {""};
    assert_int_equal(image_header_read(file, bytes, &header, &err), 0);
    assert_int_equal(header.kind, kind);
    assert_int_equal(header.width, W);
    assert_int_equal(header.height, H);
    if (image_decode(&header, file, bytes, rgb, NULL, &err) != 0)
        fail_msg("%s", err.text);
}

TEST(jpegs_are_decoded_as_the_library_does) {
    uint8_t rgb[W * H * 3], ours[W * H * 3], theirs[W * H * 3];
    fill(rgb, W, H);
    for (int progressive = 0; progressive < 2; progressive++) {
        unsigned long bytes;
        unsigned char *file = jpeg_of(rgb, TJPF_RGB, progressive ? TJFLAG_PROGRESSIVE : 0, &bytes);
        decoded(file, bytes, progressive ? IMAGE_KIND_JPEG_PROGRESSIVE : IMAGE_KIND_JPEG, ours);
        tjhandle decoder = tjInitDecompress();
        assert_int_equal(tjDecompress2(decoder, file, bytes, theirs, W, 0, H, TJPF_RGB, TJFLAG_ACCURATEDCT), 0);
        tjDestroy(decoder);
        assert_memory_equal(ours, theirs, sizeof(ours));
        tjFree(file);
    }
}

TEST(a_grey_jpeg_becomes_rgb) {
    uint8_t grey[W * H], ours[W * H * 3];
    unsigned long bytes;
    memset(grey, 77, sizeof(grey));
    unsigned char *file = jpeg_of(grey, TJPF_GRAY, 0, &bytes);
    decoded(file, bytes, IMAGE_KIND_JPEG, ours);
    for (size_t i = 0; i < sizeof(ours); i++)
        assert_in_range(ours[i], 76, 78);
    tjFree(file);
}

TEST(pngs_keep_every_pixel) {
    uint8_t rgb[W * H * 3], rgba[W * H * 4], grey[W * H], ours[W * H * 3];
    size_t bytes;
    fill(rgb, W, H);
    uint8_t *file = png_of(rgb, PNG_FORMAT_RGB, &bytes);
    decoded(file, bytes, IMAGE_KIND_PNG, ours);
    assert_memory_equal(ours, rgb, sizeof(ours));
    free(file);
    for (size_t i = 0; i < W * H; i++) { /* what is transparent keeps its colour */
        memcpy(rgba + 4 * i, rgb + 3 * i, 3);
        rgba[4 * i + 3] = (uint8_t)i;
        grey[i] = (uint8_t)i;
    }
    file = png_of(rgba, PNG_FORMAT_RGBA, &bytes);
    decoded(file, bytes, IMAGE_KIND_PNG, ours);
    assert_memory_equal(ours, rgb, sizeof(ours));
    free(file);
    file = png_of(grey, PNG_FORMAT_GRAY, &bytes);
    decoded(file, bytes, IMAGE_KIND_PNG, ours);
    for (size_t i = 0; i < sizeof(ours); i++)
        assert_int_equal(ours[i], grey[i / 3]);
    free(file);
}

TEST(headers_say_what_is_wrong) {
    static const struct {
        const char *bytes;
        size_t count;
        const char *sentence;
    } cases[] = {
        {"", 0, "is empty"},
        {"GIF89a..........", 16, "is neither a JPEG nor a PNG"},
        {"\xff\xd8", 2, "is neither a JPEG nor a PNG"},
        {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", 18, "ends within its header"},
        {"\x89PNG\r\n\x1a\n\0\0\0\rIDAT\0\0\0\1\0\0\0\1\10\2\0\0\0", 29, "does not begin with its IHDR chunk"},
        {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\1\10\2\0\0\0", 29, "0 x 1 pixels"},
        {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xff\xff\xff\0\0\0\1\10\2\0\0\0", 29, "which no PNG may have"},
        {"\xff\xd8\xff", 3, "ends after 3 bytes"},
        {"\xff\xd8\xff\xe0\0\1", 6, "ends after 6 bytes"},
        {"\xff\xd8\xff\xe0\0\x10zz", 8, "ends after 8 bytes"},
        {"\xff\xd8\xff\xe0\0\4zzQ", 9, "without a marker at byte 8"},
        {"\xff\xd8\xff\xda\0\4zz", 8, "without a frame header before marker da"},
        {"\xff\xd8\xff\xc0\0\5\10\0\1", 9, "frame header is cut off"},
        {"\xff\xd8\xff\xc0\0\x0b\10\0\0\0\1\1zzz", 15, "does not say its size"},
        {"\xff\xd8\xff\xc0\0\x0b\14\0\1\0\1\1zzz", 15, "12 bits a sample"},
        {"\xff\xd8\xff\xc0\0\x0b\10\0\1\0\1\4zzz", 15, "4 components"},
        {"\xff\xd8\xff\xc9\0\x0b\10\0\1\0\1\1zzz", 15, "SOF9"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct image_header header;
        struct sy_error err = {""};
        assert_int_equal(image_header_read(cases[i].bytes, cases[i].count, &header, &err), -EINVAL);
        if (!strstr(err.text, cases[i].sentence))
            fail_msg("case %zu: '%s' is not said: %s", i, cases[i].sentence, err.text);
    }
}

TEST(segments_are_bounded) {
    size_t bytes = 2 + 4 * 2000;
    uint8_t *file = malloc(bytes);
    struct image_header header;
    struct sy_error err = {""};
    memcpy(file, "\xff\xd8", 2);
    for (size_t at = 2; at < bytes; at += 4)
        memcpy(file + at, "\xff\xe1\0\2", 4);
    assert_int_equal(image_header_read(file, bytes, &header, &err), -EINVAL);
    assert_non_null(strstr(err.text, "more than 1024 segments"));
    free(file);
}

/* Every cut and many changed bytes: an answer, and never a pixel outside. The sanitizers' builds look. */
TEST(damaged_images_are_refused) {
    uint8_t rgb[W * H * 3];
    unsigned long jpeg_bytes;
    size_t png_bytes;
    fill(rgb, W, H);
    unsigned char *jpeg = jpeg_of(rgb, TJPF_RGB, 0, &jpeg_bytes);
    uint8_t *png = png_of(rgb, PNG_FORMAT_RGB, &png_bytes);
    for (int kind = 0; kind < 2; kind++) {
        const uint8_t *file = kind ? png : jpeg;
        size_t bytes = kind ? png_bytes : jpeg_bytes;
        uint8_t *ours = malloc(sizeof(rgb));
        for (size_t cut = 0; cut + 16 < bytes; cut++) {
            struct image_header header;
            struct sy_error err = {""};
            int rc = image_header_read(file, cut, &header, &err);
            if (rc == 0)
                rc = image_decode(&header, file, cut, ours, NULL, &err);
            if (rc != -EINVAL || !err.text[0])
                fail_msg("kind %d, %zu of %zu bytes are taken", kind, cut, bytes);
        }
        uint8_t *changed = malloc(bytes);
        for (size_t at = 0; at < bytes; at++) {
            struct image_header header;
            struct sy_error err = {""};
            memcpy(changed, file, bytes);
            changed[at] ^= 0x55;
            if (image_header_read(changed, bytes, &header, &err) == 0 && image_pixels(&header) <= W * H)
                image_decode(&header, changed, bytes, ours, NULL, &err);
        }
        free(changed);
        free(ours);
    }
    tjFree(jpeg);
    free(png);
}

static uint8_t *big_endian(uint8_t *to, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8)
        *to++ = (uint8_t)(value >> shift);
    return to;
}

static uint8_t *png_chunk(uint8_t *to, const char *name, const void *data, size_t bytes) {
    uint8_t *named = big_endian(to, (uint32_t)bytes);
    memcpy(named, name, 4);
    memcpy(named + 4, data, bytes);
    return big_endian(named + 4 + bytes, (uint32_t)crc32(0, named, (uInt)(4 + bytes)));
}

TEST(nothing_is_reserved_for_what_a_png_only_claims) {
    static const char names[][5] = {"tEXt", "zTXt", "iTXt", "sPLT", "iCCP", "eXIf", "pCAL",
                                    "sCAL", "hIST", "tRNS", "PLTE", "IDAT", "zzZz", "ZzZz"};
    enum { HEADER_BYTES = 8 + 25, CLAIMED = 0x7ffffff0, MEMORY_KIB = 64 << 10 };
    uint8_t rgb[W * H * 3], ours[W * H * 3];
    size_t bytes;
    fill(rgb, W, H);
    uint8_t *file = png_of(rgb, PNG_FORMAT_RGB, &bytes);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct image_header header;
        struct sy_error err = {""};
        struct rusage before, after;
        memcpy(big_endian(file + HEADER_BYTES, CLAIMED), names[i], 4);
        assert_int_equal(image_header_read(file, bytes, &header, &err), 0);
        getrusage(RUSAGE_SELF, &before);
        assert_int_equal(image_decode(&header, file, bytes, ours, NULL, &err), -EINVAL);
        getrusage(RUSAGE_SELF, &after);
        if (after.ru_maxrss - before.ru_maxrss > MEMORY_KIB)
            fail_msg("%s of 2 GB takes %ld KiB", names[i], after.ru_maxrss - before.ru_maxrss);
    }
    free(file);
}

/* Text of a million bytes, packed into a thousand, two hundred times. */
TEST(text_in_pngs_is_not_unpacked) {
    enum { TEXTS = 200, TEXT_BYTES = 1000000, HEADER_BYTES = 8 + 25 /* signature, IHDR */ };
    uint8_t rgb[W * H * 3], ours[W * H * 3], text[4096] = "key\0"; /* a 0 behind it: deflated */
    size_t bytes;
    struct rusage before, after;
    fill(rgb, W, H);
    uint8_t *file = png_of(rgb, PNG_FORMAT_RGB, &bytes), *letters = malloc(TEXT_BYTES);
    memset(letters, 'a', TEXT_BYTES);
    uLongf packed = sizeof(text) - 5;
    assert_int_equal(compress2(text + 5, &packed, letters, TEXT_BYTES, 9), Z_OK);
    uint8_t *bomb = malloc(bytes + TEXTS * (packed + 5 + 12 /* length, name, check */)), *at = bomb + HEADER_BYTES;
    memcpy(bomb, file, HEADER_BYTES);
    for (int i = 0; i < TEXTS; i++)
        at = png_chunk(at, "zTXt", text, packed + 5);
    memcpy(at, file + HEADER_BYTES, bytes - HEADER_BYTES);
    getrusage(RUSAGE_SELF, &before);
    decoded(bomb, (size_t)(at - bomb) + bytes - HEADER_BYTES, IMAGE_KIND_PNG, ours);
    getrusage(RUSAGE_SELF, &after);
    assert_memory_equal(ours, rgb, sizeof(ours));
    assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, TEXTS * TEXT_BYTES / 1024 / 4); /* KiB */
    free(bomb);
    free(letters);
    free(file);
}

/* What is thin, small or noisy has more work for each of its pixels. */
TEST(work_is_not_pixels_alone) {
    struct image_header square = {IMAGE_KIND_JPEG, 300, 200}, thin = {IMAGE_KIND_JPEG, 1, 60000};
    assert_true(image_work(&square, 1000) == 304 * 208 + 2000);
    assert_true(image_work(&square, 500000) > 10 * image_work(&square, 1000));
    assert_true(image_work(&thin, 1000) > 10 * image_work(&square, 1000));
    square.kind = thin.kind = IMAGE_KIND_PNG;
    assert_true(image_work(&thin, 1000) > 5 * image_work(&square, 1000));
}

TEST(nobody_has_to_wait_for_the_end) {
    uint8_t rgb[W * H * 3], ours[W * H * 3];
    _Atomic bool stop = true;
    fill(rgb, W, H);
    for (int kind = 0; kind < 3; kind++) {
        struct image_header header;
        struct sy_error err = {""};
        unsigned long jpeg_bytes = 0;
        size_t bytes = 0;
        uint8_t *png = kind == 0 ? png_of(rgb, PNG_FORMAT_RGB, &bytes) : NULL;
        uint8_t *jpeg = kind > 0 ? jpeg_of(rgb, TJPF_RGB, kind == 2 ? TJFLAG_PROGRESSIVE : 0, &jpeg_bytes) : NULL;
        const uint8_t *file = png ? png : jpeg;
        bytes += jpeg_bytes;
        assert_int_equal(image_header_read(file, bytes, &header, &err), 0);
        assert_int_equal(image_decode(&header, file, bytes, ours, &stop, &err), -ECANCELED);
        atomic_store(&stop, false);
        assert_int_equal(image_decode(&header, file, bytes, ours, &stop, &err), 0);
        atomic_store(&stop, true);
        free(png);
        if (jpeg)
            tjFree(jpeg);
    }
}
