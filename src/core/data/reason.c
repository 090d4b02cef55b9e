/* reason.c - from a request's numbers to the reason, and from the reason to words. */
#include "core/data/reason.h"

#include <stdarg.h>
#include <stdio.h>

#define SLOW_TIMES 1.5 /* times the measured run from which on a run is slow */
#define PART       0.1 /* part of the whole time from which on a wait is worth a word */
#define US_A_MS    1e3

static const char *const names[REASON_COUNT] = {
    [REASON_NONE] = "none",
    [REASON_SHORT] = "deadline_too_short",
    [REASON_SLOW] = "slow_runs",
    [REASON_CROWDED] = "given_up_for_later_ones",
    [REASON_SHARE] = "over_share",
    [REASON_COLD] = "model_not_in_memory",
    [REASON_ACCELERATOR] = "waited_for_accelerator",
    [REASON_COMPANY] = "waited_for_company",
    [REASON_RUN] = "long_run",
    [REASON_BODY] = "slow_request",
    [REASON_REPLY] = "slow_answer",
    [REASON_QUEUE_FULL] = "queue_full",
    [REASON_BEST_EFFORT_FULL] = "best_effort_full",
    [REASON_POOL_FULL] = "scheduler_full",
    [REASON_THREAD_BUSY] = "scheduler_busy",
    [REASON_PLANS_FULL] = "accelerator_full",
    [REASON_CANCELLED] = "cancelled",
    [REASON_STRANDED] = "no_accelerator",
    [REASON_LOST] = "accelerator_lost",
    [REASON_UNPREPARED] = "unprepared",
    [REASON_UNSCHEDULED] = "no_scheduler",
    [REASON_DEADLINE] = "deadline",
    [REASON_FRONTEND] = "frontend",
    [REASON_FAILED] = "failed",
};

const char *reason_name(enum reason_kind kind) {
    return names[kind];
}

static double ms(double us) {
    return us / US_A_MS;
}

/* From the first byte until the request and its inputs were there. */
static uint32_t there_us(const struct trail *t) {
    return t->prepared_us > t->body_us ? t->prepared_us : t->body_us;
}

/* Sets the waits of a request that was in a batch. */
static void waits_set(struct reason *r, const struct trail *t) {
    uint32_t ready_us = t->past.ready_us < t->start_us ? t->start_us - t->past.ready_us : 0, from_us = there_us(t);
    if (ready_us < from_us)
        ready_us = from_us < t->start_us ? from_us : t->start_us;
    r->company_ms = ready_us > from_us ? ms(ready_us - from_us) : 0;
    r->accelerator_ms = ms(t->start_us - ready_us);
    r->accelerator = t->past.accelerator;
    r->before = t->past.before;
}

/* Sets what is known of the load, and of slow runs, when a request was given up in its queue. */
static void figures_set(struct reason *r, const struct refusal_figures *f) {
    if (f->serving > 0 && f->needed > (float)f->serving) {
        r->load = (double)f->needed / f->serving;
        r->needed = (double)f->needed;
        r->serving = f->serving;
    }
    if (f->measured_us > 0 && f->run_us > SLOW_TIMES * f->measured_us) {
        r->slow_ms = ms(f->run_us);
        r->measured_ms = ms(f->measured_us);
    }
}

/* A request whose time was over before it was in a queue. */
static enum reason_kind unread(struct reason *r, const struct trail *t) {
    bool body = t->body_us > t->allowed_us / 2;
    r->took_ms = ms(body ? t->body_us : t->took_us > t->body_us ? t->took_us - t->body_us : 0);
    return body ? REASON_BODY : REASON_FRONTEND;
}

/* A request that was given up in its queue. Slow runs are the reason if as measured they would have been fast enough:
 * for this request alone, or for the load. */
static enum reason_kind given_up(struct reason *r, const struct trail *t) {
    const struct refusal_figures *f = &t->figures;
    bool slow = r->slow_ms > 0;
    if (t->cause == CAUSE_COLD)
        return REASON_COLD;
    if (t->cause == CAUSE_SHORT && slow && f->measured_us <= t->allowed_us)
        return REASON_SLOW;
    if (t->cause == CAUSE_SHORT)
        return f->run_us > t->allowed_us ? REASON_SHORT : unread(r, t);
    if (slow && r->load * r->measured_ms <= r->slow_ms)
        return REASON_SLOW;
    return t->cause == CAUSE_CROWDED ? REASON_CROWDED : t->cause == CAUSE_SHARE ? REASON_SHARE : REASON_ACCELERATOR;
}

