/* image_decode.h - a JPEG or PNG to pixels, by libjpeg-turbo and libpng. Any thread; no state. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/image_header.h"
#include "core/util/error.h"

/* Fills rgb[height][width][IMAGE_CHANNELS], with the size that image_header_read() gave for the same bytes. Grey
 * becomes RGB; of 16 bits a sample the upper ones are kept, rounded; transparency, colour profiles and the orientation
 * that a camera notes are ignored. 0; -EINVAL with what is wrong, a sentence without a subject; -ENOMEM; -ECANCELED,
 * within some rows, once *stop is true (any thread may set *stop; NULL: nobody does). After an error `rgb` is
 * undefined.
 *
 * Beside `rgb` a progressive JPEG takes up to 6 bytes a pixel while it is decoded, other images some rows. */
int image_decode(const struct image_header *header, const void *data, size_t bytes, uint8_t *rgb,
                 const _Atomic bool *stop, struct sy_error *err);
