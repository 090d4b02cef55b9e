/* goodput_search.c - chooses the next rate to try in a search for the highest rate that holds. */
#include "lab/load/goodput_search.h"

#define GROWTH 1.6 /* factor between rates while there is no bracket: five bisections then reach 2 % */
/* Rates in a row that must hold for the failed rate above them to be tried again: by chance, one search in eight has
 * this many. */
#define DOUBTFUL_ROW 3

void goodput_search_init(struct goodput_search *s, double start_rps, double min_rps, double max_rps, double precision) {
    *s = (struct goodput_search){.rate_rps = start_rps, .min_rps = min_rps, .max_rps = max_rps, .precision = precision};
}

static double rate_choose(const struct goodput_search *s) {
    if (s->held_rps == 0.0) {
        double lower = s->failed_rps / GROWTH;
        return lower > s->min_rps ? lower : s->min_rps;
    }
    if (s->failed_rps == 0.0) {
        double higher = s->held_rps * GROWTH;
        return higher < s->max_rps ? higher : s->max_rps;
    }
    return (s->held_rps + s->failed_rps) / 2.0;
}

void goodput_search_report(struct goodput_search *s, bool held) {
    if (!held && !s->failed_once) {
        s->failed_once = true;
        return;
    }
    s->failed_once = false;
    s->held_in_a_row = held ? s->held_in_a_row + 1 : 0;
    if (held)
        s->held_rps = s->rate_rps;
    else
        s->failed_rps = s->rate_rps;
    if ((held && s->rate_rps >= s->max_rps) || (!held && s->rate_rps <= s->min_rps)) {
        s->done = true;
    } else if (s->held_rps > 0.0 && s->failed_rps > 0.0 && s->failed_rps <= s->held_rps * (1.0 + s->precision)) {
        if (s->held_in_a_row >= DOUBTFUL_ROW && s->failed_rps != s->doubted_rps) {
            s->rate_rps = s->doubted_rps = s->failed_rps;
            s->failed_rps = 0.0;
            return;
        }
        s->done = true;
    }
    s->rate_rps = s->done ? s->held_rps : rate_choose(s);
}
