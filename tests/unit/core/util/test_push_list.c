/* test_push_list.c - what many threads push comes out once, and of each thread in its order. */
/* Starts threads. */
#include "core/util/push_list.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "core/util/container.h"
#include "unit/test.h"

#define PUSHERS 4
#define EACH    20000

struct item {
    struct push_node node;
    uint32_t pusher, number;
};

static struct push_list list;
static struct item items[PUSHERS][EACH];

static void *push_all(void *argument) {
    struct item *mine = argument;
    for (uint32_t i = 0; i < EACH; i++)
        push_list_push(&list, &mine[i].node);
    return NULL;
}

TEST(all_come_out_once_in_order) {
    pthread_t threads[PUSHERS];
    uint32_t next[PUSHERS] = {0}, total = 0;

    for (uint32_t p = 0; p < PUSHERS; p++) {
        for (uint32_t i = 0; i < EACH; i++)
            items[p][i] = (struct item){.pusher = p, .number = i};
        assert_int_equal(pthread_create(&threads[p], NULL, push_all, items[p]), 0);
    }
    while (total < PUSHERS * EACH) {
        for (struct push_node *n = push_list_take(&list); n; n = n->next, total++) {
            const struct item *item = container_of(n, struct item, node);
            assert_int_equal(item->number, next[item->pusher]++);
        }
        sched_yield();
    }
    for (uint32_t p = 0; p < PUSHERS; p++)
        pthread_join(threads[p], NULL);
    assert_false(push_list_any(&list));
    assert_null(push_list_take(&list));
}
