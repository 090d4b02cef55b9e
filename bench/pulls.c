/* pulls.c - bench_pulls: how fast, and how evenly, a backend gets inputs from frontends: the program's own links, in
 * processes of this host, with a scheduler that seals batches as soon as they are full and an executor that only looks
 * at the clock.
 *
 *     bench_pulls [--transport auto|tcp] [--bytes N] [--frontends F] [--each E] [--depth D] [--seconds T]
 *
 * Without --bytes a row for each of 1 KB to 10 MB. A batch has E requests of each of F frontends, and D batches are
 * under way. The time of a batch is from where the scheduler sends it to where the executor has it with all its inputs.
 * Beside each row what the host does with the same blocks without the program: memcpy() of one thread, and a socket of
 * TCP between two processes. CPU/MB is in microseconds, of all processes together. The first fifth of the time is not
 * counted. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/log.h"
#include "cli/options.h"
#include "load/latency.h"
#include "unit/cluster/members.h"

#define BEAT_NS    (2 * NS_PER_S)
#define SEND_BYTES ((size_t)1 << 20) /* of one system call, for comparison */

struct settings {
    int transport;
    int64_t bytes, frontends, each, depth;
    double seconds;
};

struct bench {
    struct settings settings;
    struct members_scheduler scheduler;
    struct members_backend backend;
    struct latency latency;
    int64_t count_ns, end_ns, first_ns, last_ns;
    uint64_t bytes, batches, bytes_all; /* all: those that are not counted, too */
    _Atomic bool over;
};

static struct bench bench;

static int transport;

static void choose(struct backend_link_config *config) {
    config->tcp = transport == 1;
}

/* ---- what the host can do ---- */

static char *block_make(size_t bytes) {
    char *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(block != MAP_FAILED);
    memset(block, 1, bytes);
    return block;
}

static double memcpy_rate(size_t bytes, uint32_t blocks, double seconds) {
    char *from = block_make(bytes * blocks), *to = block_make(bytes * blocks);
    int64_t begun_ns = clock_now_ns(), now_ns = begun_ns, until_ns = begun_ns + (int64_t)(seconds * NS_PER_S);
    uint64_t copied = 0;
    for (uint32_t i = 0; now_ns < until_ns; i = (i + 1) % blocks) {
        memcpy(to + i * bytes, from + i * bytes, bytes);
        copied += bytes;
        if (i == 0)
            now_ns = clock_now_ns();
    }
    munmap(from, bytes * blocks);
    munmap(to, bytes * blocks);
    return (double)copied / (double)(now_ns - begun_ns) * NS_PER_S;
}

static void socket_send(int port, size_t bytes, uint32_t blocks) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char *from = block_make(bytes * blocks);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    size_t total = bytes * blocks, at_byte = 0;
    for (;;) {
        size_t part = total - at_byte < SEND_BYTES ? total - at_byte : SEND_BYTES;
        ssize_t sent = send(fd, from + at_byte, part, MSG_NOSIGNAL);
        if (sent <= 0)
            _exit(0);
        at_byte = (at_byte + (size_t)sent) % total;
    }
}

static double socket_rate(size_t bytes, uint32_t blocks, double seconds) {
    struct sy_error err;
    int listen_fd, port;
    CHECK_EQ(listen_open("127.0.0.1", 0, &listen_fd, &port, &err), 0);
    pid_t child = fork();
    if (child == 0)
        socket_send(port, bytes, blocks);
    struct pollfd ready = {.fd = listen_fd, .events = POLLIN};
    CHECK_EQ(poll(&ready, 1, 10000), 1);
    int fd = accept(listen_fd, NULL, NULL);
    size_t total = bytes * blocks, at_byte = 0;
    char *to = block_make(total);
    int64_t begun_ns = clock_now_ns(), now_ns = begun_ns, until_ns = begun_ns + (int64_t)(seconds * NS_PER_S);
    uint64_t came = 0;
    for (; now_ns < until_ns; now_ns = clock_now_ns()) {
        size_t part = total - at_byte < SEND_BYTES ? total - at_byte : SEND_BYTES;
        ssize_t got = recv(fd, to + at_byte, part, 0);
        CHECK(got > 0);
        came += (uint64_t)got;
        at_byte = (at_byte + (size_t)got) % total;
    }
    close(fd);
    close(listen_fd);
    munmap(to, total);
    waitpid(child, NULL, 0);
    return (double)came / (double)(now_ns - begun_ns) * NS_PER_S;
}

/* ---- the run ---- */

/* A frontend, in a process of its own: as many requests as the batches under way need, and those of one more. */
static void frontend_run(int scheduler_port, size_t bytes, uint32_t most) {
    struct members_frontend *f = calloc(1, sizeof(*f));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    members_frontend_open(f, scheduler_port, BEAT_NS, bytes * most * 2 + ((size_t)64 << 20), NULL);
    for (;;) {
        while (f->submitted - f->back < most && members_submit(f, bytes))
            f->fill++;
        port_flush(f->port);
        members_wait(f, 100);
        members_take(f);
    }
}

static void look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    struct bench *b = context;
    int64_t now_ns = clock_now_ns();
    for (uint32_t i = 0; i < plan->request_count; i++)
        b->bytes_all += wiring_card(wiring, plan->handles[i])->inputs[0].bytes;
    if (now_ns < b->count_ns || now_ns > b->end_ns) {
        atomic_store_explicit(&b->over, now_ns > b->end_ns, memory_order_release); /* with measure() */
        return;
    }
    if (b->first_ns == 0)
        b->first_ns = now_ns; /* what came before it is not counted */
    else
        for (uint32_t i = 0; i < plan->request_count; i++)
            b->bytes += wiring_card(wiring, plan->handles[i])->inputs[0].bytes;
    b->last_ns = now_ns;
    b->batches++;
    latency_add(&b->latency, now_ns - atomic_load_explicit(&b->scheduler.begun_ns[plan->tag % MEMBERS_PLANS],
                                                           memory_order_relaxed)); /* through the rings */
}

