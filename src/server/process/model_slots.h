/* model_slots.h - the places of models that come and go while the server runs. A place is a model's number.
 *
 *     FREE --model_slot_load()--> LOADED --model_slot_enter(), publish--> SERVING --model_slot_retire()-->
 *     RETIRED --publish--> DRAINING --model_slots_drain(): no frontend holds it, scheduler and executors have given it
 *     back--> FREE
 *
 * In a backend of a cluster the link thread takes the part of frontends and scheduler.
 *
 * Only the repository's thread calls these. It waits for other threads; none of them waits for it. */
#pragma once

#include "server/process/repository_control.h"
#include "server/process/server_state.h"

enum slot_use {
    SLOT_FREE,
    SLOT_LOADED,
    SLOT_SERVING,
    SLOT_RETIRED,
    SLOT_DRAINING,
    SLOT_PREFIX, /* the layers that models share: the place is taken with the first of these models, and freed with the
                  * last one's place. No client knows it */
};

struct model_slot {
    enum slot_use use;
    struct thread_model model; /* the model as its model thread was told of it, with its numbers in the scheduler;
                                * variant_count 0: not told */
};

struct model_slots {
    struct server *server;
    const struct repository_control *control;
    struct model_slot *slots; /* [count] */
    uint32_t count, serving;
    uint32_t retired;    /* number of RETIRED places: a list without their models is not published yet */
    bool *variant_taken; /* [wiring.models] whether a place has this index of the rank core */
};

/* 0 or -ENOMEM; call model_slots_free() in either case. */
int model_slots_init(struct model_slots *slots, struct server *server, const struct repository_control *control);
/* Call it when all other threads have ended, and executors have freed their models. */
void model_slots_free(struct model_slots *slots);

/* Completes a model that the repository found, and loads it on every executor. For an ensemble it finds the models of
 * the steps instead, and the place takes over `found->ensemble`. The model is not published yet. 0 with its place, or
 * -errno with a sentence: -EBUSY: there is no free place; -EINTR: the server is being stopped; any other: the model is
 * at fault. */
int model_slot_load(struct model_slots *slots, struct served_model *found, uint32_t *slot, struct sy_error *err);
/* Frees a LOADED place. */
void model_slot_discard(struct model_slots *slots, uint32_t slot);
/* Hands the model to the executors and the scheduler; from then on it can be served. */
void model_slot_enter(struct model_slots *slots, uint32_t slot);
/* From the next publication on the model gets no new requests; requests that already hold it are still served. */
void model_slot_retire(struct model_slots *slots, uint32_t slot);
/* Publishes the models that serve, and those that are absent. When it returns, no thread uses an earlier list. 0 or
 * -ENOMEM: everything stays as it was. */
int model_slots_publish(struct model_slots *slots, const struct model_absent *absent, uint32_t absent_count);
/* Frees the DRAINING places that no request holds. True if others are left. */
bool model_slots_drain(struct model_slots *slots);
