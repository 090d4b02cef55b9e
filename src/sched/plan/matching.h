/* matching.h - assigns rows to columns one to one at the least total cost (the linear sum assignment problem).
 *
 * Jonker and Volgenant's shortest augmenting paths ("A shortest augmenting path algorithm for dense and sparse linear
 * assignment problems", Computing 38, 1987), for rectangles as Crouse describes them ("On implementing 2D rectangular
 * assignment algorithms", 2016): O(k * k * w), k the shorter and w the longer side. Pure; any thread; no state. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MATCHING_FORBIDDEN INT64_MAX  /* cost of a pair that must not be made */
#define MATCHING_NONE      UINT32_MAX /* column of a row that stays alone */

/* Bytes of memory for a matching of at most so many rows and columns. The memory is aligned as malloc's. */
size_t matching_bytes(uint32_t rows, uint32_t columns);
/* Sets column_of[rows]: as many pairs as the forbidden ones allow, min(rows, columns) if there are none, and of all
 * such assignments one of the least sum. cost[row * columns + column] is 0 or more, and with k the shorter side
 * (greatest cost + 1) * (k + 1)^2 stays under 2^62: nanoseconds of an hour up to a thousand rows. Equal sums give the
 * same assignment on every machine. Returns the sum. */
int64_t matching_solve(const int64_t *cost, uint32_t rows, uint32_t columns, void *memory, uint32_t *column_of);
