/* window.h - the batch size that a policy aims at, and the window drop. For policies, on the model core's thread. */
#pragma once

#include "sched/core/model_view.h"

/* Which requests are dropped when there are too many. DROP_WINDOW: the head, until a part of the best batch (or all
 * requests, if these are fewer) fits before the head's deadline. DROP_TIMEOUT: only a request that would be late even
 * if it ran alone. */
enum drop { DROP_WINDOW, DROP_TIMEOUT };

/* The words of a policy option whose values are enum drop. */
extern const char *const drop_words[];

/* The size of the batch that gathers, at the measured rate, while its first request can wait within the SLO; at least
 * 1. */
double batch_best(const struct model_view *m);
/* Sets m->batch_best, and m->target_items: `share` of the best batch, or 1 with DROP_TIMEOUT. */
void window_update(struct model_view *m, enum drop drop, double share);

static inline double clip(double x, double low, double high) {
    return x > high ? (high < low ? low : high) : (x < low ? low : x);
}
