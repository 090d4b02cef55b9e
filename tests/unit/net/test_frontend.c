/* test_frontend.c - the turns of a frontend, with a protocol that only writes down what it is asked to do; who is let
 * in.
 */
/* Starts threads. */
#include "unit/cmocka_all.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fuzz/scheduler.h"
#include "net/frontend.h"
#include "net/listen.h"
#include "v2/infer_parse.h"

#define CLIENTS_MAX 200 /* more than are taken from epoll at once */

/* ---- a protocol ---- */

struct scripted {
    struct frontend base;
    struct text done; /* a word for each call */
    bool more;        /* go_on() says so */
    int client_fds[CLIENTS_MAX]; /* those that have been accepted, from one address */
    uint32_t clients;
    struct peer_address peer;
};

static struct scripted *scripted_of(struct frontend *base) {
    return container_of(base, struct scripted, base);
}

static void note(struct frontend *base, const char *word) {
    text_put(&scripted_of(base)->done, word);
    text_put_char(&scripted_of(base)->done, ' ');
}

static int init(struct frontend *base) {
    note(base, "init");
    return 0;
}

static void end(struct frontend *base) {
    struct scripted *s = scripted_of(base);
    for (uint32_t i = 0; i < s->clients; i++) {
        close(s->client_fds[i]);
        acceptor_ended(&base->acceptor, &s->peer);
    }
    text_free(&s->done);
}

static void begin(struct frontend *base, int fd, const struct peer_address *peer) {
    struct scripted *s = scripted_of(base);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = s};
    assert_true(s->clients < CLIENTS_MAX);
    s->client_fds[s->clients++] = fd;
    s->peer = *peer;
    assert_int_equal(epoll_ctl(base->epoll_fd, EPOLL_CTL_ADD, fd, &event), 0);
    note(base, "begin");
}

static void event(void *connection, uint32_t events) {
    struct scripted *s = connection;
    assert_true(events & EPOLLIN);
    note(&s->base, "event");
}

static void finished(struct inference *inference) {
    struct frontend *base = container_of(inference->home, struct frontend, inferences);
    note(base, "finished");
    inference_free(inference);
}

static void bulk_done(struct bulk_job *job) {
    (void)job;
    fail();
}

static void ordered(void *context, unsigned status, const char *sentence) {
    (void)context, (void)status, (void)sentence;
    fail();
}

static void sweep(struct frontend *base) {
    note(base, "sweep");
}

static bool go_on(struct frontend *base) {
    note(base, "go_on");
    return scripted_of(base)->more;
}

static void reap(struct frontend *base) {
    note(base, "reap");
}

static bool all_said(const struct frontend *base) {
    return frontend_in_flight(base) == 0;
}

static const struct protocol_metrics metrics = {.name = "scripted"};
static const struct protocol protocol = {
    .alpn = "scripted",
    .frontend_bytes = sizeof(struct scripted),
    .slot_bytes = sizeof(struct inference),
    .metrics = &metrics,
    .init = init,
    .free = end,
    .begin = begin,
    .event = event,
    .finished = finished,
    .bulk_done = bulk_done,
    .ordered = ordered,
    .sweep = sweep,
    .go_on = go_on,
    .reap = reap,
    .all_said = all_said,
};

/* ---- its turns ---- */

static struct frontend *frontend;
static int tcp_port;

static int set_up(void **state) {
    (void)state;
    if (!wiring.requests)
        scheduler_set_up();
    struct frontend_config config = scheduler_frontend();
    assert_int_equal(listen_open("127.0.0.1", 0, "HTTP", &config.listen_fd, &tcp_port, NULL), 0);
    assert_int_equal(frontend_make(&frontend, &protocol, &config, NULL), 0);
    close(config.listen_fd);
    return 0;
}

static int tear_down(void **state) {
    struct port *port = frontend->config.port;
    (void)state;
    frontend_free(frontend);
    port_destroy(port);
    return 0;
}

/* What it was asked to do since the last time. */
static void did(const char *words) {
    struct scripted *s = scripted_of(frontend);
    assert_string_equal(text_end(&s->done), words);
    s->done.length = 0;
}

/* Turns until one is asked to do this, too: what comes over a socket takes a while. */
static void turns_until(const char *word) {
    do {
        scripted_of(frontend)->done.length = 0;
        sched_yield();
        frontend_step(frontend);
    } while (!strstr(text_end(&scripted_of(frontend)->done), word));
}

static void the_order_of_a_turn(void **state) {
    (void)state;
    did("init ");
    frontend_step(frontend);
    did("sweep go_on reap reap ");
    frontend->turn_ns = frontend->sweep_ns - 1;
    frontend_step(frontend);
    did("go_on reap reap "); /* the sweep is due once a second */
    frontend->turn_ns = frontend->sweep_ns;
    frontend_step(frontend);
    did("sweep go_on reap reap ");
}

static int client_connect(void) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)tcp_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
    return client;
}

static void events_come_behind_the_answers(void **state) {
    (void)state;
    frontend_step(frontend);
    frontend->sweep_ns = TIME_NEVER;
    int client = client_connect();
    turns_until("begin");
    did("go_on reap begin reap ");
    assert_int_equal(acceptor_connections(&frontend->acceptor), 1);
    assert_int_equal(send(client, "x", 1, MSG_NOSIGNAL), 1);
    turns_until("event");
    did("go_on reap event reap ");
    close(client);
}

static uint32_t times_asked(const char *word) {
    uint32_t count = 0;
    for (const char *at = text_end(&scripted_of(frontend)->done); (at = strstr(at, word)); at++)
        count++;
    return count;
}

