/* test_card.c - what a handle says comes out as it went in; inputs are found by region and offset. */
#include "core/data/card.h"

#include "unit/test.h"

TEST(a_handle_keeps_its_parts) {
    static const struct {
        uint32_t frontend, slot, submission;
    } cases[] = {
        {0, 0, 1},
        {3, 8191, 77},
        {UINT16_MAX, (1u << HANDLE_SLOT_BITS) - 1, 1},
        {0, 1, (1u << 24) - 1},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        uint64_t handle = handle_of(cases[i].frontend, cases[i].slot, cases[i].submission);
        assert_int_equal(handle_frontend(handle), cases[i].frontend);
        assert_int_equal(handle_slot(handle), cases[i].slot);
        assert_int_not_equal(handle, handle_of(cases[i].frontend, cases[i].slot, cases[i].submission + 1));
        assert_int_not_equal(handle, 0);
    }
}

/* The number of submissions comes round; a handle's other parts are not touched by it. */
TEST(submissions_come_round) {
    uint64_t handle = handle_of(7, 9, UINT32_MAX);
    assert_int_equal(handle_frontend(handle), 7);
    assert_int_equal(handle_slot(handle), 9);
}

/* 0 stands for no request. */
TEST(no_submission_has_handle_0) {
    uint32_t submission = 0;
    uint64_t first = handle_of(0, 0, 1);
    for (uint32_t i = 1; i < 1u << 24; i++) {
        submission = submission_next(submission);
        uint64_t handle = handle_of(0, 0, submission);
        if (handle == 0 || (handle == first) != (i == 1))
            fail_msg("submission %u has the handle %llu", i, (unsigned long long)handle);
    }
    assert_int_equal(handle_of(0, 0, submission_next(submission)), first);
}

TEST(an_input_is_found_in_its_region) {
    char memory[2][32];
    struct region regions[] = {{(uintptr_t)memory[0], 32, -1}, {(uintptr_t)memory[1], 32, -1}};
    struct request_card card = {.input_count = 2};
    card.inputs[0] = (struct card_input){.region = 1, .offset = 5, .bytes = 6, .dim_count = 2, .dims = {2, 3}};
    card.inputs[1] = (struct card_input){.region = REGION_NONE};

    struct tensor_view view = card_view(&card, 0, regions);
    assert_ptr_equal(view.data, memory[1] + 5);
    assert_ptr_equal(region_at(regions, &card.inputs[0]), memory[1] + 5);
    assert_int_equal(view.bytes, 6);
    assert_int_equal(view.dim_count, 2);
    assert_int_equal(view.dims[1], 3);
    assert_null(view.row_at);
    assert_null(card_view(&card, 1, regions).data);
}
