/* landing.h - the cards and inputs of requests that a backend runs, pulled into its own memory, where its executors
 * resolve handles in the same way as those of frontends in the same process. Inputs of a frontend on this host may also
 * stay where they are, in memory that it has handed over, until an executor copies them into a batch. Owned by the link
 * thread; executors read cards and inputs from the hand-over of a plan until its results. */
#pragma once

#include <sys/uio.h>

#include "cluster/roles/frontend_memory.h"
#include "model/config/served_model.h"
#include "sched/threads/wiring.h"

enum landed_state {
    LANDED_NOT,
    LANDED_PULLING,
    LANDED_UNREADY, /* its card is here; its inputs are still being prepared, and have their memory */
    LANDED_ALL,
    LANDED_GONE, /* it cannot be had, and has no memory here */
};

/* A request that a plan named. */
struct landed {
    uint64_t handle;                /* 0: none is in this slot */
    void *block;                    /* the memory of its inputs, and of what its card has of those beyond CARD_INPUTS;
                                     * NULL: it needs none */
    struct frontend_memory *memory; /* the frontend's, where they lie instead; it stays mapped for it; NULL: not so */
    void *plan;                     /* the plan that waits for it; NULL: none any more */
    uint32_t model;
    uint8_t state;    /* enum landed_state */
    bool arrives;     /* the body is arriving in `block` */
    uint64_t reads;   /* bytes of it that are still to be read, by transport_fabric.c */
    int64_t begun_ns; /* its pull */
};

/* The requests of one frontend process. */
struct landing {
    uint32_t number, lanes, slots;
    struct request_card *cards; /* [lanes * slots] mapped; touched where they are used */
    struct landed *landed;      /* [lanes * slots] */
    struct slab *slab;
    struct wiring *wiring;
    const struct served_model *models;
};

/* Allocates room for a frontend's requests, and makes it known to the executors. 0 or -ENOMEM. */
int landing_init(struct landing *landing, struct wiring *wiring, struct slab *slab, const struct served_model *models,
                 uint32_t number, uint32_t lanes, uint32_t slots);
/* Call it when no executor can read it any more. */
void landing_destroy(struct landing *landing);

/* The slot of a request of this frontend; NULL: the handle is not valid. */
struct landed *landing_place(const struct landing *landing, uint64_t handle);
const struct request_card *landing_card(const struct landing *landing, const struct landed *landed);
/* A card has come, checked against its frame (wire.h), for a request that is LANDED_PULLING, or UNREADY: then it must
 * be the one that came before. Takes it, and says where its body goes. `deadline_ns` is local. 0 and the number of
 * pieces; -EINVAL (it does not fit its model), -EFBIG (its inputs are too large for this backend) or -ENOMEM, with a
 * sentence: the request is GONE, or still UNREADY. */
int landing_take(struct landing *landing, struct landed *landed, const struct wire_card *card, int64_t deadline_ns,
                 struct iovec pieces[TENSORS_MAX], uint32_t *count, struct sy_error *err);
/* A card that was read in the memory of a frontend on this host, for a request that is LANDED_PULLING: executors find
 * its inputs there. `from` has where each input lies that has bytes, one after the other; `theirs` is the frontend's
 * own card, which has `handle` as long as the inputs lie there. Not for strings, which are checked before an executor
 * sees them. 0: the request is LANDED_ALL, and keeps the memory mapped; -EINVAL with a sentence: it does not fit its
 * model, and is GONE; -EFBIG, -ENOMEM as landing_take(). */
int landing_take_in_place(struct landing *landing, struct landed *landed, const struct wire_card *card,
                          int64_t deadline_ns, const char *const *from, struct frontend_memory *memory,
                          const struct request_card *theirs, uint64_t handle, struct sy_error *err);
/* Whether the inputs of a model may stay where they are. */
bool landing_in_place(const struct landing *landing, uint32_t model);
/* The card of a request whose inputs are still being prepared, likewise: the request is UNREADY then, executors find
 * its card, and leave it out of batches that begin before its inputs have landed. */
int landing_take_unready(struct landing *landing, struct landed *landed, const struct wire_card *card,
                         int64_t deadline_ns, struct sy_error *err);
/* Where the body of a taken request goes; returns the number of pieces. */
uint32_t landing_pieces(const struct landing *landing, const struct landed *landed, const struct region *regions,
                        struct iovec pieces[TENSORS_MAX]);
/* Its body is here, or it has none. -EINVAL: its strings are malformed; the request is GONE, or still UNREADY. */
int landing_over(struct landing *landing, struct landed *landed, struct sy_error *err);
/* Whether a request for a model is here. It walks all slots, so call it rarely. */
bool landing_holds(const struct landing *landing, uint32_t model);
/* Frees a request's memory: it is not needed any more. */
void landing_give(struct landing *landing, struct landed *landed);
