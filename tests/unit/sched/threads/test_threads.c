/* test_threads.c - the live threads around the cores (rig.h): every request comes back exactly once, to its own port,
 * with its own slice. */
/* Starts threads. */
#include "histories.h"
#include "unit/sched/threads/rig.h"

#define CROWD   4000             /* requests */
#define LONG_NS (100 * NS_PER_S) /* longer than any machine stands still */

/* Bursts over all models and ports, tight and loose deadlines, of all classes, one request in ten cancelled. Says how
 * many ran. */
static uint32_t crowd_comes_back_once(struct rig *rig, uint32_t count) {
    struct crowd c;
    uint32_t sent = 0;

    crowd_init(&c, count);
    while (c.done < c.count) {
        for (uint32_t burst = (uint32_t)rng_below(&c.rng, 40); burst > 0 && sent < c.count; burst--, sent++) {
            struct port *port = rig->ports[sent % PORTS];
            struct request *r = crowd_request(&c, rig, sent, (uint32_t)rng_below(&c.rng, MODELS),
                                              (int64_t)rng_below(&c.rng, 60) * NS_PER_MS);
            class_draw(&c, r);
            assert_int_equal(port_submit(port, r), 0);
            if (rng_below(&c.rng, 10) == 0)
                port_cancel(port, r);
        }
        for (uint32_t f = 0; f < PORTS; f++) {
            port_flush(rig->ports[f]);
            crowd_collect(&c, rig, f);
        }
        pause_us(500);
    }
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(c.back[i], 1);
    crowd_free(&c);
    return c.ran;
}

/* Until some ran: on a machine that is busy enough, all of a crowd are too late. */
TEST(test_every_request_comes_back_once) {
    for (int i = 0; policies[i]; i++) {
        struct rig *rig = rig_start_with(policies[i], ACCELERATORS, 500e3);
        for (uint32_t ran = crowd_comes_back_once(rig, (uint32_t)histories_count(CROWD)); ran < 200;)
            ran += crowd_comes_back_once(rig, 1000);
        rig_stop(rig);
    }
}

/* More requests than the model thread's pool holds, none of which can finish soon: the rest is refused at once. A model
 * thread that is kept from its core may find room again: then once more, or the test's time is over. */
TEST(test_full_queue_refuses) {
    struct rig *rig = rig_start(ACCELERATORS, 500e3);
    uint32_t full = 0;

    while (full == 0) {
        struct crowd c;
        crowd_init(&c, 1500);
        for (uint32_t i = 0; i < c.count; i++)
            assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, i, 0, LONG_NS)), 0);
        crowd_wait(&c, rig, 0);
        for (uint32_t i = 0; i < c.count; i++)
            full += c.requests[i].status == REQUEST_REFUSED && c.requests[i].refusal == REFUSAL_POOL_FULL;
        assert_true(c.ran > 0);
        assert_int_equal(c.ran + full, c.count);
        crowd_free(&c);
    }
    rig_stop(rig);
}

/* More shapes at once than a model has cores: with time enough, every request runs. Central policies have no cores. */
TEST(test_no_shape_is_too_many) {
    for (int i = 0; policies[i]; i++) {
        if (policies[i]->central)
            continue;
        struct rig *rig = rig_start_with(policies[i], ACCELERATORS, 500e3);
        struct crowd c;
        crowd_init(&c, 240);
        for (uint32_t n = 0; n < c.count; n++)
            assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, n, MODELS - 1, LONG_NS)), 0);
        crowd_wait(&c, rig, 0);
        for (uint32_t n = 0; n < c.count; n++)
            if (c.requests[n].status != REQUEST_OK)
                fail_msg("%s: request %u was refused: %d", policies[i]->name, n, c.requests[n].refusal);
        crowd_free(&c);
        rig_stop(rig);
    }
}

/* As Triton's dynamic batcher does: a request that cannot join the batch that waits sends it off. */
TEST(test_another_shape_sends_the_batch_off) {
    struct policy_option options[POLICY_OPTIONS_MAX];
    memcpy(options, policy_timeout.options, 6 * sizeof(*options));
    assert_string_equal(options[0].key, "max_queue_delay_us");
    options[0].preset = 1e9;
    struct policy_ops patient = policy_timeout;
    patient.options = options;
    struct rig *rig = rig_start_with(&patient, ACCELERATORS, 500e3);
    struct crowd c;
    crowd_init(&c, 3);
    for (uint32_t n = 0; n < c.count; n++) {
        struct request *r = crowd_request(&c, rig, n, MODELS - 1, LONG_NS);
        c.inputs[n].dims[1] = r->shape_key = n < 2 ? 3 : 5;
        c.inputs[n].bytes = r->items * r->shape_key * sizeof(float);
        r->arrival_ns += 50 * NS_PER_MS; /* after the turn that takes them began */
        assert_int_equal(port_submit(rig->ports[0], r), 0);
    }
    port_flush(rig->ports[0]);
    while (c.done < 2) {
        crowd_collect(&c, rig, 0);
        pause_us(500);
    }
    assert_true(c.requests[0].status == REQUEST_OK && c.requests[1].status == REQUEST_OK);
    assert_int_equal(c.back[2], 0); /* nothing sends it off */
    port_cancel(rig->ports[0], &c.requests[2]);
    crowd_wait(&c, rig, 0);
    crowd_free(&c);
    rig_stop(rig);
}

