/* test_link_loop.c - two loops of one thread: what they send each other, who takes their turns, how one ends;
 * what a loop does that may open no more files. */
/* Starts threads. */
#include "cluster/peer/link_loop.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "unit/test.h"

/* A loop that answers each PING with a PONG, and pings when it is told to. */
struct side {
    struct link_loop loop;
    struct doorbell bell;
    struct peer peer; /* of the guest: the connection; of the host: what it has accepted */
    bool open;
    _Atomic uint32_t wanted; /* pings to send */
    uint32_t sent;
    pthread_t lender; /* the test's thread, which lends itself */
    _Atomic uint32_t pings, pongs, closes, buried, lent_turns, told, told_by_lender;
};

static int frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct side *side = peer->owner;
    (void)err;
    if (frame->kind == FRAME_TOLD) {
        atomic_fetch_add(&side->told, 1);
        atomic_fetch_add(&side->told_by_lender, pthread_equal(pthread_self(), side->lender) != 0);
        return 0;
    }
    if (frame->kind == FRAME_PONG) {
        atomic_fetch_add(&side->pongs, 1);
        return 0;
    }
    atomic_fetch_add(&side->pings, 1);
    peer_send(peer, FRAME_PONG, 1, head, frame->head_bytes);
    return 0;
}

static void closed(struct peer *peer, const char *reason) {
    struct side *side = peer->owner;
    (void)reason;
    atomic_fetch_add(&side->closes, 1);
    link_loop_drop(&side->loop, peer);
}

static const struct peer_events events = {.frame = frame, .closed = closed};

static int64_t turn(void *owner, int64_t now_ns) {
    struct side *side = owner;
    (void)now_ns;
    atomic_fetch_add(&side->lent_turns, side->loop.lent);
    if (side->loop.host && !side->open)
        side->open = link_loop_meet(&side->loop, &side->peer, &events, side) == 0;
    struct wire_ping ping = {.sent_ns = 1};
    for (; side->open && side->sent < atomic_load(&side->wanted); side->sent++) {
        if (side->sent % 2)
            peer_send(&side->peer, FRAME_TOLD, 1, NULL, 0);
        peer_send(&side->peer, FRAME_PING, 1, &ping, sizeof(ping));
    }
    return INT64_MAX;
}

static bool pending(void *owner) {
    struct side *side = owner;
    return side->open && side->sent < atomic_load(&side->wanted);
}

static void accepted(void *owner, int fd, const char *from) {
    struct side *side = owner;
    assert_string_equal(from, "local");
    assert_int_equal(link_loop_add(&side->loop, &side->peer, fd, false, &events, side), 0);
    peer_welcome(&side->peer);
    side->open = true;
}

static void bury(void *owner, struct peer *peer) {
    struct side *side = owner;
    assert_ptr_equal(peer, &side->peer);
    atomic_fetch_add(&side->buried, 1);
    side->open = false;
}

static const struct link_loop_ops ops = {turn, pending, accepted, bury};

#define UNTIL(condition)                                                                                               \
    for (int64_t until_ns_ = clock_now_ns() + 600 * NS_PER_S; !(condition); poll(NULL, 0, 1))                          \
    assert_true(clock_now_ns() < until_ns_)

static struct side *host_start(void) {
    struct side *host = calloc(1, sizeof(*host));
    struct sy_error err;
    host->lender = pthread_self();
    assert_int_equal(doorbell_init(&host->bell, true, false), 0);
    assert_int_equal(link_loop_init(&host->loop, &ops, host, &host->bell, -1, NULL, &err), 0);
    assert_int_equal(link_loop_start(&host->loop, "link", &err), 0);
    return host;
}

static struct side *guest_start(struct side *host) {
    struct side *guest = calloc(1, sizeof(*guest));
    struct sy_error err;
    guest->lender = pthread_self();
    assert_int_equal(link_loop_init_guest(&guest->loop, &ops, guest, &host->loop, &err), 0);
    char name[40]; /* the machine may run this test twice at once */
    snprintf(name, sizeof(name), "symphony-test-%d", (int)getpid());
    assert_int_equal(link_loop_listen_local(&guest->loop, name), 0);
    assert_int_equal(link_loop_start(&guest->loop, "link", &err), 0);
    return guest;
}

