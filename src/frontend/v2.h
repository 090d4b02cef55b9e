/* v2.h - the Open Inference Protocol's paths, and the answers to all but infer.
 *
 * Reads the served models; holds no state of its own but the index of their names, so any thread may call it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"
#include "repository/served_model.h"

/* The served models by name. */
struct v2_models {
    struct served_model *models;
    uint32_t count;
    uint32_t *slots, mask; /* open addressing: index + 1, 0: free */
};

/* `models` must outlive it. 0 or -ENOMEM. */
int v2_models_init(struct v2_models *index, struct served_model *models, uint32_t count);
void v2_models_destroy(struct v2_models *index);
/* The model of this name and version, or with `version` 0 the one of the highest version; -1: there is none. */
int v2_models_find(const struct v2_models *index, const char *name, size_t length, uint32_t version);

/* The same with the version as it stands in a request: digits, or of length 0 for the highest. -1 with a sentence:
 * there is none (404). */
int v2_model_find(const struct v2_models *index, const char *name, size_t length, const char *version,
                  size_t version_length, struct sy_error *err);
/* Its enum model_state; `reason` may be read after it. */
int v2_model_state(const struct served_model *model);
/* Whether it can be asked now; if not, the sentence says why. *retry: worth trying again soon. */
bool v2_model_ready(const struct served_model *model, bool *retry, struct sy_error *err);

enum v2_kind {
    V2_SERVER, /* GET /v2 */
    V2_LIVE,   /* GET /v2/health/live */
    V2_READY,  /* GET /v2/health/ready */
    V2_MODEL,  /* GET /v2/models/M[/versions/V] */
    V2_MODEL_READY,
    V2_MODEL_CONFIG,
    V2_INFER,      /* POST .../infer */
    V2_INDEX,      /* POST /v2/repository[/R]/index */
    V2_NOT_FOUND,  /* no such path */
    V2_WRONG_VERB, /* the path exists */
};

struct v2_route {
    enum v2_kind kind;
    enum v2_kind path_kind;     /* of the path, whatever the verb */
    int model;                  /* index, for paths of models; -1: unknown model or version */
    const char *name, *version; /* of a model, as they stand in the path */
    size_t name_length, version_length;
};

void v2_route(struct v2_route *route, const struct v2_models *models, const char *method, const char *path);

/* An answer in the making; `text` is initialised by the caller. */
struct v2_answer {
    unsigned status;
    const char *allow; /* value of the Allow header, or NULL */
    bool retry;        /* worth trying again soon */
    struct text text;  /* JSON, or empty */
};

struct v2_state {
    bool ready, draining;
};

/* Answers a route other than infer. `body` belongs to V2_INDEX. */
void v2_answer(struct v2_answer *answer, const struct v2_route *route, const struct v2_models *models,
               const struct v2_state *state, const char *body, size_t body_bytes);
/* Whether an infer route can be served; if not, the answer says why. */
bool v2_infer_admit(struct v2_answer *answer, const struct v2_route *route, const struct v2_models *models);
/* Makes the answer an error of one sentence. */
void v2_error(struct v2_answer *answer, unsigned status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
