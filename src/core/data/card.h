/* card.h - what an executor needs to know of a request. The request, and the memory that its inputs lie in, are named
 * by numbers.
 *
 * Since a card holds numbers and no addresses, a backend of a cluster can keep its own copy of a request's card and
 * inputs (cluster/roles/landing.h), and its executors use the copy like a card of a frontend in the same process. The
 * exceptions are REGION_FRONTEND, and the region of all of the process's memory (wiring_region_any()). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/container.h"

/* ---- handles ---- */

/* A handle names a request from its submission until the request comes back. It consists of the frontend's number, the
 * request's slot in that frontend, and a number of the submission, which is drawn. So a late message about an earlier
 * request of the slot is not taken for one about this request, and a process that was not told of the request cannot
 * name it. */
#define HANDLE_SLOT_BITS     24
#define HANDLE_FRONTEND_BITS 16

static inline uint64_t handle_of(uint32_t frontend, uint32_t slot, uint32_t submission) {
    return (uint64_t)submission << (HANDLE_SLOT_BITS + HANDLE_FRONTEND_BITS) | (uint64_t)frontend << HANDLE_SLOT_BITS |
           slot;
}

/* The number of a submission that follows this one. The numbers start again at 1 after 2^24 - 1, so no handle is 0. */
static inline uint32_t submission_next(uint32_t submission) {
    return submission % ((1u << (64 - HANDLE_SLOT_BITS - HANDLE_FRONTEND_BITS)) - 1) + 1;
}

static inline uint32_t handle_slot(uint64_t handle) {
    return (uint32_t)handle & ((1u << HANDLE_SLOT_BITS) - 1);
}

static inline uint32_t handle_frontend(uint64_t handle) {
    return (uint32_t)(handle >> HANDLE_SLOT_BITS) & ((1u << HANDLE_FRONTEND_BITS) - 1);
}

/* ---- regions: memory that inputs lie in ---- */

struct region {
    uintptr_t base; /* address in this process; 0, with 0 bytes: no region has this number */
    size_t bytes;
    int fd; /* descriptor by which other processes of this host map the region (visible.h); -1: none */
};

#define REGION_NONE UINT32_MAX
/* Only in a backend of a cluster: the input lies in the memory of a frontend on the same host, which the backend has
 * mapped. The input's offset is then its address in the backend. */
#define REGION_FRONTEND (UINT32_MAX - 1)

/* ---- cards ---- */

#define CARD_INPUTS      16                          /* inputs that lie in the card itself */
#define CARD_INPUTS_MORE (TENSORS_MAX - CARD_INPUTS) /* further inputs, which lie outside the card */

/* The place and the shape of an input. */
struct card_input {
    uint64_t offset, bytes; /* place in the region, and size, in bytes */
    uint32_t region;        /* number of the region; REGION_NONE: the request does not give this optional input */
    uint32_t dim_count;
    int64_t dims[TENSOR_DIMS_MAX];
};

/* The frontend writes the card before it submits the request. From then on until the result has come back, only
 * `unready` changes. Other processes of this host map the card, so its layout is the same in all releases. */
struct request_card {
    _Alignas(CACHE_LINE) uint64_t handle;
    int64_t deadline_ns; /* client's own deadline; the reply margin is not taken off */
    uint32_t items;
    float work; /* cost of an item relative to the profiled item; 1 for models of one shape */
    /* `delay` and `alone` are 0 or 1; they are no bools, as other processes read them */
    uint8_t delay; /* 1: the request may run after its deadline */
    uint8_t alone; /* 1: a batch failed, perhaps because of this request, which runs alone from now on */
    /* 1: the request's inputs are still being prepared. The thread that has prepared the inputs clears the flag
     * (release), and an executor checks the flag before it reads the inputs (acquire). In a backend of a cluster the
     * link thread clears the flag (cluster/roles/landing.h) */
    _Atomic uint8_t unready;
    uint8_t suffix; /* suffix of a model that shares its first layers (wiring.h); else, and in a cluster, 0 */
    uint32_t input_count;
    struct card_input inputs[CARD_INPUTS]; /* first inputs of the input_count, in the signature's order */
    /* address of the handle in the frontend's own card; set only if inputs are of REGION_FRONTEND */
    const uint64_t *origin;
    /* value that *origin has as long as the inputs are still this request's */
    uint64_t origin_handle;
    /* inputs from number CARD_INPUTS on, if there are any: an address in the process that has written the card. Other
     * processes that map a frontend's card find these inputs by cards_more() */
    struct card_input *more;
    uint32_t avoid; /* number of the cluster's backend that is not to run the request, since its run has failed there;
                       0: any backend may run it */
};
_Static_assert(offsetof(struct request_card, more) == 1456 && sizeof(struct request_card) == 1472,
               "as other processes map it");

/* Input `i` of a card that this process has written. */
static inline struct card_input *card_input_at(const struct request_card *card, uint32_t i) {
    return i < CARD_INPUTS ? (struct card_input *)(uintptr_t)&card->inputs[i] : &card->more[i - CARD_INPUTS];
}

/* Bytes of the cards of a frontend's thread: [slots] cards, and behind them CARD_INPUTS_MORE further inputs for each
 * card. Memory of further inputs is touched only where cards have such inputs. */
static inline size_t cards_bytes(size_t slots) {
    return slots * (sizeof(struct request_card) + CARD_INPUTS_MORE * sizeof(struct card_input));
}

/* The further inputs of a slot's card. */
static inline struct card_input *cards_more(const struct request_card *cards, size_t slots, size_t slot) {
    return (struct card_input *)(uintptr_t)(cards + slots) + slot * CARD_INPUTS_MORE;
}

/* The address of an input in this process. The request must give the input: its region is not REGION_NONE. */
static inline void *region_at(const struct region *regions, const struct card_input *input) {
    return (void *)((input->region == REGION_FRONTEND ? 0 : regions[input->region].base) + input->offset);
}

/* Whether some inputs lie in the memory of a frontend that is another process. If that frontend ends the request before
 * its result has come, the frontend may give the memory to another request, even while an executor here reads it. */
static inline bool card_is_elsewhere(const struct request_card *card) {
    bool elsewhere = false;
    for (uint32_t i = 0; i < card->input_count; i++)
        elsewhere |= card_input_at(card, i)->region == REGION_FRONTEND;
    return elsewhere;
}

/* Whether card_is_elsewhere() holds, and the frontend has ended the request. Then the inputs that were copied before
 * this call may be another request's, and nobody waits for this request's result. */
static inline bool card_has_ended(const struct request_card *card) {
    if (!card_is_elsewhere(card))
        return false;
    atomic_thread_fence(memory_order_acquire); /* with slot_give() in port.c: the handle is read last */
    return __atomic_load_n(card->origin, __ATOMIC_RELAXED) != card->origin_handle;
}

/* An input as a tensor. The tensor has no data if the request does not give the input. */
static inline struct tensor_view card_view(const struct request_card *card, uint32_t input,
                                           const struct region *regions) {
    const struct card_input *in = card_input_at(card, input);
    struct tensor_view view = {.bytes = in->bytes, .dim_count = in->dim_count};
    if (in->region != REGION_NONE)
        view.data = region_at(regions, in);
    memcpy(view.dims, in->dims, sizeof(view.dims));
    return view;
}