static enum reason_kind refused(struct reason *r, const struct trail *t) {
    static const enum reason_kind others[REFUSAL_COUNT] = {
        [REFUSAL_NONE] = REASON_FRONTEND,
        [REFUSAL_QUEUE_FULL] = REASON_QUEUE_FULL,
        [REFUSAL_BEST_EFFORT_FULL] = REASON_BEST_EFFORT_FULL,
        [REFUSAL_POOL_FULL] = REASON_POOL_FULL,
        [REFUSAL_THREAD_BUSY] = REASON_THREAD_BUSY,
        [REFUSAL_PLANS_FULL] = REASON_PLANS_FULL,
        [REFUSAL_CANCELLED] = REASON_CANCELLED,
        [REFUSAL_STRANDED] = REASON_STRANDED,
        [REFUSAL_LOST] = REASON_LOST,
        [REFUSAL_UNPREPARED] = REASON_UNPREPARED,
        [REFUSAL_UNSCHEDULED] = REASON_UNSCHEDULED,
    };
    if (t->refusal != REFUSAL_DEADLINE)
        return others[t->refusal];
    if (t->cause == CAUSE_UNREAD)
        return unread(r, t);
    if (t->cause != CAUSE_NONE) {
        figures_set(r, &t->figures);
        if (t->cause == CAUSE_SHORT)
            r->took_ms = ms(t->figures.run_us);
        else
            r->accelerator_ms = t->took_us > there_us(t) ? ms(t->took_us - there_us(t)) : 0;
        r->items = t->figures.later;
        return given_up(r, t);
    }
    if (t->start_us == 0) /* by a central policy, or among requests of too many shapes */
        return REASON_DEADLINE;
    return r->company_ms > r->accelerator_ms ? REASON_COMPANY : REASON_ACCELERATOR;
}

static enum reason_kind late(struct reason *r, const struct trail *t) {
    uint32_t end_us = t->start_us + t->run_us;
    double run_ms = ms(t->run_us), body_ms = ms(t->body_us),
           reply_ms = t->took_us > end_us ? ms(t->took_us - end_us) : 0;
    const struct {
        enum reason_kind kind;
        double ms;
    } parts[] = {{REASON_ACCELERATOR, r->accelerator_ms},
                 {REASON_COMPANY, r->company_ms},
                 {REASON_RUN, run_ms},
                 {REASON_BODY, body_ms},
                 {REASON_UNPREPARED, r->prepare_ms},
                 {REASON_REPLY, reply_ms}};
    unsigned longest = 0;
    for (unsigned i = 1; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].ms > parts[longest].ms)
            longest = i;
    r->took_ms = parts[longest].ms;
    if (t->past.predicted_us > 0 && t->run_us > SLOW_TIMES * t->past.predicted_us) {
        r->slow_ms = run_ms;
        r->measured_ms = ms(t->past.predicted_us);
        bool enough = ms(t->took_us) - (r->slow_ms - r->measured_ms) <= r->allowed_ms; /* it would be in time */
        if (enough || parts[longest].kind == REASON_RUN)
            return REASON_SLOW;
    }
    if (parts[longest].kind == REASON_RUN)
        r->measured_ms = ms(t->past.predicted_us);
    return parts[longest].kind;
}

struct reason reason_of(const struct trail *t) {
    struct reason r = {
        .before = MODEL_NONE, .allowed_ms = ms(t->allowed_us), .prepare_ms = ms(there_us(t) - t->body_us)};
    if (t->start_us > 0)
        waits_set(&r, t);
    switch ((enum trail_state)t->state) {
    case TRAIL_REFUSED:
        r.kind = refused(&r, t);
        break;
    case TRAIL_FAILED:
        r.kind = REASON_FAILED;
        break;
    case TRAIL_LATE:
        r.kind = late(&r, t);
        break;
    case TRAIL_IN_TIME:
    case TRAIL_STATES:
        break;
    }
    r.waiting_helps =
        t->state == TRAIL_REFUSED && r.kind != REASON_SHORT && r.kind != REASON_DEADLINE && r.kind != REASON_CANCELLED;
    return r;
}

