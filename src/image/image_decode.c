/* image_decode.c - hands images to the libraries, and makes sentences of what these say. */
#include "image/image_decode.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <string.h>
#include <turbojpeg.h>

/* A chunk beside the pixels (a colour profile, text) may unpack to so much. */
#define PNG_CHUNK_BYTES_MAX ((size_t)1 << 20)

static int not_the_header(uint32_t width, uint32_t height, struct sy_error *err) {
    return error_set(err, -EINVAL, "does not keep to the size of its header: it has %u x %u pixels", width, height);
}

/* ---- JPEG ---- */

/* As most programs decode: accurate IDCT, smooth chroma. Refused are files with hundreds of scans, each of which costs
 * as much as the image, and whatever the library would only warn of: it fills in pixels that are missing, and does not
 * always tell warnings from failures. */
#define JPEG_FLAGS (TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS | TJFLAG_STOPONWARNING)

static int jpeg_pixels(tjhandle decoder, const struct image_header *header, const void *data, size_t bytes,
                       uint8_t *rgb, struct sy_error *err) {
    int width, height, subsampling, colorspace;
    if (tjDecompressHeader3(decoder, data, bytes, &width, &height, &subsampling, &colorspace) < 0)
        return error_set(err, -EINVAL, "cannot be decoded: %.200s", tjGetErrorStr2(decoder));
    if ((uint32_t)width != header->width || (uint32_t)height != header->height)
        return not_the_header((uint32_t)width, (uint32_t)height, err);
    if (tjDecompress2(decoder, data, bytes, rgb, width, 0, height, TJPF_RGB, JPEG_FLAGS) < 0)
        return error_set(err, -EINVAL, "cannot be decoded: %.200s", tjGetErrorStr2(decoder));
    return 0;
}

static int jpeg_decode(const struct image_header *header, const void *data, size_t bytes, uint8_t *rgb,
                       struct sy_error *err) {
    tjhandle decoder = tjInitDecompress();
    if (!decoder)
        return error_set(err, -ENOMEM, "cannot be decoded: no memory");
    int rc = jpeg_pixels(decoder, header, data, bytes, rgb, err);
    tjDestroy(decoder);
    return rc;
}

/* ---- PNG ---- */

struct png_source {
    const uint8_t *at;
    size_t left;
    struct sy_error *err;
    jmp_buf failed;
};

/* libpng wants that these do not return. */
static void png_failed(png_structp png, png_const_charp sentence) {
    struct png_source *source = png_get_error_ptr(png);
    error_set(source->err, -EINVAL, "cannot be decoded: %.200s", sentence);
    longjmp(source->failed, 1);
}

static void png_warned(png_structp png, png_const_charp sentence) {
    (void)png;
    (void)sentence;
}

static void png_more(png_structp png, png_bytep to, size_t bytes) {
    struct png_source *source = png_get_io_ptr(png);
    if (bytes > source->left)
        png_error(png, "it ends too early");
    memcpy(to, source->at, bytes);
    source->at += bytes;
    source->left -= bytes;
}

/* In a function of its own, whose locals longjmp() does not need. */
static int png_pixels(png_structp png, png_infop info, const struct image_header *header, uint8_t *rgb,
                      struct sy_error *err) {
    size_t row_bytes = (size_t)header->width * IMAGE_CHANNELS;
    png_read_info(png, info);
    if (png_get_image_width(png, info) != header->width || png_get_image_height(png, info) != header->height)
        return not_the_header(png_get_image_width(png, info), png_get_image_height(png, info), err);
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != row_bytes)
        return error_set(err, -EINVAL, "cannot be decoded: its rows do not become RGB");
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < header->height; y++)
            png_read_row(png, rgb + y * row_bytes, NULL);
    return 0;
}

static int png_decode(const struct image_header *header, const void *data, size_t bytes, uint8_t *rgb,
                      struct sy_error *err) {
    struct png_source source = {.at = data, .left = bytes, .err = err};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, png_failed, png_warned);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    volatile int rc = -EINVAL;
    if (!info)
        rc = error_set(err, -ENOMEM, "cannot be decoded: no memory");
    if (info && setjmp(source.failed) == 0) {
        png_set_read_fn(png, &source, png_more);
        png_set_user_limits(png, header->width, header->height);
        png_set_chunk_malloc_max(png, PNG_CHUNK_BYTES_MAX);
        rc = png_pixels(png, info, header, rgb, err);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return rc;
}

int image_decode(const struct image_header *header, const void *data, size_t bytes, uint8_t *rgb,
                 struct sy_error *err) {
    return header->kind == IMAGE_KIND_PNG ? png_decode(header, data, bytes, rgb, err)
                                          : jpeg_decode(header, data, bytes, rgb, err);
}
