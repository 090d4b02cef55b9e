/* test_acceptor.c - connections taken, refused, and waited with. */
#include "unit/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/util/counter.h"
#include "core/util/time.h"
#include "front/bulk/inbox.h"
#include "front/net/acceptor.h"
#include "front/net/listen.h"
#include "unit/loopback.h"

static int epoll_fd;
static struct acceptor acceptor;
static int tcp_port;
static char mark;

static void set_up_with(uint32_t connections_max, uint32_t per_address) {
    struct frontend_config config = {.connections_max = connections_max, .connections_per_address = per_address};
    struct sy_error err;
    epoll_fd = epoll_create1(0);
    assert_int_equal(listen_open("127.0.0.1", 0, "HTTP", &config.listen_fd, &tcp_port, &err), 0);
    assert_int_equal(acceptor_init(&acceptor, epoll_fd, &config, &mark, &err), 0);
    close(config.listen_fd);
    acceptor_look(&acceptor, 0);
}

static int tear_down(void **state) {
    acceptor_destroy(&acceptor);
    close(epoll_fd);
    return 0;
}

static bool told(void) {
    struct epoll_event event;
    return epoll_wait(epoll_fd, &event, 1, 0) == 1;
}

TEST_WITH(as_many_as_there_may_be, NULL, tear_down) {
    struct peer_address peer;
    int clients[3 + CONNECTIONS_SPARE], taken[2 + CONNECTIONS_SPARE];
    set_up_with(2, 0);
    for (unsigned i = 0; i < ARRAY_COUNT(clients); i++)
        clients[i] = loopback_connect(tcp_port);
    for (unsigned i = 0; i < ARRAY_COUNT(taken); i++) {
        assert_true((taken[i] = acceptor_next(&acceptor, &peer, 0)) >= 0);
        assert_int_equal(acceptor_crowded(&acceptor), i >= 2);
    }
    assert_int_equal(acceptor_next(&acceptor, &peer, 0), -1);
    assert_int_equal(acceptor_connections(&acceptor), ARRAY_COUNT(taken));
    acceptor_look(&acceptor, 0);
    assert_false(told()); /* the last waits, and is not told of */
    close(taken[0]);
    acceptor_ended(&acceptor, &peer);
    acceptor_look(&acceptor, 0);
    assert_true(told());
    assert_true((taken[0] = acceptor_next(&acceptor, &peer, 0)) >= 0);
    for (unsigned i = 0; i < ARRAY_COUNT(clients); i++)
        close(clients[i]);
    for (unsigned i = 0; i < ARRAY_COUNT(taken); i++)
        close(taken[i]);
}

TEST_WITH(so_many_of_an_address, NULL, tear_down) {
    struct peer_address peer;
    char byte;
    int clients[2], taken;
    set_up_with(10, 1);
    clients[0] = loopback_connect(tcp_port);
    clients[1] = loopback_connect(tcp_port);
    assert_true((taken = acceptor_next(&acceptor, &peer, 0)) >= 0);
    assert_int_equal(acceptor_next(&acceptor, &peer, 0), -1);
    assert_int_equal(recv(clients[1], &byte, 1, 0), 0); /* closed at once */
    acceptor_ended(&acceptor, &peer);
    close(clients[0]);
    close(clients[1]);
    close(taken);
}

/* ---- a group of two, which have the same listening socket ---- */

static struct acceptor other;
static struct acceptor_group group;
static struct inbox inboxes[2];
static _Atomic uint32_t in_flight[2];

static void group_set_up(uint32_t connections_max, uint32_t per_address) {
    struct frontend_config config = {
        .connections_max = connections_max, .connections_per_address = per_address, .group = &group};
    struct sy_error err;
    assert_int_equal(acceptor_group_init(&group, 2 * connections_max, per_address), 0);
    epoll_fd = epoll_create1(0);
    assert_int_equal(listen_open("127.0.0.1", 0, "HTTP", &config.listen_fd, &tcp_port, &err), 0);
    struct acceptor *members[] = {&acceptor, &other};
    for (uint32_t i = 0; i < 2; i++) {
        atomic_store(&in_flight[i], 0);
        assert_int_equal(inbox_open(&inboxes[i]), 0);
        assert_int_equal(acceptor_init(members[i], epoll_fd, &config, &mark, &err), 0);
    }
    close(config.listen_fd);
}

static void group_join(void) {
    acceptor_join(&acceptor, 0, &inboxes[0], &in_flight[0]);
    acceptor_join(&other, 1, &inboxes[1], &in_flight[1]);
}

static int group_tear_down(void **state) {
    acceptor_destroy(&other);
    inbox_close(&inboxes[0]);
    inbox_close(&inboxes[1]);
    tear_down(state);
    acceptor_group_destroy(&group);
    return 0;
}

/* So many clients connect, and the first member accepts what it keeps. How many those are. */
static uint32_t accepted(int *clients, uint32_t count) {
    struct peer_address peer;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        clients[i] = loopback_connect(tcp_port);
    for (int fd; (fd = acceptor_next(&acceptor, &peer, 0)) >= 0; kept++)
        close(fd);
    return kept;
}

