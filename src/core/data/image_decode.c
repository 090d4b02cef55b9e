/* image_decode.c - decodes images by the libraries, and makes sentences of the libraries' errors. */
#include "core/data/image_decode.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h> /* jpeglib.h wants FILE */
#include <string.h>

#include <jpeglib.h>

static int not_the_header(uint32_t width, uint32_t height, struct sy_error *err) {
    return error_set(err, -EINVAL, "does not keep to the size of its header: it has %u x %u pixels", width, height);
}

/* Whether decoding is to go on. */
static bool is_wanted(const _Atomic bool *stop) {
    return !stop || !atomic_load_explicit(stop, memory_order_relaxed); /* the flag only saves work */
}

static int stopped(struct sy_error *err) {
    return error_set(err, -ECANCELED, "is not decoded to its end");
}

/* ---- JPEG ---- */

/* Each scan of a progressive JPEG costs as much as the image. Files have some ten. */
#define JPEG_SCANS_MAX 500

struct jpeg_decoder {
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    const _Atomic bool *stop;
    struct sy_error *err;
    int rc;
    jmp_buf failed;
};

/* Called by libjpeg after an error; must not return. */
static void jpeg_failed(j_common_ptr library) {
    struct jpeg_decoder *decoder = library->client_data;
    char sentence[JMSG_LENGTH_MAX];
    library->err->format_message(library, sentence);
    decoder->rc = error_set(decoder->err, -EINVAL, "cannot be decoded: %.200s", sentence);
    longjmp(decoder->failed, 1);
}

/* Called by libjpeg for each message. libjpeg fills in missing pixels and only warns (level -1); here a warning is an
 * error. */
static void jpeg_said(j_common_ptr library, int level) {
    if (level < 0)
        jpeg_failed(library);
}

/* Called by libjpeg for each row of blocks of each scan. */
static void jpeg_progress(j_common_ptr library) {
    struct jpeg_decoder *decoder = library->client_data;
    if (!is_wanted(decoder->stop))
        decoder->rc = stopped(decoder->err);
    else if (decoder->library.input_scan_number > JPEG_SCANS_MAX)
        decoder->rc = error_set(decoder->err, -EINVAL, "cannot be decoded: it has more than %d scans", JPEG_SCANS_MAX);
    else
        return;
    longjmp(decoder->failed, 1);
}

/* As most programs decode: accurate IDCT, smooth chroma. In a function of its own, so that none of its locals is used
 * after a longjmp(). */
static int jpeg_pixels(struct jpeg_decoder *decoder, const struct image_header *header, const void *data, size_t bytes,
                       uint8_t *rgb) {
    struct jpeg_decompress_struct *library = &decoder->library;
    size_t row_bytes = (size_t)header->width * IMAGE_CHANNELS;
    jpeg_create_decompress(library);
    jpeg_mem_src(library, data, bytes);
    jpeg_read_header(library, TRUE);
    if (library->image_width != header->width || library->image_height != header->height)
        return not_the_header(library->image_width, library->image_height, decoder->err);
    library->progress = &decoder->progress;
    library->out_color_space = JCS_EXT_RGB;
    library->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(library);
    while (library->output_scanline < library->output_height) {
        JSAMPROW row = rgb + library->output_scanline * row_bytes;
        jpeg_read_scanlines(library, &row, 1);
    }
    jpeg_finish_decompress(library);
    return 0;
}

static int jpeg_decode(const struct image_header *header, const void *data, size_t bytes, uint8_t *rgb,
                       const _Atomic bool *stop, struct sy_error *err) {
    struct jpeg_decoder decoder = {.stop = stop, .err = err, .rc = -EINVAL};
    decoder.library.err = jpeg_std_error(&decoder.errors);
    decoder.library.client_data = &decoder;
    decoder.errors.error_exit = jpeg_failed;
    decoder.errors.emit_message = jpeg_said;
    decoder.progress.progress_monitor = jpeg_progress;
    if (setjmp(decoder.failed) == 0)
        decoder.rc = jpeg_pixels(&decoder, header, data, bytes, rgb);
    jpeg_destroy_decompress(&decoder.library);
    return decoder.rc;
}

/* ---- PNG ---- */

struct png_source {
    const uint8_t *at;
    size_t left;
    struct sy_error *err;
    jmp_buf failed;
};

/* Called by libpng after an error; must not return. */
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

/* In a function of its own, so that none of its locals is used after a longjmp(). */
static int png_pixels(png_structp png, png_infop info, const struct image_header *header, uint8_t *rgb,
                      const _Atomic bool *stop, struct sy_error *err) {
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
        for (uint32_t y = 0; y < header->height; y++) {
            if (!is_wanted(stop))
                return stopped(err);
            png_read_row(png, rgb + y * row_bytes, NULL);
        }
    return 0;
}

static int png_decode(const struct image_header *header, const void *data, size_t bytes, uint8_t *rgb,
                      const _Atomic bool *stop, struct sy_error *err) {
    struct png_source source = {.at = data, .left = bytes, .err = err};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, png_failed, png_warned);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    volatile int rc = -EINVAL;
    if (!info)
        rc = error_set(err, -ENOMEM, "cannot be decoded: no memory");
    if (info && setjmp(source.failed) == 0) {
        png_set_read_fn(png, &source, png_more);
        png_set_user_limits(png, header->width, header->height);
        /* Chunks that do not change pixels (text, colour profiles) are skipped, as they may unpack a thousandfold. So
         * they may have any length. */
        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
        png_set_chunk_malloc_max(png, 0);
        rc = png_pixels(png, info, header, rgb, stop, err);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return rc;
}

int image_decode(const struct image_header *header, const void *data, size_t bytes, uint8_t *rgb,
                 const _Atomic bool *stop, struct sy_error *err) {
    return header->kind == IMAGE_KIND_PNG ? png_decode(header, data, bytes, rgb, stop, err)
                                          : jpeg_decode(header, data, bytes, rgb, stop, err);
}
