/* test_target.c - input shapes from metadata, hints and guesses. */
#include "unit/test.h"

#include <errno.h>
#include <string.h>

#include "core/util/container.h"
#include "lab/load/target.h"

TEST(open_dimensions_are_filled) {
    static const struct {
        int64_t shape[4];
        uint32_t dim_count;
        const char *hint;
        int64_t want[4];
    } cases[] = {
        {{-1, 2048}, 2, NULL, {5, 2048}},             /* items */
        {{2048, 4}, 2, NULL, {2048, 4}},              /* no batch dimension */
        {{-1, -1}, 2, NULL, {5, 1}},                  /* a sequence */
        {{-1, -1}, 2, "77", {5, 77}},                 /* of a given length */
        {{-1, 3, -1, -1}, 4, NULL, {5, 3, 320, 320}}, /* an image */
        {{-1, -1, -1, 1}, 4, NULL, {5, 320, 320, 1}}, /* channels last */
        {{-1, 3, 48, -1}, 4, NULL, {5, 3, 48, 320}},  /* a line of text */
        {{-1, 3, -1, -1}, 4, "3,64,128", {5, 3, 64, 128}},
        {{-1, -1, -1, -1}, 4, NULL, {5, 1, 1, 1}}, /* no channels: not an image */
        {{0}, 0, NULL, {0}},                       /* a scalar */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct target_input input = {0};
        assert_int_equal(target_input_fill(&input, "FP32", cases[i].shape, cases[i].dim_count, 5, cases[i].hint, NULL),
                         0);
        assert_int_equal(input.type, DATATYPE_FP32);
        assert_int_equal(input.dim_count, cases[i].dim_count);
        assert_int_equal(input.batched, cases[i].shape[0] < 0);
        for (uint32_t d = 0; d < cases[i].dim_count; d++)
            assert_int_equal(input.dims[d], cases[i].want[d]);
    }
}

TEST(hints_that_do_not_fit_are_refused) {
    static const int64_t shape[] = {-1, 3, -1};
    static const struct {
        const char *datatype, *hint, *want;
    } cases[] = {
        {"FP32", "3", "gives 1 dimensions, the model has 2 behind that of the items"},
        {"FP32", "1,2,3", "gives 3 dimensions"},
        {"FP32", "4,7", "gives 4 where the model has 3"},
        {"FP32", "3,0", "not a list"},
        {"FP32", "3,-1", "not a list"},
        {"FP32", "3;7", "not a list"},
        {"FP32", ",3,7", "not a list"},
        {"FP33", NULL, "data type 'FP33' is not known"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct target_input input = {0};
        struct sy_error err = {""};
        assert_int_equal(target_input_fill(&input, cases[i].datatype, shape, 3, 1, cases[i].hint, &err), -EINVAL);
        assert_non_null(strstr(err.text, cases[i].want));
    }
}

TEST(names_are_encoded_for_paths) {
    char text[64];
    path_encode("text-detection_v2.1", text, sizeof(text));
    assert_string_equal(text, "text-detection_v2.1");
    path_encode("a b/c%\xc3\xa9", text, sizeof(text));
    assert_string_equal(text, "a%20b%2Fc%25%C3%A9");
}
