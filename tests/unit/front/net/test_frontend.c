/* test_frontend.c - the turns of a frontend, with a protocol that only writes down what it is asked to do; who is let
 * in.
 */
/* Starts threads. */
#include "unit/test.h"

#include <linux/sockios.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "front/net/frontend.h"
#include "front/net/listen.h"
#include "front/v2/infer_parse.h"
#include "fuzz/scheduler.h"
#include "unit/loopback.h"

#define CLIENTS_MAX 200 /* more than are taken from epoll at once */

/* ---- a protocol ---- */

struct scripted {
    struct frontend base;
    struct text done;                   /* a word for each call */
    bool more;                          /* go_on() says so */
    struct stream streams[CLIENTS_MAX]; /* of those that have been accepted, from one address */
    uint32_t clients;
    uint32_t closed;                   /* events of those that were closed already */
    uint32_t read[CLIENTS_MAX], reads; /* those that an event told of, in that order */
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
        stream_close(&s->streams[i]);
        acceptor_ended(&base->acceptor, &s->peer);
    }
    text_free(&s->done);
}

static void begin(struct frontend *base, int fd, const struct peer_address *peer) {
    struct scripted *s = scripted_of(base);
    assert_true(s->clients < CLIENTS_MAX);
    s->peer = *peer;
    assert_int_equal(stream_open(&s->streams[s->clients++], &base->streams, fd, base->turn_ns), 0);
    note(base, "begin");
}

/* Reads a byte. */
static void event(struct stream *stream, uint32_t events) {
    struct scripted *s = scripted_of(container_of(stream->home, struct frontend, streams));
    int64_t arrived_ns;
    char byte;
    assert_true(events & EPOLLIN);
    if (stream->fd < 0) { /* as protocols do: it is closed */
        s->closed++;
        return;
    }
    assert_int_equal(stream_receive(stream, &byte, 1, &arrived_ns), 1);
    assert_true(s->reads < CLIENTS_MAX);
    s->read[s->reads++] = (uint32_t)(stream - s->streams);
    note(&s->base, "event");
}

static void finished(struct inference *inference) {
    struct frontend *base = container_of(inference->home, struct frontend, inferences);
    note(base, "finished");
    inference_free(inference);
}

static void bulk_done(struct bulk_job *job) {
    fail();
}

