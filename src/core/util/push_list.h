/* push_list.h - a list that any thread pushes to, and one thread takes whole. No thread waits. Use it for things that
 * are handed over seldom and in a number not known beforehand; for all else use ring.h. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/util/container.h"

/* A member of the struct that is pushed. Pusher and taker agree on who frees that struct. */
struct push_node {
    struct push_node *next;
};

/* The struct that a node of push_list_take() is a member of; NULL for NULL. */
#define push_list_entry(node, type, member)                                                                            \
    ({                                                                                                                 \
        struct push_node *node_ = (node);                                                                              \
        node_ ? container_of(node_, type, member) : NULL;                                                              \
    })

/* All zeros: an empty list. */
struct push_list {
    _Atomic(struct push_node *) newest;
};

static inline void push_list_push(struct push_list *list, struct push_node *node) {
    node->next = atomic_load_explicit(&list->newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&list->newest, &node->next, node,
                                                  memory_order_release, /* with push_list_take() */
                                                  memory_order_relaxed)) {
    }
}

/* Whether the list has a node. */
static inline bool push_list_any(const struct push_list *list) {
    return atomic_load_explicit(&list->newest, memory_order_relaxed) != NULL;
}

/* Takes all nodes of the list, the oldest first, linked by `next`. NULL: the list is empty. */
static inline struct push_node *push_list_take(struct push_list *list) {
    if (!push_list_any(list)) /* the usual case, without writing to a shared line */
        return NULL;
    struct push_node *newest = atomic_exchange_explicit(&list->newest, NULL, memory_order_acquire), *oldest = NULL;
    while (newest) {
        struct push_node *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}
