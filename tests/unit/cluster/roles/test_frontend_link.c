/* test_frontend_link.c - what a frontend makes of what its scheduler says of its requests. */
/* Starts threads. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/data/running.h"
#include "core/system/log.h"
#include "unit/cluster/roles/members.h"
#include "unit/test.h"

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
static uint64_t frontend_incarnation;

/* A cancelled request does not end by itself. */
static void patient(struct frontend_link_config *config) {
    config->cancelled_ns = 2 * MEMBERS_WAIT_NS;
    frontend_port = atoi(config->self.address + 1);
    frontend_incarnation = config->self.incarnation;
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
TEST(what_nobody_here_has_cancelled_is_sent_again) {
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

TEST(a_model_that_there_was_no_memory_for_is_served_later) {
    members_without_memory = 3;
    scene_open(0); /* which returns once the frontend serves it */
    assert_int_equal(members_without_memory, 0);
    assert_true(members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
    assert_true(members_back(&scene.frontend, 0));
    scene_close();
}

/* The backend that has it goes after the scheduler. */
TEST(what_a_client_has_left_does_not_wait_for_a_scheduler) {
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

#define STRANGER 0xdeadbeef /* incarnation of the backend that was sent no plan */

/* Introduces itself as a backend of this incarnation, with this pass. */
static void stranger_hello(int fd, uint64_t incarnation, struct pass pass, enum transport_kind transport) {
    struct hello hello = {.role = ROLE_BACKEND,
                          .number = 77,
                          .incarnation = incarnation,
                          .secret = {pass.words[0], pass.words[1]},
                          .transports = TRANSPORT_BIT(transport),
                          .version = "0.1.0",
                          .name = "stranger"};
    hello_formats(&hello);
    char *text = hello_write(&hello);
    stranger_say(fd, FRAME_HELLO, 1, text, strlen(text));
    free(text);
}

/* Connects, and introduces itself with this pass. */
static int stranger_connect(struct pass pass) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)frontend_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    stranger_hello(fd, STRANGER, pass, TRANSPORT_TCP);
    return fd;
}

/* The key of the scene's frontend, as it has told its scheduler; and its number. */
static struct siphash_key key_of_frontend(uint32_t *number) {
    *number = atomic_load_explicit(&scene.scheduler.frontend_number, memory_order_acquire); /* with members_met() */
    assert_true(*number > 0);
    return (struct siphash_key){{atomic_load_explicit(&scene.scheduler.frontend_secret[0], memory_order_relaxed),
                                 atomic_load_explicit(&scene.scheduler.frontend_secret[1], memory_order_relaxed)}};
}

/* Shows the pass of a request, made by this key for a backend of this incarnation. */
static void stranger_shows(int fd, const struct siphash_key *key, uint64_t incarnation, uint64_t handle) {
    struct pass pass = pass_of_requests(key, incarnation, &handle, 1);
    _Alignas(8) char head[sizeof(struct wire_pass) + sizeof(handle)];
    struct wire_pass *shown = (struct wire_pass *)head;
    *shown = (struct wire_pass){.pass = {pass.words[0], pass.words[1]}, .count = 1};
    shown->handles[0] = handle;
    stranger_say(fd, FRAME_PASS, 1, head, sizeof(head));
}

/* The handle by which the cluster knows the nth of the last requests. */
static uint64_t handle_of_last(uint32_t number, int nth) {
    const struct members_request *last = &scene.frontend.requests[scene.frontend.free[scene.frontend.free_count + nth]];
    return scene.frontend.wired.wiring.cards[0][last->request.slot].handle +
           ((uint64_t)number * HELLO_LANES_MAX << HANDLE_SLOT_BITS);
}

/* A scheduler, and a frontend that has let in no backend but the stranger. Returns the stranger's socket. */
static int stranger_scene_open(struct siphash_key *key, uint32_t *number) {
    memset(&scene, 0, sizeof(scene));
    members_scheduler_open(&scene.scheduler, MEMBERS_BEAT_NS);
    members_scheduler_start(&scene.scheduler);
    members_frontend_open(&scene.frontend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, patient);
    *key = key_of_frontend(number);
    int fd = stranger_connect(pass_of_backend(key, STRANGER));
    assert_int_equal(stranger_hears(fd), FRAME_WELCOME);
    return fd;
}

TEST(a_backend_has_nothing_of_what_it_was_not_told_of) {
    static const struct siphash_key other_key;
    uint64_t guesses[2048];
    uint32_t number;
    scene_open(0);
    assert_true(members_submit(&scene.frontend, 1000)); /* the backend finds the frontend */
    port_flush(scene.frontend.port);
    assert_true(members_back(&scene.frontend, 0));
    members_hold_set(&scene.hold, true);
    for (int i = 0; i < REQUESTS; i++)
        assert_true(members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
    MEMBERS_UNTIL(members_held(&scene.hold), usleep(100));
    int back = scene.frontend.back;

    /* nobody is let in of whom no scheduler has told the frontend's key */
    int fd = stranger_connect((struct pass){{0}});
    assert_int_equal(stranger_hears(fd), FRAME_REFUSED);
    assert_int_equal(stranger_hears(fd), 0);
    close(fd);
    struct siphash_key key = key_of_frontend(&number);
    fd = stranger_connect(pass_of_backend(&key, STRANGER + 1)); /* another's */
    assert_int_equal(stranger_hears(fd), FRAME_REFUSED);
    close(fd);
    fd = stranger_connect(pass_of_backend(&key, STRANGER));
    assert_int_equal(stranger_hears(fd), FRAME_WELCOME);

    /* the handles of requests do not help, whether another backend has taken them or not */
    for (uint32_t i = 0; i < 400; i++) /* the first submissions to the first slots */
        guesses[i] = handle_of(number * HELLO_LANES_MAX, i % 20, i / 20 % 20 + 1);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        guesses[i] = handle_of_last(number, (int)i);
    }
    stranger_say(fd, FRAME_PULL, 400, guesses, 400 * sizeof(guesses[0]));
    for (int i = 0; i < 400; i++)
        assert_int_equal(stranger_hears(fd), FRAME_NO_CARD);
    struct wire_result forged = {.outcome = {.handle = guesses[REQUESTS - 1], .status = REQUEST_FAILED}};
    stranger_say(fd, FRAME_RESULT, 1, &forged, sizeof(forged));
    stranger_say(fd, FRAME_PULL, 1, &guesses[0], sizeof(guesses[0]));
    assert_int_equal(stranger_hears(fd), FRAME_NO_CARD);
    members_take(&scene.frontend);
    assert_int_equal(scene.frontend.back, back);

    /* nor a pass of the scheduler for what another backend has taken, which its plan would have come too late for */
    stranger_shows(fd, &key, STRANGER, guesses[REQUESTS - 1]);
    stranger_say(fd, FRAME_PULL, 1, &guesses[REQUESTS - 1], sizeof(guesses[0]));
    assert_int_equal(stranger_hears(fd), FRAME_NO_CARD);

    /* it does not guess on */
    for (uint32_t i = 0; i < ARRAY_COUNT(guesses); i++)
        guesses[i] = handle_of(HELLO_LANES_MAX, 0, 1000 + i);
    stranger_say(fd, FRAME_PULL, ARRAY_COUNT(guesses), guesses, sizeof(guesses));
    int heard;
    while ((heard = stranger_hears(fd)))
        assert_int_equal(heard, FRAME_NO_CARD);
    close(fd);

    /* and a pass that is made up, or another's, ends its link */
    for (int i = 0; i < 2; i++) {
        fd = stranger_connect(pass_of_backend(&key, STRANGER));
        assert_int_equal(stranger_hears(fd), FRAME_WELCOME);
        stranger_shows(fd, i ? &key : &other_key, STRANGER + (uint64_t)i, guesses[0]);
        assert_int_equal(stranger_hears(fd), 0);
        close(fd);
    }
    members_hold_set(&scene.hold, false);
    assert_true(members_back(&scene.frontend, 0));
    scene_close();
}

/* A request that no backend has taken is of the one that shows the scheduler's pass for it. */
TEST(a_pass_is_all_that_a_backend_needs) {
    struct siphash_key key;
    uint32_t number;
    int fd = stranger_scene_open(&key, &number);
    assert_true(members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
    struct members_request *away = &scene.frontend.requests[scene.frontend.free[scene.frontend.free_count]];
    uint64_t handle = handle_of_last(number, 0);
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.arrived) > 0, usleep(100));
    stranger_say(fd, FRAME_PULL, 1, &handle, sizeof(handle));
    assert_int_equal(stranger_hears(fd), FRAME_NO_CARD);
    stranger_shows(fd, &key, STRANGER, handle);
    stranger_say(fd, FRAME_PULL, 1, &handle, sizeof(handle));
    assert_int_equal(stranger_hears(fd), FRAME_CARD);
    struct wire_result result = {
        .outcome = {.handle = handle, .status = REQUEST_FAILED, .run_start_ns = 1, .run_end_ns = INT64_MAX / 4}};
    stranger_say(fd, FRAME_RESULT, 1, &result, sizeof(result));
    assert_true(members_back(&scene.frontend, 0));
    /* a run is later than its request's arrival and earlier than now, whatever a backend says */
    assert_true(away->request.run_start_ns >= away->request.arrival_ns);
    assert_true(away->request.run_end_ns >= away->request.run_start_ns);
    assert_true(away->request.run_end_ns <= clock_now_ns());
    assert_int_equal(scene.frontend.failed, 1);
    close(fd);
    members_frontend_close(&scene.frontend);
    members_scheduler_stop(&scene.scheduler);
}

/* The backend would take the answer for that to its next pull, for a plan of the next scheduler. */
TEST(a_pull_for_a_lost_scheduler_has_no_answer) {
    struct siphash_key key;
    uint32_t number;
    int fd = stranger_scene_open(&key, &number);
    assert_true(members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
    uint64_t handle = handle_of_last(number, 0);
    uint64_t pulls[] = {handle, handle + 1}; /* there is no other request */
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.arrived) > 0, usleep(100));
    stranger_shows(fd, &key, STRANGER, handle);
    MEMBERS_UNTIL(link_report_ready(frontend_link_report(scene.frontend.link)), usleep(1000));
    members_scheduler_stop(&scene.scheduler);
    MEMBERS_UNTIL(!link_report_ready(frontend_link_report(scene.frontend.link)), usleep(1000));
    stranger_say(fd, FRAME_PULL, 2, pulls, sizeof(pulls));
    stranger_shows(fd, &key, STRANGER, handle);
    stranger_say(fd, FRAME_PULL, 1, &handle, sizeof(handle));
    assert_int_equal(stranger_hears(fd), FRAME_NO_CARD); /* handle + 1 */
    assert_int_equal(stranger_hears(fd), FRAME_CARD);
    struct wire_result result = {.outcome = {.handle = handle, .status = REQUEST_FAILED}};
    stranger_say(fd, FRAME_RESULT, 1, &result, sizeof(result));
    assert_true(members_back(&scene.frontend, 0));
    close(fd);
    members_frontend_close(&scene.frontend);
}

