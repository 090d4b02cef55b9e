/* goodput_search.h - which rate to try next when looking for the highest one that holds: grow or shrink until it is
 * bracketed, then bisect. Machines are noisy, so a rate that fails is tried once more before the failure is believed.
 * If everything below it then holds, it is tried again at the end; if it holds this time, the search goes on from
 * there.
 *
 * Pure; the caller runs the trials. */
#pragma once

#include <stdbool.h>

struct goodput_search {
    double rate_rps;   /* to be tried next */
    double held_rps;   /* highest that held; 0: none yet */
    double failed_rps; /* lowest that failed; 0: none yet */
    double precision;  /* done when failed <= held * (1 + precision) */
    double min_rps, max_rps;
    int held_in_a_row;
    double doubted_rps; /* a failed rate that was tried again at the end; 0: none yet */
    bool failed_once;   /* the rate to be tried failed once already */
    bool done;          /* held_rps is the answer; at max_rps the true one may lie above */
};

/* 0 < min <= start <= max, precision > 0. */
void goodput_search_init(struct goodput_search *search, double start_rps, double min_rps, double max_rps,
                         double precision);
/* Tells how the trial at search->rate_rps went, and chooses the next rate or finishes. */
void goodput_search_report(struct goodput_search *search, bool held);
