/* test_unsent.c - whose client has taken the least: streams over pairs of sockets, whose other ends the test reads. */
#include "unit/test.h"

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

TEST_WITH(all_that_is_kept_counts, set_up, tear_down) {
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

TEST_WITH(nobody_is_least_alone, set_up, tear_down) {
    assert_null(unsent_least(&home));
    hand(0, 1, 1, 0);
    assert_null(unsent_least(&home));
    hand(1, 1, 1, 1);
    assert_ptr_equal(unsent_least(&home), &answers[0]); /* of two that took nothing, the first */
    assert_ptr_equal(unsent_least(&home), &answers[0]);
}

/* The kernel took all of it, and has it still. */
TEST_WITH(what_waits_in_the_kernel_is_not_taken, set_up, tear_down) {
    hand(0, BYTES, 1, 0);
    hand(1, 100, 1, 1);
    take(1);
    assert_int_equal(unsent_taken(&answers[1]), 100);
    assert_int_equal(unsent_taken(&answers[0]), 0);
    assert_ptr_equal(unsent_least(&home), &answers[0]);
}

TEST_WITH(who_was_fast_once_and_stalls_is_the_least_soon, set_up, tear_down) {
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

TEST_WITH(of_many_others_are_looked_at_each_time, set_up, tear_down) {
    for (int i = 0; i <= UNSENT_LOOKED_AT; i++) {
        list_init(&answers[i].link);
        answers[i].stream = &streams[0];
        unsent_keep(&home, &answers[i], 1, 1 - (i == UNSENT_LOOKED_AT));
    }
    assert_ptr_equal(unsent_least(&home), &answers[0]);
    assert_ptr_equal(unsent_least(&home), &answers[UNSENT_LOOKED_AT]);
}
