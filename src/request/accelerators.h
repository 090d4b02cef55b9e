/* accelerators.h - what clients are told of the server's accelerators, and may ask of them, whoever has them. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "link/messages.h"
#include "sched/wiring.h"

/* Any thread. */
struct accelerator_source {
    uint32_t count; /* their numbers are below this */
    /* State and type of one. */
    enum accelerator_state (*read)(const void *context, uint32_t accelerator, const char **type);
    /* Passes an order on (JOIN or DRAIN), which the accelerator follows soon. 0, or 503 with a sentence: not now. NULL:
     * nobody takes orders. */
    int (*order)(void *context, uint32_t accelerator, enum accelerator_order order, struct sy_error *err);
    void *context;
};
