/* request_trail.c - a request's times, counted from its arrival. */
#include "front/request/request_trail.h"

static uint16_t most16(uint32_t value) {
    return (uint16_t)(value < UINT16_MAX ? value : UINT16_MAX);
}

struct trail request_trail(const struct request *r, enum trail_state state, int64_t end_ns) {
    struct trail trail = {
        .arrival_ns = r->arrival_ns,
        .body_us = time_us_between(r->arrival_ns, r->complete_ns),
        .allowed_us = time_us_between(r->arrival_ns, r->due_ns),
        .took_us = time_us_between(r->arrival_ns, end_ns),
        .past = {.before = MODEL_NONE},
        .ahead = most16(r->ahead),
        .state = (uint8_t)state,
        .priority = r->priority,
    };
    bool unprepared = r->status == REQUEST_REFUSED && r->refusal == REFUSAL_UNPREPARED;
    if (r->run_start_ns > 0 && !unprepared) { /* else a batch ran without it */
        uint32_t start_us = time_us_between(r->arrival_ns, r->run_start_ns);
        trail.start_us = start_us > 0 ? start_us : 1;
        trail.past = r->past;
        trail.batch_items = most16(r->batch_items);
        if (r->status != REQUEST_REFUSED)
            trail.run_us = time_us_between(r->run_start_ns, r->run_end_ns);
    }
    if (unprepared)
        trail.prepared_us = trail.took_us;
    else if (r->prepared_ns > 0) { /* the frontend may learn it after the run */
        uint32_t most_us = trail.start_us > 0 ? trail.start_us : trail.took_us;
        trail.prepared_us = time_us_between(r->arrival_ns, r->prepared_ns);
        if (trail.prepared_us > most_us)
            trail.prepared_us = most_us;
    }
    if (state == TRAIL_REFUSED && r->status == REQUEST_REFUSED) {
        trail.refusal = (uint8_t)r->refusal;
        trail.cause = (uint8_t)r->cause;
        if (r->cause != CAUSE_NONE && r->cause != CAUSE_UNREAD)
            trail.figures = r->figures;
    }
    return trail;
}
