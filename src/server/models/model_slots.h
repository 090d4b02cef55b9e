/* model_slots.h - the places of models that come and go while the server runs. A place is a model's number.
 *
 * Drives model/repository/model_life.h: a place is PREPARING from model_slot_load() to model_slot_enter(). The
 * published list holds the places of its models, and then frontends do that have requests; in a backend of a cluster
 * the link thread takes the part of frontends and scheduler.
 *
 * Where models neither come nor go (CONTROL_NONE), the models of the start have their places from model_slots_init()
 * on, each its own, and stay there: served, or set aside with the reason.
 *
 * Models that share their first layers have a place more, with these layers, which no client knows. Each of their own
 * places holds it.
 *
 * Only the repository's thread calls these. Other threads ring places_bell of the wiring when they have answered; none
 * of them waits for this one. */
#pragma once

#include "model/repository/model_life.h"
#include "server/threads/executors.h"
#include "server/threads/model_control.h"
#include "server/threads/model_list.h"
#include "server/threads/scheduling.h"

struct model_slots {
    /* set by the caller before model_slots_init() */
    const struct repository_control *control;
    struct model_list *list;
    struct executors *executors;
    const struct scheduling *scheduling;
    struct backend_link *backend; /* link of a cluster's backend; NULL: no cluster's */

    struct model_life *life;   /* states of the places */
    struct thread_model *told; /* [count] the model as its model thread was told of it, with its numbers in the
                                * scheduler; variant_count 0: not told */
    uint32_t count;
    bool stale;          /* the published list is not the present one */
    bool *variant_taken; /* [wiring.models] whether a place has this index of the rank core */
};

/* Gives the models of the start their places. 0 or -ENOMEM; call model_slots_free() in either case. */
int model_slots_init(struct model_slots *slots);
/* Call it when all other threads have ended, and executors have freed their models. */
void model_slots_free(struct model_slots *slots);

/* Completes a model that the repository found, and loads it on every executor. For an ensemble it finds the models of
 * the steps instead, and the place takes over `found->ensemble`. The model is not published yet. 0 with its place, or
 * -errno with a sentence: -EBUSY: there is no free place; -EINTR: the server is being stopped; any other: the model is
 * at fault. */
int model_slot_load(struct model_slots *slots, struct served_model *found, uint32_t *slot, struct sy_error *err);
/* As model_slot_load(), for a model of the start in its place. -EAGAIN: its profile is to be measured, and `control`
 * says that only cached ones are taken; call it again. After any other failure call model_slot_set_aside(). */
int model_slot_fill(struct model_slots *slots, uint32_t slot, struct sy_error *err);
/* A model of the start is not served, for this reason: its place keeps it, MODEL_UNAVAILABLE. */
void model_slot_set_aside(struct model_slots *slots, uint32_t slot, const char *reason);
/* Frees a place that was loaded, and not entered. */
void model_slot_discard(struct model_slots *slots, uint32_t slot);
/* Hands the model to the executors and the scheduler, and waits until they have it; from then on it can be served. A
 * model of the same name and version that serves is retired. */
void model_slot_enter(struct model_slots *slots, uint32_t slot);
/* From the next publication on the model gets no new requests; requests that already hold it are still served. */
void model_slot_retire(struct model_slots *slots, uint32_t slot);
/* Publishes the models that serve or are set aside, and those that are absent, as model_list_publish(). When it
 * returns, no thread uses an earlier list. 0 or -ENOMEM: everything stays as it was. */
int model_slots_publish(struct model_slots *slots, struct model_absent *absent, uint32_t absent_count);
/* Takes back and frees places that nobody holds any more. True: something has happened, so call it again. */
bool model_slots_look(struct model_slots *slots);
/* The latest time of the next call, unless places_bell is rung before. */
int64_t model_slots_wake(const struct model_slots *slots);
/* Whether the place of a model that had number `born`, or a lower one, is free, or is another model's. */
static inline bool model_slot_freed(const struct model_slots *slots, uint32_t slot, uint64_t born) {
    return model_life_state(slots->life, slot) == LIFE_FREE || slots->life->places[slot].born > born;
}
