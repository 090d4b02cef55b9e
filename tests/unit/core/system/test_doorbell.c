/* test_doorbell.c - sleeping, ringing and helping, over real threads. */
/* Starts threads. */
#include "unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/doorbell.h"
#include "core/util/ring.h"
#include "core/util/time.h"

#define PRODUCERS 3
#define MESSAGES  20000 /* of each */

/* A consumer with a ring from each producer. What is not atomic belongs to whose turn it is. */
struct consumer {
    struct doorbell bell;
    struct ring rings[PRODUCERS];
    int64_t nap_ns; /* it sleeps so long at most; 0: until it is woken */
    int64_t due_ns; /* what a turn says when there is nothing to do */
    uint64_t sum;
    _Atomic bool inside; /* somebody takes a turn */
    _Atomic bool hold;   /* a helper's turn lasts until the consumer asks for it back */
    _Atomic uint64_t taken, own_turns, helped_turns;
    _Atomic bool stop;
    int epoll_fd; /* of one that sleeps in epoll; -1: it sleeps in a futex */
    pthread_t thread;
};

struct producer {
    struct consumer *consumer;
    struct ring *ring;
    bool helps;
    pthread_t thread;
};

static bool stops(struct consumer *c) {
    return atomic_load_explicit(&c->stop, memory_order_acquire);
}

static void wait_for(struct consumer *c, enum doorbell_state state) {
    while (atomic_load_explicit(&c->bell.sleeping, memory_order_acquire) != state)
        sched_yield();
}

static int64_t take_turn(struct consumer *c) {
    uint64_t taken = 0;
    assert_false(atomic_exchange(&c->inside, true));
    for (int p = 0; p < PRODUCERS; p++) {
        const uint32_t *message;
        for (; (message = ring_peek(&c->rings[p])); ring_pop(&c->rings[p])) {
            c->sum += *message;
            taken++;
        }
        ring_release(&c->rings[p]);
    }
    atomic_store(&c->inside, false);
    c->taken += taken;
    return taken ? 0 : stops(c) ? INT64_MIN : c->due_ns;
}

static int64_t helped_turn(void *consumer) {
    struct consumer *c = consumer;
    if (c->hold)
        wait_for(c, DOORBELL_RECLAIMED);
    c->helped_turns++;
    return take_turn(c);
}

static bool pending(struct consumer *c) {
    for (int p = 0; p < PRODUCERS; p++)
        if (ring_pending(&c->rings[p]))
            return true;
    return stops(c);
}

static void sleep_in_epoll(struct consumer *c, int64_t until_ns) {
    struct epoll_event event;
    int64_t left_ns = until_ns == TIME_NEVER ? 0 : until_ns - clock_now_ns();
    struct timespec left = {.tv_nsec = left_ns > 0 ? left_ns % NS_PER_S : 0};
    left.tv_sec = left_ns > 0 ? left_ns / NS_PER_S : 0;
    doorbell_lend_out(&c->bell, until_ns);
    epoll_pwait2(c->epoll_fd, &event, 1, until_ns == TIME_NEVER ? NULL : &left, NULL);
    doorbell_take_back(&c->bell);
}

static void *consumer_main(void *consumer) {
    struct consumer *c = consumer;
    while (!stops(c)) {
        int64_t until_ns = take_turn(c);
        c->own_turns++;
        if (!until_ns)
            continue;
        until_ns = c->nap_ns ? clock_now_ns() + c->nap_ns : until_ns;
        doorbell_arm(&c->bell);
        if (pending(c))
            doorbell_cancel(&c->bell);
        else if (c->epoll_fd >= 0)
            sleep_in_epoll(c, until_ns);
        else
            doorbell_sleep(&c->bell, until_ns);
    }
    return NULL;
}

static void consumer_start(struct consumer *c, bool in_epoll, int64_t nap_ns) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    memset(c, 0, sizeof(*c));
    c->nap_ns = nap_ns;
    c->due_ns = TIME_NEVER;
    c->epoll_fd = in_epoll ? epoll_create1(0) : -1;
    assert_int_equal(doorbell_init(&c->bell, in_epoll, false), 0);
    if (in_epoll)
        assert_int_equal(epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->bell.event_fd, &event), 0);
    doorbell_lend(&c->bell, helped_turn, c);
    for (int p = 0; p < PRODUCERS; p++)
        assert_int_equal(ring_init(&c->rings[p], 64, sizeof(uint32_t)), 0);
    assert_int_equal(pthread_create(&c->thread, NULL, consumer_main, c), 0);
}

static void consumer_stop(struct consumer *c) {
    atomic_store_explicit(&c->stop, true, memory_order_release);
    doorbell_ring(&c->bell);
    pthread_join(c->thread, NULL);
    for (int p = 0; p < PRODUCERS; p++)
        ring_destroy(&c->rings[p]);
    doorbell_destroy(&c->bell);
    if (c->epoll_fd >= 0)
        close(c->epoll_fd);
}