/* As a backend may that has told the scheduler of a batch's end, and this frontend nothing of the batch. */
TEST(what_a_backend_has_kept_to_itself_comes_back_when_it_goes) {
    struct siphash_key key;
    uint32_t number;
    int fd = stranger_scene_open(&key, &number);
    members_slo_ns = -2 * BEST_EFFORT_WAIT_NS;
    assert_true(members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
    members_slo_ns = 600 * NS_PER_S;
    struct members_request *late = &scene.frontend.requests[scene.frontend.free[scene.frontend.free_count]];
    assert_true(members_submit(&scene.frontend, 1000)); /* this one may yet be sent to a backend */
    port_flush(scene.frontend.port);
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.arrived) == 2 && clock_now_ns() > late->request.deadline_ns,
                  usleep(100));
    close(fd);
    MEMBERS_UNTIL(scene.frontend.back == 1, (members_take(&scene.frontend), usleep(100)));
    assert_int_equal(late->request.status, REQUEST_REFUSED);
    assert_int_equal(late->request.refusal, REFUSAL_LOST);
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.cancelled) == 1, usleep(100));
    assert_int_equal(scene.scheduler.arrived, 2);
    members_frontend_close(&scene.frontend);
    members_scheduler_stop(&scene.scheduler);
}

static struct running shown_run;

