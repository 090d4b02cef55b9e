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

/* ---- cards ---- */

/* Where an input lies, and its shape. */
struct card_input {
    uint64_t offset, bytes; /* in the region */
    uint32_t region;        /* its number; REGION_NONE: the request does not give this optional input */
    uint32_t rank;
    int64_t dims[TENSOR_DIMS_MAX];
};

/* Written by the frontend before it submits the request, and but for `unready` constant until its result has come back.
 */
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
};

/* Where an input lies here, which the request gives. */
static inline void *region_at(const struct region *regions, const struct card_input *input) {
    return (void *)(regions[input->region].base + input->offset);
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
