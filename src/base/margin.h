/* margin.h - a running 95th percentile of small times, for timing margins: what wake-ups, dispatch, gathering and
 * replies take on this machine now.
 *
 * Counts in half-octave buckets from 1 us to 4 s, halved every 1024 values, so that the last few thousand count. A
 * margin starts from a guess with the weight of 256 values, so that the first slow one does not become the percentile:
 * a margin that is too large refuses every request, and then nothing is measured any more. For the same reason who
 * uses a margin lets it relax towards the guess while there is nothing to measure. One writer; others read the
 * percentile.
 *
 * Why the 95th: only what ends right at its deadline, the head of a full batch, needs the margin at all, so one in
 * twenty of those is far fewer than one in a hundred of all; and a machine that stalls once in thirty times would put
 * the stall into the 99th, and take a quarter of every SLO for it. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define MARGIN_BUCKETS 45

struct margin {
    uint32_t counts[MARGIN_BUCKETS];
    uint32_t total, since_decay;
    uint32_t guess_bucket;
    _Atomic int64_t value_ns; /* upper edge of the bucket; 0 without values and guess */
};

/* Starts from a guess. Before others see it. */
void margin_init(struct margin *margin, int64_t guess_ns);
/* Draws the margin towards the guess, by an eighth of its weight. The writer's thread. */
void margin_relax(struct margin *margin);
/* Adds a value. The writer's thread. */
void margin_add(struct margin *margin, int64_t value_ns);

static inline int64_t margin_ns(const struct margin *margin) {
    return atomic_load_explicit(&margin->value_ns, memory_order_relaxed); /* a number on its own: no order needed */
}