static void shows_runs(struct frontend_link_config *config) {
    static struct running *const runs[] = {&shown_run};
    patient(config);
    config->running = runs;
    config->running_count = 1;
}

static void stranger_answers(int fd, const struct siphash_key *key, uint64_t handle) {
    struct wire_result result = {.outcome = {.handle = handle, .status = REQUEST_FAILED}};
    stranger_shows(fd, key, STRANGER, handle);
    stranger_say(fd, FRAME_RESULT, 1, &result, sizeof(result));
}

/* Another backend goes while one runs what it has read in our memory: that is not sent again, for its answer comes,
 * together with its pass. */
TEST(what_a_backend_is_seen_to_run_has_its_pass_later) {
    uint32_t number;
    char local[HELLO_LOCAL_MAX];
    memset(&scene, 0, sizeof(scene));
    members_scheduler_open(&scene.scheduler, MEMBERS_BEAT_NS);
    members_scheduler_start(&scene.scheduler);
    members_frontend_open(&scene.frontend, scene.scheduler.port, MEMBERS_BEAT_NS, MEMORY, shows_runs);
    struct siphash_key key = key_of_frontend(&number);
    int fd = stranger_connect(pass_of_backend(&key, STRANGER));
    assert_int_equal(stranger_hears(fd), FRAME_WELCOME);
    hello_local_name(frontend_incarnation, local);
    int goes = link_connect_local(local);
    assert_true(goes >= 0);
    assert_int_equal(fcntl(goes, F_SETFL, 0), 0);
    stranger_hello(goes, STRANGER + 1, pass_of_backend(&key, STRANGER + 1), TRANSPORT_SHM);
    assert_int_equal(stranger_hears(goes), FRAME_WELCOME);

    assert_true(members_submit(&scene.frontend, 1000) && members_submit(&scene.frontend, 1000));
    port_flush(scene.frontend.port);
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.arrived) == 2, usleep(100));
    uint64_t runs = handle_of_last(number, 1);
    atomic_store(&shown_run.incarnation, STRANGER);
    running_begin(&shown_run, &runs, 1);
    close(goes);
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.cancelled) == 1, usleep(100)); /* the other one, which is sent again */
    MEMBERS_UNTIL(atomic_load(&scene.scheduler.arrived) == 3, (members_take(&scene.frontend), usleep(100)));
    stranger_answers(fd, &key, runs);
    stranger_answers(fd, &key, handle_of_last(number, 0));
    assert_true(members_back(&scene.frontend, 0));
    assert_int_equal(scene.frontend.failed, 2);
    running_end(&shown_run);
    close(fd);
    members_frontend_close(&scene.frontend);
    members_scheduler_stop(&scene.scheduler);
}

int main(void) {
    log_set_level(LOG_ERROR);
    return tests_run(NULL, NULL);
}
