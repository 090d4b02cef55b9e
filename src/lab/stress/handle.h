/* handle.h - a request of a stress run is its handle: 40 bits of arrival time, 16 of model, 8 of world. */
#pragma once

#include <stdint.h>

#define HANDLE_ARRIVAL_BITS 40 /* nanoseconds: 18 minutes */
#define HANDLE_MODEL_BITS   16

static inline uint64_t handle_make(int64_t arrival_ns, uint32_t model, uint32_t world) {
    return (uint64_t)world << (HANDLE_ARRIVAL_BITS + HANDLE_MODEL_BITS) | (uint64_t)model << HANDLE_ARRIVAL_BITS |
           (uint64_t)arrival_ns;
}

static inline int64_t handle_arrival_ns(uint64_t handle) {
    return (int64_t)(handle & ((1ULL << HANDLE_ARRIVAL_BITS) - 1));
}

static inline uint32_t handle_model(uint64_t handle) {
    return (uint32_t)(handle >> HANDLE_ARRIVAL_BITS) & ((1U << HANDLE_MODEL_BITS) - 1);
}

static inline uint32_t handle_world(uint64_t handle) {
    return (uint32_t)(handle >> (HANDLE_ARRIVAL_BITS + HANDLE_MODEL_BITS));
}
