/* test_registry.c - the registry's client against a real etcd, which the test starts. Skipped where there is none:
 * ./run test fetches it; else it is looked for on the path, or at SYMPHONY_ETCD. */
/* Starts threads. */
#include "cluster/membership/registry.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/folder.h"
#include "core/util/container.h"
#include "unit/test.h"

#define LIMIT_NS (600 * NS_PER_S) /* of what is waited for: on any machine */
#define LEASE_S  1

/* ---- etcd ---- */

static char etcd_path[512], etcd_dir[64];
static unsigned etcd_port, etcd_peer_port;
static pid_t etcd_pid;

static bool etcd_find(void) {
    const char *told = getenv("SYMPHONY_ETCD"), *path = getenv("PATH");
    snprintf(etcd_path, sizeof(etcd_path), "%s", told ? told : TESTS_DIR "/../build/clients/bin/etcd");
    if (told || access(etcd_path, X_OK) == 0)
        return access(etcd_path, X_OK) == 0;
    for (const char *at = path ? path : ""; *at; at += strspn(at, ":")) {
        size_t length = strcspn(at, ":");
        snprintf(etcd_path, sizeof(etcd_path), "%.*s/etcd", (int)length, at);
        if (access(etcd_path, X_OK) == 0)
            return true;
        at += length;
    }
    return false;
}

/* Whether a socket can be bound, or connected, to that port of this host. */
static bool port_try(unsigned port, int (*how)(int, const struct sockaddr *, socklen_t)) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool done = how(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
    close(fd);
    return done;
}

/* A port that is nobody else's while this process lives, whether etcd runs or not. Not one that the kernel gives to
 * connections; and other tests see by a Unix socket's name that it is taken (tests/e2e/server.py). */
static unsigned port_free(void) {
    unsigned first = 10000, end = 32768;
    FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
    if (range && fscanf(range, "%u", &end) == 1 && end <= first)
        end = 65536;
    if (range)
        fclose(range);
    for (unsigned n = 0; n < end - first; n++) {
        unsigned port = first + ((unsigned)getpid() * 17 + n) % (end - first);
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "symphony-tests-port-%u", port);
        int mark = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
        if (bind(mark, (struct sockaddr *)&name, bytes) == 0 && port_try(port, bind))
            return port;
        close(mark);
    }
    fail_msg("no port is free");
    return 0;
}

