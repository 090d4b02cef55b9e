/* test_array.c - arrays that grow. */
#include "core/util/array.h"

#include "unit/test.h"

TEST(there_is_always_room_for_one_more) {
    uint32_t *array = NULL, count = 0;
    for (uint32_t round = 1; round < 100; round++) {
        while (count < 3 * round) {
            array = array_room(array, count, sizeof(*array));
            assert_non_null(array);
            array[count] = count; /* the sanitizer sees whether there is room */
            count++;
        }
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(array[i], i);
        count -= round; /* some go */
    }
    free(array);
}
