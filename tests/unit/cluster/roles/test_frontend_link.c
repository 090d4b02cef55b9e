/* test_frontend_link.c - what a frontend makes of what its scheduler says of its requests. */
/* Starts threads. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/system/log.h"
#include "unit/cluster/roles/members.h"
#include "unit/cmocka_all.h"

#define MEMORY   ((size_t)16 << 20)
#define REQUESTS 20

static struct scene {
    struct members_scheduler scheduler;
    struct members_frontend frontend;
    struct members_backend backend;
    struct members_hold hold;
} scene;

static void look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    (void)context, (void)wiring, (void)plan;
    members_hold(&scene.hold);
}

static int frontend_port;

/* A cancelled request does not end by itself. */
static void patient(struct frontend_link_config *config) {
    config->cancelled_ns = 2 * MEMBERS_WAIT_NS;
    frontend_port = atoi(config->self.address + 1);
}

/* A backend that asks the frontend for each input: once a batch runs, the frontend knows who has taken its requests. */
static void asks(struct backend_link_config *config) {
    config->transports = TRANSPORT_BIT(TRANSPORT_TCP);
}

static void scene_open(uint32_t cancels) {
    memset(&scene, 0, sizeof(scene));
    members_scheduler_open(&scene.scheduler, MEMBERS_BEAT_NS);
    atomic_init(&scene.scheduler.frontends, 1);
    atomic_init(&scene.scheduler.cancels, cancels);
    members_scheduler_start(&scene.scheduler);
    members_frontend_open(&scene.frontend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, patient);
    scene.backend.look = look;
    members_backend_open(&scene.backend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, asks);
}

static void scene_close(void) {
    members_backend_close(&scene.backend);
    members_frontend_close(&scene.frontend);
    members_scheduler_stop(&scene.scheduler);
}

/* As a scheduler may that has cancelled what came by an earlier connection of the frontend. The scheduler is told to
 * cancel what it may still have of the request, and the request comes to it anew. */
static void what_nobody_here_has_cancelled_is_sent_again(void **state) {
    (void)state;
    scene_open(REQUESTS);
    for (int i = 0; i < REQUESTS; i++)
        assert_true(members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
    assert_true(members_back(&scene.frontend, 0));
    assert_int_equal(scene.frontend.failed, REQUESTS); /* as the executor answers */
    assert_int_equal(scene.scheduler.cancels, 0);
    assert_true(scene.scheduler.cancelled >= REQUESTS);
    assert_true(scene.scheduler.arrived >= 2 * REQUESTS);
    scene_close();
}

/* The backend that has it goes after the scheduler. */
static void what_a_client_has_left_does_not_wait_for_a_scheduler(void **state) {
    (void)state;
    scene_open(0);
    assert_true(members_submit(&scene.frontend, 1000)); /* the backend finds the frontend */
    port_flush(scene.frontend.port);
    assert_true(members_back(&scene.frontend, 0));
    members_hold_set(&scene.hold, true);
    assert_true(members_submit(&scene.frontend, 1000));
    struct members_request *last = &scene.frontend.requests[scene.frontend.free[scene.frontend.free_count]];
    port_flush(scene.frontend.port);
    MEMBERS_UNTIL(members_held(&scene.hold), usleep(100));
    port_cancel(scene.frontend.port, &last->request);
    port_flush(scene.frontend.port);
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.cancelled) > 0, usleep(100));
    members_scheduler_stop(&scene.scheduler);
    MEMBERS_UNTIL(!link_report_ready(frontend_link_report(scene.frontend.link)), usleep(1000));
    members_take(&scene.frontend);
    assert_int_equal(scene.frontend.back, 1);
    backend_link_stop(scene.backend.link);
    assert_true(members_back(&scene.frontend, 0));
    assert_int_equal(last->request.status, REQUEST_REFUSED);
    assert_int_equal(last->request.refusal, REFUSAL_CANCELLED);
    members_hold_set(&scene.hold, false);
    members_frontend_close(&scene.frontend);
    members_executor_end(&scene.backend);
}

/* ---- a backend that was sent no plan ---- */

