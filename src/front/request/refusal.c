/* refusal.c - the sentences for requests that the scheduler refused: each cause has its own, with the limit. */
#include "front/request/refusal.h"

#include <string.h>

#include "core/data/reason.h"
#include "front/request/request_trail.h"
#include "model/repository/model_index.h"
#include "sched/threads/wiring.h"

/* The time that the request may take. */
static double allowed_ms(const struct request *request) {
    return (double)(request->deadline_ns - request->arrival_ns) / (double)NS_PER_MS;
}

static unsigned queue_full(const struct served_model *model, uint8_t priority, struct sy_error *err) {
    char of[32] = "";
    if (model->queue.priorities)
        snprintf(of, sizeof(of), " of priority %u", priority + 1u);
    return (unsigned)error_set(
        err, 503, "Exceeds maximum queue size: %u requests%s wait for model '%s', as many as its max_queue_size lets",
        model->queue.rules[priority].queue_max, of, model->name);
}

/* A hint for a client that never asked for a deadline: where it can be set. */
#define CHOSEN_HELP "slo_ms in its symphony.yaml, --slo-ms or the request's timeout say how long it may take"

static unsigned deadline_missed(const char *name, const struct request *request, bool limited, struct sy_error *err) {
    double due_ms = (double)(request->due_ns - request->arrival_ns) / (double)NS_PER_MS;
    bool best_effort = request->priority == PRIORITY_BEST_EFFORT;
    int status = limited ? 504 : 503;
    if (request->late_until_ns > 0 && best_effort)
        return (unsigned)error_set(err, status,
                                   "model '%s' found no time for this request within %.0f ms (the server has chosen an "
                                   "SLO of %.6g ms for it: " CHOSEN_HELP ")",
                                   name, allowed_ms(request), due_ms);
    if (request->late_until_ns > 0)
        return (unsigned)error_set(err, status,
                                   "model '%s' cannot finish this request within the SLO of %.6g ms that the server "
                                   "has chosen, nor let it wait for longer (" CHOSEN_HELP ")",
                                   name, due_ms);
    return (unsigned)error_set(err, status,
                               best_effort ? "model '%s' found no gap for this best-effort request within %.6g ms"
                                           : "model '%s' cannot finish this request within its deadline of %.6g ms",
                               name, allowed_ms(request));
}

/* Appends why, and what would help. */
static void why_append(const struct reason *reason, const struct model_index *models, struct sy_error *err) {
    size_t length = strlen(err->text), room = sizeof(err->text) - length;
    char why[256], help[96];
    reason_words(reason, models ? model_index_name(models, reason->before) : NULL, why, sizeof(why));
    reason_help(reason, help, sizeof(help));
    snprintf(err->text + length, room, "%s%s%s%s", *why ? ": " : "", why, *help ? "; " : "", help);
}

unsigned refusal_result(const struct served_model *model, const struct request *request, bool limited,
                        const struct model_index *models, int64_t now_ns, bool *retry, struct sy_error *err) {
    const char *name = model->name;
    struct trail trail = request_trail(request, TRAIL_REFUSED, now_ns);
    struct reason reason = reason_of(&trail);
    *retry = reason.waiting_helps;
    switch (request->refusal) {
    case REFUSAL_DEADLINE: {
        unsigned status = deadline_missed(name, request, limited, err);
        why_append(&reason, models, err);
        return status;
    }
    case REFUSAL_QUEUE_FULL:
        return queue_full(model, request->priority, err);
    case REFUSAL_BEST_EFFORT_FULL:
        return (unsigned)error_set(err, 503,
                                   "%d best-effort or late requests of model '%s' wait already, as many as may",
                                   BEST_EFFORT_MAX, name);
    case REFUSAL_POOL_FULL:
        return (unsigned)error_set(err, 503,
                                   "the scheduler holds as many requests, of all models, as --queue-max lets it");
    case REFUSAL_THREAD_BUSY:
        return (unsigned)error_set(err, 503,
                                   "the scheduler itself has no time left: a quarter of this request's time, %.6g ms, "
                                   "was over before it was looked at",
                                   allowed_ms(request) / 4);
    case REFUSAL_PLANS_FULL:
        return (unsigned)error_set(err, 503,
                                   "the accelerator chosen for this request of model '%s' has its most, %d batches, "
                                   "before it",
                                   name, WIRING_PLANS_CENTRAL);
    case REFUSAL_STRANDED:
        return (unsigned)error_set(err, 503, "no accelerator that runs model '%s' is in service", name);
    case REFUSAL_UNSCHEDULED:
        return (unsigned)error_set(
            err, 503,
            "this frontend has no connection to a scheduler, and this request for model '%s' can "
            "no longer wait for one",
            name);
    case REFUSAL_LOST:
        return (unsigned)error_set(err, 503, "the accelerator that had this request failed, and its deadline passed");
    case REFUSAL_UNPREPARED:
        return (unsigned)error_set(err, limited ? 504 : 503,
                                   "the inputs of this request for model '%s' were not prepared in time for its "
                                   "deadline of %.6g ms",
                                   name, allowed_ms(request));
    case REFUSAL_CANCELLED:
    case REFUSAL_NONE:
    case REFUSAL_COUNT:
        break;
    }
    return (unsigned)error_set(err, 503, "the request was cancelled");
}
