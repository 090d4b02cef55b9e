/* test_uplink.c - which scheduler a member tries when, what it takes for one, and how it leaves. The schedulers are two
 * sockets that the test listens at; the time is the test's own. */
#include "cluster/roles/uplink.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "front/net/listen.h"
#include "unit/test.h"

#define BEAT_NS (100 * NS_PER_S) /* so that the time that really passes does not matter */
#define STEP_NS NS_PER_S         /* longer than it takes before it tries again at first */
#define TERM    5

struct world {
    struct link_loop loop;
    struct doorbell bell;
    struct uplink uplink;
    int64_t now_ns, until_ns;
    int listen_fds[2];
    char addresses[2][32];
    /* the scheduler's end of the connection */
    struct peer far;
    bool far_open;
    struct hello hello;
    uint32_t hellos, byes;
    /* what the member is told */
    struct hello welcome;
    uint32_t ups, downs, frames;
};

static void up(void *context, const struct hello *welcome) {
    struct world *w = context;
    w->welcome = *welcome;
    w->ups++;
}

static int frame(void *context, const struct frame *frame, const void *head, struct sy_error *err) {
    (void)frame, (void)head, (void)err;
    ((struct world *)context)->frames++;
    return 0;
}

static void down(void *context) {
    ((struct world *)context)->downs++;
}

static const struct uplink_ops ops = {up, frame, down};

static int far_frame(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct world *w = peer->owner;
    w->byes += frame->kind == FRAME_BYE;
    if (frame->kind != FRAME_HELLO)
        return 0;
    w->hellos++;
    peer_welcome(peer);
    return hello_read(head, frame->head_bytes, &w->hello, err);
}

static void far_close(struct world *w) {
    if (w->far_open)
        link_loop_drop(&w->loop, &w->far);
    w->far_open = false;
}

static void far_closed(struct peer *peer, const char *reason) {
    (void)reason;
    far_close(peer->owner);
}

static const struct peer_events far_events = {.frame = far_frame, .closed = far_closed};

static int64_t turn(void *owner, int64_t now_ns) {
    (void)owner, (void)now_ns;
    return TIME_NEVER;
}

static bool pending(void *owner) {
    (void)owner;
    return false;
}

static void bury(void *owner, struct peer *peer) {
    uplink_buries(&((struct world *)owner)->uplink, peer);
}

static int set_up(void **state) {
    static const struct link_loop_ops loop_ops = {turn, pending, NULL, bury};
    struct world *w = calloc(1, sizeof(*w));
    struct hello self = {.role = ROLE_BACKEND, .incarnation = 7, .term = TERM, .name = "me", .version = "test"};
    struct sy_error err = {""};
    const char *schedulers[2];
    w->now_ns = clock_now_ns();
    assert_int_equal(doorbell_init(&w->bell, true, false), 0);
    assert_int_equal(link_loop_init(&w->loop, &loop_ops, w, &w->bell, -1, NULL, &err), 0);
    for (int i = 0; i < 2; i++) {
        int port;
        assert_int_equal(listen_open("127.0.0.1", 0, "test", &w->listen_fds[i], &port, &err), 0);
        snprintf(w->addresses[i], sizeof(w->addresses[i]), "127.0.0.1:%d", port);
        schedulers[i] = w->addresses[i];
    }
    hello_formats(&self);
    const struct uplink_config config = {schedulers, 2, NULL, &self, BEAT_NS};
    assert_int_equal(uplink_init(&w->uplink, &w->loop, &config, &ops, w, &err), 0);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;
    link_loop_stop(&w->loop);
    uplink_destroy(&w->uplink);
    for (int i = 0; i < 2; i++)
        if (w->listen_fds[i] >= 0)
            close(w->listen_fds[i]);
    doorbell_destroy(&w->bell);
    free(w);
    return 0;
}

