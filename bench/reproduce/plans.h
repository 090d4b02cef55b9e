/* plans.h - squishy plans in memory of the program's own. */
#pragma once

#include "memory.h"
#include "sched/plan/squishy.h"

/* An empty plan; accelerators' memory is not limited. Free with plan_give(). */
static inline struct squishy plan_take(uint32_t gpus, uint32_t sessions) {
    struct squishy plan;
    squishy_init(&plan, memory_take(squishy_bytes(gpus, sessions)), gpus, sessions, 0);
    return plan;
}

static inline void plan_give(struct squishy *plan) {
    free(plan->gpus); /* the first of its memory */
}

/* A plan for all of these sessions. */
static inline struct squishy plan_for(const struct squishy_session *sessions, uint32_t count) {
    struct squishy plan = plan_take(squishy_gpus_most(sessions, count), count);
    squishy_update(&plan, sessions, 1);
    return plan;
}
