/* reason.h - why a request was refused, failed or was late: decided from its trail, and said in words.
 *
 * The live server and the simulator use the same functions, so both give the same reasons. Pure. */
#pragma once

#include <stddef.h>

#include "core/data/trail.h"

enum reason_kind {
    REASON_NONE, /* the request was in time */
    /* it was given up in its queue, or waited too long */
    REASON_SHORT,       /* no run fits into its time */
    REASON_SLOW,        /* runs take longer than was measured */
    REASON_CROWDED,     /* a larger batch of later requests fits instead */
    REASON_SHARE,       /* it was beyond its model's share */
    REASON_COLD,        /* no accelerator had its model in memory, nor could load it in time */
    REASON_ACCELERATOR, /* it waited for an accelerator for most of the time */
    REASON_COMPANY,     /* it waited for further requests for its batch for most of the time */
    /* it ran, and was late */
    REASON_RUN,   /* the run took as long as was to be expected, and most of the time */
    REASON_BODY,  /* the request itself took most of the time to come */
    REASON_REPLY, /* the answer took most of the time to go out */
    /* it was refused for another reason: see enum refusal */
    REASON_QUEUE_FULL,
    REASON_BEST_EFFORT_FULL,
    REASON_POOL_FULL,
    REASON_THREAD_BUSY,
    REASON_PLANS_FULL,
    REASON_CANCELLED,
    REASON_STRANDED,
    REASON_LOST,
    REASON_UNPREPARED, /* or it was late, and its inputs took most of the time to prepare */
    REASON_UNSCHEDULED,
    REASON_DEADLINE, /* for its deadline; more is not known */
    REASON_FRONTEND, /* the frontend had no time, no slot or no memory for it */
    REASON_FAILED,
    REASON_COUNT,
};

struct reason {
    enum reason_kind kind;
    bool waiting_helps;                /* the same request may be served if it is sent again soon */
    double load;                       /* load as a share of the capacity; 0: not known, or at most 1 */
    double needed, serving;            /* accelerators needed and there, with `load` */
    double slow_ms, measured_ms;       /* time of a run now, and as measured or predicted; 0: it is not slow (RUN:
                                                measured_ms 0: not known) */
    double prepare_ms;                 /* time that its inputs took to prepare; 0: not known, or there was none */
    double company_ms, accelerator_ms; /* waits for company, and for an accelerator, both after that */
    double took_ms, allowed_ms;        /* SHORT, RUN: of the run; BODY, REPLY: of the way in or out; FRONTEND:
                                                until it was looked at; UNPREPARED: prepare_ms; and of the request */
    uint32_t items;                    /* CROWDED: items of the batch that fits */
    uint32_t accelerator;              /* accelerator of the run */
    uint32_t before; /* number of the served model that ran there meanwhile; MODEL_NONE: none, or not known */
};

/* The reason that a trail tells. */
struct reason reason_of(const struct trail *trail);
/* The reason's name, for tables and programs: "waited_for_accelerator". */
const char *reason_name(enum reason_kind kind);
/* Writes what happened as words, terminated. `before`: name of the model of that number; NULL: not known. "" for
 * REASON_NONE, and for those whose refusal has a sentence of its own (front/request/refusal.c). */
void reason_words(const struct reason *reason, const char *before, char *out, size_t bytes);
/* Writes what would help, as words; "": nothing is known. */
void reason_help(const struct reason *reason, char *out, size_t bytes);