static uint32_t given(void) {
    struct peer_address peer;
    uint32_t count = 0;
    for (int fd; (fd = acceptor_given(&other, &peer)) >= 0; count++)
        close(fd);
    return count;
}

static void clients_close(const int *clients, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        close(clients[i]);
}

TEST_WITH(connections_are_shared_evenly, NULL, group_tear_down) {
    int clients[20];
    uint64_t woken;
    group_set_up(100, 0);
    assert_int_equal(accepted(clients, 3), 3); /* the other one does not serve yet */
    clients_close(clients, 3);
    group_join();
    assert_int_equal(accepted(clients, 9), 3); /* 6 and 6 now */
    assert_int_equal(read(inboxes[1].wake_fd, &woken, sizeof(woken)), sizeof(woken));
    assert_int_equal(given(), 6);
    assert_int_equal(acceptor_connections(&other), 6);
    clients_close(clients, 9);
    atomic_store(&in_flight[1], 10); /* it has few connections, but one of them asks for much */
    assert_int_equal(accepted(clients, 10), 10);
    assert_int_equal(given(), 0);
    assert_int_equal(acceptor_connections(&acceptor), 16);
    clients_close(clients, 10);
    acceptor_keep(&acceptor);
    atomic_store(&in_flight[1], 0);
    assert_int_equal(accepted(clients, 2), 2);
    clients_close(clients, 2);
}

/* Who is busy gives to who is busy for less than half of that, and what is given counts once. */
TEST_WITH(a_busy_one_gives_to_an_idler_one, NULL, group_tear_down) {
    struct peer_address peer;
    int clients[4];
    group_set_up(100, 3);
    assert_null(acceptor_idler(&acceptor, 100)); /* the other one does not serve yet */
    group_join();
    assert_null(acceptor_idler(&acceptor, 59));
    assert_ptr_equal(acceptor_idler(&acceptor, 60), &other); /* it has no connections: it sleeps, and says nothing */
    assert_int_equal(accepted(clients, 2), 1);
    assert_int_equal(given(), 1);
    assert_null(acceptor_idler(&other, 45));
    assert_null(acceptor_idler(&acceptor, 90));
    assert_ptr_equal(acceptor_idler(&acceptor, 92), &other);
    assert_null(acceptor_idler(&other, 100));
    int fd = dup(clients[0]);
    peer = (struct peer_address){.bytes = {127, 0, 0, 1}};
    clients[2] = loopback_connect(tcp_port);
    int taken = acceptor_next(&acceptor, &peer, 0);
    assert_int_equal(acceptor_connections(&acceptor), 2);
    acceptor_move(&acceptor, &other, fd, &peer);
    assert_int_equal(acceptor_connections(&acceptor), 1);
    assert_int_equal(acceptor_given(&other, &peer), fd);
    assert_int_equal(acceptor_connections(&other), 2);
    clients[3] = loopback_connect(tcp_port); /* the address has as many as it may */
    assert_int_equal(acceptor_next(&acceptor, &peer, 0), -1);
    close(fd);
    close(taken);
    acceptor_ended(&other, &peer);
    close(clients[3]);
    clients[3] = loopback_connect(tcp_port);
    assert_int_equal(accepted(clients, 0) + given(), 1);
    acceptor_keep(&acceptor);
    assert_null(acceptor_idler(&acceptor, 100));
    clients_close(clients, 4);
}

TEST_WITH(whoever_has_room_gets_them, NULL, group_tear_down) {
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct peer_address peer = peer_of((const struct sockaddr *)&at);
    int clients[5], another;
    group_set_up(2, 0);
    group_join();
    atomic_store(&in_flight[1], 100);
    assert_int_equal(accepted(clients, 5), 3); /* both are full: one more than there should be */
    assert_true(acceptor_crowded(&acceptor));
    assert_int_equal(given(), 2);
    assert_false(acceptor_crowded(&other));
    acceptor_ended(&other, &peer);
    another = loopback_connect(tcp_port);
    acceptor_look(&acceptor, 0);
    assert_true(told());
    assert_int_equal(acceptor_next(&acceptor, &peer, 0), -1); /* it accepts for the other */
    assert_int_equal(given(), 1);
    clients_close(clients, 5);
    close(another);
}

/* Wherever they are served. */
TEST_WITH(an_address_has_so_many_of_all, NULL, group_tear_down) {
    int clients[4];
    group_set_up(100, 3);
    group_join();
    assert_int_equal(accepted(clients, 4), 2);
    assert_int_equal(given(), 1);
    clients_close(clients, 4);
}

/* What was given to somebody who ends is closed. */
TEST_WITH(what_nobody_takes_is_closed, NULL, group_tear_down) {
    char byte;
    int client;
    group_set_up(100, 0);
    group_join();
    atomic_store(&in_flight[0], 1);
    assert_int_equal(accepted(&client, 1), 0);
    acceptor_destroy(&other);
    assert_int_equal(recv(client, &byte, 1, 0), 0);
    close(client);
}

