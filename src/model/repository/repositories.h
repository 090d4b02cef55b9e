/* repositories.h - where a server's models are looked for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct repositories {
    const char *const *paths; /* [count] each a directory of models, or one model: its folder or its file */
    uint32_t count;
    const char *name; /* of the one model that is there; NULL: as its folder or its file, or its configuration, says */
    const char *op_library_dir; /* where libraries with models' own operators may be, beside the models' folders; NULL:
                                 * nowhere else */
    bool brought;               /* a client has brought the files: libraries are not taken from them */
};
