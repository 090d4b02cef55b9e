/* test_shape_queue.c - requests whose shape has no core: who gets an idle one, and who is too late, in virtual time. */
#include <stdlib.h>

#include "core/util/rng.h"
#include "sched/core/shape_queue.h"
#include "unit/test.h"

#define CAPACITY 400
#define MODELS   3

struct fixture {
    struct request_pool pool;
    struct request_node nodes[CAPACITY];
    struct shape_queue queue;
    void *memory;
};

static struct fixture *fixture_new(void) {
    struct fixture *f = aligned_alloc(CACHE_LINE, (sizeof(*f) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    assert_non_null(f);
    request_pool_init(&f->pool, f->nodes, CAPACITY);
    f->memory = aligned_alloc(CACHE_LINE, shape_queue_bytes(MODELS, &f->pool));
    assert_non_null(f->memory);
    shape_queue_init(&f->queue, f->memory, MODELS, &f->pool);
    return f;
}

static void fixture_free(struct fixture *f) {
    free(f->memory);
    free(f);
}

static struct request_message message_of(uint64_t handle, uint64_t shape_key, int64_t deadline_ns, uint8_t priority) {
    return (struct request_message){.handle = handle,
                                    .deadline_ns = deadline_ns,
                                    .shape_key = shape_key,
                                    .work = 1,
                                    .items = 1,
                                    .priority = priority};
}

/* One that takes 10 ns. */
static void add(struct fixture *f, uint32_t model, uint64_t handle, uint64_t shape_key, int64_t deadline_ns) {
    struct request_message message = message_of(handle, shape_key, deadline_ns, 0);
    assert_int_equal(shape_queue_add(&f->queue, model, &message, deadline_ns - 10, false, NULL), REFUSAL_NONE);
}

/* The next shape gets a core; writes the handles of the requests that go there. */
static uint32_t serve(struct fixture *f, uint32_t model, uint64_t handles[CAPACITY]) {
    const struct request_message *next = shape_queue_next(&f->queue, model);
    struct request_message message;
    uint32_t count = 0;
    assert_non_null(next);
    uint64_t shape_key = next->shape_key;
    shape_queue_fill(&f->queue, model, shape_key);
    for (; shape_queue_take(&f->queue, model, &message); count++) {
        assert_int_equal(message.shape_key, shape_key);
        handles[count] = message.handle;
    }
    return count;
}

TEST(the_earliest_deadlines_shape_comes_first_with_all_its_requests) {
    struct fixture *f = fixture_new();
    uint64_t handles[CAPACITY];
    add(f, 1, 1, 100, 5000);
    add(f, 1, 2, 200, 3000);
    add(f, 1, 3, 100, 9000);
    add(f, 1, 4, 100 + 4096, 4000); /* in the same bucket as 100 */
    add(f, 2, 5, 100, 1000);        /* another model's shape of the same key */
    add(f, 1, 6, 200, 8000);
    assert_int_equal(shape_queue_count(&f->queue, 1), 5);
    assert_null(shape_queue_next(&f->queue, 0));
    assert_int_equal(serve(f, 1, handles), 2);
    assert_true(handles[0] == 2 && handles[1] == 6);
    assert_int_equal(serve(f, 1, handles), 1);
    assert_int_equal(handles[0], 4);
    assert_int_equal(serve(f, 1, handles), 2);
    assert_true(handles[0] == 1 && handles[1] == 3);
    assert_null(shape_queue_next(&f->queue, 1));
    assert_int_equal(serve(f, 2, handles), 1);
    assert_int_equal(f->pool.used, 0);
    assert_int_equal(shape_queue_wake_ns(&f->queue), TIME_NEVER);
    fixture_free(f);
}

/* Not before, and by the time that its own run takes: not by the order of deadlines. */
TEST(a_request_is_refused_when_it_can_no_longer_be_in_time) {
    struct fixture *f = fixture_new();
    struct request_message heavy = message_of(2, 200, 6000, 0);
    add(f, 0, 1, 100, 5000);
    assert_int_equal(shape_queue_add(&f->queue, 0, &heavy, 2000, false, NULL), REFUSAL_NONE);
    assert_int_equal(shape_queue_wake_ns(&f->queue), 2001);
    assert_int_equal(shape_queue_late(&f->queue, 2000), REQUEST_NONE);
    uint32_t node = shape_queue_late(&f->queue, 2001);
    assert_int_not_equal(node, REQUEST_NONE);
    assert_int_equal(f->nodes[node].handle, 2);
    assert_int_equal(f->nodes[node].refusal, REFUSAL_DEADLINE);
    assert_int_equal(shape_queue_late(&f->queue, 2001), REQUEST_NONE);
    assert_int_equal(shape_queue_wake_ns(&f->queue), 4991);
    assert_int_equal(shape_queue_count(&f->queue, 0), 1);
    fixture_free(f);
}

TEST(where_deadlines_do_not_matter_nobody_is_too_late) {
    struct fixture *f = fixture_new();
    struct request_message message = message_of(1, 100, 5000, 0);
    assert_int_equal(shape_queue_add(&f->queue, 0, &message, TIME_NEVER, false, NULL), REFUSAL_NONE);
    assert_int_equal(shape_queue_late(&f->queue, TIME_NEVER - 1), REQUEST_NONE);
    assert_int_equal(shape_queue_wake_ns(&f->queue), TIME_NEVER);
    fixture_free(f);
}

TEST(a_delayed_one_becomes_best_effort_instead) {
    struct fixture *f = fixture_new();
    struct request_message delayed = message_of(1, 100, 5000, 0), taken;
    assert_int_equal(shape_queue_add(&f->queue, 0, &delayed, 4990, true, NULL), REFUSAL_NONE);
    add(f, 0, 2, 200, 9000);
    assert_int_equal(shape_queue_late(&f->queue, 4991), REQUEST_NONE);
    assert_int_equal(shape_queue_next(&f->queue, 0)->handle, 2); /* before all best effort */
    shape_queue_fill(&f->queue, 0, 100);
    assert_true(shape_queue_take(&f->queue, 0, &taken));
    assert_int_equal(taken.priority, PRIORITY_BEST_EFFORT);
    assert_int_equal(taken.deadline_ns, 5000 + BEST_EFFORT_WAIT_NS);
    fixture_free(f);
}

TEST(those_that_are_cancelled_leave) {
    struct fixture *f = fixture_new();
    uint64_t handles[CAPACITY];
    for (uint64_t handle = 1; handle <= 4; handle++)
        add(f, 0, handle, 100, 5000);
    for (uint64_t handle = 1; handle <= 3; handle += 2) {
        struct request_message cancel = message_of(handle, 100, 5000, 0);
        uint32_t node = shape_queue_cancel(&f->queue, 0, &cancel);
        assert_int_not_equal(node, REQUEST_NONE);
        assert_int_equal(f->nodes[node].handle, handle);
        assert_int_equal(f->nodes[node].refusal, REFUSAL_CANCELLED);
        assert_int_equal(shape_queue_cancel(&f->queue, 0, &cancel), REQUEST_NONE);
    }
    assert_int_equal(serve(f, 0, handles), 2);
    assert_true(handles[0] == 2 && handles[1] == 4);
    fixture_free(f);
}

TEST(inputs_that_are_there_are_noted) {
    struct fixture *f = fixture_new();
    struct request_message promised = message_of(1, 100, 5000, 0), taken;
    promised.ready_ns = 3000;
    assert_int_equal(shape_queue_add(&f->queue, 0, &promised, 4000, false, NULL), REFUSAL_NONE);
    assert_true(shape_queue_ready(&f->queue, 0, &promised));
    shape_queue_fill(&f->queue, 0, 100);
    assert_true(shape_queue_take(&f->queue, 0, &taken));
    assert_int_equal(taken.ready_ns, 0);
    assert_false(shape_queue_ready(&f->queue, 0, &promised));
    fixture_free(f);
}

/* Those in the cores count, too. */
TEST(the_models_own_limits_hold) {
    struct fixture *f = fixture_new();
    struct queue_levels levels = {0};
    levels.of[0].most = 2;
    levels.of[0].waiting = 1;
    levels.of[1].most = UINT32_MAX;
    struct request_message first = message_of(1, 100, 5000, 0), second = message_of(2, 200, 5000, 0),
                           lower = message_of(3, 200, 5000, 1);
    assert_int_equal(shape_queue_add(&f->queue, 0, &first, 4000, false, &levels), REFUSAL_NONE);
    assert_int_equal(shape_queue_add(&f->queue, 0, &second, 4000, false, &levels), REFUSAL_QUEUE_FULL);
    assert_int_equal(shape_queue_add(&f->queue, 0, &lower, 4000, false, &levels), REFUSAL_NONE);
    assert_true(shape_queue_is_full(&f->queue, 0, 0, &levels));
    assert_false(shape_queue_is_full(&f->queue, 0, 1, &levels));
    assert_false(shape_queue_is_full(&f->queue, 0, 0, NULL));
    levels.of[0].waiting = 0;
    assert_int_equal(shape_queue_add(&f->queue, 0, &second, 4000, false, &levels), REFUSAL_NONE);
    fixture_free(f);
}

/* ---- a random run against a plain list ---- */

struct plain {
    uint64_t handle, shape_key;
    int64_t deadline_ns;
    uint32_t model;
};

TEST(as_a_plain_list_does) {
    struct fixture *f = fixture_new();
    struct plain plain[CAPACITY];
    uint32_t count = 0;
    uint64_t handle = 0, handles[CAPACITY];
    struct rng rng;
    rng_seed(&rng, 3);
    for (int64_t now = 0; now < 20000; now++) {
        uint32_t model = (uint32_t)rng_below(&rng, MODELS);
        if (count < CAPACITY && rng_below(&rng, 3) > 0) {
            plain[count] =
                (struct plain){++handle, rng_below(&rng, 60), now + 10 + (int64_t)rng_below(&rng, 300), model};
            add(f, model, handle, plain[count].shape_key, plain[count].deadline_ns);
            count++;
        } else if (count > 0 && rng_below(&rng, 2)) {
            struct plain *one = &plain[rng_below(&rng, count)];
            struct request_message cancel = message_of(one->handle, one->shape_key, one->deadline_ns, 0);
            uint32_t node = shape_queue_cancel(&f->queue, one->model, &cancel);
            assert_int_not_equal(node, REQUEST_NONE);
            request_pool_put(&f->pool, node);
            *one = plain[--count];
        } else if (shape_queue_count(&f->queue, model) > 0) {
            int64_t least_ns = TIME_NEVER;
            for (uint32_t i = 0; i < count; i++)
                if (plain[i].model == model && plain[i].deadline_ns < least_ns)
                    least_ns = plain[i].deadline_ns;
            const struct request_message *next = shape_queue_next(&f->queue, model);
            assert_int_equal(next->deadline_ns, least_ns);
            uint64_t shape_key = next->shape_key;
            uint32_t left = 0, of_shape = 0, served = serve(f, model, handles);
            for (uint32_t i = 0; i < count; i++) {
                if (plain[i].model == model && plain[i].shape_key == shape_key)
                    of_shape++;
                else
                    plain[left++] = plain[i];
            }
            assert_int_equal(served, of_shape);
            count = left;
        }
        for (uint32_t node; (node = shape_queue_late(&f->queue, now)) != REQUEST_NONE;) {
            uint32_t at = 0;
            while (at < count && plain[at].handle != f->nodes[node].handle)
                at++;
            assert_true(at < count && plain[at].deadline_ns - 10 < now);
            plain[at] = plain[--count];
            request_pool_put(&f->pool, node);
        }
        for (uint32_t i = 0; i < count; i++)
            assert_true(plain[i].deadline_ns - 10 >= now);
        assert_int_equal(f->queue.count, count);
        assert_int_equal(f->pool.used, count);
    }
    fixture_free(f);
}
