/* trail.h - what became of a request, in numbers; and rings that keep the trails of the last ones.
 *
 * A frontend notes a trail when the answer has gone out: of every request that was refused, failed or was late, and of
 * a share of the others. Each state has a ring of its own, in which the newest trails take the place of the oldest, so
 * that a flood of refusals leaves the trails of failures where they are.
 *
 * One thread notes, any thread reads (core/util/tape.h). */
#pragma once

#include "core/data/messages.h"
#include "core/util/tape.h"

#define TRAIL_ID_BYTES 40 /* bytes that are kept of a request's id */

enum trail_state {
    TRAIL_REFUSED,
    TRAIL_FAILED,
    TRAIL_LATE,
    TRAIL_IN_TIME,
    TRAIL_STATES,
};

/* "refused", "failed", "late" or "in_time". */
const char *trail_state_name(uint8_t state);

#define TRACE_GIVEN   0x80 /* flag of ours: the client gave a context */
#define TRACE_SAMPLED 0x01 /* flag of W3C Trace Context: the client records its part of the trace */

/* A request's place in a trace of its client's (W3C Trace Context). `flags` 0: it has none. */
struct trace_context {
    uint8_t trace[16]; /* the trace's id */
    uint8_t parent[8]; /* id of the client's span */
    uint8_t flags;
};

/* Times are in microseconds, at most UINT32_MAX. */
struct trail {
    int64_t arrival_ns;   /* time at which the first byte came; CLOCK_MONOTONIC */
    uint32_t model;       /* number of the served model */
    uint32_t model_key;   /* low bits of the model's key, as its number may be another model's later */
    uint32_t body_us;     /* from the first byte to the last byte of the request, or until it was unpacked */
    uint32_t prepared_us; /* from the first byte until its inputs were prepared, or it was too late for that; 0: they
                              need not be */
    uint32_t allowed_us;  /* from the first byte to the deadline */
    uint32_t took_us;     /* from the first byte until the answer had gone out */
    uint32_t start_us; /* from the first byte to the start of the run, or, refused, until it was too late to start; 0:
                          the request was in no batch */
    uint32_t run_us;   /* the run; 0: there was none */
    struct batch_past past;         /* of the batch; only with start_us */
    struct refusal_figures figures; /* of a refusal with a cause */
    uint16_t batch_items;           /* items of the batch */
    uint16_t ahead;                 /* requests of the model that this frontend already had */
    uint16_t status;                /* status of the answer, as of HTTP */
    uint8_t state;                  /* enum trail_state */
    uint8_t refusal;                /* enum refusal, if refused by the scheduler */
    uint8_t cause;                  /* enum refusal_cause */
    uint8_t priority;
    uint8_t id_length;
    char id[TRAIL_ID_BYTES]; /* begin of the request's id */
    struct trace_context trace;
};
_Static_assert(sizeof(struct trail) == 152, "19 words, of which rings consist");

#define TRAIL_WORDS (sizeof(struct trail) / sizeof(uint64_t))

#define TRAIL_TRACED TRAIL_STATES /* ring of the requests that were chosen for a trace, whatever their state */
#define TRAIL_RINGS  (TRAIL_STATES + 1)

struct trails {
    struct {
        struct tape tape;
        _Atomic uint64_t noted; /* number of trails that were ever noted */
    } of[TRAIL_RINGS];          /* by enum trail_state, and TRAIL_TRACED */
    uint32_t every, left;       /* one in `every` requests in time is noted (0: none), the next after `left` others */
    uint64_t drawn;             /* state of the generator that `left` is drawn from */
};

/* Makes room for `keep` trails in each ring, rounded down to a power of two; 0: nothing is kept. Memory that was not
 * written yet costs nothing. 0 or -ENOMEM. */
int trails_init(struct trails *trails, uint32_t keep, uint32_t every);
void trails_free(struct trails *trails);

/* Whether the trail of a request that was answered in time is to be noted. The owner's thread. */
static inline bool trails_sample(struct trails *trails) {
    if (trails->left > 0) {
        trails->left--;
        return false;
    }
    if (trails->every == 0)
        return false;
    trails->drawn = trails->drawn * 6364136223846793005ULL + 1442695040888963407ULL;
    trails->left = (uint32_t)((trails->drawn >> 32) * (2ULL * trails->every - 1) >> 32); /* every - 1 in the mean */
    return true;
}

/* Whether trails are kept. */
static inline bool trails_kept(const struct trails *trails) {
    return trails->of[0].tape.slots != NULL;
}

/* Notes a trail in a ring. The owner's thread. */
void trails_note(struct trails *trails, unsigned ring, const struct trail *trail);
/* Reads the newest trails of a ring, at most `most`, the oldest of them first. Returns how many there are. Any
 * thread. */
uint64_t trails_read(const struct trails *trails, unsigned ring, struct trail *into, uint64_t most);
/* Reads the oldest trails of a ring, at most `most`, from number *next on: those that were not overwritten yet.
 * Returns how many there are; *next becomes the number behind the last of them. Any thread. */
uint64_t trails_read_on(const struct trails *trails, unsigned ring, uint64_t *next, struct trail *into, uint64_t most);
/* The number of trails of a ring that were ever noted. Any thread. */
uint64_t trails_noted(const struct trails *trails, unsigned ring);