static void ordered(void *context, unsigned status, const char *sentence) {
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

TEST_WITH(the_order_of_a_turn, set_up, tear_down) {
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

TEST_WITH(events_come_behind_the_answers, set_up, tear_down) {
    frontend_step(frontend);
    frontend->sweep_ns = TIME_NEVER;
    int client = loopback_connect(tcp_port);
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

/* The kernel may deliver what was sent only later, and acknowledges it a moment before it wakes the reader. */
static void until_received(int client) {
    int unreceived;
    do
        assert_int_equal(ioctl(client, SIOCOUTQ, &unreceived), 0);
    while (unreceived > 0 && sched_yield() == 0);
    usleep(1000);
}

/* However many clients wait when a server ends whose thread has had no turn for long. */
TEST_WITH(all_that_was_sent_is_taken_before_it_shuts, set_up, tear_down) {
    int clients[CLIENTS_MAX];
    for (int i = 0; i < CLIENTS_MAX; i++) {
        clients[i] = loopback_connect(tcp_port);
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

static void send_byte(int client) {
    assert_int_equal(send(client, "x", 1, MSG_NOSIGNAL), 1);
    until_received(client);
}

/* What the last turn read: as many as `count`, in this order. */
static void was_read(const uint32_t *clients, uint32_t count) {
    struct scripted *s = scripted_of(frontend);
    assert_int_equal(s->reads, count);
    assert_memory_equal(s->read, clients, count * sizeof(*clients));
    s->reads = 0;
}

/* A turn of a thread that has read for long what had waited for long. However slow the machine is, nothing that the
 * test sends has. */
static void turn_behind(void) {
    frontend->streams.reads.behind = true;
    frontend->streams.reads.long_ns = 3600 * NS_PER_S;
    frontend_step(frontend);
}

/* However many turns the machine takes for that. */
static void read_all(uint32_t count) {
    while (scripted_of(frontend)->reads < count)
        frontend_step(frontend);
}

TEST_WITH(behind_it_reads_first_who_came_last, set_up, tear_down) {
    enum { CLIENTS = 20 };
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = loopback_connect(tcp_port);
    while (scripted_of(frontend)->clients < CLIENTS)
        frontend_step(frontend);
    for (int i = 0; i < 3; i++)
        send_byte(clients[i]);
    read_all(3);
    was_read((uint32_t[]){0, 1, 2}, 3); /* it keeps up */
    for (int i = 0; i < CLIENTS; i++)
        send_byte(clients[i]);
    turn_behind();
    read_all(CLIENTS);
    was_read((uint32_t[]){19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 0 /* the oldest */, 4, 3, 2, 1},
             CLIENTS);
    frontend_step(frontend);
    assert_false(frontend->streams.reads.behind); /* nothing waits any more */
    send_byte(clients[0]);
    send_byte(clients[1]);
    read_all(2);
    was_read((uint32_t[]){0, 1}, 2);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
}

/* Epoll tells of it once more while it waits, and then no more until it has been read. A server that ends reads in the
 * order of arrival. */
TEST_WITH(who_waits_unread_is_read_at_last, set_up, tear_down) {
    int clients[2];
    for (int i = 0; i < 2; i++)
        clients[i] = loopback_connect(tcp_port);
    while (scripted_of(frontend)->clients < 2)
        frontend_step(frontend);
    struct stream *first = &scripted_of(frontend)->streams[0];
    send_byte(clients[0]);
    read_queue_add(&frontend->streams.reads, &first->place, EPOLLIN, clock_now_ns()); /* there was no time for it */
    stream_hold(first, true);
    stream_shut(first); /* changes what is watched */
    send_byte(clients[1]);
    turn_behind();
    read_all(2);
    was_read((uint32_t[]){1, 0}, 2);
    assert_false(first->held);
    send_byte(clients[0]);
    read_all(1);
    was_read((uint32_t[]){0}, 1);
    send_byte(clients[0]);
    send_byte(clients[1]);
    frontend->streams.reads.behind = true;
    frontend_quiesce(frontend);
    read_all(2);
    was_read((uint32_t[]){0, 1}, 2);
    for (int i = 0; i < 2; i++)
        close(clients[i]);
}

/* A thread that takes the turn while this one sleeps may close a connection that epoll has just told of: it must not
 * come into the queue, since it is freed soon. */
TEST_WITH(who_is_closed_meanwhile_does_not_wait, set_up, tear_down) {
    int client = loopback_connect(tcp_port);
    while (scripted_of(frontend)->clients < 1)
        frontend_step(frontend);
    struct stream *stream = &scripted_of(frontend)->streams[0];
    send_byte(client);
    int fd = stream->fd;
    stream->fd = -1; /* as stream_close() leaves it */
    turn_behind();
    assert_false(stream->place.waits);
    assert_int_equal(scripted_of(frontend)->closed, 1);
    stream->fd = fd;
    close(client);
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

TEST_WITH(what_comes_back_is_taken_first, set_up, tear_down) {
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
TEST_WITH(who_brings_an_answer_gives_it, set_up, tear_down) {
    struct doorbell *bell = &wiring.frontend_bells[0];
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

TEST_WITH(where_it_counts, set_up, tear_down) {
    struct frontend_counters counters = frontend_counters(frontend);
    assert_ptr_equal(counters.protocol, &metrics);
    assert_ptr_equal(counters.requests, &frontend->inferences.counters);
    assert_ptr_equal(counters.reply, port_reply_margin(frontend->config.port));
    assert_ptr_equal(counters.counters, &frontend->counters);
    assert_ptr_equal(counters.answers, frontend->answers);
    assert_ptr_equal(counters.connections, &frontend->acceptor.connections);
}

/* A thread that has started ends, and sees the models before. */
TEST(it_starts_and_ends) {
    struct frontend_config config = scheduler_frontend();
    struct frontend *started;
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

TEST(who_is_let_in) {
    const struct auth *some = (const struct auth *)&wiring; /* not looked at */
    const struct {
        const struct auth *auth;
        bool auth_health, authorized, asks_for_health, admitted;
    } rows[] = {
        {NULL, false, false, false, true}, {NULL, true, false, true, true},  {some, false, false, false, false},
        {some, false, false, true, true},  {some, true, false, true, false}, {some, true, false, false, false},
        {some, false, true, false, true},  {some, true, true, true, true},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        struct frontend_config config = {.auth = rows[i].auth, .auth_health = rows[i].auth_health};
        assert_int_equal(frontend_admits(&config, rows[i].authorized, rows[i].asks_for_health), rows[i].admitted);
    }
}