static void host_end(struct side *host) {
    link_loop_stop(&host->loop);
    doorbell_destroy(&host->bell);
    free(host);
}

/* Frames go both ways, whether the thread has the turns or lends them, and none by a socket. Those about models are
 * read by the thread itself, also if others come before and after them. */
TEST(a_guest_and_its_host_meet_in_memory) {
    struct side *host = host_start(), *guest = guest_start(host);
    for (uint32_t n = 1; n <= 2000; n++) {
        atomic_store(n % 3 ? &guest->wanted : &host->wanted, n);
        doorbell_ring_or_help(&host->bell, true);
        UNTIL(atomic_load(n % 3 ? &host->pings : &guest->pings) == n);
        UNTIL(atomic_load(n % 3 ? &guest->pongs : &host->pongs) == n);
    }
    assert_int_equal(atomic_load(&host->loop.counts.sends) + atomic_load(&host->loop.counts.reads), 0);
    assert_int_equal(atomic_load(&guest->loop.counts.sends) + atomic_load(&guest->loop.counts.reads), 0);
    assert_int_not_equal(atomic_load(&guest->lent_turns), 0);
    assert_int_not_equal(atomic_load(&host->lent_turns), 0);
    assert_int_not_equal(atomic_load(&guest->told), 0);
    assert_int_not_equal(atomic_load(&host->told), 0);
    assert_int_equal(atomic_load(&host->told_by_lender) + atomic_load(&guest->told_by_lender), 0);
    link_loop_stop(&guest->loop);
    UNTIL(atomic_load(&host->buried) == 1);
    host_end(host);
    free(guest);
}

/* A guest that ends leaves nothing behind: the host goes on, and has the next guest. */
TEST(guests_come_and_go) {
    struct side *host = host_start();
    for (uint32_t n = 1; n <= 20; n++) {
        struct side *guest = guest_start(host);
        atomic_store(&guest->wanted, n);
        doorbell_ring_or_help(&host->bell, n % 2);
        if (n % 4)
            UNTIL(atomic_load(&guest->pongs) == n);
        link_loop_stop(&guest->loop);
        uint32_t met = atomic_load(&guest->buried);
        free(guest);
        UNTIL(atomic_load(&host->buried) == n);
        assert_int_equal(met, 1);
    }
    host_end(host);
}

static void counted(void *owner, int fd, const char *from) {
    struct side *side = owner;
    (void)from;
    atomic_fetch_add(&side->pings, 1);
    close(fd);
}

/* Then who connects waits: the thread sleeps meanwhile, and accepts them once it may. */
TEST(who_connects_when_no_file_is_left_waits) {
    static const struct link_loop_ops counting = {turn, pending, counted, bury};
    struct side *side = calloc(1, sizeof(*side));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    struct epoll_event ready;
    struct rlimit files, none;
    struct sy_error err;
    int listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), clients[3];
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&at, bytes), 0);
    assert_int_equal(listen(listen_fd, SOMAXCONN), 0);
    assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&at, &bytes), 0);
    assert_int_equal(doorbell_init(&side->bell, true, false), 0);
    assert_int_equal(link_loop_init(&side->loop, &counting, side, &side->bell, listen_fd, NULL, &err), 0);
    for (int i = 0; i < 3; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(clients[i], (struct sockaddr *)&at, bytes), 0);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = files.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    link_loop_turn(&side->loop, true);
    assert_int_equal(epoll_wait(side->loop.epoll_fd, &ready, 1, 0), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(atomic_load(&side->pings), 0);
    while (atomic_load(&side->pings) < 3)
        link_loop_turn(&side->loop, true);
    for (int i = 0; i < 3; i++)
        close(clients[i]);
    link_loop_stop(&side->loop);
    doorbell_destroy(&side->bell);
    free(side);
}
