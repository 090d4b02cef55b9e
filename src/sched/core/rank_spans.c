/* rank_spans.c - over which time requests are counted, and what second copies are worth, where memory is limited.
 *
 * Where requests come evenly, the models that were asked for most over a long time are those that are asked for next.
 * Where they come in bursts, those that were asked for lately are. So requests are counted over several spans. In force
 * is the span of which this is most true: a memory that always held the models that were asked for most over that span,
 * as many as it holds now, would have missed the fewest requests. (2,000 models, Zipf 0.6, in bursts, on 5 accelerators
 * with room for 40 each: 608 of 1,000 requests would be missed over 30 s, and 567 over 0.3 s; goodput is 2,718 and
 * 3,250 requests/s.)
 *
 * A model that is asked for often may have several copies, so that its batches wait for no single accelerator. Each
 * takes the place of the only copy of another model. Which of the two is worth more shows in what is lost. Where
 * accelerators are busy, requests are lost that found their model on one: copies help. Where loads take too long, those
 * are lost that found it on none: then more models are to be there. So a copy of several is worth what it ran, times
 * the share that is lost of the former divided by that of the latter. What it ran is counted over the longest span: a
 * hot model whose requests come in bursts would lose its second copy in each pause. (3 accelerators, 200 models, Zipf
 * 1.0, link and accelerators busy for 0.8 of their time: a second copy that was always worth what it ran left room for
 * 38 models of 58, and 1.2 % was lost; 0.2 % is, with 53.)
 *
 * What is lost before any copy has made way says nothing of that: models come for the first time, and copies take
 * nobody's place. (11 accelerators with room for 200 of 2,000 models each, asked for equally often: of the first
 * 4 s a fifth was lost. With that counted, for 20 s more second copies went first, and 1.5 % was lost; 1.0 % is.) */
#include "core/util/fmath.h"
#include "sched/core/rank_core_state.h"

const double memory_spans_ns[MEMORY_SPANS] = {3e10, 3e9, 3e8};

#define LOOK_NS NS_PER_S
#define KEEP    0.8  /* share of what is counted here that each look keeps */
#define BETTER  1.05 /* times as many requests must be missed over the span in force as over another, to change it */
/* How many times as often as others requests that found their model nowhere are lost where a copy of several is worth
 * what it ran. (With 8 as many are lost, in 14 settings of bench_memory.) */
#define LOST_TIMES 5
#define PRIOR      1000 /* requests of each kind, of which 1 and LOST_TIMES were lost, that are counted beside others */

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
    double found = (m->lost[0] + 1) / (m->came[0] + PRIOR), cold = (m->lost[1] + LOST_TIMES) / (m->came[1] + PRIOR);
    m->several_log = fmath_log(LOST_TIMES * found / cold * memory_spans_ns[best] / memory_spans_ns[0]);
    for (uint32_t i = 0; i < 2; i++) {
        m->came[i] *= KEEP;
        m->lost[i] *= KEEP;
    }
    m->span_look_ns = now_ns + LOOK_NS;
    if (best == m->span)
        return;
    m->span = best;
    for (uint32_t a = 0; a < m->accelerators; a++)
        for (uint32_t s = 0; s < m->accelerator[a].touched; s++) {
            struct memory_slot *slot = &m->accelerator[a].slots[s];
            if (slot->state == COPY_NONE)
                continue;
            slot->used = FADING_NONE; /* what it ran is not known over the new span */
            memory_slot_place(m, a, s);
        }
}

void rank_spans_count(struct rank_memory *m, int64_t now_ns, uint32_t model, const struct model_rates *rates) {
    if (now_ns >= m->span_look_ns)
        look(m, now_ns);
    if (m->full) {
        m->came[0] += rates->arrived - rates->cold;
        m->came[1] += rates->cold;
        m->lost[0] += rates->lost - rates->lost_cold;
        m->lost[1] += rates->lost_cold;
    }
    for (uint32_t k = 0; k < MEMORY_SPANS; k++) {
        fading *asked = &m->model[model].asked[k];
        m->missed[k] += *asked - (double)now_ns / memory_spans_ns[k] < m->least[k] ? rates->arrived : 0;
        fading_add(asked, now_ns, memory_spans_ns[k], rates->arrived);
    }
}
