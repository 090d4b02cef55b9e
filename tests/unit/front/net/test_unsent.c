/* test_unsent.c - whose client has taken the least: streams over pairs of sockets, whose other ends the test reads. */
#include "unit/cmocka_all.h"

#include <sys/socket.h>
#include <unistd.h>

#include "front/net/unsent.h"

#define CLIENTS 4
#define BYTES   ((size_t)16 * 1024)

static struct unsent_home home;
static struct unsent answers[UNSENT_LOOKED_AT + 1];
static struct stream streams[CLIENTS];
static int clients[CLIENTS];

static int set_up(void **state) {
    (void)state;
    memset(answers, 0, sizeof(answers));
    list_init(&home.list);
    home.bytes = 0;
    for (int i = 0; i < CLIENTS; i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        streams[i] = (struct stream){.fd = ends[0]};
        clients[i] = ends[1];
        list_init(&answers[i].link);
        answers[i].stream = &streams[i];
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        close(streams[i].fd);
        close(clients[i]);
    }
    return 0;
}

/* The server sends so many bytes, and keeps some. */
static void hand(int i, size_t bytes, uint64_t kept, int64_t now_ns) {
    static char data[BYTES];
    assert_int_equal(send(streams[i].fd, data, bytes, 0), (ssize_t)bytes);
    answers[i].handed += bytes;
    unsent_keep(&home, &answers[i], kept, now_ns);
}

static void take(int i) {
    char data[BYTES];
    while (recv(clients[i], data, sizeof(data), 0) > 0) {
    }
}

static void all_that_is_kept_counts(void **state) {
    (void)state;
    hand(0, 1, 100, 0);
    hand(1, 1, 50, 0);
    assert_int_equal(home.bytes, 150);
    hand(0, 1, 20, 0);
    assert_int_equal(home.bytes, 70);
    unsent_keep(&home, &answers[0], 0, 0);
    unsent_keep(&home, &answers[1], 0, 0);
    assert_int_equal(home.bytes, 0);
    assert_true(list_empty(&home.list));
}

static void nobody_is_least_alone(void **state) {
    (void)state;
    assert_null(unsent_least(&home));
    hand(0, 1, 1, 0);
    assert_null(unsent_least(&home));
    hand(1, 1, 1, 1);
    assert_ptr_equal(unsent_least(&home), &answers[0]); /* of two that took nothing, the first */
    assert_ptr_equal(unsent_least(&home), &answers[0]);
}

/* The kernel took all of it, and has it still. */
static void what_waits_in_the_kernel_is_not_taken(void **state) {
    (void)state;
    hand(0, BYTES, 1, 0);
    hand(1, 100, 1, 1);
    take(1);
    assert_int_equal(unsent_taken(&answers[1]), 100);
    assert_int_equal(unsent_taken(&answers[0]), 0);
    assert_ptr_equal(unsent_least(&home), &answers[0]);
}

static void who_was_fast_once_and_stalls_is_the_least_soon(void **state) {
    (void)state;
    hand(0, 10000, 1, 1);
    hand(1, 100, 1, 0);
    take(0);
    take(1);
    unsent_look(&home);
    assert_ptr_equal(unsent_least(&home), &answers[1]);
    for (int second = 0; second < 10; second++) {
        hand(1, 100, 1, 0);
        take(1);
        unsent_look(&home);
    }
    assert_ptr_equal(unsent_least(&home), &answers[0]);
}

static void of_many_others_are_looked_at_each_time(void **state) {
    (void)state;
    for (int i = 0; i <= UNSENT_LOOKED_AT; i++) {
        list_init(&answers[i].link);
        answers[i].stream = &streams[0];
        unsent_keep(&home, &answers[i], 1, 1 - (i == UNSENT_LOOKED_AT));
    }
    assert_ptr_equal(unsent_least(&home), &answers[0]);
    assert_ptr_equal(unsent_least(&home), &answers[UNSENT_LOOKED_AT]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(all_that_is_kept_counts),
        TEST(nobody_is_least_alone),
        TEST(what_waits_in_the_kernel_is_not_taken),
        TEST(who_was_fast_once_and_stalls_is_the_least_soon),
        TEST(of_many_others_are_looked_at_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
