/* test_model_list.c - lists of models are published to frontends that sleep, while others wake these, too. */
/* Starts threads. */
#include "unit/test.h"

#include <pthread.h>
#include <sched.h>

#include "core/system/clock.h"
#include "core/util/time.h"
#include "unit/server/world.h"

#define LISTS    5000
#define LATER_NS (100 * NS_PER_US) /* a list comes up to so long after the other wake-up: about what one takes */

static const char cluster[] = "cluster: {accelerators: 1, type: test}\n"
                              "models:\n  - {name: m, alpha_ms: 1, beta_ms: 1, slo_ms: 50}\n"
                              "workload: {rate_rps: 10}\n";

static struct wakers {
    struct world world;
    _Atomic int list; /* the one that is being published; LISTS: all were */
} wakers;

/* Wakes the frontends once for each list, at about the time when it is published. */
static void *wake(void *context) {
    struct wakers *w = context;
    for (int seen = 0, now; (now = atomic_load_explicit(&w->list, memory_order_relaxed)) < LISTS;) { /* lone numbers */
        if (now == seen)
            sched_yield();
        else
            frontends_wake(&w->world.server->frontends);
        seen = now;
    }
    return NULL;
}

/* Nobody connects, so frontends sleep until they are woken. Each publication waits until they have seen it. */
TEST(frontends_see_each_list) {
    uint32_t listed[] = {0};
    pthread_t waker;
    world_plan(&wakers.world, cluster);
    struct server_config config = world_config(&wakers.world, &policy_deferred);
    world_begin(&wakers.world, &config);
    assert_int_equal(pthread_create(&waker, NULL, wake, &wakers), 0);
    for (int i = 1; i <= LISTS; i++) {
        atomic_store_explicit(&wakers.list, i, memory_order_relaxed);
        for (int64_t until_ns = clock_now_ns() + i * 7919LL % LATER_NS; clock_now_ns() < until_ns;)
            ;
        assert_int_equal(model_list_publish(&wakers.world.server->models, listed, i % 2, NULL, 0, false), 0);
    }
    pthread_join(waker, NULL);
    assert_string_equal(wakers.world.server->models.gone[0].name, "m"); /* each second list is without it */
    assert_int_equal(wakers.world.server->models.gone[0].version, 1);
    world_end(&wakers.world);
}

/* From the first moment on clients are told of the models of the start. */
TEST(models_of_the_start_are_told_at_once) {
    struct served_model models[] = {{.name = "broken", .version = 1, .state = MODEL_UNAVAILABLE, .reason = "empty"},
                                    {.name = "later", .version = 3, .state = MODEL_LOADING},
                                    {.name = "", .state = MODEL_LOADING}}; /* a place for a prefix */
    const struct repository_control control = {.mode = CONTROL_NONE, .start_count = 2};
    const struct server_config config = {.models = models, .model_count = 3, .control = &control};
    const struct frontends none = {.count = 0};
    struct model_list list = {.count = 0};
    model_list_init(&list, &config, &none);
    assert_int_equal(model_list_begin(&list, &config), 0);
    const struct model_index *now = model_list_lock(&list);
    assert_int_equal(now->count, 1);
    assert_int_equal(now->listed[0], 0);
    assert_int_equal(now->absent_count, 1);
    assert_string_equal(now->absent[0].name, "later");
    assert_int_equal(now->absent[0].version, 3);
    assert_int_equal(now->absent[0].state, MODEL_LOADING);
    model_list_unlock(&list);
    model_list_free(&list);
}