/* The kernel may deliver what was sent only later. */
static void until_received(int client) {
    int unreceived;
    do
        assert_int_equal(ioctl(client, SIOCOUTQ, &unreceived), 0);
    while (unreceived > 0 && sched_yield() == 0);
}

/* However many clients wait when a server ends whose thread has had no turn for long. */
static void all_that_was_sent_is_taken_before_it_shuts(void **state) {
    int clients[CLIENTS_MAX];
    (void)state;
    for (int i = 0; i < CLIENTS_MAX; i++) {
        clients[i] = client_connect();
        assert_int_equal(send(clients[i], "x", 1, MSG_NOSIGNAL), 1);
    }
    for (int i = 0; i < CLIENTS_MAX; i++)
        until_received(clients[i]);
    frontend_quiesce(frontend);
    frontend_shut(frontend);
    frontend_step(frontend);
    assert_true(frontend_is_shut(frontend));
    assert_int_equal(times_asked("begin "), CLIENTS_MAX);
    assert_int_equal(times_asked("event "), CLIENTS_MAX);
    for (int i = 0; i < CLIENTS_MAX; i++)
        close(clients[i]);
}

/* Hands in a request whose deadline the client has chosen: a refusal of it is final. */
static void submit(void) {
    char body[] = "{\"parameters\":{\"timeout\":1000000},"
                  "\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP64\",\"shape\":[2,2],\"data\":[1,2,3,4]}]}";
    struct inference *i = inference_take(&frontend->inferences, clock_now_ns());
    struct sy_error err;
    int model = model_index_number(&index_of_models, "single", 6, 0);
    assert_true(model >= 0);
    inference_model(i, served, (uint32_t)model);
    struct infer_body parsed = {.model = i->model,
                                .data = body,
                                .bytes = sizeof(body) - 1,
                                .json_bytes = INFER_NO_HEADER,
                                .memory = {inference_block, i}};
    assert_int_equal(infer_parse(&parsed, &i->call, &err), 0);
    assert_int_equal(inference_submit(i, 0, &err), 0);
}

static void what_comes_back_is_taken_first(void **state) {
    (void)state;
    frontend_step(frontend);
    did("init sweep go_on reap reap ");
    frontend->sweep_ns = TIME_NEVER;
    submit();
    scheduler_refuse_all(); /* not handed over yet */
    frontend_step(frontend);
    did("go_on reap reap ");
    assert_int_equal(frontend_in_flight(frontend), 1);
    scheduler_refuse_all();
    frontend_step(frontend);
    did("finished go_on reap reap ");
    assert_int_equal(frontend_in_flight(frontend), 0);
}

/* While it sleeps, who brings what came back takes the turn. Nothing is freed then, since epoll may have told of it. */
static void who_brings_an_answer_gives_it(void **state) {
    struct doorbell *bell = &wiring.frontend_bells[0];
    (void)state;
    frontend_step(frontend);
    frontend->sweep_ns = TIME_NEVER;
    submit();
    frontend_step(frontend);
    scripted_of(frontend)->done.length = 0;
    assert_true(port_arm(frontend->config.port, TIME_NEVER));
    scheduler_refuse_all();
    doorbell_ring_or_help(bell, true);
    did("finished go_on ");
    assert_int_equal(frontend_in_flight(frontend), 0);
    doorbell_ring(bell); /* this one wakes it */
    assert_true(atomic_load(&bell->sleeping) == DOORBELL_AWAKE);
    port_disarm(frontend->config.port);
    frontend_step(frontend);
    did("go_on reap reap ");
}

static void where_it_counts(void **state) {
    struct frontend_counters counters = frontend_counters(frontend);
    (void)state;
    assert_ptr_equal(counters.protocol, &metrics);
    assert_ptr_equal(counters.requests, &frontend->inferences.counters);
    assert_ptr_equal(counters.reply, port_reply_margin(frontend->config.port));
    assert_ptr_equal(counters.waited_ns, &frontend->waited_ns);
    assert_ptr_equal(counters.answers, frontend->answers);
    assert_ptr_equal(counters.dismissed, &frontend->dismissed);
    assert_ptr_equal(counters.connections, &frontend->acceptor.connections);
}

/* A thread that has started ends, and sees the models before. */
static void it_starts_and_ends(void **state) {
    struct frontend_config config = scheduler_frontend();
    struct frontend *started;
    (void)state;
    assert_int_equal(frontend_start(&started, &protocol, &config, NULL), 0);
    while (frontend_models(started) != &index_of_models) {
        inbox_wake(&started->inbox);
        sched_yield();
    }
    frontend_quiesce(started);
    frontend_stop(started);
    port_destroy(config.port);
    frontend_stop(NULL);
}

/* ---- who is let in ---- */

static void who_is_let_in(void **state) {
    const struct auth *some = (const struct auth *)&wiring; /* not looked at */
    const struct {
        const struct auth *auth;
        bool auth_health, authorized, asks_for_health, admitted;
    } rows[] = {
        {NULL, false, false, false, true}, {NULL, true, false, true, true},  {some, false, false, false, false},
        {some, false, false, true, true},  {some, true, false, true, false}, {some, true, false, false, false},
        {some, false, true, false, true},  {some, true, true, true, true},
    };
    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        struct frontend_config config = {.auth = rows[i].auth, .auth_health = rows[i].auth_health};
        assert_int_equal(frontend_admits(&config, rows[i].authorized, rows[i].asks_for_health), rows[i].admitted);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_order_of_a_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(events_come_behind_the_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_that_was_sent_is_taken_before_it_shuts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_comes_back_is_taken_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_brings_an_answer_gives_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_it_counts, set_up, tear_down),
        cmocka_unit_test(it_starts_and_ends),
        cmocka_unit_test(who_is_let_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
