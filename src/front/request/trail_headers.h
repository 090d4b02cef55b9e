/* trail_headers.h - a request's trail as headers of its answer, for clients that ask for it. Pure. */
#pragma once

#include <stdint.h>

#include "core/data/trail.h"

#define TRAIL_HEADERS_MAX  13
#define TRAIL_HEADER_BYTES 256 /* longest value, terminated */

struct trail_header {
    const char *name;
    char value[TRAIL_HEADER_BYTES];
};

/* Writes the headers; returns their number. `before`: name of the model of that number; NULL: not known. */
uint32_t trail_headers(const struct trail *trail, const char *before, struct trail_header headers[TRAIL_HEADERS_MAX]);
