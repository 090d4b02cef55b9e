/* test_plan_memory.c - memory for plans is used again, where it is large enough. */
#include "cluster/roles/plan_memory.h"
#include "core/data/messages.h"
#include "unit/test.h"

struct kept {
    struct plan_memory memory;
    struct batch_plan plan;
};

static struct kept *take(struct list_node *free_ones, struct list_node *list, uint32_t handles) {
    struct kept *k = plan_memory_take(free_ones, sizeof(*k), handles);
    assert_non_null(k);
    assert_true(k->memory.room >= handles);
    list_append(list, &k->memory.node);
    for (uint32_t i = 0; i < k->memory.room; i++)
        k->plan.handles[i] = i; /* the address sanitizer would tell */
    return k;
}

TEST(the_last_given_is_taken_next) {
    struct list_node free_ones, list;
    list_init(&free_ones);
    list_init(&list);
    struct kept *a = take(&free_ones, &list, 1), *b = take(&free_ones, &list, 2);
    plan_memory_give(&free_ones, &a->memory);
    plan_memory_give(&free_ones, &b->memory);
    assert_true(list_empty(&list));
    assert_ptr_equal(take(&free_ones, &list, 3), b);
    assert_ptr_equal(take(&free_ones, &list, 1), a);
    assert_true(list_empty(&free_ones));
    plan_memory_free(&list);
}

TEST(what_is_too_small_is_replaced) {
    struct list_node free_ones, list;
    list_init(&free_ones);
    list_init(&list);
    struct kept *small = take(&free_ones, &list, 1);
    uint32_t more = small->memory.room + 1;
    plan_memory_give(&free_ones, &small->memory);
    struct kept *large = take(&free_ones, &list, more);
    assert_true(list_empty(&free_ones));
    plan_memory_give(&free_ones, &large->memory);
    assert_ptr_equal(take(&free_ones, &list, 1), large);
    plan_memory_free(&list);
    plan_memory_free(&free_ones);
}
