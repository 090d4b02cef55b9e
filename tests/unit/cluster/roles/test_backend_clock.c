/* test_backend_clock.c - a backend pulls nothing from a frontend whose clock it does not know yet: by that clock the
 * frontend says until when a request may run. */
/* Starts threads. */
#include <netinet/in.h>
#include <sys/epoll.h>

#include "core/system/log.h"
#include "unit/cluster/roles/members.h"
#include "unit/test.h"

#define MEMORY      ((size_t)16 << 20)
#define BEHIND_NS   (1000 * NS_PER_S) /* the frontend's clock */
#define HOLD_NS     (5 * NS_PER_MS)   /* it does not answer for so long */
#define DEADLINE_NS (2 * MEMBERS_WAIT_NS)
#define BYTES       8

/* A frontend that is in the test's own hands. One request after the other waits, until one is answered. */
struct frontend {
    struct members_scheduler scheduler;
    struct members_backend member;
    struct hello hello;
    int epoll_fd, listen_fd;
    struct peer uplink, backend;
    struct health health;  /* of the uplink */
    bool in, asks, known;  /* the scheduler has let us in; the backend is connected; and has had an answer to a ping */
    bool silent;           /* pings are never answered */
    struct wire_ping ping; /* which waits for its answer, */
    int64_t answer_ns;     /* until this time; 0: none does */
    uint32_t submission, pulls, early_pulls, lost, results; /* results: from the executor */
    _Atomic int64_t deadline_ns, looked_ns;                 /* as the executor saw them */
};

static void look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    struct frontend *f = context;
    atomic_store(&f->deadline_ns, wiring_card(wiring, plan->handles[0])->deadline_ns);
    atomic_store(&f->looked_ns, clock_now_ns());
}

static uint64_t handle_now(const struct frontend *f) {
    return handle_of(f->hello.number * HELLO_LANES_MAX, 0, f->submission);
}

/* The next request; the one before has ended. */
static void submit(struct frontend *f) {
    int64_t now_ns = clock_now_ns();
    f->submission = submission_next(f->submission);
    struct wire_request *place = peer_frame_more(&f->uplink, FRAME_REQUESTS, sizeof(*place));
    assert_non_null(place);
    *place = (struct wire_request){.handle = handle_now(f),
                                   .arrival_ns = now_ns - BEHIND_NS,
                                   .deadline_ns = now_ns - BEHIND_NS + DEADLINE_NS,
                                   .work = 1,
                                   .items = 1,
                                   .kind = REQUEST_ARRIVED};
}

static int from_scheduler(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct frontend *f = peer->owner;
    enum lost_reason reason;
    if (health_frame(&f->health, peer, frame, head))
        return 0;
    if (frame->kind == FRAME_WELCOME) {
        struct hello answer;
        assert_int_equal(hello_read(head, frame->head_bytes, &answer, err), 0);
        assert_int_equal(hello_agree(&f->hello, &answer, &peer->format, err), 0);
        f->hello.number = answer.number;
        f->in = true;
    }
    for (uint32_t i = 0; frame->kind == FRAME_RESULTS && i < frame->count; i++)
        if (lost_read(&((const struct wire_lost *)head)[i], &reason) == handle_now(f)) {
            f->lost++;
            submit(f);
        }
    return 0;
}

static void card_send(struct frontend *f) {
    static const char body[BYTES];
    struct wire_card *card =
        peer_frame(&f->backend, FRAME_CARD, 1, sizeof(*card) + sizeof(struct card_input), sizeof(body));
    assert_non_null(card);
    *card = (struct wire_card){.handle = handle_now(f),
                               .deadline_ns = clock_now_ns() - BEHIND_NS + DEADLINE_NS,
                               .items = 1,
                               .work = 1,
                               .input_count = 1};
    *(struct card_input *)(card + 1) = (struct card_input){.bytes = BYTES, .dim_count = 2, .dims = {1, BYTES}};
    peer_body(&f->backend, body, sizeof(body), NULL, NULL, 0);
}

static int from_backend(struct peer *peer, const struct frame *frame, const void *head, struct sy_error *err) {
    struct frontend *f = peer->owner;
    const struct wire_ping *ping = head;
    struct hello hello;
    if (frame->kind == FRAME_HELLO) {
        assert_int_equal(hello_read(head, frame->head_bytes, &hello, err), 0);
        assert_int_equal(hello_agree(&f->hello, &hello, &peer->format, err), 0);
        peer_welcome(peer);
        hello_send(peer, FRAME_WELCOME, &f->hello);
    } else if (frame->kind == FRAME_PING && ping->sent_ns && f->answer_ns == 0) {
        f->ping = *ping;
        f->ping.came_ns = clock_now_ns() - BEHIND_NS;
        f->answer_ns = clock_now_ns() + HOLD_NS;
    } else if (frame->kind == FRAME_PULL) {
        f->pulls++;
        f->early_pulls += !f->known;
        if (*(const uint64_t *)head == handle_now(f))
            card_send(f);
    } else if (frame->kind == FRAME_RESULT) {
        const struct wire_result *result = head; /* LOST instead of FAILED: it waited too long, and has not run */
        f->results += result->outcome.status == REQUEST_FAILED;
    }
    return 0;
}

