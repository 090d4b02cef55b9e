/* test_clock_sync.c - whatever clocks and delays are, the peer's time lies within the stated error. */
#include "core/data/clock_sync.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/rng.h"
#include "histories.h"
#include "unit/test.h"

#define PPM    1e-6
#define YEAR_S (365 * 86400LL)
#define LINKS  3000

/* ---- a link: the local clock is the truth, the peer's runs beside it ---- */

struct link {
    struct clock_sync sync;
    struct rng rng;
    int64_t now_ns, begun_ns;
    int64_t offset_ns;                  /* at begun_ns */
    double drift, swing, swing_rate;    /* the drift is drift + swing * sin(swing_rate * t) */
    int64_t there_ns, back_ns, peer_ns; /* least delays; what the peer takes */
    double jitter;                      /* mean of what delays are longer by, in their least */
    double shape;
};

static int64_t peer_clock(const struct link *link, int64_t local_ns) {
    double t = (double)(local_ns - link->begun_ns);
    double drifted = link->drift * t;
    if (link->swing > 0)
        drifted += link->swing / link->swing_rate * (1 - cos(link->swing_rate * t));
    return local_ns + link->offset_ns + (int64_t)floor(drifted);
}

static int64_t delay_draw(struct link *link, int64_t least_ns) {
    return least_ns + (int64_t)((double)least_ns * link->jitter * rng_gamma(&link->rng, link->shape));
}

static double between(struct rng *rng, double least, double most) {
    return least + (most - least) * rng_uniform(rng);
}

/* As many small as large. */
static double between_powers(struct rng *rng, double least, double most) {
    return least * pow(most / least, rng_uniform(rng));
}

static void link_draw(struct link *link, uint64_t seed) {
    memset(link, 0, sizeof(*link));
    rng_seed(&link->rng, seed);
    struct rng *rng = &link->rng;
    link->begun_ns = link->now_ns = (int64_t)between(rng, 0, 1e16);
    link->offset_ns = (int64_t)(rng_below(rng, 2) ? between(rng, -3.6e12, 3.6e12) : between(rng, 0, 1e17));
    link->drift = between(rng, -200, 200) * PPM;
    if (rng_below(rng, 2)) { /* as fast as a quartz that warms up: its drift changes by 0.01 ppm a second */
        link->swing = between(rng, 0.01, 2) * PPM;
        link->swing_rate = 1e-17 / link->swing;
    }
    link->there_ns = (int64_t)between_powers(rng, 5e3, 2e6);
    link->back_ns = rng_below(rng, 2) ? link->there_ns : (int64_t)between_powers(rng, 5e3, 2e6);
    link->peer_ns = (int64_t)between_powers(rng, 100, 1e5);
    link->jitter = between_powers(rng, 0.01, 3);
    link->shape = between_powers(rng, 0.1, 2);
    clock_sync_init(&link->sync, link->now_ns);
}

/* One exchange, in which the peer is held up before it takes the question and before it answers. */
static struct clock_exchange exchange_held(struct link *link, int64_t before_ns, int64_t between_ns) {
    struct clock_exchange x = {.sent_ns = link->now_ns};
    clock_sync_asked(&link->sync, link->now_ns);
    link->now_ns += delay_draw(link, link->there_ns) + before_ns;
    x.peer_received_ns = peer_clock(link, link->now_ns);
    link->now_ns += link->peer_ns + between_ns;
    x.peer_sent_ns = peer_clock(link, link->now_ns);
    link->now_ns += delay_draw(link, link->back_ns);
    x.received_ns = link->now_ns;
    return x;
}

static void exchange_made(struct link *link) {
    int64_t due_ns = clock_sync_next_ns(&link->sync);
    if (link->now_ns < due_ns)
        link->now_ns = due_ns;
    struct clock_exchange x = exchange_held(link, 0, 0);
    assert_int_equal(clock_sync_answered(&link->sync, &x), 0);
}