static void send_one(struct consumer *c, bool help) {
    *(uint32_t *)ring_reserve(&c->rings[0]) = 1;
    ring_push(&c->rings[0]);
    ring_publish(&c->rings[0]);
    doorbell_ring_or_help(&c->bell, help);
}

static void a_helper_lets_it_sleep_on(bool in_epoll) {
    static struct consumer c;
    consumer_start(&c, in_epoll, 0);
    for (uint64_t i = 1; i <= 100; i++) {
        wait_for(&c, DOORBELL_LENT);
        uint64_t turns = c.own_turns;
        send_one(&c, true);
        assert_int_equal(c.taken, i);
        assert_int_equal(c.own_turns, turns);
        assert_int_equal(c.bell.sleeping, DOORBELL_LENT);
    }
    consumer_stop(&c);
}

TEST(test_a_helper_lets_it_sleep_on) {
    a_helper_lets_it_sleep_on(false);
    a_helper_lets_it_sleep_on(true);
}

static void who_does_not_help_wakes_it(bool in_epoll) {
    static struct consumer c;
    consumer_start(&c, in_epoll, 0);
    for (uint64_t i = 1; i <= 100; i++) {
        wait_for(&c, DOORBELL_LENT);
        send_one(&c, false);
        while (c.taken < i)
            sched_yield();
    }
    assert_int_equal(c.helped_turns, 0);
    consumer_stop(&c);
}

TEST(test_who_does_not_help_wakes_it) {
    who_does_not_help_wakes_it(false);
    who_does_not_help_wakes_it(true);
}

/* It sleeps until it is woken, and now something is due: it has to know. */
static void it_is_woken_for_what_is_due_sooner(bool in_epoll) {
    static struct consumer c;
    consumer_start(&c, in_epoll, 0);
    wait_for(&c, DOORBELL_LENT);
    uint64_t turns = c.own_turns;
    c.due_ns = clock_now_ns() + 3600 * NS_PER_S; /* ours: nobody takes a turn */
    send_one(&c, true);
    while (c.own_turns == turns)
        sched_yield();
    wait_for(&c, DOORBELL_LENT);
    assert_int_equal(c.bell.until_ns, c.due_ns);
    turns = c.own_turns;
    send_one(&c, true); /* it will be up in time */
    assert_int_equal(c.taken, 2);
    assert_int_equal(c.own_turns, turns);
    consumer_stop(&c);
}

TEST(test_it_is_woken_for_what_is_due_sooner) {
    it_is_woken_for_what_is_due_sooner(false);
    it_is_woken_for_what_is_due_sooner(true);
}

/* Its time comes while somebody else has its turns. */
static void it_asks_for_its_turns_back(bool in_epoll) {
    static struct consumer c;
    consumer_start(&c, in_epoll, NS_PER_MS);
    atomic_store(&c.hold, true);
    for (uint64_t i = 1; i <= 20; i++) {
        send_one(&c, true); /* helps if it is asleep just now */
        while (c.taken < i)
            sched_yield();
    }
    atomic_store(&c.hold, false);
    consumer_stop(&c);
}

TEST(test_it_asks_for_its_turns_back) {
    it_asks_for_its_turns_back(false);
    it_asks_for_its_turns_back(true);
}

static void *producer_main(void *producer) {
    struct producer *p = producer;
    for (uint32_t i = 1; i <= MESSAGES;) {
        uint32_t *message = ring_reserve(p->ring);
        if (message) {
            *message = i++;
            ring_push(p->ring);
            ring_publish(p->ring);
        }
        doorbell_ring_or_help(&p->consumer->bell, p->helps);
        if (!message)
            sched_yield();
    }
    return NULL;
}

/* Whoever takes the turns: no two at once, and nothing is left lying. */
static void nothing_is_lost(bool in_epoll, int64_t nap_ns) {
    static struct consumer c;
    struct producer producers[PRODUCERS];
    consumer_start(&c, in_epoll, nap_ns);
    for (int p = 0; p < PRODUCERS; p++) {
        producers[p] = (struct producer){.consumer = &c, .ring = &c.rings[p], .helps = p > 0};
        assert_int_equal(pthread_create(&producers[p].thread, NULL, producer_main, &producers[p]), 0);
    }
    for (int p = 0; p < PRODUCERS; p++)
        pthread_join(producers[p].thread, NULL);
    while (c.taken < PRODUCERS * MESSAGES)
        sched_yield();
    consumer_stop(&c);
    assert_int_equal(c.taken, PRODUCERS * MESSAGES);
    assert_int_equal(c.sum, (uint64_t)PRODUCERS * MESSAGES * (MESSAGES + 1) / 2);
}

