/* v2.h - the Open Inference Protocol's paths, and the answers to all but infer.
 *
 * Reads the served models and holds no state of its own, so any thread may call it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"
#include "core/util/text.h"
#include "front/request/statistics.h"
#include "model/repository/model_index.h"

enum v2_kind {
    V2_ROOT,              /* GET / */
    V2_SERVER,            /* GET /v2 */
    V2_LIVE,              /* GET /v2/health/live */
    V2_READY,             /* GET /v2/health/ready */
    V2_MODELS,            /* GET /v2/models */
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
    V2_ACCELERATORS,      /* GET /v2/symphony/accelerators */
    V2_ACCELERATOR,       /* GET, POST /v2/symphony/accelerators/N */
    V2_SHARED_STATUS,     /* GET /v2/systemsharedmemory[/region/N]/status */
    V2_SHARED_REGISTER,   /* POST .../region/N/register */
    V2_SHARED_UNREGISTER, /* POST /v2/systemsharedmemory[/region/N]/unregister */
    V2_CUDA_STATUS,       /* GET /v2/cudasharedmemory/status */
    V2_CUDA_REGION,       /* GET /v2/cudasharedmemory/region/N/status */
    V2_CUDA_REGISTER,     /* POST /v2/cudasharedmemory/region/N/register */
    V2_CUDA_UNREGISTER,   /* POST /v2/cudasharedmemory[/region/N]/unregister */
    V2_GENERATE,          /* .../generate, .../generate_stream: not served */
    V2_VERSION_1,         /* /v1/...: not served */
    V2_NOT_FOUND,         /* no such path */
    V2_WRONG_VERB,        /* the path exists */
};

struct v2_route {
    enum v2_kind kind;
    bool posted;                /* the method is POST */
    const char *allow;          /* methods that the path allows */
    int model;                  /* number of the path's model; -1: unknown model or version */
    const char *name, *version; /* name and version of a model, name of a region or number of an accelerator, as in the
                                   path; NULL: none */
    size_t name_length, version_length;
};

/* Finds the route of a request; `target` is a path, perhaps after http://server. */
void v2_route(struct v2_route *route, const struct model_index *models, const char *method, const char *target);

/* An answer in the making; `text` is initialised by the caller. */
struct v2_answer {
    unsigned status;
    const char *allow; /* value of the Allow header, or NULL */
    bool retry;        /* the client may try again soon */
    struct text text;  /* body: JSON, or empty */
};

struct accelerator_source;
struct shared_memory;
struct tracing;

/* The state of the server, for answers. */
struct v2_server {
    const struct model_index *models;
    const char *name; /* name of the server in its metadata; NULL: "symphony" */
    bool ready, draining;
    bool failed;                        /* all accelerators of the process have failed: it is not live */
    const struct start_progress *start; /* what is waited for before it is ready; NULL: not told */
    bool takes_orders; /* orders to load and unload models are taken, by the frontend and not by v2_answer() */
    bool of_cluster;   /* the models are those of a cluster's backends */
    struct statistics_source statistics;
    struct tracing *tracing;      /* trace settings; NULL: the server writes no traces */
    struct shared_memory *shared; /* registry of shared memory; NULL: not served */
    bool local;                   /* the client is on this machine, and may name shared memory */
    const struct accelerator_source *accelerators;
};

/* The sentence (501) for an order to load or unload that nobody here carries out; in a cluster, backends do. */
const char *v2_orders_refused(bool of_cluster);

/* Answers a route other than infer; `body` is a POST's. Orders to load and unload come here only if nobody carries them
 * out. */
void v2_answer(struct v2_answer *answer, const struct v2_route *route, const struct v2_server *server, const char *body,
               size_t body_bytes);
/* Whether an infer route can be served; if not, the answer says why. */
bool v2_infer_admit(struct v2_answer *answer, const struct v2_route *route, const struct model_index *models);
/* Makes the answer an error of one sentence. */
void v2_error(struct v2_answer *answer, unsigned status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
