/* repository_control.h - how models come and go while a server runs, and the thread that loads and unloads them.
 *
 * Only this thread loads and unloads. It has models profiled in a child process, makes and warms up their sessions, and
 * hands them over when they are complete, so that no thread that serves waits for it. It carries out one order after
 * the other. */
#pragma once

#include "core/data/messages.h"
#include "core/util/error.h"
#include "model/profile/child.h"
#include "model/repository/repositories.h"

enum control_mode {
    CONTROL_NONE,     /* serve the models that are there at the start */
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
#define CONTROL_VARIABLE 64

struct shared_prefixes;

/* Outlives the server. */
struct repository_control {
    enum control_mode mode;
    struct repositories from; /* each a directory of models */
    const char *const *names; /* EXPLICIT: names of the models to load at the start; a single "*": all models */
    uint32_t name_count;
    int64_t look_every_ns; /* time between two looks at the repository */
    uint32_t models_max;   /* most models that may be loaded at once */
    bool told;             /* EXPLICIT: whether the models to load at the start come by orders, up to ORDER_BEGIN */
    int64_t slo_ns;        /* SLO of models that give none; 0: chosen from the profile */
    struct profile_options how[ACCELERATOR_TYPES_MAX]; /* how models are profiled, by type; the repository thread sets
                                                        * `stop` */
    struct shared_prefixes *shared; /* models that share their first layers once they are loaded; may be empty */
};

struct backend_link;
struct executors;
struct model_list;
struct readiness;
struct repository_desk;
struct repository_thread;
struct scheduling;

/* What the thread works with. */
struct repository_thread_config {
    const struct repository_control *control;
    struct repository_desk *desk;
    struct model_list *list;
    struct executors *executors;
    const struct scheduling *scheduling;
    struct readiness *readiness;
    struct backend_link *backend; /* link of a cluster's backend; NULL: no cluster's */
};

/* Makes the sentence that a version does not load, in Triton's words. Returns the status for the client, 400. */
int repository_version_failed(const char *name, uint32_t version, const char *reason, struct sy_error *err);
/* Starts the thread, once all others run. It loads the models to load at start-up, and then makes the server ready. 0
 * or -errno with a sentence. */
int repository_thread_start(struct repository_thread **thread, const struct repository_thread_config *config,
                            struct sy_error *err);
/* Makes the desk: the list to which frontends add orders, waking the thread. Call it before the frontends and the
 * thread start; free() the desk when all of them have ended. NULL without memory. */
struct repository_desk *repository_desk_create(void);
/* Tells the thread to end, once it has carried out the present order; orders are answered 503 from then on. Call it
 * while frontends, scheduler and executors run. NULL is allowed. */
void repository_thread_quit(struct repository_thread *thread);
/* Whether the thread has ended. While the thread hands a model over it waits for executors, which a run that hangs
 * holds up: until the thread has ended, the caller must watch runs. */
bool repository_thread_ended(const struct repository_thread *thread);
/* Tells the thread to end, and waits until it has. Call it once. NULL is allowed. */
void repository_thread_stop(struct repository_thread *thread);
/* Frees what is left. Call it when all other threads have ended. NULL is allowed. */
void repository_thread_free(struct repository_thread *thread);
