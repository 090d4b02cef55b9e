/* frontends_visit.h - asks the frontends of a cluster for the latencies, which their scheduler does not know. One
 * thread. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "server/commands/metrics_visit.h"

#define FRONTENDS_ASKED 8 /* frontends that are asked, at most */

struct frontends_visit {
    const struct metrics_visit_settings *settings;
    const char *url; /* of the scheduler: the frontends' have the same scheme */
    struct {
        char at[256]; /* HOST:PORT; "": an unused entry */
        struct metrics_visit *visit;
        int64_t again_ns; /* time at which it is asked next */
        json_t *models;   /* its models, as of the last answer; NULL: none */
    } of[FRONTENDS_ASKED];
};

/* Adds to the state of a scheduler, for each model, the latency and queueing of the frontend where the 99th percentile
 * is longest. Waits for frontends that are slow, a second each; one that did not answer is left alone for a while.
 * Other states stay as they are. */
void frontends_visit_add(struct frontends_visit *visit, json_t *state);
void frontends_visit_end(struct frontends_visit *visit);
