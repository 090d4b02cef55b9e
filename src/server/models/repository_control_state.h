/* repository_control_state.h - the state of the repository's thread; for its files only. */
#pragma once

#include "core/data/running.h"
#include "model/profile/twins.h"
#include "model/repository/repository_look.h"
#include "server/models/model_slots.h"
#include "server/models/repository_control.h"
#include "server/threads/readiness.h"

#define TO_MEASURE 425 /* status of a model that the first pass of the start leaves: its profile is to be measured */

/* The places of a model, one for each version. */
struct places {
    uint32_t count;
    uint32_t *slots; /* [count]; allocated if there are any */
    uint64_t born;   /* number (model_life.h) that none of their models exceeds */
};

/* Versions of a model that are loaded, and not served yet. */
struct loading {
    char name[MODEL_NAME_MAX];
    struct places loaded;
    uint32_t version; /* the highest */
    bool overridden;  /* a client has sent files or a configuration */
    uint64_t stamp;   /* stamp of the repository's files */
    int64_t start_ns;
};

/* A model that was found, asked for or served. */
struct known_model {
    char name[MODEL_NAME_MAX];
    uint32_t version; /* highest version; 0: not known */
    struct places serving;
    struct places draining; /* places that served last, while the model is being unloaded */
    enum model_state state; /* state of the model while no place serves it */
    bool found;             /* whether the model was in the repository at the last look */
    bool failed;            /* whether the model could not be loaded */
    bool overridden;        /* whether a version from a client is served, not the repository's */
    uint64_t stamp, tried;  /* stamps of the repository's files: of the version that serves, and of the last that
                             * CONTROL_POLL tried to load */
    char reason[512];
};

/* The models of the start. Where models neither come nor go each is in its place, PREPARING until it serves or is set
 * aside. */
struct start {
    uint32_t all;         /* number of models of the start */
    bool *filled;         /* [start_count] whether the model is loaded, and waits for the other versions of its name */
    uint32_t awaited;     /* models that are PREPARING */
    uint32_t set_aside;   /* models that are set aside */
    uint32_t deferred;    /* models whose profiles are to be measured */
    uint32_t current;     /* place of the model that is being prepared */
    const char *measured; /* name of the model that was measured last, only to tell it from the next one */
    int64_t publish_ns;   /* time from which on the list may be published again */
    int64_t said_ns;      /* time of the next line about the start */
};

/* What is under way. At the start there are two passes over the models: first those with cached profiles are loaded,
 * which takes moments, and then the others. */
enum pass { PASS_CACHED, PASS_MEASURE, PASS_NONE };

#define WAITS    "it waits until other models are prepared"
#define MEASURES "its profile is being measured"

struct repository_thread {
    struct repository_control control;
    enum pass pass;
    struct start start;
    struct profile_twins twins[ACCELERATOR_TYPES_MAX]; /* by type */
    struct model_slots slots;
    struct repository_desk *desk;
    struct readiness *readiness;
    bool joins_at_once; /* as in the configuration, like the next */
    struct running *running;
    struct known_model *known;
    uint32_t known_count;
    struct loading prepared;                        /* by ORDER_PREPARE; without places: none */
    char outer[ENSEMBLE_DEPTH_MAX][MODEL_NAME_MAX]; /* [outer_count] ensembles whose steps' models are being loaded,
                                                     * each a step of the one before it */
    uint32_t outer_count;
    bool unpublished; /* whether the last list was not published, for lack of memory, which is said once */
    int64_t look_ns;  /* time of the next look at the repository */
    bool looked;      /* whether there was one */
    int64_t idle_ns;  /* until then no order looks at all models again */
    struct repositories_seen seen;
    pthread_t thread;
    _Atomic bool stop, ended;
    struct sy_error failure; /* written before `failed` */
    _Atomic bool failed;     /* repository_thread_failed() */
};

static inline bool is_stopped(const struct repository_thread *t) {
    return atomic_load_explicit(&t->stop, memory_order_relaxed); /* a lone flag */
}

/* ---- repository_known.c ---- */

/* A model by its name; NULL: none is known. */
struct known_model *known_find(const struct repository_thread *t, const char *name);
/* Looks which models the repository holds. */
void known_look(struct repository_thread *t);
/* Looks before an order at the model that it names, at least. */
void known_order_look(struct repository_thread *t, const char *name);
/* The models, where they come and go, that are to be loaded. */
uint32_t known_awaited(const struct repository_thread *t);
/* Publishes the models. Without memory the earlier list stays, until known_drain() tries again. */
void known_publish(struct repository_thread *t);
/* As known_publish(), `at_once`, as before something that takes long; or unless it has just been done: with many models
 * publishing takes a while, and rests. */
void known_publish_due(struct repository_thread *t, bool at_once);
/* Loads a model, and serves it or keeps it in `prepared`. 200, or another status with a sentence: then the versions
 * that served before go on. */
int known_load(struct repository_thread *t, const char *name, const struct model_override *override,
               struct loading *prepared, struct sy_error *err);
/* Serves loaded versions of a model instead of those that serve now. */
void loading_commit(struct repository_thread *t, struct loading *l);
/* Gives up loaded versions of a model. */
void loading_discard(struct repository_thread *t, struct loading *l);
/* Unloads a model: its places are freed once its last requests have been answered. */
void known_unload(struct repository_thread *t, const char *name);
/* Unloads a model and, if it is an ensemble, the models of its steps, and of theirs. */
void known_unload_dependents(struct repository_thread *t, const char *name);
/* Frees places whose last requests have been answered. */
void known_drain(struct repository_thread *t);
/* Serves the models that the repository holds now. Models that appear while others load are found the next time. */
void known_follow(struct repository_thread *t);

/* ---- repository_start.c ---- */

/* Begins a pass: tells the profiler whether to measure, and the allocator how to serve this thread. */
void pass_begin(struct repository_thread *t, enum pass pass);
/* Tells how many models of the start are awaited, and how long they will take; left_ns 0: not known. */
void progress_tell(struct repository_thread *t, uint32_t awaited, int64_t left_ns);
/* A model of the thread is about to be measured, which takes a while: clients are told of those that serve by now. */
void start_measures(void *thread, const struct profile_progress *progress);
/* Serves the models of the start. */
void start_serve(struct repository_thread *t);
