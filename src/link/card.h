/* card.h - a request as an executor needs to know it: by a number, with its inputs in memory that has a number, too.
 *
 * Nothing here is an address, so that a request means the same on another machine, where somebody has put a copy of its
 * card and of its inputs in places of the same numbers. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/container.h"
#include "tensor/tensor.h"

/* ---- handles ---- */

/* A handle names a request from its submission until it comes back: its frontend, the frontend's slot that it is in,
 * and which submission to that slot it is, so that nothing that is said of an earlier one is taken for it. */
#define HANDLE_SLOT_BITS     24
#define HANDLE_FRONTEND_BITS 16

static inline uint64_t handle_of(uint32_t frontend, uint32_t slot, uint32_t submission) {
    return (uint64_t)submission << (HANDLE_SLOT_BITS + HANDLE_FRONTEND_BITS) | (uint64_t)frontend << HANDLE_SLOT_BITS |
           slot;
}

/* The submission that comes after this one, 0 being before the first. It comes round after 2^24 and leaves 0 out, so no
 * handle is 0. */
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
    uintptr_t base; /* here; 0 with no bytes: there is none of this number */
    size_t bytes;
    int fd; /* that other processes of this host map it by (link/visible.h); -1: none */
};

#define REGION_NONE UINT32_MAX
/* In a backend of a cluster: an input in the memory of a frontend on its host, which it has mapped. The offset is its
 * address. */
#define REGION_FRONTEND (UINT32_MAX - 1)

/* ---- cards ---- */

/* Where an input lies, and its shape. */
struct card_input {
    uint64_t offset, bytes; /* in the region */
    uint32_t region;        /* its number; REGION_NONE: the request does not give this optional input */
    uint32_t rank;
    int64_t dims[TENSOR_DIMS_MAX];
};

/* Written by the frontend before it submits the request, and but for `unready` constant until its result has come back.
 * Other processes of this host map it, so each release lays it out in the same way. */
struct request_card {
    _Alignas(CACHE_LINE) uint64_t handle;
    int64_t deadline_ns; /* the client's own */
    uint32_t items;
    float work; /* cost of an item against the profiled one; 1 for models of one shape */
    /* 0 or 1; no bools, as other processes read them */
    uint8_t delay; /* it may run after its deadline */
    uint8_t alone; /* a batch failed, and this request may be why: it shares no run any more */
    /* 1: its inputs are still being prepared. Who has prepared them clears it (release), and an executor looks before
     * it reads them (acquire). Of a card in a backend of a cluster the link clears it (cluster/landing.h) */
    _Atomic uint8_t unready;
    uint8_t
        suffix; /* of a model that shares its first layers: which suffix (wiring.h); else 0. Always 0 in a cluster */
    uint32_t input_count;
    struct card_input inputs[TENSORS_MAX]; /* [input_count] in the signature's order */
    /* only of a card whose inputs are of REGION_FRONTEND: the handle in the frontend's own card, and what it is as long
     * as the inputs are the request's */
    const uint64_t *origin;
    uint64_t origin_handle;
};
_Static_assert(sizeof(struct request_card) == 1472, "as other processes map it");

/* Where an input lies here, which the request gives. */
static inline void *region_at(const struct region *regions, const struct card_input *input) {
    return (void *)((input->region == REGION_FRONTEND ? 0 : regions[input->region].base) + input->offset);
}

/* Whether inputs of a request lie in the memory of its frontend, another process. If the frontend ends the request
 * before its result is there, that memory may become another request's, even while it is read here. */
static inline bool card_is_elsewhere(const struct request_card *card) {
    bool elsewhere = false;
    for (uint32_t i = 0; i < card->input_count; i++)
        elsewhere |= card->inputs[i].region == REGION_FRONTEND;
    return elsewhere;
}

/* Whether that is so, and the frontend has ended the request: what was copied of its inputs before this call may be
 * another request's, and nobody waits for its result. */
static inline bool card_has_ended(const struct request_card *card) {
    if (!card_is_elsewhere(card))
        return false;
    atomic_thread_fence(memory_order_acquire); /* with slot_give() in request/port.c: all reads come before the look */
    return __atomic_load_n(card->origin, __ATOMIC_RELAXED) != card->origin_handle;
}

/* The input as a tensor. */
static inline struct tensor_view card_view(const struct request_card *card, uint32_t input,
                                           const struct region *regions) {
    const struct card_input *in = &card->inputs[input];
    struct tensor_view view = {.bytes = in->bytes, .rank = in->rank};
    if (in->region != REGION_NONE)
        view.data = region_at(regions, in);
    memcpy(view.dims, in->dims, sizeof(view.dims));
    return view;
}
