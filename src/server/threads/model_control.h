/* model_control.h - how models come and go while a server runs. */
#pragma once

#include "model/profile/child.h"
#include "model/repository/repositories.h"

enum control_mode {
    CONTROL_NONE,     /* serve the models that are there at the start; each has its place from then on */
    CONTROL_POLL,     /* serve the models that the repository holds, and check it for changes now and then */
    CONTROL_EXPLICIT, /* serve the models that clients ask for */
};

/* Models that may be loaded at once. There are more places: for models that replace others, or whose last requests are
 * still answered. */
#define CONTROL_MODELS_DEFAULT 256
#define CONTROL_MODELS_MOST    4096
#define CONTROL_SPARE          16
/* At least this many of these models may have inputs of variable shapes; each takes as much room in the scheduler as 32
 * others. */
#define CONTROL_VARIABLE 1024

struct shared_prefixes;

/* Outlives the server. */
struct repository_control {
    enum control_mode mode;
    struct repositories from; /* each a directory of models */
    uint32_t start_count;     /* NONE: models of the start, in the first places, by name and version; else 0 */
    const char *const *names; /* EXPLICIT: names of the models to load at the start; a single "*": all models */
    uint32_t name_count;
    int64_t look_every_ns; /* time between two looks at the repository */
    uint32_t models_max;   /* most models that may be loaded at once; NONE: start_count */
    bool told;             /* EXPLICIT: whether the models to load at the start come by orders, up to ORDER_BEGIN */
    int64_t slo_ns;        /* SLO of models that give none; 0: chosen from the profile */
    struct profile_options how[ACCELERATOR_TYPES_MAX]; /* how models are profiled, by type; the repository thread sets
                                                        * `stop` */
    struct shared_prefixes *shared; /* models that share their first layers once they are loaded; may be empty */
};