/* A look so much later. */
static void look(struct world *w, int64_t after_ns) {
    w->now_ns += after_ns;
    w->until_ns = TIME_NEVER;
    uplink_look(&w->uplink, w->now_ns, &w->until_ns);
}

/* Frees what was closed. */
static void tidy(struct world *w) {
    link_loop_turn(&w->loop, false);
}

/* The scheduler that it is connecting or connected to; -1: none. */
static int at(const struct world *w) {
    for (int i = 0; i < 2; i++)
        if (w->uplink.open && !w->uplink.peer.closed && strcmp(w->uplink.peer.name, w->addresses[i]) == 0)
            return i;
    return -1;
}

/* Of this end. */
static in_port_t port_of(int fd) {
    struct sockaddr_in address = {.sin_port = 0};
    socklen_t bytes = sizeof(address);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    return address.sin_port;
}

/* The scheduler there takes the connection, and waits until it has been greeted. */
static void meet(struct world *w, int scheduler) {
    in_port_t port = port_of(w->uplink.peer.fd);
    struct pollfd comes = {.fd = w->listen_fds[scheduler], .events = POLLIN};
    int fd;
    for (;;) { /* connections of earlier tries may be in front of it */
        assert_int_equal(poll(&comes, 1, 60000), 1);
        fd = accept4(comes.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        assert_true(fd >= 0);
        struct sockaddr_in from;
        socklen_t bytes = sizeof(from);
        if (getpeername(fd, (struct sockaddr *)&from, &bytes) == 0 && from.sin_port == port)
            break;
        close(fd);
    }
    w->hellos = 0;
    assert_int_equal(link_loop_add(&w->loop, &w->far, fd, false, &far_events, w), 0);
    w->far_open = true;
    while (!w->hellos)
        link_loop_turn(&w->loop, true);
}

static void welcome(struct world *w, enum cluster_role role, uint64_t term) {
    struct hello answer = {.role = role, .incarnation = 9, .term = term, .number = 3, .version = "test"};
    hello_formats(&answer);
    hello_send(&w->far, FRAME_WELCOME, &answer);
}

static void join(struct world *w) {
    look(w, STEP_NS);
    meet(w, at(w));
    welcome(w, ROLE_SCHEDULER, TERM);
    while (!w->uplink.up)
        link_loop_turn(&w->loop, true);
}

static int schedulers_set(struct uplink *u, const char *const *schedulers, uint32_t count, struct sy_error *err) {
    const struct hello self = {.role = ROLE_BACKEND};
    return uplink_init(u, NULL, &(struct uplink_config){schedulers, count, NULL, &self, BEAT_NS}, &ops, NULL, err);
}

TEST(impossible_schedulers_are_refused) {
    struct uplink u;
    struct sy_error err = {""};
    char longer[HELLO_ADDRESS_MAX + 8];
    const char *name = "host", *many[UPLINK_ADDRESSES_MAX + 1], *too_long = longer;
    assert_int_equal(schedulers_set(&u, &name, 1, &err), -EINVAL);
    for (int i = 0; i <= UPLINK_ADDRESSES_MAX; i++)
        many[i] = "host:1";
    assert_int_equal(schedulers_set(&u, many, UPLINK_ADDRESSES_MAX, &err), 0);
    assert_int_equal(schedulers_set(&u, many, UPLINK_ADDRESSES_MAX + 1, &err), -EINVAL);
    assert_string_equal(err.text, "17 schedulers; 16 may be named");
    snprintf(longer, sizeof(longer), "%0*d:1", HELLO_ADDRESS_MAX, 1);
    assert_int_equal(schedulers_set(&u, &too_long, 1, &err), -EINVAL);
}

TEST_WITH(joins_the_one_that_answers, set_up, tear_down) {
    struct world *w = *state;
    join(w);
    assert_int_equal(w->hello.role, ROLE_BACKEND);
    assert_int_equal(w->hello.incarnation, 7);
    assert_int_equal(w->hello.term, TERM);
    assert_int_equal(w->ups, 1);
    assert_int_equal(w->welcome.number, 3);
    assert_int_equal(w->uplink.self.number, 3); /* it asks for the same one later */
    far_close(w);
    while (!w->downs)
        link_loop_turn(&w->loop, true);
    tidy(w);
    look(w, STEP_NS);
    assert_int_not_equal(at(w), -1);
    assert_int_equal(w->downs, 1);
}

/* Who answers, but leads nothing newer than this process has heard of, or is no scheduler. */
TEST_WITH(others_are_left_and_the_next_one_is_tried, set_up, tear_down) {
    struct world *w = *state;
    for (int i = 0; i < 4; i++) {
        look(w, STEP_NS);
        int first = at(w);
        assert_int_equal(first, i % 2);
        meet(w, first);
        if (i == 0)
            welcome(w, ROLE_SCHEDULER, TERM - 1);
        else if (i == 1)
            welcome(w, ROLE_FRONTEND, TERM);
        else if (i == 2)
            peer_send(&w->far, FRAME_REFUSED, 1, "no", 2);
        else
            peer_send(&w->far, FRAME_TOLD, 0, NULL, 0); /* instead of an introduction */
        while (w->uplink.open)
            link_loop_turn(&w->loop, true);
        far_close(w);
        tidy(w);
        assert_int_equal(w->ups + w->downs + w->frames, 0);
        assert_in_range(w->uplink.retry_ns, w->now_ns, w->now_ns + STEP_NS);
    }
    join(w);
    assert_int_equal(w->ups, 1);
}

/* The log says why no scheduler is reached, and says it again when there is another reason; but not at every try, since
 * one address may give several reasons in turn. */
TEST_WITH(reasons_are_told_once_and_seldom, set_up, tear_down) {
    static const struct {
        const char *says;
        bool late; /* so long after the last line that there may be another one */
        const char *told;
    } cases[] = {
        {"no", true, "no"},       {"never", false, "no"}, {"never", true, "never"},
        {"never", true, "never"}, {"no", true, "no"},
    };
    struct world *w = *state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t before_ns = w->uplink.complain_ns = cases[i].late ? 0 : TIME_NEVER;
        w->uplink.next = 0;
        look(w, STEP_NS);
        meet(w, 0);
        peer_send(&w->far, FRAME_REFUSED, 1, cases[i].says, strlen(cases[i].says));
        while (w->uplink.open)
            link_loop_turn(&w->loop, true);
        far_close(w);
        tidy(w);
        assert_string_equal(w->uplink.places[0].reason, cases[i].told);
        bool is_news = i == 0 || strcmp(cases[i].told, cases[i - 1].told) != 0;
        assert_int_equal(w->uplink.complain_ns != before_ns, is_news);
    }
    w->uplink.next = 0;
    join(w);
    assert_string_equal(w->uplink.places[0].reason, ""); /* the next time it is told again */
}

