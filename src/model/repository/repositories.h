/* repositories.h - where a server's models are looked for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define REPOSITORIES_MAX 64

struct repositories {
    const char *const *paths; /* [count] paths, each a directory of models, or one model: its folder or its file */
    uint32_t count;
    const char *name; /* name for the one model that is there; NULL: the name of its folder, file or configuration */
    const char *op_library_dir; /* folder of libraries with models' own operators, in addition to the models' folders;
                                   NULL: none */
    bool brought;               /* whether a client has brought the files: then no libraries are taken from them */
};
