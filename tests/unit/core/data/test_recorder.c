/* test_recorder.c - the ring of the last requests: what is read back, and what is overwritten. */
#include "unit/test.h"

#include "core/data/recorder.h"

#define SLOTS 8

static struct request_message request(uint64_t n) {
    return (struct request_message){.arrival_ns = 1000000 + (int64_t)n * 1000,
                                    .deadline_ns = 1000000 + (int64_t)n * 1000 + 25 * NS_PER_MS,
                                    .place = {(uint32_t)n % 1000},
                                    .items = (uint32_t)n % 32 + 1,
                                    .priority = (uint8_t)(n % 5)};
}

static void assert_is(const struct recorded_request *read, uint64_t n) {
    struct request_message wanted = request(n);
    assert_int_equal(read->arrival_ns, wanted.arrival_ns);
    assert_int_equal(read->left_us, 25000);
    assert_int_equal(read->model, wanted.place.n);
    assert_int_equal(read->items, wanted.items);
    assert_int_equal(read->priority, wanted.priority);
}

TEST(the_newest_stay) {
    struct recorder r;
    struct recorded_request read[SLOTS];
    assert_int_equal(recorder_init(&r, SLOTS * sizeof(struct recorder_entry) + 100), 0);
    assert_int_equal(recorder_read(&r, 0, read, SLOTS), 0);
    for (uint64_t n = 0; n < 3; n++)
        recorder_note(&r, &(struct request_message){0});
    assert_int_equal(recorder_read(&r, 0, read, SLOTS), 3);
    assert_int_equal(recorder_overwritten(&r), 0);
    recorder_free(&r);

    assert_int_equal(recorder_init(&r, SLOTS * sizeof(struct recorder_entry)), 0);
    for (uint64_t n = 0; n < 21; n++) {
        struct request_message message = request(n);
        recorder_note(&r, &message);
    }
    /* the oldest slot may be being written */
    assert_int_equal(recorder_read(&r, 2000000, read, SLOTS), SLOTS - 1);
    for (uint64_t i = 0; i < SLOTS - 1; i++)
        assert_is(&read[i], 14 + i);
    assert_int_equal(recorder_overwritten(&r), 13);
    assert_int_equal(recorder_read(&r, 2000000, read, 2), 2);
    assert_is(&read[1], 20);
    recorder_free(&r);
}

TEST(nothing_is_recorded_without_memory_for_it) {
    struct recorder r;
    struct recorded_request read;
    struct request_message message = request(1);
    assert_int_equal(recorder_init(&r, sizeof(struct recorder_entry) - 1), 0);
    recorder_note(&r, &message);
    assert_int_equal(recorder_read(&r, 0, &read, 1), 0);
    assert_int_equal(recorder_overwritten(&r), 0);
    recorder_free(&r);
}

TEST(extremes_fit) {
    struct recorder r;
    struct recorded_request read[3];
    const int64_t late_ns = (3LL << RECORDER_TIME_BITS) + 5; /* 10 days of uptime, the bits just begun anew */
    assert_int_equal(recorder_init(&r, SLOTS * sizeof(struct recorder_entry)), 0);
    recorder_note(&r, &(struct request_message){.arrival_ns = late_ns - 10,
                                                .deadline_ns = late_ns - 11,
                                                .place = {RECORDER_MODELS_MOST - 1},
                                                .items = 1000000,
                                                .priority = PRIORITY_BEST_EFFORT});
    recorder_note(&r, &(struct request_message){.arrival_ns = late_ns + 3, .deadline_ns = INT64_MAX});
    recorder_note(&r, &(struct request_message){.arrival_ns = late_ns, .deadline_ns = late_ns + 1499});
    assert_int_equal(recorder_read(&r, late_ns, read, 3), 3);
    assert_int_equal(read[0].arrival_ns, late_ns - 10);
    assert_int_equal(read[0].left_us, 0);
    assert_int_equal(read[0].model, RECORDER_MODELS_MOST - 1);
    assert_int_equal(read[0].items, RECORDER_ITEMS_MOST);
    assert_int_equal(read[0].priority, PRIORITY_BEST_EFFORT);
    assert_int_equal(read[1].arrival_ns, late_ns + 3); /* a clock that is a little ahead */
    assert_int_equal(read[1].left_us, UINT32_MAX);
    assert_int_equal(read[2].left_us, 1);
    recorder_free(&r);
}

/* A request whose inputs are promised can run from the promise on. */
TEST(promised_inputs_come_later) {
    struct recorder r;
    struct recorded_request read[3];
    assert_int_equal(recorder_init(&r, SLOTS * sizeof(struct recorder_entry)), 0);
    for (int64_t ready_ns = 49000; ready_ns <= 51000; ready_ns += 2000)
        recorder_note(
            &r, &(struct request_message){.arrival_ns = 2000, .ready_ns = ready_ns, .deadline_ns = 98000, .items = 1});
    recorder_note(&r, &(struct request_message){.arrival_ns = 2000, .ready_ns = 99000, .deadline_ns = 98000});
    assert_int_equal(recorder_read(&r, 100000, read, 3), 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read[i].arrival_ns, i ? 51000 : 49000);
        assert_int_equal(read[i].left_us, i ? 47 : 49);
        assert_int_equal(read[i].items, 1);
        assert_int_equal(read[i].hurried, i == 1); /* of 96 us, 47 or 49 are for preparing */
    }
    assert_int_equal(read[2].left_us, 0);
    recorder_free(&r);
}