/* The connection breaks. */
static void broken(struct world *w) {
    shutdown(w->uplink.peer.fd, SHUT_RDWR);
    while (w->uplink.open)
        link_loop_turn(&w->loop, true);
}

TEST_WITH(a_silent_one_is_left_out_for_three_beats, set_up, tear_down) {
    struct world *w = *state;
    look(w, 0);
    assert_int_equal(at(w), 0);
    meet(w, 0);
    w->uplink.peer.heard_ns = w->now_ns - HEALTH_BEATS * BEAT_NS;
    look(w, 0);
    assert_int_equal(at(w), 0);
    look(w, 1);
    assert_int_equal(at(w), -1);
    assert_int_equal(w->uplink.places[0].quiet_ns, w->now_ns + HEALTH_BEATS * BEAT_NS);
    far_close(w);
    for (int i = 0; i < 5; i++) {
        tidy(w);
        look(w, STEP_NS);
        assert_int_equal(at(w), 1);
        broken(w);
    }
    w->uplink.places[0].quiet_ns = w->now_ns + STEP_NS; /* it is over: they take turns again */
    for (int i = 0; i < 4; i++) {
        tidy(w);
        look(w, STEP_NS);
        assert_int_equal(at(w), i % 2);
        broken(w);
    }
}

/* It may be that another scheduler leads in a moment; but not that it takes at once what it has refused. */
TEST_WITH(comes_back_at_once_unless_it_was_refused, set_up, tear_down) {
    struct world *w = *state;
    for (uint32_t i = 0; i < 3; i++) {
        bool refused = i == 1;
        join(w);
        int64_t before_ns = clock_now_ns(), retry_ns = w->uplink.retry_ns;
        if (refused)
            peer_send(&w->far, FRAME_REFUSED, 1, "no", 2);
        else
            far_close(w);
        while (w->uplink.open)
            link_loop_turn(&w->loop, true);
        far_close(w);
        tidy(w);
        assert_int_equal(w->downs, i + 1);
        if (refused)
            assert_in_range(w->uplink.retry_ns, before_ns + 2 * NS_PER_S, clock_now_ns() + 2 * NS_PER_S);
        else
            assert_int_equal(w->uplink.retry_ns, retry_ns); /* as it was when it connected */
        w->now_ns = w->uplink.retry_ns;
    }
}

