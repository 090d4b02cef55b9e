/* feeder.h - a thread that stands for frontends and backends of a cluster: it joins the scheduler over sockets as they
 * do, sends requests, and ends batches when accelerators would have.
 *
 * What a frontend and a backend say to each other (inputs, outputs) is left out: the scheduler never sees it. A request
 * counts as back when its batch reaches a backend, since the table then tells when the batch will end. If another
 * feeder has that backend, it tells the request's own feeder through a ring.
 *
 * Each is made, started, read and ended by the thread that runs the whole (lab/stress/links.c). */
#pragma once

#include <netinet/in.h>

#include "cluster/peer/link_loop.h"
#include "core/data/profile.h"
#include "core/util/histogram.h"
#include "core/util/ring.h"
#include "lab/stress/links.h"
#include "model/config/served_model.h"

/* Requests that a frontend may have outstanding. */
struct feeder_slots {
    uint32_t count, free_count;
    uint32_t *free;               /* [count] the last one given back is used first */
    uint32_t *submission;         /* [count] of the request in it */
    bool *used;                   /* [count] */
    _Atomic int64_t *deadline_ns; /* [count] read by the feeder that has its batch */
};

/* What all feeders of a run share; made before they start, constant but for `slots`. */
struct feeder_world {
    const struct links_config *config;
    const struct served_model *models; /* [model_count] */
    struct profile *const *profiles;   /* [model_count] */
    char *const *descriptions;         /* [model_count] what a backend tells of each */
    double *shares;                    /* [model_count] of the requests */
    uint32_t model_count;
    const char *type;        /* of the accelerators */
    int64_t reply_margin_ns; /* what an answer takes on its way back */
    struct sockaddr_in scheduler;
    struct ring *done;                   /* [to * feeders + from] uint64_t: requests that have come back */
    struct feeder **feeders;             /* [config->feeders] */
    struct feeder_slots *_Atomic *slots; /* [HELLO_NUMBERS] of the frontend that the scheduler gave this number, */
    uint8_t *feeder_of;                  /* [HELLO_NUMBERS] and who feeds it */
};

/* Written by the feeder, read by anyone. */
struct feeder_counts {
    _Atomic uint64_t fed;                    /* requests sent */
    _Atomic uint64_t turned_away;            /* others, for which their frontend had no room */
    _Atomic uint64_t back;                   /* of those that it sent: they have come back, */
    _Atomic uint64_t refused[REFUSAL_COUNT]; /* refused by the scheduler, by reason */
    _Atomic uint64_t lost;                   /* or lost by it */
    _Atomic uint64_t planned;                /* that came to its backends in batches */
    _Atomic uint64_t late;                   /* of these: the batch ends after their deadline */
    _Atomic uint64_t expired;                /* of these: the batch came too late to be run */
    _Atomic uint64_t batches;
    struct histogram way;                    /* from when a batch was sealed to when its backend has it */
    _Atomic uint64_t *model_fed, *model_bad; /* [model_count] bad: in any of these ways */
};

struct feeder;

/* Feeder number `index` of the world, with its part of the frontends and backends. 0 or -errno with a sentence; free it
 * in either case. */
int feeder_make(struct feeder **feeder, struct feeder_world *world, uint32_t index, struct sy_error *err);
/* Starts its thread, which begins to join. 0 or -errno with a sentence. */
int feeder_start(struct feeder *feeder, struct sy_error *err);
/* From now on it may lose the scheduler, and does nothing more. NULL is fine. */
void feeder_end(struct feeder *feeder);
/* Ends its thread. Feeders ring each other's bells, so all are stopped before one is freed. NULL is fine. */
void feeder_stop(struct feeder *feeder);
/* Frees it, stopped or not. NULL is fine. */
void feeder_free(struct feeder *feeder);

/* Any thread: */

/* Whether all of its frontends and backends have joined and know what they need. */
bool feeder_joined(const struct feeder *feeder);
/* Begins to feed, once all feeders have joined; and ends that. */
void feeder_feed(struct feeder *feeder, bool feeds);
/* Whether it feeds no more and all that it fed has come back. */
bool feeder_drained(const struct feeder *feeder);
const struct feeder_counts *feeder_counts(const struct feeder *feeder);
const struct link_loop *feeder_loop(const struct feeder *feeder);
/* The first thing that was wrong, from which on it does nothing more; NULL: nothing. */
const char *feeder_failure(const struct feeder *feeder);
