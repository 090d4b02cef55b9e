/* requests_answer.h - /v2/symphony/requests: which trails are asked for, and how one is written as JSON. An extension
 * of this server. Pure. */
#pragma once

#include "core/data/trail.h"
#include "core/util/error.h"
#include "core/util/text.h"
#include "model/config/served_model.h"

#define REQUESTS_LIMIT 100 /* trails that are shown unless the query says otherwise */
#define REQUESTS_MOST  10000

struct requests_query {
    char model[MODEL_NAME_MAX]; /* "": of all models */
    char id[TRAIL_ID_BYTES];    /* begin of the id */
    uint8_t id_length;          /* 0: any id */
    uint32_t states;            /* states, a bit each */
    bool slow;                  /* the slowest come first, and not the newest */
    uint32_t limit;
};

/* Reads model=, state=, id= and limit= of a target's query, without the '?'. 0; or 400 with a sentence. */
int requests_query_read(struct requests_query *query, const char *text, size_t length, struct sy_error *err);
/* Whether a trail of the model of that name (NULL: the model is gone) is asked for. */
bool requests_query_wants(const struct requests_query *query, const struct trail *trail, const char *model);

/* What the numbers of a trail stand for. */
struct trail_names {
    const char *model; /* NULL: its place has had two others since */
    uint32_t version;
    const char *before; /* model that the accelerator ran before; NULL: none, or not known */
    int64_t wall_ns;    /* arrival since 1970 */
};

/* Appends a trail as an object. */
void requests_trail_put(struct text *out, const struct trail *trail, const struct trail_names *names);
