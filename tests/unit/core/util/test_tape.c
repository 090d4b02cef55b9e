/* test_tape.c - the last entries of a thread: where reading goes on, and a reader beside a writer. */
/* Starts threads. */
#include "unit/test.h"

#include <pthread.h>

#include "core/util/tape.h"

#define KEEP  8
#define WORDS 3

struct entry {
    uint64_t words[WORDS];
};

struct noted {
    struct tape tape;
    _Atomic uint64_t count;
};

static void note(struct noted *noted, uint64_t n) {
    tape_note(&noted->tape, &noted->count, &(struct entry){{n, ~n, n * n}}, WORDS);
}

static void assert_is(const struct entry *read, uint64_t n) {
    assert_true(read->words[0] == n && read->words[1] == ~n && read->words[2] == n * n);
}

TEST(reading_goes_on) {
    struct noted noted = {.count = 0};
    struct entry read[KEEP];
    uint64_t next = 0;
    assert_int_equal(tape_init(&noted.tape, KEEP + 3, WORDS), 0);
    for (uint64_t n = 0; n < 5; n++)
        note(&noted, n);
    assert_int_equal(tape_read_on(&noted.tape, &noted.count, WORDS, &next, read, 3), 3);
    assert_is(&read[2], 2);
    assert_int_equal(tape_read_on(&noted.tape, &noted.count, WORDS, &next, read, 3), 2);
    assert_is(&read[1], 4);
    assert_int_equal(next, 5);
    assert_int_equal(tape_read_on(&noted.tape, &noted.count, WORDS, &next, read, 3), 0);
    for (uint64_t n = 5; n < 5 + KEEP + 4; n++) /* the first of them are overwritten */
        note(&noted, n);
    assert_int_equal(tape_read_on(&noted.tape, &noted.count, WORDS, &next, read, KEEP), KEEP - 1);
    assert_is(&read[0], 5 + 5); /* the oldest slot may be being written */
    assert_int_equal(next, 5 + KEEP + 4);
    tape_free(&noted.tape);
}

#define NOTES 200000

static void *write_on(void *noted) {
    for (uint64_t n = 0; n < NOTES; n++)
        note(noted, n);
    return NULL;
}

/* Whatever is read is whole, and in order without a gap. */
TEST(a_reader_sees_whole_entries) {
    struct noted noted = {.count = 0};
    struct entry read[KEEP];
    pthread_t writer;
    uint64_t last = 0;
    assert_int_equal(tape_init(&noted.tape, KEEP, WORDS), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_on, &noted), 0);
    while (last + 1 < NOTES) {
        uint64_t count = tape_read(&noted.tape, &noted.count, WORDS, read, KEEP);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t n = read[i].words[0];
            assert_is(&read[i], n);
            assert_true(i == 0 ? n + count > last : n == last + 1);
            last = n;
        }
    }
    pthread_join(writer, NULL);
    tape_free(&noted.tape);
}
