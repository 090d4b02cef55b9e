/* goodput_search.h - chooses the next rate to try in a search for the highest rate that holds: grows or shrinks until
 * that rate is bracketed, then bisects. Machines are noisy, so a rate that fails is tried once more before the failure
 * counts. If all rates tried below it hold, the failed rate is tried again at the end; if it then holds, the search
 * goes on from there.
 *
 * Pure; the caller runs the trials. */
#pragma once

#include <stdbool.h>

struct goodput_search {
    double rate_rps;   /* rate to try next */
    double held_rps;   /* highest rate that held; 0: none yet */
    double failed_rps; /* lowest rate that failed; 0: none yet */
    double precision;  /* precision of the result: the search ends when failed <= held * (1 + precision) */
    double min_rps, max_rps;
    int held_in_a_row;
    double doubted_rps; /* failed rate that was tried again at the end; 0: none yet */
    bool failed_once;   /* whether rate_rps has failed once already */
    bool done;          /* whether held_rps is the result; if that is max_rps the true one may be higher */
};

/* Begins a search; 0 < min <= start <= max, precision > 0. */
void goodput_search_init(struct goodput_search *search, double start_rps, double min_rps, double max_rps,
                         double precision);
/* Tells whether search->rate_rps held, and chooses the next rate or ends the search. */
void goodput_search_report(struct goodput_search *search, bool held);
