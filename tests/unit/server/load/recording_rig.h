/* recording_rig.h - parts of recordings. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "server/load/recording.h"

#define START (1000 * NS_PER_S)

/* Batches of b take b * alpha + beta. */
static inline void table_set(struct recording_model *model, uint32_t type, double alpha_ms, double beta_ms) {
    int64_t *latency_ns = model->latency_ns[type] = calloc(model->batch_max + 1, sizeof(int64_t));
    for (uint32_t b = 1; b <= model->batch_max; b++)
        latency_ns[b] = (int64_t)((alpha_ms * b + beta_ms) * NS_PER_MS);
}

static inline struct recording_model model(const char *name, uint32_t version, int64_t slo_ms, uint32_t batch_max) {
    struct recording_model m = {.version = version, .slo_ns = slo_ms * NS_PER_MS, .batch_max = batch_max};
    strcpy(m.name, name);
    return m;
}

/* So long after START. */
static inline struct recorded_request request(double at_s, uint32_t served, uint32_t left_us, uint16_t items,
                                              uint8_t priority) {
    return (struct recorded_request){.arrival_ns = START + (int64_t)(at_s * (double)NS_PER_S),
                                     .model = served,
                                     .left_us = left_us,
                                     .items = items,
                                     .priority = priority};
}
