/* v2.h - the Open Inference Protocol's paths, and the answers to all but infer.
 *
 * Reads the served models; holds no state of its own but the index of their names, so any thread may call it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"
#include "frontend/statistics.h"
#include "repository/served_model.h"

/* A model that is known and not served. */
struct v2_absent {
    char name[MODEL_NAME_MAX];
    uint32_t version;       /* 0: not known */
    enum model_state state; /* LOADING, UNLOADING or UNAVAILABLE */
    bool failed;            /* UNAVAILABLE: it was to be served; else nobody wants it */
    char reason[512];
};

/* The models by name, as of one moment: constant. */
struct v2_models {
    struct served_model *models; /* a model's index in it is its number everywhere */
    uint32_t *listed, count;     /* numbers of those that are served, or were set aside at the start */
    struct v2_absent *absent;
    uint32_t absent_count;
    uint32_t *slots, mask; /* open addressing: number + 1, 0: free */
};

/* All of `models`, which must outlive it. 0 or -ENOMEM; destroy it in either case. */
int v2_models_init(struct v2_models *index, struct served_model *models, uint32_t count);
/* Those listed, and others; both are copied. */
int v2_models_init_listed(struct v2_models *index, struct served_model *models, const uint32_t *listed, uint32_t count,
                          const struct v2_absent *absent, uint32_t absent_count);
void v2_models_destroy(struct v2_models *index);

/* Where frontends look, once a turn, for the models as they are now. Whoever replaces them may free the old ones once
 * every frontend has seen the new ones (frontend_loop_models()). */
struct v2_publication {
    _Atomic(const struct v2_models *) now;
};

/* The number of the model of this name and version, or with `version` 0 of the one of the highest version that is
 * ready; -1: there is none. */
int v2_models_find(const struct v2_models *index, const char *name, size_t length, uint32_t version);

/* The same with the version as it stands in a request: digits, or of length 0 for the highest. A negative status with a
 * sentence: -404 there is none, -503 it is not there now. */
int v2_model_find(const struct v2_models *index, const char *name, size_t length, const char *version,
                  size_t version_length, struct sy_error *err);
/* Its enum model_state; `reason` may be read after it. */
int v2_model_state(const struct served_model *model);
/* Whether it can be asked now; if not, the sentence says why. *retry: worth trying again soon. */
bool v2_model_ready(const struct served_model *model, bool *retry, struct sy_error *err);

enum v2_kind {
    V2_SERVER,            /* GET /v2 */
    V2_LIVE,              /* GET /v2/health/live */
    V2_READY,             /* GET /v2/health/ready */
    V2_MODEL,             /* GET /v2/models/M[/versions/V] */
    V2_MODEL_READY,       /* GET .../ready */
    V2_MODEL_CONFIG,      /* GET .../config */
    V2_INFER,             /* POST .../infer */
    V2_STATISTICS,        /* GET .../stats */
    V2_STATISTICS_ALL,    /* GET /v2/models/stats */
    V2_MODEL_TRACE,       /* GET, POST /v2/models/M/trace/setting */
    V2_TRACE,             /* GET, POST /v2/trace/setting */
    V2_LOGGING,           /* GET, POST /v2/logging */
    V2_INDEX,             /* POST /v2/repository[/R]/index */
    V2_LOAD,              /* POST /v2/repository[/R]/models/M/load */
    V2_UNLOAD,            /* POST .../unload */
    V2_SHARED_STATUS,     /* GET /v2/systemsharedmemory[/region/N]/status */
    V2_SHARED_REGISTER,   /* POST .../region/N/register */
    V2_SHARED_UNREGISTER, /* POST /v2/systemsharedmemory[/region/N]/unregister */
    V2_CUDA_STATUS,       /* GET /v2/cudasharedmemory/status */
    V2_CUDA_REGION,       /* GET /v2/cudasharedmemory/region/N/status */
    V2_CUDA_REGISTER,     /* POST /v2/cudasharedmemory/region/N/register */
    V2_CUDA_UNREGISTER,   /* POST /v2/cudasharedmemory[/region/N]/unregister */
    V2_NOT_FOUND,         /* no such path */
    V2_WRONG_VERB,        /* the path exists */
};

struct v2_route {
    enum v2_kind kind;
    bool posted;                /* by POST */
    const char *allow;          /* the verbs of the path */
    int model;                  /* number, for paths of models; -1: unknown model or version */
    const char *name, *version; /* of a model or a region, as they stand in the path; NULL: none */
    size_t name_length, version_length;
};

/* `target` is a path, with http://server before it or not. */
void v2_route(struct v2_route *route, const struct v2_models *models, const char *method, const char *target);

/* An answer in the making; `text` is initialised by the caller. */
struct v2_answer {
    unsigned status;
    const char *allow; /* value of the Allow header, or NULL */
    bool retry;        /* worth trying again soon */
    struct text text;  /* JSON, or empty */
};

struct shared_memory;

/* What answers speak of. */
struct v2_server {
    const struct v2_models *models;
    const char *name; /* in its metadata; NULL: "symphony" */
    bool ready, draining;
    bool takes_orders; /* to load and unload models; not here, but by the frontend */
    struct statistics_source statistics;
    struct shared_memory *shared; /* NULL: not served */
};

/* What is answered (501) to an order to load or unload where there is nobody to carry it out. */
#define REPOSITORY_FIXED "models are loaded and unloaded by clients with --model-control-mode explicit only"

/* Answers a route other than infer; `body` is a POST's. Orders to load and unload come here only if there is nobody to
 * carry them out. */
void v2_answer(struct v2_answer *answer, const struct v2_route *route, const struct v2_server *server, const char *body,
               size_t body_bytes);
/* Whether an infer route can be served; if not, the answer says why. */
bool v2_infer_admit(struct v2_answer *answer, const struct v2_route *route, const struct v2_models *models);
/* Makes the answer an error of one sentence. */
void v2_error(struct v2_answer *answer, unsigned status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
