/* rank_told.h - steps a rank core with what model threads and executors tell it, for tests that play these by hand. */
#pragma once

#include <string.h>

#include "sched/core/rank_core_state.h"

/* A message; `candidates` are those that it brings, [types]: an answer or a model that joins. */
static inline void rank_told(struct rank_core *core, int64_t now_ns, struct rank_message message,
                             const struct candidate *candidates, uint32_t types, struct rank_output *out) {
    union {
        struct rank_message message;
        char bytes[sizeof(struct rank_message) + ACCELERATOR_TYPES_MAX * sizeof(struct candidate)];
    } room;
    room.message = message;
    if (candidates) {
        room.message.types = types;
        memcpy(room.message.candidates, candidates, types * sizeof(*candidates));
    }
    rank_core_step(core, now_ns, &(struct rank_event){.kind = RANK_MESSAGE, .message = &room.message}, out);
}

/* A model's newest candidates: c on the first type of accelerators, nothing that may start on the others. */
static inline void rank_told_candidate(struct rank_core *core, int64_t now_ns, uint32_t model, struct candidate c,
                                       struct rank_output *out) {
    struct candidate candidates[ACCELERATOR_TYPES_MAX] = {c};
    for (uint32_t t = 1; t < ACCELERATOR_TYPES_MAX; t++)
        candidates[t] = candidate_none();
    rank_core_step(core, now_ns,
                   &(struct rank_event){.kind = RANK_CANDIDATES, .variant = {model}, .candidates = candidates}, out);
}

/* The model's answer to its grant, and its next candidate on the first type. */
static inline void rank_told_answer(struct rank_core *core, int64_t now_ns, uint32_t model, struct rank_answer answer,
                                    struct candidate next, uint32_t types, struct rank_output *out) {
    struct candidate candidates[ACCELERATOR_TYPES_MAX] = {next};
    for (uint32_t t = 1; t < ACCELERATOR_TYPES_MAX; t++)
        candidates[t] = candidate_none();
    rank_told(core, now_ns, (struct rank_message){.kind = RANK_ANSWER, .variant = {model}, .answer = answer},
              candidates, types, out);
}

/* The batch of an accelerator that was granted first has ended. */
static inline void rank_told_end(struct rank_core *core, int64_t now_ns, uint32_t accelerator, int64_t ended_ns,
                                 bool unlike, struct rank_output *out) {
    const struct accelerator *a = &core->accelerator[accelerator];
    rank_core_step(core, now_ns,
                   &(struct rank_event){.kind = RANK_BATCH_ENDED,
                                        .accelerator = accelerator,
                                        .variant = {a->batches ? a->running[0].model : a->granted_to},
                                        .ended = {.at_ns = ended_ns, .unlike = unlike}},
                   out);
}
