/* array.h - arrays that grow. */
#pragma once

#include <stdlib.h>

/* Makes room for one more element behind the `count` of an array from malloc(), or NULL, that only this function makes
 * longer: it is full at every power of two. The array, which may have moved; NULL: no memory, and it is as before. */
static inline void *array_room(void *array, size_t count, size_t element_bytes) {
    if (count & (count - 1))
        return array;
    return realloc(array, (count ? 2 * count : 1) * element_bytes);
}
