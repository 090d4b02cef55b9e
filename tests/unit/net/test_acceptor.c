/* test_acceptor.c - connections taken, refused, and waited with. */
#include "unit/cmocka_all.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/time.h"
#include "net/acceptor.h"
#include "net/listen.h"

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
    (void)state;
    acceptor_destroy(&acceptor);
    close(epoll_fd);
    return 0;
}

static int client_connect(void) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)tcp_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static bool told(void) {
    struct epoll_event event;
    return epoll_wait(epoll_fd, &event, 1, 0) == 1;
}

static void as_many_as_there_may_be(void **state) {
    struct peer_address peer;
    int clients[3 + CONNECTIONS_SPARE], taken[2 + CONNECTIONS_SPARE];
    (void)state;
    set_up_with(2, 0);
    for (unsigned i = 0; i < ARRAY_COUNT(clients); i++)
        clients[i] = client_connect();
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

/* While another frontend of the port has room, that one is to accept. */
static void one_more_than_there_should_be_is_for_who_has_room(void **state) {
    struct peer_address peer;
    _Atomic uint32_t with_room = 1; /* the other */
    (void)state;
    set_up_with(1, 0);
    acceptor_destroy(&acceptor);
    struct frontend_config config = {.connections_max = 1, .with_room = &with_room};
    assert_int_equal(listen_open("127.0.0.1", 0, "HTTP", &config.listen_fd, &tcp_port, NULL), 0);
    assert_int_equal(acceptor_init(&acceptor, epoll_fd, &config, &mark, NULL), 0);
    close(config.listen_fd);
    assert_int_equal(atomic_load(&with_room), 2);
    int clients[2] = {client_connect(), client_connect()}, taken[2];
    assert_true((taken[0] = acceptor_next(&acceptor, &peer, 0)) >= 0);
    assert_int_equal(atomic_load(&with_room), 1);
    assert_int_equal(acceptor_next(&acceptor, &peer, 0), -1);
    acceptor_look(&acceptor, 0);
    assert_false(told());
    atomic_store(&with_room, 0);
    acceptor_look(&acceptor, 0);
    assert_true(told());
    assert_true((taken[1] = acceptor_next(&acceptor, &peer, 0)) >= 0);
    for (int i = 0; i < 2; i++) {
        close(taken[i]);
        acceptor_ended(&acceptor, &peer);
        close(clients[i]);
    }
    assert_int_equal(atomic_load(&with_room), 1);
}

static void so_many_of_an_address(void **state) {
    struct peer_address peer;
    char byte;
    int clients[2], taken;
    (void)state;
    set_up_with(10, 1);
    clients[0] = client_connect();
    clients[1] = client_connect();
    assert_true((taken = acceptor_next(&acceptor, &peer, 0)) >= 0);
    assert_int_equal(acceptor_next(&acceptor, &peer, 0), -1);
    assert_int_equal(recv(clients[1], &byte, 1, 0), 0); /* closed at once */
    acceptor_ended(&acceptor, &peer);
    close(clients[0]);
    close(clients[1]);
    close(taken);
}

/* A listening socket stays readable while there is no descriptor: who watches it spins. */
static void without_descriptors_it_rests(void **state) {
    struct rlimit files, few;
    struct peer_address peer;
    (void)state;
    set_up_with(10, 0);
    int client = client_connect(), highest = dup(client);
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

/* The process has one limit of open files, whatever frontends there are. */
static void frontends_share_the_limit_of_open_files(void **state) {
    struct rlimit files, few;
    (void)state;
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

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(as_many_as_there_may_be),
        TEST(one_more_than_there_should_be_is_for_who_has_room),
        TEST(so_many_of_an_address),
        TEST(without_descriptors_it_rests),
        cmocka_unit_test(frontends_share_the_limit_of_open_files), /* the last: it cannot be raised again */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
