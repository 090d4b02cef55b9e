/* test_reason.c - which reason a trail's numbers have, and in which words. */
#include "unit/test.h"

#include <string.h>

#include "core/data/reason.h"
#include "core/util/container.h"

#define AS_MEASURED .run_us = 5200, .measured_us = 5200
#define SLOW_RUNS   .run_us = 13600, .measured_us = 5200

struct row {
    struct trail trail;
    enum reason_kind kind;
    bool waiting_helps;
    const char *before, *words, *help;
};

TEST(the_numbers_give_the_reason) {
    static const struct row rows[] = {
        {{.state = TRAIL_IN_TIME, .allowed_us = 30000, .took_us = 20000}, REASON_NONE, false, NULL, "", ""},
        /* given up in the queue */
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_CROWDED,
          .allowed_us = 30000,
          .took_us = 20000,
          .figures = {AS_MEASURED, .needed = 2.6F, .serving = 2, .later = 9}},
         REASON_CROWDED,
         true,
         NULL,
         "given up: 9 later ones fit instead while the load is 1.3 times the capacity",
         "2.6 accelerators are needed, 2 are there"},
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_SHARE,
          .allowed_us = 30000,
          .took_us = 20000,
          .figures = {AS_MEASURED, .needed = 1.3F, .serving = 1}},
         REASON_SHARE,
         true,
         NULL,
         "over its model's share while the load is 1.3 times the capacity",
         "1.3 accelerators are needed, 1 is there"},
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_COLD,
          .allowed_us = 30000,
          .took_us = 100,
          .figures = {AS_MEASURED, .needed = 0.5F, .serving = 1}},
         REASON_COLD,
         true,
         NULL,
         "its model was in no accelerator's memory, and could not be loaded in time",
         ""},
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_WAITED,
          .allowed_us = 30000,
          .took_us = 28100,
          .body_us = 100,
          .figures = {AS_MEASURED, .needed = 0.5F, .serving = 1}},
         REASON_ACCELERATOR,
         true,
         NULL,
         "waited 28 ms for an accelerator",
         ""},
        /* as measured the load would fit */
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_CROWDED,
          .allowed_us = 30000,
          .took_us = 20000,
          .figures = {SLOW_RUNS, .needed = 2.3F, .serving = 1, .later = 9}},
         REASON_SLOW,
         true,
         NULL,
         "the load is 2.3 times the capacity; runs take 13.6 ms, 5.2 were expected: this machine is busy with "
         "something else, or these inputs cost more than the measured ones",
         "2.3 accelerators are needed, 1 is there"},
        /* it would not */
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_CROWDED,
          .allowed_us = 30000,
          .took_us = 20000,
          .figures = {SLOW_RUNS, .needed = 4, .serving = 1, .later = 9}},
         REASON_CROWDED,
         true,
         NULL,
         "given up: 9 later ones fit instead while the load is 4.0 times the capacity; runs take 13.6 ms, 5.2 were "
         "expected: this machine is busy with something else, or these inputs cost more than the measured ones",
         "4.0 accelerators are needed, 1 is there"},
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_SHORT,
          .allowed_us = 4000,
          .figures = {AS_MEASURED}},
         REASON_SHORT,
         false,
         NULL,
         "a run takes 5.2 ms, and 4 ms were left for all",
         "a deadline of 5.2 ms or more lets it run"},
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_SHORT,
          .allowed_us = 10000,
          .figures = {SLOW_RUNS}},
         REASON_SLOW,
         true,
         NULL,
         "runs take 13.6 ms, 5.2 were expected: this machine is busy with something else, or these inputs cost more "
         "than the measured ones",
         ""},
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_SHORT,
          .allowed_us = 10000,
          .took_us = 9000,
          .figures = {AS_MEASURED}},
         REASON_FRONTEND,
         true,
         NULL,
         "9 ms passed before it was looked at",
         ""},
        {{.state = TRAIL_REFUSED}, REASON_FRONTEND, true, NULL, "", ""},
        {{.state = TRAIL_REFUSED, .refusal = REFUSAL_DEADLINE}, REASON_DEADLINE, false, NULL, "", ""},
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_UNREAD,
          .body_us = 20000,
          .allowed_us = 25000},
         REASON_BODY,
         true,
         NULL,
         "the request took 20 ms to come",
         ""},
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .cause = CAUSE_UNREAD,
          .body_us = 20,
          .allowed_us = 25000,
          .took_us = 15020},
         REASON_FRONTEND,
         true,
         NULL,
         "15 ms passed before it was looked at",
         ""},
        /* sealed, and too late to start */
        {{.state = TRAIL_REFUSED,
          .refusal = REFUSAL_DEADLINE,
          .allowed_us = 30000,
          .start_us = 35000,
          .took_us = 35100,
          .past = {.ready_us = 21000, .sealed_us = 2000, .accelerator = 1, .before = 3}},
         REASON_ACCELERATOR,
         true,
         "m3",
         "waited 14 ms for company, then accelerator 1 was busy with m3 for 21 ms",
         ""},
        /* ran, and was late */
        {{.state = TRAIL_LATE,
          .allowed_us = 30000,
          .body_us = 1000,
          .start_us = 29000,
          .run_us = 5000,
          .took_us = 34100,
          .past = {.ready_us = 1000, .predicted_us = 5000, .before = MODEL_NONE}},
         REASON_COMPANY,
         false,
         NULL,
         "waited 27 ms for company",
         ""},
        {{.state = TRAIL_LATE,
          .allowed_us = 30000,
          .body_us = 1000,
          .start_us = 29000,
          .run_us = 5000,
          .took_us = 34100,
          .past = {.ready_us = UINT32_MAX, .predicted_us = 5000, .before = MODEL_NONE}},
         REASON_ACCELERATOR,
         false,
         NULL,
         "waited 28 ms for an accelerator",
         ""},
        {{.state = TRAIL_LATE,
          .allowed_us = 10000,
          .start_us = 1000,
          .run_us = 13600,
          .took_us = 14700,
          .past = {.predicted_us = 5200, .before = MODEL_NONE}},
         REASON_SLOW,
         false,
         NULL,
         "runs take 13.6 ms, 5.2 were expected: this machine is busy with something else, or these inputs cost more "
         "than the measured ones",
         ""},
        {{.state = TRAIL_LATE,
          .allowed_us = 10000,
          .start_us = 1000,
          .run_us = 13600,
          .took_us = 14700,
          .past = {.predicted_us = 13000, .before = MODEL_NONE}},
         REASON_RUN,
         false,
         NULL,
         "the run took 13.6 ms, 13 were expected",
         ""},
        /* what its inputs took is no wait for company */
        {{.state = TRAIL_LATE,
          .allowed_us = 10000,
          .body_us = 1000,
          .prepared_us = 9500,
          .start_us = 10000,
          .run_us = 1000,
          .took_us = 11200,
          .past = {.predicted_us = 1000, .before = MODEL_NONE}},
         REASON_UNPREPARED,
         false,
         NULL,
         "its inputs took 8.5 ms to prepare",
         ""},
        {{.state = TRAIL_LATE,
          .allowed_us = 10000,
          .body_us = 9000,
          .start_us = 9100,
          .run_us = 1000,
          .took_us = 10200,
          .past = {.predicted_us = 1000, .before = MODEL_NONE}},
         REASON_BODY,
         false,
         NULL,
         "the request took 9 ms to come",
         ""},
        {{.state = TRAIL_LATE,
          .allowed_us = 10000,
          .start_us = 100,
          .run_us = 1000,
          .took_us = 121100,
          .past = {.predicted_us = 1000, .before = MODEL_NONE}},
         REASON_REPLY,
         false,
         NULL,
         "the answer took 120 ms to go out",
         ""},
        {{.state = TRAIL_FAILED},
         REASON_FAILED,
         false,
         NULL,
         "the run failed: the answer has the engine's sentence, and so has the log",
         ""},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        struct reason reason = reason_of(&rows[i].trail);
        char words[256], help[96];
        reason_words(&reason, rows[i].before, words, sizeof(words));
        reason_help(&reason, help, sizeof(help));
        if (reason.kind != rows[i].kind || reason.waiting_helps != rows[i].waiting_helps)
            fail_msg("row %u: %s%s instead of %s", i, reason_name(reason.kind), reason.waiting_helps ? ", again" : "",
                     reason_name(rows[i].kind));
        assert_string_equal(words, rows[i].words);
        assert_string_equal(help, rows[i].help);
    }
}

/* Another process may have written these numbers. */
TEST(any_numbers_have_a_reason) {
    uint64_t drawn = 1;
    for (int n = 0; n < 100000; n++) {
        struct trail trail;
        char words[64];
        for (size_t i = 0; i < sizeof(trail); i++) {
            drawn = drawn * 6364136223846793005ULL + 1442695040888963407ULL;
            ((unsigned char *)&trail)[i] = (unsigned char)(drawn >> 60 > 7 ? 0xff : drawn >> 40);
        }
        trail.state = (uint8_t)(n % TRAIL_STATES);
        trail.refusal = (uint8_t)(n % REFUSAL_COUNT);
        trail.cause = (uint8_t)(n % CAUSE_COUNT);
        struct reason reason = reason_of(&trail);
        assert_in_range(reason.kind, 0, REASON_COUNT - 1);
        assert_non_null(reason_name(reason.kind));
        reason_words(&reason, "a model with a name that is longer than all that there is room for", words,
                     sizeof(words));
        assert_in_range(strlen(words), 0, sizeof(words) - 1);
        reason_help(&reason, words, sizeof(words));
    }
}
