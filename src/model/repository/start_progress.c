/* start_progress.c - how far the models of a server's start are, in words. */
#include "model/repository/start_progress.h"

#include <stdio.h>

static uint32_t number(const _Atomic uint32_t *of) {
    return atomic_load_explicit(of, memory_order_relaxed); /* a number on its own */
}

void start_progress_words(const struct start_progress *p, char words[START_PROGRESS_WORDS]) {
    uint32_t all = number(&p->all), awaited = number(&p->awaited), left_s = number(&p->left_s);
    bool profiles = atomic_load_explicit(&p->profiles, memory_order_relaxed); /* as above */
    words[0] = '\0';
    if (!awaited || awaited > all)
        return;
    int length = snprintf(words, START_PROGRESS_WORDS, "%s %u of %u", profiles ? "profiling" : "loading",
                          all - awaited + 1, all);
    if (left_s)
        snprintf(words + length, START_PROGRESS_WORDS - (size_t)length, ", %u s left", left_s);
}