/* Runs a program that dies with this one; its output goes to a file beside etcd's data. */
static pid_t spawn(char *const argv[]) {
    char log[80];
    snprintf(log, sizeof(log), "%s/log", etcd_dir);
    pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !freopen(log, "a", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        _exit(1);
    execv(argv[0], argv);
    _exit(1);
}

static void etcd_run(void) {
    char data[80], client[64], peer[64], cluster[80];
    snprintf(data, sizeof(data), "%s/data", etcd_dir);
    snprintf(client, sizeof(client), "http://127.0.0.1:%u", etcd_port);
    snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", etcd_peer_port);
    snprintf(cluster, sizeof(cluster), "t=%s", peer);
#ifdef __aarch64__
    setenv("ETCD_UNSUPPORTED_ARCH", "arm64", 1); /* 3.4 insists */
#endif
    /* Its least lease is one and a half times the election timeout: so one of LEASE_S is granted. */
    char *argv[] = {etcd_path, "--name",
                    "t",       "--data-dir",
                    data,      "--listen-client-urls",
                    client,    "--advertise-client-urls",
                    client,    "--listen-peer-urls",
                    peer,      "--initial-advertise-peer-urls",
                    peer,      "--initial-cluster",
                    cluster,   "--heartbeat-interval",
                    "20",      "--election-timeout",
                    "200",     NULL};
    etcd_pid = spawn(argv);
}

/* Starts it, on other ports if somebody took the free ones meanwhile. */
static void etcd_start(void) {
    for (int tries = 0; tries < 5; tries++) {
        etcd_port = port_free();
        etcd_peer_port = port_free();
        etcd_run();
        while (waitpid(etcd_pid, NULL, WNOHANG) == 0) {
            if (port_try(etcd_port, connect))
                return;
            usleep(10000);
        }
    }
    fail_msg("etcd does not start: see %s/log", etcd_dir);
}

static void etcd_stop(void) {
    kill(etcd_pid, SIGKILL);
    waitpid(etcd_pid, NULL, 0);
}

/* ---- a client, and what it has been told ---- */

struct client {
    struct registry *registry;
    struct doorbell bell;
    bool up;
    unsigned downs, ups, answers, failures, recorded, unrecorded;
    char rollouts[32];
    struct registry_leader leader, answer;
    struct registry_member members[16];
    unsigned member_count;
};

static void client_open(struct client *c, const char *endpoints, const char *name, uint64_t incarnation,
                        const char *role) {
    struct registry_config config = {.self = {.incarnation = incarnation}, .lease_s = LEASE_S, .bell = &c->bell};
    char url[256];
    struct sy_error err;
    *c = (struct client){0};
    snprintf(url, sizeof(url), "etcd://%s/%s", endpoints, name);
    assert_int_equal(registry_place_parse(url, &config.place, &err), 0);
    strcpy(config.self.role, role);
    snprintf(config.self.addresses, sizeof(config.self.addresses), "10.0.0.%u:7000", (unsigned)incarnation & 255);
    strcpy(config.address, config.self.addresses);
    assert_int_equal(doorbell_init(&c->bell, false, false), 0);
    assert_int_equal(registry_open(&config, &c->registry, &err), 0);
}

/* At the test's etcd. */
static void client_start(struct client *c, const char *name, uint64_t incarnation, const char *role) {
    char endpoint[32];
    snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", etcd_port);
    client_open(c, endpoint, name, incarnation, role);
}

static void client_close(struct client *c) {
    registry_close(c->registry);
    doorbell_destroy(&c->bell);
}

static struct registry_member *member_of(struct client *c, uint64_t incarnation) {
    for (unsigned i = 0; i < c->member_count; i++)
        if (c->members[i].incarnation == incarnation)
            return &c->members[i];
    return NULL;
}

static void event_note(struct client *c, const struct registry_event *event) {
    struct registry_member *member = member_of(c, event->member.incarnation);
    switch (event->kind) {
    case REGISTRY_UP:
        assert_false(c->up);
        c->up = true;
        c->ups++;
        break;
    case REGISTRY_DOWN:
        c->up = false;
        c->downs++;
        break;
    case REGISTRY_MEMBER:
        assert_true(member || c->member_count < ARRAY_COUNT(c->members));
        *(member ? member : &c->members[c->member_count++]) = event->member;
        break;
    case REGISTRY_MEMBER_GONE:
        assert_non_null(member);
        *member = c->members[--c->member_count];
        break;
    case REGISTRY_LEADER:
        c->leader = event->leader;
        break;
    case REGISTRY_ANSWER:
        c->answer = event->leader;
        c->answers++;
        break;
    case REGISTRY_FAILED:
        c->failures++;
        break;
    case REGISTRY_ROLLOUTS:
        snprintf(c->rollouts, sizeof(c->rollouts), "%s", event->text);
        break;
    case REGISTRY_RECORDED:
        c->recorded++;
        break;
    case REGISTRY_UNRECORDED:
        c->unrecorded++;
        break;
    }
}

/* Takes what has come; sleeps for it if nothing has. */
static void client_listen(struct client *c, int64_t until_ns) {
    doorbell_arm(&c->bell);
    if (registry_pending(c->registry))
        doorbell_cancel(&c->bell);
    else
        doorbell_sleep(&c->bell, until_ns);
    for (struct registry_event *event; (event = registry_event_next(c->registry));) {
        event_note(c, event);
        free(event);
    }
}

/* Listens until the condition is true. */
#define WAIT(client, condition)                                                                                        \
    for (int64_t until_ns = clock_now_ns() + LIMIT_NS; !(condition);) {                                                \
        if (clock_now_ns() > until_ns)                                                                                 \
            fail_msg("in vain: %s (etcd's log: %s/log)", #condition, etcd_dir);                                        \
        client_listen(client, until_ns);                                                                               \
    }

/* Asks until there is an answer: a slow machine may fail to give one in time. */
static void client_read(struct client *c) {
    unsigned answers = c->answers;
    while (c->answers == answers) {
        unsigned ended = c->answers + c->failures;
        registry_read(c->registry);
        WAIT(c, c->answers + c->failures > ended);
    }
}

/* Whether the swap made us the leader of that term. If its outcome is not known, it is repeated, as an election does.
 */
static bool swap_end(struct client *c, unsigned ended, int64_t revision, uint64_t term, uint64_t self) {
    for (unsigned answers = c->answers;; ended++) {
        WAIT(c, c->answers + c->failures > ended);
        if (c->answers > answers)
            return c->answer.key.term == term && c->answer.key.incarnation == self;
        registry_swap(c->registry, revision, term);
    }
}

static bool client_swap(struct client *c, int64_t revision, uint64_t term, uint64_t self) {
    unsigned ended = c->answers + c->failures;
    registry_swap(c->registry, revision, term);
    return swap_end(c, ended, revision, term, self);
}

/* ---- tests ---- */

static int need_etcd(void **state) {
    (void)state;
    if (!etcd_pid)
        skip();
    return 0;
}

TEST(members_come_and_go) {
    need_etcd(state);
    struct client a, b, looker;
    client_start(&looker, "members", 99, "");
    client_start(&a, "members", 1, "backend");
    WAIT(&a, a.up && member_of(&a, 1));
    client_start(&b, "members", 0xf000000000000002ull, "scheduler");
    WAIT(&b, member_of(&b, 1) && member_of(&b, 0xf000000000000002ull)); /* the list */
    WAIT(&a, member_of(&a, 0xf000000000000002ull));                     /* the watch */
    assert_string_equal(member_of(&a, 0xf000000000000002ull)->role, "scheduler");
    assert_string_equal(member_of(&a, 0xf000000000000002ull)->addresses, "10.0.0.2:7000");
    WAIT(&looker, looker.member_count == 2);
    client_close(&b);
    WAIT(&a, a.member_count == 1);
    WAIT(&looker, looker.member_count == 1);
    client_close(&a);
    client_close(&looker);
}

/* By the leader alone; who comes later is told, too. */
TEST(rollouts_are_recorded) {
    need_etcd(state);
    struct client a, b, late;
    client_start(&a, "rollouts", 1, "scheduler");
    client_start(&b, "rollouts", 2, "scheduler");
    assert_true(client_swap(&a, 0, 1, 1));
    while (!a.recorded) { /* a slow machine may fail to do so in time */
        unsigned ended = a.unrecorded;
        registry_record(a.registry, "{\"first\":1}");
        WAIT(&a, a.recorded || a.unrecorded > ended);
    }
    WAIT(&b, strcmp(b.rollouts, "{\"first\":1}") == 0 && b.leader.key.exists);
    WAIT(&a, strcmp(a.rollouts, "{\"first\":1}") == 0);
    registry_record(b.registry, "{\"second\":1}");
    WAIT(&b, b.unrecorded == 1);
    client_start(&late, "rollouts", 3, "frontend");
    WAIT(&late, strcmp(late.rollouts, "{\"first\":1}") == 0);
    client_close(&late);
    client_close(&b);
    client_close(&a);
}

TEST(leader_key_is_swapped) {
    need_etcd(state);
    struct client a, b;
    client_start(&a, "leader", 1, "scheduler");
    client_start(&b, "leader", 2, "scheduler");
    client_read(&a);
    assert_true(a.ups > 0 || a.downs > 0); /* who hears of a leader knows the members */
    assert_false(a.answer.key.exists);
    assert_true(client_swap(&a, 0, 1, 1));
    WAIT(&b, b.leader.key.exists);
    assert_int_equal(b.leader.key.incarnation, 1);
    assert_int_equal(b.leader.key.term, 1);
    assert_string_equal(b.leader.address, "10.0.0.1:7000");
    assert_int_equal(b.leader.key.revision, a.answer.key.revision);
    /* refused: there is one, and of another revision; what there is comes back */
    assert_false(client_swap(&b, 0, 2, 2));
    assert_int_equal(b.answer.key.incarnation, 1);
    assert_false(client_swap(&b, b.leader.key.revision + 1, 2, 2));
    assert_true(client_swap(&b, b.answer.key.revision, 2, 2));
    WAIT(&a, a.leader.key.term == 2);
    assert_string_equal(a.leader.address, "10.0.0.2:7000");
    client_close(&a);
    client_close(&b);
}

TEST(one_wins_each_term) {
    need_etcd(state);
    enum { CLIENTS = 4, TERMS = 25 };
    struct client c[CLIENTS];
    int64_t revision = 0;
    for (uint64_t i = 0; i < CLIENTS; i++) {
        client_start(&c[i], "race", i + 1, "scheduler");
        WAIT(&c[i], c[i].up);
    }
    for (uint64_t term = 1; term <= TERMS; term++) {
        unsigned winners = 0, ended[CLIENTS];
        for (uint64_t i = 0; i < CLIENTS; i++) {
            ended[i] = c[i].answers + c[i].failures;
            registry_swap(c[i].registry, revision, term);
        }
        for (uint64_t i = 0; i < CLIENTS; i++)
            winners += swap_end(&c[i], ended[i], revision, term, i + 1);
        assert_int_equal(winners, 1);
        client_read(&c[0]);
        revision = c[0].answer.key.revision;
    }
    for (uint64_t i = 0; i < CLIENTS; i++) {
        WAIT(&c[i], c[i].leader.key.term == TERMS);
        assert_int_equal(c[i].leader.key.incarnation, c[0].answer.key.incarnation);
    }
    for (uint64_t i = 0; i < CLIENTS; i++)
        client_close(&c[i]);
}

TEST(etcd_stops_and_comes_back) {
    need_etcd(state);
    struct client a, b;
    client_start(&a, "restart", 1, "scheduler");
    client_start(&b, "restart", 2, "backend");
    WAIT(&a, a.member_count == 2);
    WAIT(&b, b.member_count == 2);
    assert_true(client_swap(&a, 0, 5, 1));
    int64_t revision = a.answer.key.revision;
    etcd_stop();
    WAIT(&a, !a.up);
    WAIT(&b, !b.up);
    unsigned answers = a.answers;
    registry_read(a.registry);
    registry_swap(a.registry, revision, 6);
    unsigned failures = a.failures + 2;
    WAIT(&a, a.failures == failures);
    assert_int_equal(a.answers, answers);
    etcd_run();
    WAIT(&a, a.up);
    WAIT(&b, b.up && b.leader.key.term == 5);
    client_read(&a);
    assert_int_equal(a.answer.key.revision, revision);
    assert_true(client_swap(&a, revision, 6, 1));
    WAIT(&b, b.leader.key.term == 6 && b.member_count == 2);
    client_close(&b);
    WAIT(&a, a.up && a.member_count == 1);
    client_close(&a);
}

TEST(etcd_falls_silent) {
    need_etcd(state);
    struct client a;
    client_start(&a, "silent", 1, "scheduler");
    WAIT(&a, a.up && member_of(&a, 1));
    kill(etcd_pid, SIGSTOP);
    WAIT(&a, !a.up);
    unsigned failures = a.failures;
    registry_read(a.registry);
    WAIT(&a, a.failures > failures);
    kill(etcd_pid, SIGCONT);
    WAIT(&a, a.up && member_of(&a, 1)); /* if its lease has run out, it has a new one */
    client_read(&a);
    client_close(&a);
}

/* What `test_registry member ENDPOINT NAME` does: registers, and stays until it is killed. */
static void member_main(const char *endpoint, const char *name) {
    struct client c;
    client_open(&c, endpoint, name, 77, "backend");
    for (;;)
        client_listen(&c, INT64_MAX);
}

TEST(killed_and_stopped_members_are_gone) {
    need_etcd(state);
    struct client a;
    char endpoint[32];
    snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", etcd_port);
    char *argv[] = {"/proc/self/exe", "member", endpoint, "lease", NULL};
    client_start(&a, "lease", 1, "scheduler");
    pid_t pid = spawn(argv);
    WAIT(&a, member_of(&a, 77));
    kill(pid, SIGSTOP);
    WAIT(&a, !member_of(&a, 77));
    kill(pid, SIGCONT);
    WAIT(&a, member_of(&a, 77)); /* it has seen it, and registered anew */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    WAIT(&a, !member_of(&a, 77));
    WAIT(&a, member_of(&a, 1)); /* whose lease is kept alive */
    client_close(&a);
}

TEST(second_address_serves) {
    need_etcd(state);
    struct client a;
    char endpoints[96];
    snprintf(endpoints, sizeof(endpoints), "127.0.0.1:%u,127.0.0.1:%u", port_free(), etcd_port);
    client_open(&a, endpoints, "second", 1, "frontend");
    WAIT(&a, a.up && member_of(&a, 1));
    client_read(&a);
    client_close(&a);
}

TEST(nothing_there_is_no_trouble) {
    struct client a;
    char endpoint[32];
    snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", port_free());
    client_open(&a, endpoint, "none", 1, "frontend");
    registry_read(a.registry);
    WAIT(&a, a.failures == 1 && a.downs == 1);
    assert_int_equal(a.ups, 0);
    registry_read(a.registry); /* not answered any more */
    client_close(&a);
    struct registry_config config = {.self = {.incarnation = 1, .role = "Backend"}, .bell = &a.bell};
    struct registry *registry;
    struct sy_error err;
    assert_int_equal(registry_open(&config, &registry, &err), -EINVAL);
}

/* ---- the election and the registry together, by the real clock; heartbeats are handed over directly ---- */

enum { NODES = 3 };

struct node {
    struct registry *registry;
    struct election e;
    int64_t wake_ns;
    unsigned failures;
};

struct cluster {
    struct doorbell bell;
    struct node nodes[NODES]; /* without a registry: dead */
    uint64_t winners[64];     /* by term */
};

static void node_step(struct cluster *c, uint32_t i, struct election_event event) {
    struct node *n = &c->nodes[i];
    struct election_actions out;
    election_step(&n->e, clock_now_ns(), &event, &out);
    n->wake_ns = out.wake_ns;
    if (out.change == ELECTION_LEAD) {
        uint64_t term = election_term(&n->e);
        assert_true(term < ARRAY_COUNT(c->winners) && !c->winners[term]);
        c->winners[term] = i + 1;
    }
    if (out.ask == ELECTION_READ)
        registry_read(n->registry);
    else if (out.ask == ELECTION_SWAP)
        registry_swap(n->registry, out.swap_revision, out.swap_term);
    for (uint32_t p = 0; out.heartbeat && p < NODES; p++)
        if (p != i && c->nodes[p].registry)
            node_step(c, p,
                      (struct election_event){.kind = ELECTION_HEARD,
                                              .peer = i,
                                              .incarnation = i + 1,
                                              .term = election_term(&n->e),
                                              .leads = election_leads(&n->e)});
}

static void node_listen(struct cluster *c, uint32_t i) {
    for (struct registry_event *event; (event = registry_event_next(c->nodes[i].registry)); free(event)) {
        struct election_event news = {.key = event->leader.key};
        if (event->kind == REGISTRY_LEADER)
            news.kind = ELECTION_KEY_CHANGED;
        else if (event->kind == REGISTRY_ANSWER)
            news.kind = ELECTION_KEY_ANSWER;
        else if (event->kind == REGISTRY_FAILED)
            news.kind = ELECTION_REGISTRY_FAILED;
        else
            continue;
        c->nodes[i].failures += event->kind == REGISTRY_FAILED;
        node_step(c, i, news);
    }
}

/* One turn of all; then sleeps until there is something to do. */
static void cluster_turn(struct cluster *c) {
    int64_t wake_ns = INT64_MAX;
    bool pending = false;
    for (uint32_t i = 0; i < NODES; i++) {
        if (!c->nodes[i].registry)
            continue;
        node_listen(c, i);
        if (clock_now_ns() >= c->nodes[i].wake_ns)
            node_step(c, i, (struct election_event){.kind = ELECTION_TIMER});
    }
    doorbell_arm(&c->bell);
    for (uint32_t i = 0; i < NODES; i++)
        if (c->nodes[i].registry) {
            wake_ns = c->nodes[i].wake_ns < wake_ns ? c->nodes[i].wake_ns : wake_ns;
            pending |= registry_pending(c->nodes[i].registry);
        }
    if (pending)
        doorbell_cancel(&c->bell);
    else
        doorbell_sleep(&c->bell, wake_ns);
}

/* Who leads, if all follow it; else NODES. */
static uint32_t cluster_leader(const struct cluster *c) {
    uint32_t leader = NODES;
    for (uint32_t i = 0; i < NODES; i++)
        if (c->nodes[i].registry && election_leads(&c->nodes[i].e))
            leader = i;
    for (uint32_t i = 0; i < NODES; i++)
        if (c->nodes[i].registry && election_leader(&c->nodes[i].e) != leader + 1)
            return NODES;
    return leader;
}

#define TURN_UNTIL(cluster, condition)                                                                                 \
    for (int64_t until_ns = clock_now_ns() + LIMIT_NS; !(condition);) {                                                \
        if (clock_now_ns() > until_ns)                                                                                 \
            fail_msg("in vain: %s", #condition);                                                                       \
        cluster_turn(cluster);                                                                                         \
    }

static void node_kill(struct cluster *c, uint32_t i) {
    registry_close(c->nodes[i].registry);
    c->nodes[i].registry = NULL;
    for (uint32_t p = 0; p < NODES; p++)
        if (c->nodes[p].registry)
            node_step(c, p, (struct election_event){.kind = ELECTION_LINK, .peer = i, .up = false});
}

TEST(leaders_follow_each_other) {
    need_etcd(state);
    struct cluster c = {0};
    char url[64];
    struct sy_error err;
    snprintf(url, sizeof(url), "etcd://127.0.0.1:%u/elections", etcd_port);
    assert_int_equal(doorbell_init(&c.bell, false, false), 0);
    for (uint32_t i = 0; i < NODES; i++) {
        struct registry_config config = {.self = {.incarnation = i + 1, .role = "scheduler"}, .bell = &c.bell};
        struct election_config rules = {.incarnation = i + 1, .registry = true, .peers = NODES};
        assert_int_equal(registry_place_parse(url, &config.place, &err), 0);
        assert_int_equal(registry_open(&config, &c.nodes[i].registry, &err), 0);
        election_init(&c.nodes[i].e, &rules, clock_now_ns());
    }
    TURN_UNTIL(&c, cluster_leader(&c) < NODES);
    uint32_t first = cluster_leader(&c);
    uint64_t term = election_term(&c.nodes[first].e);
    node_kill(&c, first);
    TURN_UNTIL(&c, cluster_leader(&c) < NODES);
    uint32_t second = cluster_leader(&c), third = NODES - first - second;
    assert_true(election_term(&c.nodes[second].e) > term);
    /* without the registry the last one does not lead before it is back */
    etcd_stop();
    node_kill(&c, second);
    unsigned failures = c.nodes[third].failures + 3;
    TURN_UNTIL(&c, c.nodes[third].failures >= failures);
    assert_false(election_leads(&c.nodes[third].e));
    etcd_run();
    TURN_UNTIL(&c, cluster_leader(&c) == third);
    registry_close(c.nodes[third].registry);
    doorbell_destroy(&c.bell);
}

static int set_up(void **state) {
    (void)state;
    strcpy(etcd_dir, "/tmp/symphony-etcd-XXXXXX");
    if (!mkdtemp(etcd_dir))
        return -1;
    if (etcd_find())
        etcd_start();
    else
        printf("no etcd found: most is skipped\n");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (etcd_pid)
        etcd_stop();
    folder_remove(etcd_dir);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "member") == 0)
        member_main(argv[2], argv[3]);
    return tests_run(set_up, tear_down);
}