/* CPU time of this process, and of its children that have ended. */
static double cpu_us(void) {
    double sum = 0;
    for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++) {
        struct rusage use;
        getrusage(who, &use);
        sum += 1e6 * (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
               (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    }
    return sum;
}

static void measure(struct bench *b, size_t bytes) {
    const struct settings *s = &b->settings;
    uint32_t most = (uint32_t)(s->each * (s->depth + 1)), blocks = (uint32_t)(s->frontends * s->each * s->depth);
    pid_t children[MEMBERS_MAX];
    double part = s->seconds / 5;

    double copies = memcpy_rate(bytes, blocks, part), sockets = socket_rate(bytes, blocks, part);
    double used_us = cpu_us();
    members_scheduler_open(&b->scheduler, BEAT_NS);
    b->scheduler.frontends = (uint32_t)s->frontends;
    b->scheduler.each = (uint32_t)s->each;
    b->scheduler.depth = (uint32_t)s->depth;
    for (int64_t f = 0; f < s->frontends; f++)
        if ((children[f] = fork()) == 0)
            frontend_run(b->scheduler.port, bytes, most);
    memset(&b->backend, 0, sizeof(b->backend));
    memset(&b->latency, 0, sizeof(b->latency));
    b->bytes = b->batches = b->bytes_all = 0;
    b->first_ns = b->last_ns = 0;
    b->over = false;
    b->backend.look = look;
    b->backend.context = b;
    b->count_ns = clock_now_ns() + (int64_t)(part * NS_PER_S) + NS_PER_S / 2; /* they find each other, too */
    b->end_ns = b->count_ns + (int64_t)(4 * part * NS_PER_S);
    members_scheduler_start(&b->scheduler);
    members_backend_open(&b->backend, b->scheduler.port, BEAT_NS, bytes * blocks * 2 + ((size_t)64 << 20), choose);
    while (!atomic_load_explicit(&b->over, memory_order_acquire) && /* with look() */
           clock_now_ns() < b->end_ns + 2 * NS_PER_S)
        usleep(10000);
    for (int64_t f = 0; f < s->frontends; f++) {
        kill(children[f], SIGKILL);
        waitpid(children[f], NULL, 0);
    }
    members_backend_close(&b->backend);
    members_scheduler_stop(&b->scheduler);
    double rate = b->batches > 1 ? (double)b->bytes / (double)(b->last_ns - b->first_ns) * NS_PER_S : 0;
    printf("%-9s %9zu %7lld %9llu %9.0f %9.0f %9.0f  %4.0f %% %4.0f %% %8.0f", transport ? "tcp" : "auto", bytes,
           (long long)(s->each * s->frontends), (unsigned long long)b->batches, rate / 1e6, copies / 1e6, sockets / 1e6,
           100 * rate / copies, 100 * rate / sockets, (cpu_us() - used_us) / (double)b->bytes_all * 1e6);
    static const double quantiles[] = {0, 0.5, 0.99, 0.999, 0.9999};
    for (unsigned i = 0; i < ARRAY_COUNT(quantiles); i++)
        printf(" %8.0f", (double)latency_quantile_ns(&b->latency, quantiles[i]) / 1e3);
    printf("\n");
    fflush(stdout);
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_CHOICE(S, transport, "transport", "auto|tcp", "as of symphony backend"),
    OPTION_INT(S, bytes, "bytes", "N", 1, 1 << 28, "of an input; without it several"),
    OPTION_INT(S, frontends, "frontends", "F", 1, MEMBERS_MAX - 2, "processes that inputs come from"),
    OPTION_INT(S, each, "each", "E", 1, 64, "requests of each frontend in a batch"),
    OPTION_INT(S, depth, "depth", "D", 1, 3, "batches under way"),
    OPTION_DOUBLE(S, seconds, "seconds", "T", 0.1, 3600, "for each row"),
    OPTION_END,
};
static const struct options options = {
    .command = "bench_pulls",
    .usage = "[OPTION]...",
    .intro = "Measures how a backend gets inputs from frontends, all on this host.",
    .notes = "Example, the incast of the Symphony paper's figure 12:\n"
             "  bench_pulls --transport tcp --bytes 150000 --frontends 8 --depth 1 --seconds 20",
    .rows = rows,
};

int main(int argc, char **argv) {
    static const size_t sizes[] = {1000, 10000, 150000, 1000000, 10000000};
    bench.settings = (struct settings){.frontends = 1, .each = 8, .depth = 2, .seconds = 3};
    int args, status = options_parse(&options, argc, argv, &bench.settings, &args);
    if (status != OPTIONS_GO_ON)
        return status;
    transport = bench.settings.transport;
    log_set_level(LOG_WARN);
    printf("%-9s %9s %7s %9s %9s %9s %9s  %6s %6s %8s %8s %8s %8s %8s %8s\n", "transport", "bytes", "batch", "batches",
           "MB/s", "memcpy", "socket", "of it", "of it", "CPU/MB", "least us", "p50", "p99", "p99.9", "p99.99");
    for (size_t i = 0; i < (bench.settings.bytes ? 1 : ARRAY_COUNT(sizes)); i++)
        measure(&bench, bench.settings.bytes ? (size_t)bench.settings.bytes : sizes[i]);
    return 0;
}
