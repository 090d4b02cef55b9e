/* landing.h - the cards and inputs of requests that a backend runs, pulled into its own memory, where its executors
 * resolve handles in the same way as those of frontends in the same process. Inputs of a frontend on this host may also
 * stay in memory that the frontend has handed over, until an executor copies them into a batch. Owned by the link
 * thread; executors read cards and inputs from the hand-over of a plan until its results. */
#pragma once

#include <sys/uio.h>

#include "cluster/roles/frontend_memory.h"
#include "model/config/served_model.h"
#include "sched/threads/wiring.h"

enum landed_state {
    LANDED_NOT,     /* no pull was begun */
    LANDED_PULLING, /* the pull is under way */
    LANDED_UNREADY, /* the card is here; the inputs are still being prepared, and have their memory */
    LANDED_ALL,     /* card and inputs are here, or in the frontend's memory */
    LANDED_GONE,    /* the request cannot be pulled, and has no memory here */
};

/* A request that a plan named. */
struct landed {
    uint64_t handle; /* handle of the request; 0: the slot is free */
    void *block;     /* memory for the inputs, and for the card's entries beyond CARD_INPUTS; NULL: none is needed */
    struct frontend_memory *memory; /* frontend's memory that holds the inputs instead of `block`; NULL: none */
    void *plan;                     /* plan that waits for the request; NULL: none any more */
    uint32_t model;                 /* number of the model, as in the plan */
    uint8_t state;                  /* enum landed_state */
    bool arrives;                   /* the body is arriving in `block` */
    uint64_t reads;                 /* bytes of the body that transport_fabric.c has yet to read */
    int64_t begun_ns;               /* begin of the pull */
};

/* The requests of one frontend process. */
struct landing {
    uint32_t number, lanes, slots;
    struct request_card *cards; /* [lanes * slots] cards; pages take memory once they are used */
    struct landed *landed;      /* [lanes * slots] requests */
    struct slab *slab;
    struct wiring *wiring;
    const struct served_model *models;
};

/* Allocates memory for the requests of a frontend, where executors find them. 0 or -ENOMEM. */
int landing_init(struct landing *landing, struct wiring *wiring, struct slab *slab, const struct served_model *models,
                 uint32_t number, uint32_t lanes, uint32_t slots);
/* Call it when no executor can read the cards any more. */
void landing_destroy(struct landing *landing);

/* The slot of a request of this frontend; NULL: the handle is not valid. */
struct landed *landing_place(const struct landing *landing, uint64_t handle);
const struct request_card *landing_card(const struct landing *landing, const struct landed *landed);
/* Takes a card, which was checked against its frame (wire.h), for a request that is LANDED_PULLING or LANDED_UNREADY;
 * in the second case it must equal the card that came before. Sets the memory for the body. `deadline_ns` is by the
 * local clock. 0 and *count pieces; -EINVAL (the card does not fit the model), -EFBIG (the inputs are too large for
 * this backend) or -ENOMEM, with a sentence: the request is LANDED_GONE, or still LANDED_UNREADY. */
int landing_take(struct landing *landing, struct landed *landed, const struct wire_card *card, int64_t deadline_ns,
                 struct iovec pieces[TENSORS_MAX], uint32_t *count, struct sy_error *err);
/* Takes a card that was read in the memory of a frontend on this host, for a request that is LANDED_PULLING; executors
 * read the inputs in that memory. `from` has the address of each input that has bytes, one after the other. `theirs` is
 * the frontend's own card, which has `handle` as long as the inputs are there. Not for strings, which must be checked
 * before an executor sees them. 0: the request is LANDED_ALL, and keeps the memory mapped; -EINVAL with a sentence: the
 * card does not fit the model, and the request is LANDED_GONE; -EFBIG, -ENOMEM as landing_take(). */
int landing_take_in_place(struct landing *landing, struct landed *landed, const struct wire_card *card,
                          int64_t deadline_ns, const char *const *from, struct frontend_memory *memory,
                          const struct request_card *theirs, uint64_t handle, struct sy_error *err);
/* Whether inputs of a model may be read in a frontend's memory (landing_take_in_place()). */
bool landing_in_place(const struct landing *landing, uint32_t model);
/* Takes the card of a request whose inputs are still being prepared, as landing_take(). The request is then
 * LANDED_UNREADY: executors find its card, and leave it out of batches that begin before its inputs have landed. */
int landing_take_unready(struct landing *landing, struct landed *landed, const struct wire_card *card,
                         int64_t deadline_ns, struct sy_error *err);
/* Sets the memory for the body of a request whose card was taken; returns the number of pieces. */
uint32_t landing_pieces(const struct landing *landing, const struct landed *landed, const struct region *regions,
                        struct iovec pieces[TENSORS_MAX]);
/* A request's body is here, or it has none. -EINVAL: strings are malformed, and the request is LANDED_GONE, or still
 * LANDED_UNREADY. */
int landing_over(struct landing *landing, struct landed *landed, struct sy_error *err);
/* Whether a request for a model is here. Call it rarely, since it walks all slots. */
bool landing_holds(const struct landing *landing, uint32_t model);
/* Frees a request's memory: it is not needed any more. */
void landing_give(struct landing *landing, struct landed *landed);
