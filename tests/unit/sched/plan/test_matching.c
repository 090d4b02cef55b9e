/* test_matching.c - assignments worked by hand, and thousands of small ones against exhaustive search. */
#include <stdlib.h>

#include "core/util/rng.h"
#include "sched/plan/matching.h"
#include "unit/test.h"

#define SIDE_MAX 6

static int64_t solve(const int64_t *cost, uint32_t rows, uint32_t columns, uint32_t *column_of) {
    void *memory = malloc(matching_bytes(rows, columns));
    assert_non_null(memory);
    int64_t sum = matching_solve(cost, rows, columns, memory, column_of);
    free(memory);
    return sum;
}

TEST(a_square_is_matched_at_the_least_sum) {
    const int64_t cost[] = {4, 1, 3, 2, 0, 5, 3, 2, 2}; /* 1 + 2 + 2; greedily 0 + 2 + 4 */
    uint32_t column_of[3];
    assert_int_equal(solve(cost, 3, 3, column_of), 5);
    assert_int_equal(column_of[0], 1);
    assert_int_equal(column_of[1], 0);
    assert_int_equal(column_of[2], 2);
}

TEST(the_longer_side_keeps_its_dearest_alone) {
    const int64_t cost[] = {7, 3, 9, 2, 4, 8};
    uint32_t column_of[3];
    assert_int_equal(solve(cost, 2, 3, column_of), 5);
    assert_int_equal(column_of[0], 1);
    assert_int_equal(column_of[1], 0);
    assert_int_equal(solve(cost, 3, 2, column_of), 6); /* 7 3 | 9 2 | 4 8: 2 + 4 */
    assert_int_equal(column_of[0], MATCHING_NONE);
    assert_int_equal(column_of[1], 1);
    assert_int_equal(column_of[2], 0);
}

TEST(a_forbidden_pair_is_not_made) {
    const int64_t X = MATCHING_FORBIDDEN;
    uint32_t column_of[2];
    const int64_t detour[] = {1, 100, 2, X}; /* the second row needs the first column */
    assert_int_equal(solve(detour, 2, 2, column_of), 102);
    assert_int_equal(column_of[0], 1);
    assert_int_equal(column_of[1], 0);
    const int64_t contended[] = {10, X, 1, X}; /* the cheaper of the two has the column, although it comes later */
    assert_int_equal(solve(contended, 2, 2, column_of), 1);
    assert_int_equal(column_of[0], MATCHING_NONE);
    assert_int_equal(column_of[1], 0);
    const int64_t nothing[] = {X, X};
    assert_int_equal(solve(nothing, 2, 1, column_of), 0);
    assert_int_equal(column_of[0], MATCHING_NONE);
    assert_int_equal(column_of[1], MATCHING_NONE);
}

TEST(nothing_to_match_is_matched) {
    uint32_t column_of[2] = {7, 7};
    assert_int_equal(solve(NULL, 0, 3, column_of), 0);
    assert_int_equal(solve(NULL, 2, 0, column_of), 0);
    assert_int_equal(column_of[0], MATCHING_NONE);
    assert_int_equal(column_of[1], MATCHING_NONE);
}

/* ---- exhaustive search: every row takes a free column or none ---- */

struct best {
    uint32_t pairs;
    int64_t sum;
};

static void search(const int64_t *cost, uint32_t rows, uint32_t columns, uint32_t row, uint32_t used, struct best now,
                   struct best *best) {
    if (row == rows) {
        if (now.pairs > best->pairs || (now.pairs == best->pairs && now.sum < best->sum))
            *best = now;
        return;
    }
    search(cost, rows, columns, row + 1, used, now, best);
    for (uint32_t c = 0; c < columns; c++) {
        int64_t price = cost[row * columns + c];
        if (!(used >> c & 1) && price != MATCHING_FORBIDDEN)
            search(cost, rows, columns, row + 1, used | 1u << c, (struct best){now.pairs + 1, now.sum + price}, best);
    }
}

static void check_against_search(const int64_t *cost, uint32_t rows, uint32_t columns) {
    struct best best = {0, INT64_MAX};
    search(cost, rows, columns, 0, 0, (struct best){0, 0}, &best);
    uint32_t column_of[SIDE_MAX], used = 0, pairs = 0;
    int64_t sum = 0, told = solve(cost, rows, columns, column_of);
    for (uint32_t row = 0; row < rows; row++) {
        if (column_of[row] == MATCHING_NONE)
            continue;
        assert_true(column_of[row] < columns && !(used >> column_of[row] & 1));
        assert_true(cost[row * columns + column_of[row]] != MATCHING_FORBIDDEN);
        used |= 1u << column_of[row];
        sum += cost[row * columns + column_of[row]];
        pairs++;
    }
    assert_int_equal(pairs, best.pairs);
    assert_int_equal(sum, best.sum);
    assert_int_equal(told, sum);
}

TEST(random_rectangles_are_matched_as_exhaustive_search_does) {
    static const uint64_t spans[] = {3, 50, 1000000000000}; /* many ties, few, and hours in nanoseconds */
    struct rng rng;
    rng_seed(&rng, 1);
    for (int run = 0; run < 3000; run++) {
        uint32_t rows = 1 + (uint32_t)rng_below(&rng, SIDE_MAX), columns = 1 + (uint32_t)rng_below(&rng, SIDE_MAX);
        uint64_t span = spans[run % 3];
        double forbidden = (run / 3 % 3) * 0.3;
        int64_t cost[SIDE_MAX * SIDE_MAX];
        for (uint32_t i = 0; i < rows * columns; i++)
            cost[i] = rng_uniform(&rng) < forbidden ? MATCHING_FORBIDDEN : (int64_t)rng_below(&rng, span);
        check_against_search(cost, rows, columns);
    }
}

/* The duals prove the sum of a large one: cost(r, c) = a(r) + b(c) + noise, with noise 0 along one permutation. */
TEST(a_large_square_finds_the_hidden_assignment) {
    enum { SIDE = 200 };
    struct rng rng;
    rng_seed(&rng, 2);
    int64_t *cost = malloc(sizeof(int64_t) * SIDE * SIDE), sum = 0, by_row[SIDE], by_column[SIDE];
    assert_non_null(cost);
    for (uint32_t i = 0; i < SIDE; i++) {
        by_row[i] = (int64_t)rng_below(&rng, 1000000);
        by_column[i] = (int64_t)rng_below(&rng, 1000000);
        sum += by_row[i] + by_column[i];
    }
    for (uint32_t r = 0; r < SIDE; r++)
        for (uint32_t c = 0; c < SIDE; c++)
            cost[r * SIDE + c] =
                by_row[r] + by_column[c] + (c == (r * 7 + 3) % SIDE ? 0 : 1 + (int64_t)rng_below(&rng, 50));
    uint32_t column_of[SIDE];
    assert_int_equal(solve(cost, SIDE, SIDE, column_of), sum);
    for (uint32_t r = 0; r < SIDE; r++)
        assert_int_equal(column_of[r], (r * 7 + 3) % SIDE);
    free(cost);
}
