/* test_start_progress.c - how far a start is, in words. */
#include "model/repository/start_progress.h"

#include "core/util/container.h"
#include "unit/test.h"

TEST(it_says_what_is_awaited) {
    static const struct {
        struct start_progress progress;
        const char *words;
    } cases[] = {
        {{.all = 100, .awaited = 98, .profiles = true, .left_s = 40}, "profiling 3 of 100, 40 s left"},
        {{.all = 100, .awaited = 98, .profiles = true, .left_s = 0}, "profiling 3 of 100"},
        {{.all = 4000, .awaited = 1, .profiles = false, .left_s = 1}, "loading 4000 of 4000, 1 s left"},
        {{.all = 0, .awaited = 0, .profiles = false, .left_s = 0}, ""},
        {{.all = 2, .awaited = 3, .profiles = false, .left_s = 0}, ""}, /* numbers of two moments */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char words[START_PROGRESS_WORDS];
        start_progress_words(&cases[i].progress, words);
        assert_string_equal(words, cases[i].words);
    }
}