/* A listening socket stays readable while there is no descriptor: who watches it spins. */
TEST_WITH(without_descriptors_it_rests, NULL, tear_down) {
    struct rlimit files, few;
    struct peer_address peer;
    set_up_with(10, 0);
    int client = loopback_connect(tcp_port), highest = dup(client);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = (struct rlimit){(rlim_t)highest + 1, files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_true(told());
    assert_int_equal(acceptor_next(&acceptor, &peer, 5), -1);
    assert_int_equal(counter_get(&acceptor.paused), 1);
    acceptor_look(&acceptor, 5);
    assert_false(told());
    acceptor_look(&acceptor, 5 + ACCEPTOR_PAUSE_MS * NS_PER_MS - 1);
    assert_false(told());
    acceptor_look(&acceptor, 5 + ACCEPTOR_PAUSE_MS * NS_PER_MS);
    assert_true(told()); /* it tries again */
    assert_int_equal(acceptor_next(&acceptor, &peer, NS_PER_S), -1);
    acceptor_look(&acceptor, NS_PER_S);
    assert_false(told());
    acceptor_begun(&acceptor, &peer);
    close(highest);
    acceptor_ended(&acceptor, &peer); /* one of its own has ended: there is room */
    acceptor_look(&acceptor, NS_PER_S);
    assert_true(told());
    int taken = acceptor_next(&acceptor, &peer, NS_PER_S);
    assert_true(taken >= 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    close(taken);
    close(client);
}

/* Nor for another reason: a filter of system calls, a firewall; here the socket no longer listens. */
TEST_WITH(where_the_kernel_refuses_it_rests, NULL, tear_down) {
    struct peer_address peer;
    set_up_with(10, 0);
    assert_int_equal(acceptor_next(&acceptor, &peer, 5), -1);
    assert_int_equal(counter_get(&acceptor.paused), 0); /* nobody comes, and that is all */
    assert_int_equal(shutdown(acceptor.fd, SHUT_RDWR), 0);
    assert_true(told());
    assert_int_equal(acceptor_next(&acceptor, &peer, 5), -1);
    assert_int_equal(counter_get(&acceptor.paused), 1);
    acceptor_look(&acceptor, 5);
    assert_false(told());
}

/* What is divided among them, the memory for inputs and the connections, is enough for each. */
TEST_WITH(what_the_kernel_will_not_watch_is_tried_again, NULL, tear_down) {
    struct peer_address peer;
    set_up_with(8, 0);
    acceptor.watched = false;
    acceptor.epoll_fd = -1;
    acceptor_look(&acceptor, 0);
    assert_false(acceptor.watched);
    assert_int_equal(counter_get(&acceptor.paused), 1);
    assert_true(acceptor.paused_until_ns > 0); /* for which the frontend's thread wakes */
    acceptor.epoll_fd = epoll_create1(0);
    acceptor_look(&acceptor, acceptor.paused_until_ns);
    int client = loopback_connect(tcp_port), fd;
    struct epoll_event event;
    assert_int_equal(epoll_wait(acceptor.epoll_fd, &event, 1, -1), 1);
    assert_true((fd = acceptor_next(&acceptor, &peer, 0)) >= 0);
    close(fd);
    close(client);
    close(acceptor.epoll_fd);
}

TEST(as_many_frontends_as_cores_are_left) {
    const struct {
        uint32_t cores, others, connections_max;
        uint64_t inputs_mib, body_mib;
        uint32_t expected;
    } rows[] = {
        {1, 2, 10000, 1024, 64, 1},  {2, 2, 10000, 1024, 64, 1}, {3, 2, 10000, 1024, 64, 1},
        {4, 2, 10000, 1024, 64, 2},  {6, 2, 10000, 1024, 64, 4}, {32, 2, 10000, 1024, 64, 4},
        {32, 2, 10000, 2048, 64, 8}, {32, 2, 10000, 8, 64, 1},   {32, 2, 10000, 65536, 1, 30},
        {32, 2, 1000, 65536, 1, 3},  {32, 2, 8, 65536, 1, 1},    {200, 2, 1000000, 65536, 1, FRONTENDS_MAX},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++)
        assert_int_equal(
            frontends_for(rows[i].cores, rows[i].others, rows[i].inputs_mib, rows[i].body_mib, rows[i].connections_max),
            rows[i].expected);
}

/* The process has one limit of open files, whatever frontends there are. */
TEST(frontends_share_the_limit_of_open_files) {
    struct rlimit files, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = (struct rlimit){1256, 1256};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const struct {
        uint32_t frontends, wanted, expected;
    } rows[] = {{0, 0, 992}, {1, 0, 992}, {2, 0, 492}, {8, 0, 117}, {8, 100, 100}, {500, 100, 16}};
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        struct frontend_config config = {.frontends = rows[i].frontends, .connections_max = rows[i].wanted};
        assert_int_equal(frontend_config_completed(&config).connections_max, rows[i].expected);
    }
}
