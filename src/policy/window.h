/* window.h - the batch to aim at, and the window drop that aims at it. For policies, on the model core's thread. */
#pragma once

#include "sched/model_view.h"

/* What is given up when requests are too many: the head, until a part of the best batch fits before its deadline (or
 * all, if fewer); or only what can no longer make it by itself. */
enum drop { DROP_WINDOW, DROP_TIMEOUT };

/* The words of an option for it. */
extern const char *const drop_words[];

/* The batch that gathers while its first request can wait, at the measured rate and within the SLO; at least 1. */
double batch_best(const struct model_view *m);
/* Sets m->batch_best, and m->target_items to `share` of it or, dropping by timeout, to 1. */
void window_update(struct model_view *m, enum drop drop, double share);

static inline double clip(double x, double low, double high) {
    return x > high ? (high < low ? low : high) : (x < low ? low : x);
}
