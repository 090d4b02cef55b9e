/* recycler.c - a list of free pieces for each size; the number of its size lies before each piece. */
#include "front/net/recycler.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_BYTES ((size_t)32)
#define NO_CLASS    RECYCLER_CLASSES /* class of pieces that come from malloc() and go back to it */

/* The head before a piece. While a piece is free, it holds the address of the next one. */
struct recycled {
    alignas(max_align_t) uint32_t size_class;
    size_t bytes; /* size of the piece */
};

static struct recycled *head_of(void *piece) {
    return (struct recycled *)piece - 1;
}

static struct recycled **next_of(struct recycled *head) {
    return (struct recycled **)(head + 1);
}

void *recycler_take(struct recycler *r, size_t bytes) {
    uint32_t class = 0;
    while (class < NO_CLASS && LEAST_BYTES << class < bytes)
        class ++;
    struct recycled *head = class < NO_CLASS ? r->free[class] : NULL;
    if (head) {
        r->free[class] = *next_of(head);
        return head + 1;
    }
    size_t room = class < NO_CLASS ? LEAST_BYTES << class : bytes;
    if (room > SIZE_MAX - sizeof(*head) || !(head = malloc(sizeof(*head) + room)))
        return NULL;
    *head = (struct recycled){.size_class = class, .bytes = room};
    return head + 1;
}

void *recycler_take_zeroed(struct recycler *r, size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        return NULL;
    void *piece = recycler_take(r, total);
    return piece ? memset(piece, 0, total) : NULL;
}

void recycler_give(struct recycler *r, void *piece) {
    if (!piece)
        return;
    struct recycled *head = head_of(piece);
    if (head->size_class == NO_CLASS) {
        free(head);
        return;
    }
    *next_of(head) = r->free[head->size_class];
    r->free[head->size_class] = head;
}

void *recycler_resize(struct recycler *r, void *piece, size_t bytes) {
    if (!piece)
        return recycler_take(r, bytes);
    size_t before = head_of(piece)->bytes;
    if (bytes <= before)
        return piece;
    void *larger = recycler_take(r, bytes);
    if (larger) {
        memcpy(larger, piece, before);
        recycler_give(r, piece);
    }
    return larger;
}

void recycler_end(struct recycler *r) {
    for (int class = 0; class < RECYCLER_CLASSES; class ++)
        while (r->free[class]) {
            struct recycled *head = r->free[class];
            r->free[class] = *next_of(head);
            free(head);
        }
}
