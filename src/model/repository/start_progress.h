/* start_progress.h - how far the models of a server's start are, as readiness and metrics tell it.
 *
 * The thread that prepares them writes, any thread reads: numbers only, which are told as words when somebody asks. A
 * reader may see numbers of two moments. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct start_progress {
    _Atomic bool over;        /* whether each model of the start is loaded, or has failed to load */
    _Atomic uint32_t all;     /* number of models of the start */
    _Atomic uint32_t awaited; /* of these, models that neither serve nor are set aside; one of them is prepared now */
    _Atomic bool profiles;    /* whether profiles are measured; else models are loaded that have profiles */
    _Atomic uint32_t left_s;  /* seconds that the rest will take, by what the ones before took; 0: not known */
};

#define START_PROGRESS_WORDS 80 /* bytes of the words, terminator included */

/* "profiling 3 of 100, 40 s left", or "" if nothing is awaited. */
void start_progress_words(const struct start_progress *progress, char words[START_PROGRESS_WORDS]);