static void stranger_say(int fd, enum frame_kind kind, uint32_t count, const void *head, size_t bytes) {
    static const char padding[8];
    const struct frame frame = {.head_bytes = (uint32_t)bytes, .kind = kind, .count = (uint16_t)count};
    assert_int_equal(send(fd, &frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
    assert_int_equal(send(fd, head, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
    assert_int_equal(send(fd, padding, -bytes & 7, MSG_NOSIGNAL), (ssize_t)(-bytes & 7));
}

/* The kind of the next frame that is no ping; 0: the link is closed. */
static int stranger_hears(int fd) {
    for (;;) {
        static char head[1 << 20];
        struct frame frame;
        if (recv(fd, &frame, sizeof(frame), MSG_WAITALL) != sizeof(frame))
            return 0;
        size_t bytes = ((frame.head_bytes + 7U) & ~7U) + frame.body_bytes;
        assert_true(bytes <= sizeof(head));
        if (bytes > 0 && recv(fd, head, bytes, MSG_WAITALL) != (ssize_t)bytes)
            return 0;
        if (frame.kind != FRAME_PING && frame.kind != FRAME_PONG)
            return frame.kind;
    }
}

static int stranger_connect(void) {
    static const char hello[] =
        "{\"role\":\"backend\",\"format\":1,\"format_newest\":5,\"number\":77,\"lanes\":0,\"slots\":0,\"accelerators\":"
        "0,"
        "\"transports\":4,\"fabric\":\"\",\"incarnation\":\"00000000deadbeef\",\"term\":\"0000000000000000\","
        "\"version\":\"0.1.0\",\"name\":\"stranger\",\"address\":\"\",\"token\":\"\"}";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)frontend_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    stranger_say(fd, FRAME_HELLO, 1, hello, strlen(hello));
    assert_int_equal(stranger_hears(fd), FRAME_WELCOME);
    return fd;
}

static void a_backend_has_nothing_of_what_it_was_not_told_of(void **state) {
    uint64_t guesses[2048];
    (void)state;
    scene_open(0);
    assert_true(members_submit(&scene.frontend, 1000)); /* the backend finds the frontend */
    port_flush(scene.frontend.port);
    assert_true(members_back(&scene.frontend, 0));
    members_hold_set(&scene.hold, true);
    for (int i = 0; i < REQUESTS; i++)
        assert_true(members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
    MEMBERS_UNTIL(members_held(&scene.hold), usleep(100));
    int back = scene.frontend.back, fd = stranger_connect();

    for (uint32_t i = 0; i < 800; i++) /* the first submissions to the first slots */
        guesses[i] = handle_of((i / 400 + 1) * HELLO_LANES_MAX, i % 20, i / 20 % 20 + 1);
    stranger_say(fd, FRAME_PULL, 800, guesses, 800 * sizeof(guesses[0]));
    for (int i = 0; i < 800; i++)
        assert_int_equal(stranger_hears(fd), FRAME_NO_CARD);

    /* nor does it help to know the handle of one that another has taken */
    struct members_request *taken =
        &scene.frontend.requests[scene.frontend.free[scene.frontend.free_count + REQUESTS - 1]];
    uint64_t handle = scene.frontend.wired.wiring.cards[0][taken->request.slot].handle;
    struct wire_result forged = {.outcome = {.status = REQUEST_FAILED}};
    for (uint32_t number = 1; number <= 2; number++) {
        forged.outcome.handle = handle + ((uint64_t)number * HELLO_LANES_MAX << HANDLE_SLOT_BITS);
        stranger_say(fd, FRAME_PULL, 1, &forged.outcome.handle, sizeof(handle));
        assert_int_equal(stranger_hears(fd), FRAME_NO_CARD);
        stranger_say(fd, FRAME_RESULT, 1, &forged, sizeof(forged));
        stranger_say(fd, FRAME_PULL, 1, &guesses[0], sizeof(handle));
        assert_int_equal(stranger_hears(fd), FRAME_NO_CARD);
    }
    members_take(&scene.frontend);
    assert_int_equal(scene.frontend.back, back);

    /* and it does not guess on */
    for (uint32_t i = 0; i < ARRAY_COUNT(guesses); i++)
        guesses[i] = handle_of(HELLO_LANES_MAX, 0, 1000 + i);
    stranger_say(fd, FRAME_PULL, ARRAY_COUNT(guesses), guesses, sizeof(guesses));
    int heard;
    while ((heard = stranger_hears(fd)))
        assert_int_equal(heard, FRAME_NO_CARD);
    close(fd);
    members_hold_set(&scene.hold, false);
    assert_true(members_back(&scene.frontend, 0));
    scene_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_here_has_cancelled_is_sent_again),
        cmocka_unit_test(what_a_client_has_left_does_not_wait_for_a_scheduler),
        cmocka_unit_test(a_backend_has_nothing_of_what_it_was_not_told_of),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
