/* test_pool_watch.c - the pool follows the sizes of the last queries. */
#include <stdlib.h>
#include <string.h>

#include "core/util/time.h"
#include "sched/plan/pool_watch.h"
#include "unit/test.h"

#define ITEMS_MAX 100

enum { STRONG, WEAK, TYPES };

struct scene {
    struct pool_watch watch;
    struct pool_input input;
    int64_t latency_ns[TYPES][ITEMS_MAX + 1];
    void *memory;
};

/* 1 ms an item on a strong instance and 3 on a weak one, at 10 dollars and 2. The SLO is 100 ms, and the budget pays
 * for one strong instance at most. */
static void scene_set(struct scene *scene) {
    struct arena arena = {NULL, 0};
    *scene = (struct scene){.input = {.types = TYPES, .slo_ns = 100 * NS_PER_MS, .budget = 19}};
    pool_watch_layout(&scene->watch, &arena, ITEMS_MAX);
    scene->memory = calloc(1, arena.used);
    arena = (struct arena){scene->memory, 0};
    pool_watch_layout(&scene->watch, &arena, ITEMS_MAX);
    for (int64_t items = 0; items <= ITEMS_MAX; items++) {
        scene->latency_ns[STRONG][items] = items * NS_PER_MS;
        scene->latency_ns[WEAK][items] = 3 * items * NS_PER_MS;
    }
    for (uint32_t t = 0; t < TYPES; t++)
        scene->input.type[t] = (struct pool_type){.latency_ns = scene->latency_ns[t], .price = t == STRONG ? 10 : 2};
}

/* Queries of these sizes in turn; chooses when that is due. Returns how often it was. */
static uint32_t count(struct scene *scene, uint32_t queries, uint32_t one, uint32_t other) {
    uint32_t choices = 0;
    for (uint32_t i = 0; i < queries; i++)
        if (pool_watch_count(&scene->watch, i % 2 ? one : other)) {
            pool_watch_choose(&scene->watch, &scene->input);
            choices++;
        }
    return choices;
}

TEST(nothing_is_chosen_before_queries_have_come) {
    struct scene scene;
    scene_set(&scene);
    assert_int_equal(count(&scene, POOL_WATCH_EVERY - 1, 10, 90), 0);
    assert_false(scene.watch.chosen);
    assert_int_equal(count(&scene, 1, 10, 10), 1);
    assert_true(scene.watch.chosen);
    free(scene.memory);
}

TEST(the_pool_follows_the_sizes) {
    struct scene scene;
    scene_set(&scene);
    /* One weak instance serves more small queries than the strong one large ones: more of them add nothing. */
    assert_int_equal(count(&scene, 2 * POOL_WATCH_EVERY, 90, 10), 2);
    assert_int_equal(scene.watch.wanted[STRONG], 1);
    assert_int_equal(scene.watch.wanted[WEAK], 1);
    count(&scene, POOL_WATCH_QUERIES - POOL_WATCH_EVERY, 90, 80); /* some small ones are still among the last queries */
    assert_int_equal(scene.watch.wanted[WEAK], 1);
    count(&scene, POOL_WATCH_EVERY, 90, 80);
    assert_int_equal(scene.watch.wanted[STRONG], 1);
    assert_int_equal(scene.watch.wanted[WEAK], 0);
    count(&scene, POOL_WATCH_QUERIES, 10, 10); /* all are small: weak instances serve them for less */
    assert_true(scene.watch.wanted[WEAK] > 1);
    free(scene.memory);
}

TEST(the_last_choice_stays_where_none_can_be_made) {
    struct scene scene;
    scene_set(&scene);
    count(&scene, POOL_WATCH_EVERY, 90, 10);
    uint16_t before[POOL_TYPES_MAX];
    memcpy(before, scene.watch.wanted, sizeof(before));
    scene.input.slo_ns = 20 * NS_PER_MS; /* no type serves all queries in time */
    assert_int_equal(count(&scene, POOL_WATCH_EVERY, 90, 10), 1);
    assert_memory_equal(scene.watch.wanted, before, sizeof(before));
    free(scene.memory);
}
