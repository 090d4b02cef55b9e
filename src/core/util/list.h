/* list.h - intrusive doubly linked list; the head is a node of its own. Not thread-safe. */
#pragma once

#include <stdbool.h>

#include "core/util/container.h"

struct list_node {
    struct list_node *prev, *next;
};

static inline void list_init(struct list_node *head) {
    head->prev = head->next = head;
}

static inline bool list_empty(const struct list_node *head) {
    return head->next == head;
}

/* Inserts `node` before `at`. If `at` is the head, `node` becomes the last node. */
static inline void list_insert_before(struct list_node *at, struct list_node *node) {
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
}

static inline void list_append(struct list_node *head, struct list_node *node) {
    list_insert_before(head, node);
}

static inline void list_remove(struct list_node *node) {
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = node->next = node;
}

/* Moves all nodes of `from` to `head`, which need not be initialized. */
static inline void list_take(struct list_node *head, struct list_node *from) {
    list_init(head);
    if (list_empty(from))
        return;
    *head = *from;
    head->next->prev = head->prev->next = head;
    list_init(from);
}

#define list_entry(node, type, member) container_of(node, type, member)
/* Runs over the structs whose field `member` is in the list. */
#define list_for_each_entry(it, head, type, member)                                                                    \
    for (type *it = list_entry((head)->next, type, member); &it->member != (head);                                     \
         it = list_entry(it->member.next, type, member))
#define list_for_each(it, head) for (struct list_node *it = (head)->next; it != (head); it = it->next)
#define list_for_each_safe(it, head)                                                                                   \
    for (struct list_node *it = (head)->next, *it##_next = it->next; it != (head); it = it##_next, it##_next = it->next)
