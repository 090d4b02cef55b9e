/* feeder.h - a thread that stands for frontends and backends of a cluster: it joins the scheduler over sockets as they
 * do, sends requests, and ends batches at the times at which accelerators would.
 *
 * Inputs and outputs, between frontends and backends, are left out: the scheduler never sees them. A request counts as
 * come back when its batch reaches a backend, since the table then tells when the batch will end. If the backend is
 * another feeder's, that feeder tells the request's own feeder through a ring.
 *
 * The thread of links_run() (lab/stress/links.c) makes, starts, reads and ends each feeder. */
#pragma once

#include <netinet/in.h>

#include "cluster/peer/link_loop.h"
#include "core/data/profile.h"
#include "core/util/histogram.h"
#include "core/util/ring.h"
#include "lab/stress/links.h"
#include "model/config/served_model.h"

/* Slots for the requests that a frontend has outstanding. */
struct feeder_slots {
    uint32_t count, free_count;
    uint32_t *free;               /* [count] free slots; the last one given back is used first */
    uint32_t *submission;         /* [count] submission of the slot's request */
    bool *used;                   /* [count] whether the slot has a request */
    _Atomic int64_t *deadline_ns; /* [count] deadline of the slot's request, read by the feeder that has its batch */
};

/* The data that all feeders of a run share; made before feeders start, and constant but for `slots`. */
struct feeder_world {
    const struct links_config *config;
    const struct served_model *models; /* [model_count] */
    struct profile *const *profiles;   /* [model_count] */
    char *const *descriptions;         /* [model_count] descriptions of models that backends send */
    double *shares;                    /* [model_count] shares of the requests */
    uint32_t model_count;
    const char *type;        /* type of the accelerators */
    int64_t reply_margin_ns; /* time of an answer's way back */
    struct sockaddr_in scheduler;
    struct ring *done;       /* [to * feeders + from] rings of uint64_t: handles of requests that have come back */
    struct feeder **feeders; /* [config->feeders] */
    struct feeder_slots *_Atomic *slots; /* [HELLO_NUMBERS] slots of the frontend with this number */
    uint8_t *feeder_of;                  /* [HELLO_NUMBERS] index of the feeder of the frontend with this number */
};

/* Written by the feeder, read by any thread. */
struct feeder_counts {
    _Atomic uint64_t fed;                    /* requests sent */
    _Atomic uint64_t unsent;                 /* requests not sent, since their frontend had no room */
    _Atomic uint64_t back;                   /* requests sent that have come back */
    _Atomic uint64_t refused[REFUSAL_COUNT]; /* requests sent that the scheduler refused, by reason */
    _Atomic uint64_t lost;                   /* requests sent that the scheduler lost */
    _Atomic uint64_t planned;                /* requests that came to the feeder's backends in batches */
    _Atomic uint64_t late;                   /* planned requests whose batch ends after their deadline */
    _Atomic uint64_t expired;                /* planned requests whose batch came too late to be run */
    _Atomic uint64_t batches;
    struct histogram way;                    /* times from the sealing of a batch to its arrival at the backend */
    _Atomic uint64_t *model_fed, *model_bad; /* [model_count] requests sent, and those that were bad in any way */
};

struct feeder;

/* Makes feeder number `index` of the world, with its part of the frontends and backends. 0 or -errno with a sentence;
 * free the feeder in either case. */
int feeder_make(struct feeder **feeder, struct feeder_world *world, uint32_t index, struct sy_error *err);
/* Starts the feeder's thread, whose frontends and backends begin to join. 0 or -errno with a sentence. */
int feeder_start(struct feeder *feeder, struct sy_error *err);
/* From now on the feeder does nothing more, and may lose the scheduler. NULL is allowed. */
void feeder_end(struct feeder *feeder);
/* Ends the feeder's thread. Stop all feeders before freeing one, since they ring each other's bells. NULL is allowed.
 */
void feeder_stop(struct feeder *feeder);
/* Frees the feeder, stopped or not. NULL is allowed. */
void feeder_free(struct feeder *feeder);

/* Any thread: */

/* Whether all frontends and backends of the feeder have joined and know what they need. */
bool feeder_joined(const struct feeder *feeder);
/* Begins to feed, once all feeders have joined (`feeds` true), or ends feeding (false). */
void feeder_feed(struct feeder *feeder, bool feeds);
/* Whether the feeder feeds no more, and all requests that it sent have come back. */
bool feeder_drained(const struct feeder *feeder);
const struct feeder_counts *feeder_counts(const struct feeder *feeder);
const struct link_loop *feeder_loop(const struct feeder *feeder);
/* A sentence about the first mistake found, after which the feeder does nothing more; NULL: none. */
const char *feeder_failure(const struct feeder *feeder);
