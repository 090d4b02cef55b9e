/* smallest_wiring.h - a wiring of one accelerator and one model, not yet initialised. */
#pragma once

#include "sched/threads/wiring.h"

static inline struct wiring smallest_wiring(uint32_t frontends) {
    static uint32_t zeros[1];
    return (struct wiring){.frontends = frontends,
                           .model_threads = 1,
                           .executors = 1,
                           .accelerators = 1,
                           .models = 1,
                           .batch_max = 4,
                           .port_requests = 8,
                           .thread_of_variant = zeros,
                           .thread_of_served = zeros,
                           .executor_of = zeros};
}