static void exchanges_made(struct link *link, double seconds) {
    for (int64_t until_ns = link->now_ns + (int64_t)(seconds * 1e9); link->now_ns < until_ns;)
        exchange_made(link);
}

/* The estimate's distance from the truth at a time of ours. */
static int64_t wrong_ns(const struct link *link, int64_t at_ns) {
    int64_t truth_ns = peer_clock(link, at_ns);
    int64_t there = llabs(clock_sync_peer(&link->sync, at_ns) - truth_ns);
    int64_t back = llabs(clock_sync_local(&link->sync, truth_ns) - at_ns);
    return there > back ? there : back;
}

static void check_within_error(const struct link *link, uint64_t seed) {
    static const int64_t later_ns[] = {0, 1000, 20 * NS_PER_MS, NS_PER_S, 30 * NS_PER_S, -10 * NS_PER_MS, -NS_PER_S};
    for (size_t i = 0; i < ARRAY_COUNT(later_ns); i++) {
        int64_t at_ns = link->now_ns + later_ns[i];
        if (at_ns >= link->begun_ns && wrong_ns(link, at_ns) > clock_sync_error_ns(&link->sync, at_ns))
            fail_msg("link %llu: wrong by %lld ns, %lld ns from the last exchange, and said %lld ns",
                     (unsigned long long)seed, (long long)wrong_ns(link, at_ns), (long long)later_ns[i],
                     (long long)clock_sync_error_ns(&link->sync, at_ns));
    }
}

/* ---- tests ---- */

