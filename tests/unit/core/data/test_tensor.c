/* test_tensor.c - data types by name and size; products of shapes that overflow. */
#include "unit/test.h"

#include <errno.h>
#include <string.h>

#include "core/data/tensor.h"
#include "core/util/container.h"

TEST(every_datatype_has_a_name_and_a_size) {
    static const size_t bytes[DATATYPE_COUNT] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 0};
    for (int type = DATATYPE_INVALID; type < DATATYPE_COUNT; type++) {
        const char *name = datatype_name(type);
        assert_int_equal(datatype_parse(name, strlen(name)), type);
        assert_int_equal(datatype_bytes(type), bytes[type]);
    }
    assert_string_equal(datatype_name(DATATYPE_COUNT), "INVALID");
    assert_string_equal(datatype_name((enum datatype) - 1), "INVALID");
    assert_int_equal(datatype_bytes((enum datatype) - 1), 0);
}

TEST(parse_takes_whole_names_only) {
    assert_int_equal(datatype_parse("FP32", 4), DATATYPE_FP32);
    assert_int_equal(datatype_parse("FP32", 3), DATATYPE_INVALID);
    assert_int_equal(datatype_parse("FP321", 5), DATATYPE_INVALID);
    assert_int_equal(datatype_parse("fp32", 4), DATATYPE_INVALID);
    assert_int_equal(datatype_parse("INT64\", \"x", 5), DATATYPE_INT64);
    assert_int_equal(datatype_parse("", 0), DATATYPE_INVALID);
}

TEST(elements_take_their_bytes) {
    static const struct {
        enum datatype type;
        uint64_t elements, bytes;
        bool fits;
    } cases[] = {
        {DATATYPE_FP32, 6, 24, true},
        {DATATYPE_FP32, 6, 23, false},
        {DATATYPE_FP32, 6, 25, false},
        {DATATYPE_FP32, 6, 28, false},
        {DATATYPE_FP32, 0, 0, true},
        {DATATYPE_FP32, 1ULL << 62, 0, false}, /* though 64 bits hold no more of the product */
        {DATATYPE_FP64, (1ULL << 61) + 2, 16, false},
        {DATATYPE_BYTES, 3, 12, true},
        {DATATYPE_BYTES, 3, 50, true},
        {DATATYPE_BYTES, 3, 11, false},
        {DATATYPE_INVALID, 0, 0, false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(datatype_fits(cases[i].type, cases[i].elements, cases[i].bytes), cases[i].fits);
}

struct shape_case {
    int64_t dims[4], want;
    uint32_t from, dim_count;
};

TEST(products_of_shapes) {
    static const struct shape_case cases[] = {
        {{2, 3, 4}, 24, 0, 3},
        {{-1, 3, 4}, 12, 1, 3},
        {{-1, 3, 4}, -1, 0, 3},
        {{0}, 1, 0, 0}, /* a scalar */
        {{5, 0, 7}, 0, 0, 3},
        {{0, INT64_MAX, INT64_MAX}, 0, 0, 3},
        {{INT64_MAX, INT64_MAX, 0}, 0, 0, 3}, /* in whatever order */
        {{0, -1}, -1, 0, 2},                  /* unknown beats empty */
        {{1LL << 31, 1LL << 31}, 1LL << 62, 0, 2},
        {{1LL << 31, 1LL << 31, 2}, -1, 0, 3},
        {{INT64_MAX, INT64_MAX, INT64_MAX}, -1, 0, 3},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(dims_product(cases[i].dims, cases[i].from, cases[i].dim_count), cases[i].want);
}

TEST(extents_of_shapes) {
    static const struct shape_case cases[] = {
        {{2, 3, 4}, 24, 0, 3},
        {{5, 0, 7}, 35, 0, 3},
        {{0, 0}, 1, 0, 2},
        {{0, 1LL << 62, 0}, 1LL << 62, 0, 3},
        {{0, INT64_MAX, 1}, -1, 0, 3},
        {{INT64_MAX, INT64_MAX, 0}, -1, 0, 3},
        {{0, -1}, -1, 0, 2},
        {{-1, 0, 3}, 3, 1, 3},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(dims_extent(cases[i].dims, cases[i].from, cases[i].dim_count), cases[i].want);
}

TEST(rows_are_of_one_size_or_say_where_they_begin) {
    char data[12];
    struct tensor_view rows, even = {.data = data, .bytes = 12, .dim_count = 2, .dims = {3, 4}};
    assert_int_equal(tensor_rows(&even, 1, 2, &rows), 0);
    assert_ptr_equal(rows.data, data + 4);
    assert_int_equal(rows.bytes, 8);
    assert_int_equal(rows.dims[0], 2);
    assert_int_equal(rows.dims[1], 4);
    assert_int_equal(tensor_rows(&even, 2, 2, &rows), -EINVAL);
    const size_t row_at[] = {0, 5, 5, 12};
    struct tensor_view uneven = {.data = data, .bytes = 12, .dim_count = 1, .dims = {3}, .row_at = row_at};
    assert_int_equal(tensor_rows(&uneven, 1, 1, &rows), 0);
    assert_int_equal(rows.bytes, 0);
    assert_int_equal(tensor_rows(&uneven, 1, 2, &rows), 0);
    assert_ptr_equal(rows.data, data + 5);
    assert_int_equal(rows.bytes, 7);
    assert_null(rows.row_at);
    struct tensor_view scalar = {.data = data, .bytes = 4};
    assert_int_equal(tensor_rows(&scalar, 0, 1, &rows), -EINVAL);
}

/* Sizes that are open go over in order; nothing else may change but the number of dimensions. */
TEST(views_take_other_shapes) {
    static const struct {
        uint32_t view_rank, from_rank, to_rank;
        int64_t view[4], from[4], to[4], want[4];
        bool fails;
    } cases[] = {
        {1, 1, 0, {1}, {1}, {0}, {0}, false},
        {0, 0, 1, {0}, {0}, {1}, {1}, false},
        {2, 2, 1, {7, 1}, {-1, 1}, {-1}, {7}, false},
        {3, 3, 4, {3, 8, 8}, {3, 8, 8}, {1, 3, 8, 8}, {1, 3, 8, 8}, false},
        {4, 4, 3, {5, 2, 4, 9}, {-1, 2, 4, -1}, {-1, 8, -1}, {5, 8, 9}, false},
        {2, 2, 3, {0, 4}, {-1, 4}, {-1, 2, 2}, {0, 2, 2}, false},
        {2, 1, 1, {7, 1}, {-1}, {-1}, {0}, true},
        {1, 1, 2, {7}, {-1}, {-1, -1}, {0}, true},
        {2, 2, 1, {7, 2}, {-1, 1}, {-1}, {0}, true}, /* an output that is not what the file says */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct tensor_view view = {.dim_count = cases[i].view_rank};
        memcpy(view.dims, cases[i].view, sizeof(cases[i].view));
        int rc = tensor_reshape(&view, cases[i].from, cases[i].from_rank, cases[i].to, cases[i].to_rank);
        assert_int_equal(rc, cases[i].fails ? -EINVAL : 0);
        assert_int_equal(view.dim_count, rc ? cases[i].view_rank : cases[i].to_rank);
        assert_memory_equal(view.dims, rc ? cases[i].view : cases[i].want, view.dim_count * sizeof(view.dims[0]));
    }
}