/* A port may have so many requests outstanding and no more. */
TEST(test_port_is_bounded) {
    struct rig *rig = rig_start(ACCELERATORS, 500e3);
    struct crowd c;
    struct request extra;

    crowd_init(&c, PORT_REQUESTS_MAX);
    for (uint32_t i = 0; i < c.count; i++)
        assert_int_equal(port_submit(rig->ports[1], crowd_request(&c, rig, i, 1, 5 * NS_PER_MS)), 0);
    extra = c.requests[0];
    assert_true(port_submit(rig->ports[1], &extra) < 0);
    crowd_wait(&c, rig, 1);
    rig_stop(rig);
    crowd_free(&c);
}

/* A quarter of them may be best effort: it may wait for long, and must not keep others out. */
TEST(test_best_effort_is_a_subcluster_of_what_a_port_may_have) {
    struct rig *rig = rig_start(ACCELERATORS, 500e3);
    struct crowd c;

    crowd_init(&c, PORT_REQUESTS_MAX / 4 + 1);
    for (uint32_t i = 0; i < c.count; i++) {
        struct request *r = crowd_request(&c, rig, i, 1, 20 * NS_PER_MS);
        r->priority = PRIORITY_BEST_EFFORT;
        assert_int_equal(port_submit(rig->ports[1], r), i + 1 < c.count ? 0 : -EBUSY);
    }
    c.requests[c.count - 1].priority = 0;
    assert_int_equal(port_submit(rig->ports[1], &c.requests[c.count - 1]), 0);
    crowd_wait(&c, rig, 1);
    c.requests[0].priority = PRIORITY_BEST_EFFORT; /* they are back: there is room again */
    c.back[0] = c.done = 0;
    c.count = 1;
    assert_int_equal(port_submit(rig->ports[1], &c.requests[0]), 0);
    crowd_wait(&c, rig, 1);
    rig_stop(rig);
    crowd_free(&c);
}

/* One accelerator, free again before anybody has looked: its report must not be lost while everybody thinks it busy. */
TEST(test_a_fast_accelerator_is_never_lost) {
    struct rig *rig = rig_start(1, 200);
    struct crowd c;

    crowd_init(&c, 3000);
    for (uint32_t i = 0; i < c.count; i++) {
        assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, i, i % 3, LONG_NS)), 0);
        port_flush(rig->ports[0]);
        while (c.done <= i) {
            crowd_collect(&c, rig, 0);
            sched_yield();
        }
    }
    assert_int_equal(c.ran, c.count);
    rig_stop(rig);
    crowd_free(&c);
}

/* One accelerator, and two models whose requests cannot both be in time. Who misses a deadline that nobody asked for is
 * answered late, and once. */
TEST(test_who_may_be_late_waits_on) {
    struct rig *rig = rig_start(1, 20e6); /* 24 ms a run */
    struct crowd c;
    uint32_t late = 0;

    crowd_init(&c, 16);
    for (uint32_t i = 0; i < c.count; i++) {
        struct request *r = crowd_request(&c, rig, i, i % 2, 40 * NS_PER_MS);
        r->due_ns = r->deadline_ns;
        r->late_until_ns = r->arrival_ns + LONG_NS;
        assert_int_equal(port_submit(rig->ports[0], r), 0);
        port_flush(rig->ports[0]);
        while (i % 2 && c.done <= i) {
            crowd_collect(&c, rig, 0);
            pause_us(500);
        }
    }
    for (uint32_t i = 0; i < c.count; i++)
        late += c.requests[i].priority == PRIORITY_BEST_EFFORT && c.requests[i].run_end_ns > c.requests[i].due_ns;
    assert_int_equal(c.ran, c.count);
    assert_true(late > 0);
    rig_stop(rig);
    crowd_free(&c);
}

/* Requests that nothing could serve, beside some that are answered: these alone say how long answers take. */
TEST(test_refusals_leave_the_reply_margin_alone) {
    struct rig *rig = rig_start(ACCELERATORS, 500e3);
    const struct margin *margin = port_reply_margin(rig->ports[0]);

    for (int i = 0; i < 600; i++)
        port_replied(rig->ports[0], 5 * NS_PER_MS);
    assert_true(margin_ns(margin) >= 5 * NS_PER_MS);
    for (int round = 0; round < 40; round++) {
        struct crowd c;
        crowd_init(&c, 100);
        for (uint32_t i = 0; i < c.count; i++)
            assert_int_equal(port_submit(rig->ports[0], crowd_request(&c, rig, i, 0, 1000)), 0);
        crowd_wait(&c, rig, 0);
        crowd_free(&c);
        port_replied(rig->ports[0], 5 * NS_PER_MS);
    }
    assert_true(margin_ns(margin) >= 5 * NS_PER_MS);
    rig_stop(rig);
}
