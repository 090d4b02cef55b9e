/* accelerators.h - how frontends read the state of the server's accelerators, and pass on orders to them. */
#pragma once

#include <stdint.h>

#include "core/data/messages.h"
#include "core/util/error.h"
#include "sched/threads/wiring.h"

/* Any thread. */
struct accelerator_source {
    uint32_t count; /* bound of the accelerators' numbers */
    /* Returns the state of an accelerator, and sets its type. */
    enum accelerator_state (*read)(const void *context, uint32_t accelerator, const char **type);
    /* Passes on an order (JOIN or DRAIN); the accelerator obeys soon. 0; or 503 with a sentence: the order cannot be
     * passed on now. NULL: nobody takes orders. */
    int (*order)(void *context, uint32_t accelerator, enum accelerator_order order, struct sy_error *err);
    void *context;
};