TEST(test_nothing_is_lost) {
    for (int in_epoll = 0; in_epoll <= 1; in_epoll++) {
        nothing_is_lost(in_epoll, 0);
        nothing_is_lost(in_epoll, 20 * NS_PER_US);
    }
}

/* A consumer that goes to sleep and a producer that rings, at the same moment as nearly as two cores can. Where other
 * programs have the cores, the two seldom meet, and each round takes long: so they end after some waits. */
struct encounter {
    struct doorbell bell;
    struct {
        _Alignas(CACHE_LINE) uint32_t line;
    } message[8]; /* so much that the producer's core has still to write when it rings */
    _Alignas(CACHE_LINE) _Atomic uint32_t published; /* the number of the message, as a ring's tail */
    _Alignas(CACHE_LINE) _Atomic uint32_t begun;     /* the number of the round */
    _Alignas(CACHE_LINE) _Atomic uint32_t rung;
};
#define ENCOUNTERS 20000
#define WAITS_MOST 200

static void *rings_at_once(void *encounter) {
    struct encounter *e = encounter;
    for (uint32_t round = 1; round <= ENCOUNTERS; round++) {
        for (int spins = 0; atomic_load_explicit(&e->begun, memory_order_acquire) < round;)
            if (++spins % 1000 == 0)
                sched_yield();
        for (size_t i = 0; i < ARRAY_COUNT(e->message); i++)
            e->message[i].line = round;
        atomic_store_explicit(&e->published, round, memory_order_release);
        doorbell_ring(&e->bell);
        atomic_store_explicit(&e->rung, round, memory_order_release);
    }
    return NULL;
}

/* One of the two sees the other. */
static void it_sees_the_message_or_is_woken(void) {
    static struct encounter e;
    pthread_t producer;
    uint32_t pause = 0, waits = 0;
    e = (struct encounter){.begun = 0};
    assert_int_equal(doorbell_init(&e.bell, false, false), 0);
    assert_int_equal(pthread_create(&producer, NULL, rings_at_once, &e), 0);
    for (uint32_t round = 1; round <= ENCOUNTERS && waits < WAITS_MOST; round++) {
        atomic_store_explicit(&e.begun, round, memory_order_release);
        for (volatile uint32_t i = 0; i < pause + round % 16; i++)
            atomic_signal_fence(memory_order_seq_cst);
        doorbell_arm(&e.bell);
        bool seen = atomic_load_explicit(&e.published, memory_order_acquire) == round;
        for (int spins = 0; atomic_load_explicit(&e.rung, memory_order_acquire) < round;)
            if (++spins % 1000 == 0) {
                sched_yield();
                waits += round > 1; /* the producer has started */
            }
        if (!seen && atomic_load_explicit(&e.bell.sleeping, memory_order_relaxed) != DOORBELL_AWAKE)
            fail_msg("round %u: it sleeps, and its message lies there", round);
        pause = !seen ? pause + 1 : pause > 0 ? pause - 1 : 0; /* until it comes first as often as the producer */
        doorbell_cancel(&e.bell);
        for (size_t i = 0; i < ARRAY_COUNT(e.message); i++)
            assert_int_equal(e.message[i].line, round);
    }
    atomic_store_explicit(&e.begun, ENCOUNTERS, memory_order_release); /* it goes on alone to its end */
    pthread_join(producer, NULL);
    doorbell_destroy(&e.bell);
}

TEST(test_who_goes_to_sleep_sees_the_message_or_is_woken) {
    for (int i = 0; i < 20; i++)
        it_sees_the_message_or_is_woken();
}

static int events_waiting(int epoll_fd) {
    struct epoll_event event;
    return epoll_wait(epoll_fd, &event, 1, 0);
}

/* A producer may be put off for long between clearing the word and writing. */
TEST(test_a_late_write_wakes_once) {
    struct doorbell bell;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    const uint64_t one = 1;
    int epoll_fd = epoll_create1(0);
    assert_int_equal(doorbell_init(&bell, true, false), 0);
    assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, bell.event_fd, &event), 0);
    assert_int_equal(events_waiting(epoll_fd), 0);
    for (int i = 0; i < 3; i++) {
        doorbell_ring(&bell); /* awake: no event */
        assert_int_equal(events_waiting(epoll_fd), 0);
        doorbell_arm(&bell);
        doorbell_ring(&bell);
        assert_int_equal(events_waiting(epoll_fd), 1);
        doorbell_cancel(&bell);
        assert_int_equal(write(bell.event_fd, &one, sizeof(one)), sizeof(one)); /* late */
        doorbell_arm(&bell);
        assert_int_equal(events_waiting(epoll_fd), 1);
        doorbell_cancel(&bell);
        doorbell_arm(&bell);
        assert_int_equal(events_waiting(epoll_fd), 0);
        doorbell_cancel(&bell);
    }
    doorbell_destroy(&bell);
    close(epoll_fd);
}
