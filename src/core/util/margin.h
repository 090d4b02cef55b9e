/* margin.h - a running 95th percentile of small times, for timing margins: what wake-ups, dispatch, gathering and
 * replies take on this machine now.
 *
 * Values are counted in half-octave buckets from 1 us to 4 s. The counts are halved every 1024 values, so that only the
 * last few thousand matter. A margin starts from a guess with the weight of 256 values, so that the first slow value
 * does not become the percentile: with a margin that is too large every request is refused, and then nothing is
 * measured any more. For the same reason the user of a margin lets it relax towards the guess while there is nothing to
 * measure. One writer; others read the percentile.
 *
 * Why the 95th: only the head of a full batch ends right at its deadline and needs the margin at all. One in twenty of
 * those is far fewer than one in a hundred of all requests. And on a machine that stalls once in thirty times, the 99th
 * would be the stall and would take a quarter of every SLO. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define MARGIN_BUCKETS 45 /* buckets of half an octave, from 1 us to 4 s */

struct margin {
    uint32_t counts[MARGIN_BUCKETS]; /* number of values by bucket, halved every 1024 values */
    uint32_t total, since_decay;     /* sum of `counts`; number of values since the last halving */
    uint32_t guess_bucket;           /* bucket of the guess */
    _Atomic int64_t value_ns;        /* 95th percentile: upper edge of its bucket; 0: no values and no guess */
};

/* Starts from a guess. Call it before other threads see the margin. */
void margin_init(struct margin *margin, int64_t guess_ns);
/* Draws the margin towards the guess: adds the guess with an eighth of the weight of all values. The writer's
 * thread. */
void margin_relax(struct margin *margin);
/* Adds a value. The writer's thread. */
void margin_add(struct margin *margin, int64_t value_ns);

static inline int64_t margin_ns(const struct margin *margin) {
    return atomic_load_explicit(&margin->value_ns, memory_order_relaxed); /* a number on its own: no order needed */
}