TEST(nothing_is_known_at_first) {
    struct clock_sync sync;
    clock_sync_init(&sync, 5000);
    assert_false(clock_sync_known(&sync));
    assert_int_equal(clock_sync_error_ns(&sync, 5000), TIME_NEVER);
    assert_int_equal(clock_sync_round_trip_ns(&sync), TIME_NEVER);
    assert_int_equal(clock_sync_next_ns(&sync), 5000);
    assert_int_equal(clock_sync_local(&sync, 77), 77);
    assert_int_equal(clock_sync_peer(&sync, 77), 77);

    clock_sync_asked(&sync, 6000);
    assert_int_equal(clock_sync_next_ns(&sync), TIME_NEVER);
    assert_int_equal(clock_sync_answered(&sync, &(struct clock_exchange){6000, 1006010, 1006110, 6300}), 0);
    assert_true(clock_sync_known(&sync));
    assert_int_equal(clock_sync_round_trip_ns(&sync), 200);
    assert_in_range(clock_sync_peer(&sync, 6300), 1006110, 1006310);
    assert_in_range(clock_sync_error_ns(&sync, 6300), 100, 105);
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Thousands of links, five minutes each. No exchange moves the estimate by more than was stated before, and after it
 * the error is about half the least round trip. */
TEST(the_truth_is_within_the_error) {
    static double ratios[LINKS];
    const size_t links = histories_count(LINKS);
    for (uint64_t seed = 1; seed <= links; seed++) {
        struct link link;
        link_draw(&link, seed);
        while (link.now_ns < link.begun_ns + 300 * NS_PER_S) {
            struct clock_sync before = link.sync;
            exchange_made(&link);
            check_within_error(&link, seed);
            int64_t moved_ns = llabs(clock_sync_peer(&link.sync, link.now_ns) - clock_sync_peer(&before, link.now_ns));
            assert_true(moved_ns <= clock_sync_error_ns(&before, link.now_ns));
        }
        assert_int_equal(link.sync.jumps + link.sync.nonsense, 0);
        double error_ns = (double)clock_sync_error_ns(&link.sync, link.now_ns);
        double half_ns = (double)clock_sync_round_trip_ns(&link.sync) / 2;
        assert_true(error_ns < 2 * half_ns + 10e3); /* even where few are fast */
        ratios[seed - 1] = error_ns / half_ns;
    }
    qsort(ratios, links, sizeof(*ratios), compare_doubles);
    assert_true(ratios[links / 2] < 1.05);
    assert_true(ratios[links * 9 / 10] < 1.2);
}

/* A tenth of a second suffices for the offset, some seconds for the drift. */
TEST(it_learns_soon) {
    struct link link;
    link_draw(&link, 1);
    link.there_ns = link.back_ns = 25 * NS_PER_US;
    link.jitter = 0.1;
    link.drift = 200 * PPM;
    link.swing = 0;
    exchanges_made(&link, 0.1);
    assert_true(clock_sync_error_ns(&link.sync, link.now_ns) < 40 * NS_PER_US);
    exchanges_made(&link, 1);
    assert_true(clock_sync_error_ns(&link.sync, link.now_ns + NS_PER_S) < 150 * NS_PER_US);
    exchanges_made(&link, 10);
    assert_true(clock_sync_error_ns(&link.sync, link.now_ns + NS_PER_S) < 40 * NS_PER_US);
    exchanges_made(&link, 60);
    assert_true(clock_sync_error_ns(&link.sync, link.now_ns + NS_PER_S) < 30 * NS_PER_US);
    assert_true(clock_sync_error_ns(&link.sync, link.now_ns + 60 * NS_PER_S) < 150 * NS_PER_US);
}

TEST(exchanges_are_due_often_and_then_every_second) {
    struct link link;
    link_draw(&link, 2);
    uint32_t soon = 0;
    for (; clock_sync_next_ns(&link.sync) <= link.begun_ns + 200 * NS_PER_MS; soon++)
        exchange_made(&link);
    assert_int_equal(soon, 8);
    exchanges_made(&link, 10);
    int64_t sent_ns = link.now_ns = clock_sync_next_ns(&link.sync);
    exchange_made(&link);
    assert_int_equal(clock_sync_next_ns(&link.sync), sent_ns + NS_PER_S);

    /* An answer that is late delays the next question, and only that. */
    link.now_ns = clock_sync_next_ns(&link.sync);
    struct clock_exchange x = exchange_held(&link, 10 * NS_PER_S, 0);
    assert_int_equal(clock_sync_next_ns(&link.sync), TIME_NEVER);
    assert_int_equal(clock_sync_answered(&link.sync, &x), 0);
    assert_int_equal(clock_sync_next_ns(&link.sync), link.now_ns);
}

/* The peer's clock jumps between two exchanges: it is known again after the first of them. */
TEST(a_clock_that_jumps_is_learnt_anew) {
    static const int64_t jumps_ns[] = {3600 * NS_PER_S, -3600 * NS_PER_S, NS_PER_S,         -NS_PER_S,
                                       200 * NS_PER_MS, -200 * NS_PER_MS, YEAR_S * NS_PER_S};
    for (uint64_t seed = 1; seed <= histories_count(200); seed++)
        for (size_t i = 0; i < ARRAY_COUNT(jumps_ns); i++) {
            struct link link;
            link_draw(&link, seed);
            link.begun_ns = link.now_ns += YEAR_S * NS_PER_S / 100;
            clock_sync_init(&link.sync, link.now_ns);
            exchanges_made(&link, 100);
            link.offset_ns += jumps_ns[i];
            exchange_made(&link);
            assert_int_equal(link.sync.jumps, 1);
            check_within_error(&link, seed);
            assert_in_range(clock_sync_next_ns(&link.sync), link.now_ns, link.now_ns + 25 * NS_PER_MS);
            exchanges_made(&link, 100);
            assert_int_equal(link.sync.jumps, 1);
            check_within_error(&link, seed);
        }
}

/* It may jump during an exchange, too: that may be refused, or say what is wrong until the next. */
TEST(a_jump_during_an_exchange_is_seen_with_the_next) {
    static const int64_t jumps_ns[] = {3600 * NS_PER_S, -3600 * NS_PER_S, NS_PER_S, -NS_PER_S};
    for (size_t i = 0; i < 4 * ARRAY_COUNT(jumps_ns); i++) {
        struct link link;
        int64_t jump_ns = jumps_ns[i / 4];
        link_draw(&link, i + 1);
        exchanges_made(&link, 20);
        link.now_ns = clock_sync_next_ns(&link.sync);
        struct clock_exchange x = exchange_held(&link, 0, 0);
        x.peer_received_ns += i % 4 == 0 || i % 4 == 2 ? jump_ns : 0; /* there: before it came, or between; or here */
        x.peer_sent_ns += i % 4 <= 1 ? jump_ns : 0;
        link.offset_ns += i % 4 <= 1 ? jump_ns : 0;
        clock_sync_answered(&link.sync, &x);
        exchange_made(&link);
        exchange_made(&link);
        check_within_error(&link, i);
    }
}

/* A process that is stopped for an hour, wherever it is then. */
TEST(a_peer_that_is_suspended_does_no_harm) {
    for (uint64_t seed = 1; seed <= histories_count(400); seed++) {
        struct link link;
        link_draw(&link, seed);
        link.swing = 0;
        exchanges_made(&link, 70);
        int64_t error_ns = clock_sync_error_ns(&link.sync, link.now_ns), held_ns = 3000 * NS_PER_S;
        link.now_ns = clock_sync_next_ns(&link.sync);
        struct clock_exchange x = exchange_held(&link, seed % 2 ? held_ns : 0, seed % 2 ? 0 : held_ns);
        assert_true(clock_sync_error_ns(&link.sync, link.now_ns) > error_ns);
        check_within_error(&link, seed);
        assert_int_equal(clock_sync_answered(&link.sync, &x), 0);
        check_within_error(&link, seed);
        for (int i = 0; i < 100; i++) {
            exchange_made(&link);
            check_within_error(&link, seed);
        }
        assert_int_equal(link.sync.jumps, 0);
        assert_true(clock_sync_error_ns(&link.sync, link.now_ns) < 2 * error_ns + 10 * NS_PER_US);
    }
}

/* Another way through the network, in one direction or in both. */
TEST(delays_may_rise_and_stay) {
    for (uint64_t seed = 1; seed <= histories_count(400); seed++) {
        struct link link;
        link_draw(&link, seed);
        link.jitter = 0.1;
        exchanges_made(&link, 100);
        int64_t error_ns = clock_sync_error_ns(&link.sync, link.now_ns);
        link.there_ns *= 20;
        link.back_ns *= seed % 2 ? 20 : 1;
        for (int i = 0; i < 300; i++) {
            exchange_made(&link);
            check_within_error(&link, seed);
            if (i == 4) /* what was known is not forgotten for that */
                assert_true(clock_sync_error_ns(&link.sync, link.now_ns) < 2 * error_ns + 20 * NS_PER_US);
        }
        assert_int_equal(link.sync.jumps, 0);
        assert_true(clock_sync_error_ns(&link.sync, link.now_ns) < clock_sync_round_trip_ns(&link.sync));
        assert_true(clock_sync_round_trip_ns(&link.sync) >= link.there_ns + link.back_ns - 100);
    }
}

TEST(a_century_fits) {
    static const int64_t ours[] = {0, 100 * YEAR_S * NS_PER_S, -9 * YEAR_S * NS_PER_S, 126 * YEAR_S * NS_PER_S};
    for (size_t i = 0; i < ARRAY_COUNT(ours) * ARRAY_COUNT(ours); i++) {
        struct link link;
        link_draw(&link, i + 1);
        link.begun_ns = link.now_ns = ours[i % ARRAY_COUNT(ours)];
        link.offset_ns = ours[i / ARRAY_COUNT(ours)] - link.now_ns;
        link.swing = 0;
        clock_sync_init(&link.sync, link.now_ns);
        exchanges_made(&link, 100);
        check_within_error(&link, i);
        for (size_t j = 0; j < ARRAY_COUNT(ours); j++) { /* a century away, to a thousandth of it */
            int64_t there = clock_sync_peer(&link.sync, ours[j]), here = clock_sync_local(&link.sync, ours[j]);
            assert_true(llabs(there - (ours[j] + link.offset_ns)) < YEAR_S * NS_PER_S / 5);
            assert_true(llabs(here - (ours[j] - link.offset_ns)) < YEAR_S * NS_PER_S / 5);
            assert_true(clock_sync_error_ns(&link.sync, ours[j]) < YEAR_S * NS_PER_S);
        }
        assert_int_equal(clock_sync_peer(&link.sync, TIME_NEVER), TIME_NEVER);
        assert_int_equal(clock_sync_local(&link.sync, TIME_NEVER), TIME_NEVER);
        assert_int_equal(clock_sync_local(&link.sync, INT64_MIN), INT64_MIN);
        assert_int_equal(clock_sync_error_ns(&link.sync, TIME_NEVER), TIME_NEVER);
    }
}

TEST(nonsense_is_refused) {
    static const struct clock_exchange cases[] = {
        {1001, 5000, 5001, 1100},                       /* not the one that was sent */
        {1000, 5001, 5000, 1100},                       /* sent before it came */
        {1000, 5000, 5001, 999},                        /* received before it was sent */
        {1000, 5000, 5200, 1100},                       /* there longer than away from here */
        {1000, TIME_NEVER, TIME_NEVER, 1100},           /* no time */
        {1000, INT64_MIN, INT64_MAX, 1100},             /* the same */
        {1000, 5000, 5001, 1000 + 2 * 3600 * NS_PER_S}, /* too late to say anything */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct clock_sync sync;
        clock_sync_init(&sync, 0);
        clock_sync_asked(&sync, 1000);
        assert_int_equal(clock_sync_answered(&sync, &cases[i]), -EINVAL);
        assert_false(clock_sync_known(&sync));
        assert_int_equal(sync.nonsense, 1);
        assert_int_equal(clock_sync_next_ns(&sync), i ? 1000 + 25 * NS_PER_MS : TIME_NEVER);
    }
    struct clock_sync sync;
    clock_sync_init(&sync, 0);
    assert_int_equal(clock_sync_answered(&sync, &(struct clock_exchange){0, 1, 2, 3}), -EINVAL); /* none was sent */
}

static int64_t any_time(struct rng *rng) {
    static const int64_t edges[] = {INT64_MIN, INT64_MAX, CLOCK_SYNC_TIME_MIN,     CLOCK_SYNC_TIME_MAX,
                                    0,         -1,        CLOCK_SYNC_TIME_MIN + 1, CLOCK_SYNC_TIME_MAX - 1};
    if (rng_below(rng, 2))
        return edges[rng_below(rng, ARRAY_COUNT(edges))];
    return (int64_t)(rng_next(rng) >> rng_below(rng, 64)) * (rng_below(rng, 2) ? 1 : -1);
}

/* Whatever a peer says, nothing overflows (the sanitized build looks) and the error is no less than nothing. */
TEST(a_peer_may_say_anything) {
    struct clock_sync sync;
    struct rng rng;
    int64_t now_ns = 0;
    rng_seed(&rng, histories_first());
    for (uint64_t i = 0, count = histories_count(300000); i < count; i++) {
        if (i % 100 == 0)
            clock_sync_init(&sync, 0);
        now_ns += (int64_t)rng_below(&rng, (uint64_t)between_powers(&rng, 1, 1e12));
        struct clock_exchange x = {now_ns, any_time(&rng), any_time(&rng), now_ns + (int64_t)rng_below(&rng, NS_PER_S)};
        if (rng_below(&rng, 4) && x.peer_received_ns < INT64_MAX)
            x.peer_sent_ns = x.peer_received_ns + 1;
        clock_sync_asked(&sync, x.sent_ns);
        clock_sync_answered(&sync, &x);
        clock_sync_peer(&sync, any_time(&rng));
        clock_sync_local(&sync, any_time(&rng));
        assert_true(clock_sync_error_ns(&sync, any_time(&rng)) >= 0);
        assert_true(clock_sync_round_trip_ns(&sync) >= 0);
    }
}