/* ---- words ---- */

/* A time in milliseconds, in as few digits as say something. */
struct span {
    char text[24];
};

static struct span span_of(double of_ms) {
    struct span span;
    snprintf(span.text, sizeof(span.text), of_ms < 100 ? "%.3g ms" : "%.0f ms", of_ms);
    return span;
}

/* Appends; what does not fit is left out. */
static void __attribute__((format(printf, 4, 5))) put(char *out, size_t bytes, size_t *length, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out + *length, bytes - *length, fmt, ap);
    va_end(ap);
    size_t room = bytes - *length - 1;
    *length += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

static void waits_put(const struct reason *r, const char *before, char *out, size_t bytes, size_t *length) {
    double sum_ms = r->company_ms + r->accelerator_ms;
    bool company = r->company_ms > PART * sum_ms || r->kind == REASON_COMPANY;
    bool accelerator = r->accelerator_ms > PART * sum_ms || r->kind == REASON_ACCELERATOR;
    if (company)
        put(out, bytes, length, "waited %s for company", span_of(r->company_ms).text);
    if (accelerator && before)
        put(out, bytes, length, "%saccelerator %u was busy with %.64s for %s", company ? ", then " : "",
            (unsigned)r->accelerator, before, span_of(r->accelerator_ms).text);
    else if (accelerator)
        put(out, bytes, length, "%s%s for an accelerator", company ? ", then " : "waited ",
            span_of(r->accelerator_ms).text);
}

void reason_words(const struct reason *r, const char *before, char *out, size_t bytes) {
    size_t length = 0;
    out[0] = '\0';
    switch (r->kind) {
    case REASON_SHORT:
        put(out, bytes, &length, "a run takes %s, and %s were left for all", span_of(r->took_ms).text,
            span_of(r->allowed_ms).text);
        break;
    case REASON_CROWDED:
        put(out, bytes, &length, "given up: %u later ones fit instead", (unsigned)r->items);
        break;
    case REASON_SHARE:
        put(out, bytes, &length, "over its model's share");
        break;
    case REASON_COLD:
        put(out, bytes, &length, "its model was in no accelerator's memory, and could not be loaded in time");
        break;
    case REASON_ACCELERATOR:
    case REASON_COMPANY:
        waits_put(r, before, out, bytes, &length);
        break;
    case REASON_RUN:
        put(out, bytes, &length, "the run took %s", span_of(r->took_ms).text);
        if (r->measured_ms > 0)
            put(out, bytes, &length, ", %.3g were expected", r->measured_ms);
        break;
    case REASON_BODY:
        put(out, bytes, &length, "the request took %s to come", span_of(r->took_ms).text);
        break;
    case REASON_UNPREPARED:
        if (r->took_ms > 0)
            put(out, bytes, &length, "its inputs took %s to prepare", span_of(r->took_ms).text);
        break;
    case REASON_REPLY:
        put(out, bytes, &length, "the answer took %s to go out", span_of(r->took_ms).text);
        break;
    case REASON_FAILED:
        put(out, bytes, &length, "the run failed: the answer has the engine's sentence, and so has the log");
        break;
    case REASON_FRONTEND:
        if (r->took_ms > 0)
            put(out, bytes, &length, "%s passed before it was looked at", span_of(r->took_ms).text);
        break;
    case REASON_SLOW:
    default:
        break;
    }
    if (r->load > 0)
        put(out, bytes, &length, "%s load is %.1f times the capacity", length ? " while the" : "the", r->load);
    if (r->slow_ms > 0)
        put(out, bytes, &length,
            "%sruns take %s, %.3g were expected: this machine is busy with something else, or these inputs cost more "
            "than the measured ones",
            length ? "; " : "", span_of(r->slow_ms).text, r->measured_ms);
}

void reason_help(const struct reason *r, char *out, size_t bytes) {
    out[0] = '\0';
    if (r->load > 0)
        snprintf(out, bytes, "%.1f accelerators are needed, %.0f %s there", r->needed, r->serving,
                 r->serving > 1 ? "are" : "is");
    else if (r->kind == REASON_SHORT)
        snprintf(out, bytes, "a deadline of %s or more lets it run", span_of(r->took_ms).text);
}