static void closed(struct peer *peer, const char *reason) {
    (void)peer;
    fail_msg("%s", reason);
}

static void ping_answer(struct frontend *f) {
    f->ping.went_ns = clock_now_ns() - BEHIND_NS;
    peer_send(&f->backend, FRAME_PONG, 1, &f->ping, sizeof(f->ping));
    f->answer_ns = 0;
    f->known = true;
}

static void turn(struct frontend *f) {
    static const struct peer_events backend_events = {.frame = from_backend, .closed = closed};
    int fd = f->asks ? -1 : accept4(f->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        assert_int_equal(peer_init(&f->backend, fd, false, f->epoll_fd, &backend_events, f), 0);
        f->asks = true;
    }
    if (f->asks && !f->silent && f->answer_ns && clock_now_ns() >= f->answer_ns)
        ping_answer(f);
    for (struct peer *peer = &f->uplink; peer; peer = peer == &f->uplink && f->asks ? &f->backend : NULL) {
        peer_flush(peer);
        peer_ready(peer, EPOLLIN | EPOLLOUT, clock_now_ns());
    }
    usleep(100);
}

/* Backend and frontend join at the same time, and the frontend has a request at once: so its plan comes to the backend
 * while that is connecting to the frontend, or waits for its clock. */
static struct frontend *frontend_open(bool silent) {
    static const struct peer_events events = {.frame = from_scheduler, .closed = closed};
    struct frontend *f = calloc(1, sizeof(*f));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sy_error err = {.text = ""};
    int port;

    f->silent = silent;
    members_scheduler_open(&f->scheduler, MEMBERS_BEAT_NS);
    f->scheduler.frontends = 1;
    members_scheduler_start(&f->scheduler);
    f->member.look = look;
    f->member.context = f;
    members_backend_open(&f->member, f->scheduler.port, MEMBERS_BEAT_NS, MEMORY, NULL);
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(listen_open("127.0.0.1", 0, "HTTP", &f->listen_fd, &port, &err), 0);
    f->hello = members_hello("frontend");
    hello_formats(&f->hello);
    f->hello.role = ROLE_FRONTEND;
    f->hello.lanes = 1;
    f->hello.slots = 1;
    f->hello.transports = TRANSPORTS_PLAIN;
    snprintf(f->hello.address, sizeof(f->hello.address), ":%d", port);
    at.sin_port = htons((uint16_t)f->scheduler.port);
    int fd = link_connect((const struct sockaddr *)&at, sizeof(at));
    assert_true(fd >= 0);
    assert_int_equal(peer_init(&f->uplink, fd, true, f->epoll_fd, &events, f), 0);
    health_init(&f->health, MEMBERS_BEAT_NS, clock_now_ns());
    hello_send(&f->uplink, FRAME_HELLO, &f->hello);
    MEMBERS_UNTIL(f->in, turn(f));
    submit(f);
    return f;
}

static void frontend_close(struct frontend *f) {
    for (struct peer *peer = &f->uplink; peer; peer = peer == &f->uplink && f->asks ? &f->backend : NULL) {
        peer_close(peer);
        peer_free(peer);
    }
    members_backend_close(&f->member);
    members_scheduler_stop(&f->scheduler);
    close(f->listen_fd);
    close(f->epoll_fd);
    free(f);
}

TEST(deadlines_are_by_the_frontends_clock) {
    struct frontend *f = frontend_open(false);
    MEMBERS_UNTIL(f->results > 0, turn(f));
    assert_int_equal(f->early_pulls, 0);
    int64_t left_ns = atomic_load(&f->deadline_ns) - atomic_load(&f->looked_ns);
    assert_in_range(left_ns, DEADLINE_NS - MEMBERS_WAIT_NS, DEADLINE_NS + MEMBERS_WAIT_NS); /* or BEHIND_NS off */
    frontend_close(f);
}

/* Its requests go back after a while, and those that come later at once. */
TEST(who_never_tells_its_clock_is_waited_for_no_longer) {
    struct frontend *f = frontend_open(true);
    MEMBERS_UNTIL(f->asks && f->answer_ns > 0 && f->lost >= 3, turn(f));
    assert_int_equal(f->pulls, 0);
    frontend_close(f);
}

int main(void) {
    log_set_level(LOG_ERROR);
    return tests_run(NULL, NULL);
}
