/* rank_spans.c - over which time requests are counted, where memory is limited.
 *
 * Where requests come evenly, the models that were asked for most over a long time are those that are asked for next.
 * Where they come in bursts, those that were asked for lately are. So requests are counted over several spans. In force
 * is the span of which this is most true: a memory that always held the models that were asked for most over that span,
 * as many as it holds now, would have missed the fewest requests. (2,000 models, Zipf 0.6, in bursts, on 5 accelerators
 * with room for 40 each: 608 of 1,000 requests would be missed over 30 s, and 567 over 0.3 s; goodput is 2,718 and
 * 3,250 requests/s.) */
#include "core/util/fmath.h"
#include "sched/core/rank_core_state.h"

const double memory_spans_ns[MEMORY_SPANS] = {3e10, 3e9, 3e8};

#define LOOK_NS NS_PER_S
#define KEEP    0.8  /* share of what is counted of the spans that each look keeps */
#define BETTER  1.05 /* times as many requests must be missed over the span in force as over another, to change it */

/* The number of rank `rank`, from 0 on, of `count` numbers by size, the largest first. They change places. */
static double ranked(double *numbers, uint32_t count, uint32_t rank) {
    for (uint32_t first = 0, last = count - 1; first < last;) {
        double middle = numbers[first + (last - first) / 2];
        uint32_t i = first, k = last;
        for (;; i++, k--) {
            while (numbers[i] > middle)
                i++;
            while (numbers[k] < middle)
                k--;
            if (i >= k)
                break;
            double other = numbers[i];
            numbers[i] = numbers[k];
            numbers[k] = other;
        }
        if (rank <= k)
            last = k;
        else
            first = k + 1;
    }
    return numbers[rank];
}

/* The span in force changes: copies of several are worth their share of the model's requests over the new one. */
static void span_set(struct rank_memory *m, int64_t now_ns, uint32_t span) {
    m->span = span;
    for (uint32_t a = 0; a < m->accelerators; a++)
        for (uint32_t s = 0; s < m->accelerator[a].touched; s++) {
            struct memory_slot *slot = &m->accelerator[a].slots[s];
            if (slot->state == COPY_NONE)
                continue;
            const struct memory_model *of = &m->model[slot->model];
            slot->used = FADING_NONE;
            fading_add(&slot->used, now_ns, memory_span_ns(m),
                       fading_at(of->asked[span], now_ns, memory_span_ns(m)) / of->copies);
            memory_slot_place(m, a, s);
        }
}

/* Compares the spans, and finds out which counts a model needs to be among those asked for most. */
static void look(struct rank_memory *m, int64_t now_ns) {
    uint32_t best = m->span, models = 0, there = 0;
    for (uint32_t i = 0; i < m->models; i++) {
        models += m->model[i].variants > 0;
        there += m->model[i].copies > 0;
    }
    for (uint32_t k = 0; k < MEMORY_SPANS; k++)
        if (m->missed[k] * (best == m->span ? BETTER : 1) < m->missed[best])
            best = k;
    for (uint32_t k = 0; k < MEMORY_SPANS; k++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < m->models; i++)
            if (m->model[i].variants > 0)
                m->scratch[count++] = m->model[i].asked[k];
        m->least[k] = there > 0 && there < models
                          ? ranked(m->scratch, count, there - 1) - (double)now_ns / memory_spans_ns[k]
                          : FADING_NONE;
        m->missed[k] *= KEEP;
    }
    m->span_look_ns = now_ns + LOOK_NS;
    if (best != m->span)
        span_set(m, now_ns, best);
}

void rank_spans_count(struct rank_memory *m, int64_t now_ns, uint32_t model, uint32_t requests) {
    if (now_ns >= m->span_look_ns)
        look(m, now_ns);
    for (uint32_t k = 0; k < MEMORY_SPANS; k++) {
        fading *asked = &m->model[model].asked[k];
        m->missed[k] += *asked - (double)now_ns / memory_spans_ns[k] < m->least[k] ? requests : 0;
        fading_add(asked, now_ns, memory_spans_ns[k], requests);
    }
}