/* One whose host does not answer: its attempt goes on, while the other one is tried. */
TEST_WITH(who_does_not_answer_is_put_aside, set_up, tear_down) {
    struct world *w = *state;
    look(w, 0);
    assert_int_equal(at(w), 0);
    int fd = w->uplink.peer.fd;
    in_port_t port = port_of(fd);
    look(w, 19 * NS_PER_MS);
    assert_int_equal(at(w), 0);
    look(w, NS_PER_MS); /* the loop has taken no turn: nothing says that it is connected */
    assert_int_equal(at(w), -1);
    assert_int_equal(w->uplink.places[0].fd, fd);
    tidy(w);
    look(w, NS_PER_MS);
    assert_int_equal(at(w), 1);
    broken(w);
    tidy(w);
    look(w, STEP_NS);
    assert_int_equal(at(w), 0);
    assert_int_equal(port_of(w->uplink.peer.fd), port); /* the same attempt */
    meet(w, 0);
    welcome(w, ROLE_SCHEDULER, TERM);
    while (!w->uplink.up)
        link_loop_turn(&w->loop, true);
}

TEST_WITH(tries_often_at_first_and_seldom_later, set_up, tear_down) {
    struct world *w = *state;
    for (int i = 0; i < 2; i++) {
        close(w->listen_fds[i]);
        w->listen_fds[i] = -1;
    }
    for (int i = 0; i < 202; i++) {
        look(w, 0);
        int64_t retry_ns = w->uplink.retry_ns;
        while (w->uplink.open)
            link_loop_turn(&w->loop, true);
        assert_int_equal(retry_ns - w->now_ns, (i < 200 ? 10 : 250) * NS_PER_MS);
        assert_int_equal(w->uplink.retry_ns, retry_ns);
        look(w, 0);
        assert_false(w->uplink.open);
        assert_int_equal(w->until_ns, retry_ns);
        w->now_ns = retry_ns;
    }
}

TEST_WITH(says_good_bye_and_waits_for_the_end, set_up, tear_down) {
    struct world *w = *state;
    join(w);
    atomic_store(&w->uplink.leaves, true);
    look(w, 0);
    look(w, 0);
    assert_false(atomic_load(&w->uplink.left));
    while (!w->byes)
        link_loop_turn(&w->loop, true);
    far_close(w);
    while (w->uplink.open)
        link_loop_turn(&w->loop, true);
    look(w, STEP_NS);
    assert_true(atomic_load(&w->uplink.left));
    assert_int_equal(at(w), -1); /* and does not come again */
    assert_int_equal(w->byes, 1);
}
