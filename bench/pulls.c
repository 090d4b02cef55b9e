/* pulls.c - bench_pulls: how fast, and how evenly, a backend gets inputs from frontends: the program's own links, in
 * processes of this host, with a scheduler that seals batches as soon as they are full and an executor that only looks
 * at the clock, or, by shm or with --gather, puts the batch's tensor together first, as the program's executors do.
 *
 *     bench_pulls [--transport all|shm|fabric|tcp] [--cluster-cert FILE --cluster-key FILE --cluster-ca FILE]
 *                 [--bytes N] [--frontends F] [--each E] [--depth D] [--seconds T] [--gather]
 *
 * Without --bytes a row for each of 1 KB to 10 MB. A batch has E requests of each of F frontends, by default so many
 * that it has a megabyte, but 8 to 64; and D batches are under way, by default 3, as many as a scheduler gives an
 * accelerator. The time of a batch is from where the scheduler sends it to where the executor has it with all its
 * inputs: by fabric and tcp in memory of the backend, by shm, where the executor's copy is what moves them, in the
 * batch's tensor. "bare" is what the host does with as many blocks without the program: for shm memcpy() of one thread,
 * from blocks that lie as those of a frontend do to those of one batch; for fabric reads by libfabric in a loop, one
 * after the other, as many under way as all batches have requests; for tcp a socket between two processes, a megabyte
 * a system call. bench/pulls.py compares with iperf3 and fi_rma_bw instead. CPU is in microseconds, of all processes
 * together, for a megabyte and for a request. The first fifth of the time is not counted. libfabric's provider is
 * "tcp".
 *
 * On a machine that others use, too, MB/s tell little. CPU tells more, and so do the columns "best": the time is cut
 * into windows of 10 ms or a bit more, and "best" is the rate that a tenth of them exceeds, of the pulls and of the
 * bare way. */
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "core/system/log.h"
#include "server/commands/cluster_tls.h"
#include "server/commands/options.h"
#include "lab/load/latency.h"
#include "cluster/peer/fabric.h"
#include "unit/cluster/roles/members.h"

#define BEAT_NS    (2 * NS_PER_S)
#define SEND_BYTES ((size_t)1 << 20) /* of one system call, for comparison */
#define BLOCKS_MAX (MEMBERS_MAX * MEMBERS_AWAY)
#define SLAB_MORE  ((size_t)64 << 20)
#define SLAB_LEAST ((size_t)1 << 20) /* what any block of a pinned slab may take */

#define WINDOW_NS   (10 * NS_PER_MS)
#define WINDOWS_MAX 65536

/* The rates of windows of WINDOW_NS or a bit more. */
struct windows {
    double rates[WINDOWS_MAX]; /* bytes a second; the first so many */
    uint32_t count;
    int64_t since_ns; /* the present window; 0: none yet */
    uint64_t bytes;   /* in it */
};

struct settings {
    int transport;
    const char *certificate, *key, *ca;
    int64_t bytes, frontends, each, depth;
    double seconds;
    bool gather;
};

struct bench {
    struct settings settings;
    struct members_scheduler scheduler;
    struct members_backend backend;
    struct latency latency;
    int64_t count_ns, end_ns, first_ns, last_ns;
    uint64_t bytes, batches;
    char *tensor; /* of a batch; the executor's */
    _Atomic bool over;
};

static struct bench bench;
static struct windows windows; /* of the bare way, or of the pulls */

static void windows_add(int64_t now_ns, uint64_t bytes) {
    struct windows *w = &windows;
    w->bytes += bytes;
    if (w->since_ns && now_ns - w->since_ns < WINDOW_NS)
        return;
    if (w->since_ns && w->count < WINDOWS_MAX)
        w->rates[w->count++] = (double)w->bytes / (double)(now_ns - w->since_ns) * NS_PER_S;
    w->since_ns = now_ns;
    w->bytes = 0;
}

static int rates_order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The rate that a tenth of the windows exceeds; begins again without any. */
static double windows_best(void) {
    qsort(windows.rates, windows.count, sizeof(windows.rates[0]), rates_order);
    double best = windows.count ? windows.rates[(uint64_t)windows.count * 9 / 10] : 0;
    windows.count = 0;
    windows.since_ns = 0;
    windows.bytes = 0;
    return best;
}

static enum transport_kind transport;

static void choose(struct backend_link_config *config) {
    config->transports = TRANSPORT_BIT(transport);
}

/* ---- what the host can do ---- */

/* CPU time of this process and of children of it, in microseconds. */
static double cpu_us(const pid_t *children, uint32_t count) {
    struct timespec used;
    double sum = 0;
    for (uint32_t i = 0; i <= count; i++) {
        clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
        if ((i < count && clock_getcpuclockid(children[i], &clock) != 0) || clock_gettime(clock, &used) < 0)
            continue;
        sum += 1e6 * (double)used.tv_sec + 1e-3 * (double)used.tv_nsec;
    }
    return sum;
}

/* What the host does: bytes a second, in the best tenth of the time, too, and CPU time a byte. */
struct bare {
    double rate, best, us_per_byte;
};

static struct bare bare_of(uint64_t bytes, int64_t begun_ns, double used_us) {
    return (struct bare){(double)bytes / (double)(clock_now_ns() - begun_ns) * NS_PER_S, windows_best(),
                         used_us / (double)bytes};
}

static char *block_make(size_t bytes) {
    char *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(block != MAP_FAILED);
    memset(block, 1, bytes);
    return block;
}

/* Blocks of a slab, which is to be destroyed. */
static struct slab *slab_blocks(size_t bytes, char **blocks, uint32_t count) {
    struct slab *slab = slab_create_visible(bytes * count * 2 + SLAB_MORE, false, false);
    CHECK(slab);
    for (uint32_t i = 0; i < count; i++) {
        CHECK((blocks[i] = slab_take(slab, bytes)));
        memset(blocks[i], 1, bytes);
    }
    return slab;
}

/* A frontend has the requests of one batch more than are under way. */
static struct bare memcpy_rate(size_t bytes, uint32_t sources, uint32_t blocks, double seconds) {
    static char *from[BLOCKS_MAX], *to[BLOCKS_MAX];
    struct slab *sources_slab = slab_blocks(bytes, from, sources), *slab = slab_blocks(bytes, to, blocks);
    int64_t begun_ns = clock_now_ns(), now_ns = begun_ns, until_ns = begun_ns + (int64_t)(seconds * NS_PER_S);
    uint64_t copied = 0, unseen = 0;
    double used_us = cpu_us(NULL, 0);
    for (uint32_t i = 0; now_ns < until_ns; i++) {
        memcpy(to[i % blocks], from[i % sources], bytes);
        copied += bytes;
        unseen += bytes;
        if (unseen < SEND_BYTES)
            continue;
        now_ns = clock_now_ns();
        windows_add(now_ns, unseen);
        unseen = 0;
    }
    struct bare bare = bare_of(copied, begun_ns, cpu_us(NULL, 0) - used_us);
    slab_destroy(sources_slab);
    slab_destroy(slab);
    return bare;
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

static struct bare socket_rate(size_t bytes, uint32_t blocks, double seconds) {
    struct sy_error err;
    int listen_fd, port;
    CHECK_EQ(listen_open("127.0.0.1", 0, "probe", &listen_fd, &port, &err), 0);
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
    double used_us = cpu_us(&child, 1);
    for (; now_ns < until_ns; now_ns = clock_now_ns()) {
        size_t part = total - at_byte < SEND_BYTES ? total - at_byte : SEND_BYTES;
        ssize_t got = recv(fd, to + at_byte, part, 0);
        CHECK(got > 0);
        came += (uint64_t)got;
        windows_add(now_ns, (uint64_t)got);
        at_byte = (at_byte + (size_t)got) % total;
    }
    struct bare bare = bare_of(came, begun_ns, cpu_us(&child, 1) - used_us);
    close(fd);
    close(listen_fd);
    munmap(to, total);
    waitpid(child, NULL, 0);
    return bare;
}

/* ---- reads by libfabric, in a loop ---- */

struct rma {
    struct fabric *fabric;
    struct fabric_end *end;
    bool up;
    uint64_t came; /* bytes */
};

/* What the reader has to know, in a pipe. */
struct rma_told {
    struct sockaddr_storage at;
    uint64_t remote, key;
};

static const uint64_t rma_secret[2] = {1, 2};

static void *rma_asked(void *owner, const uint64_t secret[2]) {
    return memcmp(secret, rma_secret, sizeof(rma_secret)) == 0 ? owner : NULL;
}

static void rma_accepted(void *of, struct fabric_end *end) {
    ((struct rma *)of)->end = end;
}

static void rma_up(void *of) {
    ((struct rma *)of)->up = true;
}

static void rma_down(void *of, const char *reason) {
    (void)of, (void)reason;
    _exit(0);
}

static void rma_read(void *of, uint64_t tag, size_t bytes) {
    (void)tag;
    ((struct rma *)of)->came += bytes;
}

static void rma_turn(struct rma *r) {
    struct pollfd ready[FABRIC_FDS];
    int fds[FABRIC_FDS];
    if (fabric_may_sleep(r->fabric)) {
        uint32_t count = fabric_fds(r->fabric, fds);
        for (uint32_t i = 0; i < count; i++)
            ready[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        poll(ready, count, 100);
    }
    fabric_look(r->fabric);
}

static void rma_open(struct rma *r, char *memory, size_t bytes, bool remote, struct fabric_region *region) {
    static const struct fabric_events events = {rma_asked, rma_accepted, rma_up, rma_down, rma_read};
    struct sy_error err;
    *r = (struct rma){.came = 0};
    if (fabric_open(&r->fabric, "tcp", &events, r, &err) < 0 ||
        fabric_region(r->fabric, memory, (uintptr_t)memory, bytes, remote, region, &err) < 0) {
        fprintf(stderr, "bench_pulls: %s\n", err.text);
        exit(1);
    }
}

static void rma_serve(size_t bytes, int pipe_fd) {
    struct rma_told told;
    struct fabric_region region;
    struct sy_error err;
    struct rma r;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rma_open(&r, block_make(bytes), bytes, true, &region);
    CHECK_EQ(fabric_listen(r.fabric, "127.0.0.1", &told.at, &err), 0);
    told.remote = region.remote;
    told.key = region.key;
    CHECK_EQ(write(pipe_fd, &told, sizeof(told)), (ssize_t)sizeof(told));
    for (;;)
        rma_turn(&r);
}

static struct bare rma_rate(size_t bytes, uint32_t blocks, double seconds) {
    size_t total = bytes * blocks;
    struct rma_told told;
    struct fabric_region region;
    struct sy_error err;
    struct rma r;
    int pipe_fds[2];
    CHECK_EQ(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0)
        rma_serve(total, pipe_fds[1]);
    char *to = block_make(total);
    close(pipe_fds[1]);
    CHECK_EQ(read(pipe_fds[0], &told, sizeof(told)), (ssize_t)sizeof(told));
    close(pipe_fds[0]);
    rma_open(&r, to, total, false, &region);
    CHECK_EQ(fabric_connect(r.fabric, (struct sockaddr *)&told.at, rma_secret, &r, &r.end, &err), 0);
    while (!r.up)
        rma_turn(&r);
    uint64_t asked = 0;
    double used_us = cpu_us(&child, 1);
    int64_t begun_ns = clock_now_ns(), until_ns = begun_ns + (int64_t)(seconds * NS_PER_S);
    for (uint64_t seen = 0; clock_now_ns() < until_ns; seen = r.came) {
        for (; asked < r.came + total; asked += bytes, fabric_post(r.end))
            CHECK_EQ(fabric_read(r.end, &region, to + asked % total, bytes, told.remote + asked % total, told.key, 0),
                     0);
        rma_turn(&r);
        windows_add(clock_now_ns(), r.came - seen);
    }
    struct bare bare = bare_of(r.came, begun_ns, cpu_us(&child, 1) - used_us);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    fabric_end_close(r.end);
    fabric_close(r.fabric);
    munmap(to, total);
    return bare;
}

static struct bare bare_rate(size_t bytes, uint32_t sources, uint32_t blocks, double seconds) {
    return transport == TRANSPORT_SHM      ? memcpy_rate(bytes, sources, blocks, seconds)
           : transport == TRANSPORT_FABRIC ? rma_rate(bytes, blocks, seconds)
                                           : socket_rate(bytes, blocks, seconds);
}

/* ---- the run ---- */

/* A frontend, in a process of its own: as many requests as the batches under way need, and those of one more. */
static void frontend_run(int scheduler_port, size_t bytes, uint32_t most) {
    struct members_frontend *f = calloc(1, sizeof(*f));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    members_frontend_open(f, scheduler_port, BEAT_NS, bytes * most * 2 + SLAB_MORE, NULL);
    for (;;) {
        while (f->submitted - f->back < most && members_submit(f, bytes))
            f->fill++;
        port_flush(f->port);
        members_wait(f, 100);
        members_take(f);
    }
}

/* The bytes of a batch's inputs, which are copied into its tensor as by executors of the program. No request ends
 * meanwhile, but for the last ones, when the backend leaves. */
static uint64_t gather(const struct bench *b, const struct wiring *wiring, const struct batch_plan *plan) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->request_count; i++) {
        const struct request_card *card = wiring_card(wiring, plan->handles[i]);
        if (b->settings.gather || card_is_elsewhere(card))
            memcpy(b->tensor + bytes, region_at(wiring->regions, &card->inputs[0]), card->inputs[0].bytes);
        bytes += card->inputs[0].bytes;
    }
    return bytes;
}

static void look(void *context, const struct wiring *wiring, const struct batch_plan *plan) {
    struct bench *b = context;
    uint64_t bytes = gather(b, wiring, plan);
    int64_t now_ns = clock_now_ns();
    if (now_ns < b->count_ns || now_ns > b->end_ns) {
        atomic_store_explicit(&b->over, now_ns > b->end_ns, memory_order_release); /* with measure() */
        return;
    }
    windows_add(now_ns, bytes);
    if (b->first_ns == 0)
        b->first_ns = now_ns; /* what came before it is not counted */
    else
        b->bytes += bytes;
    b->last_ns = now_ns;
    b->batches++;
    latency_add(&b->latency, now_ns - atomic_load_explicit(&b->scheduler.begun_ns[plan->tag % MEMBERS_PLANS],
                                                           memory_order_relaxed)); /* through the rings */
}

static uint32_t each_of(size_t bytes) {
    size_t each = 1000000 / bytes;
    return each < 8 ? 8 : each > 64 ? 64 : (uint32_t)each;
}

static void measure(struct bench *b, size_t bytes) {
    const struct settings *s = &b->settings;
    uint32_t each = s->each ? (uint32_t)s->each : each_of(bytes);
    uint32_t most = each * (uint32_t)(s->depth + 1), blocks = (uint32_t)(s->frontends * s->depth) * each;
    pid_t children[MEMBERS_MAX];
    double part = s->seconds / 5, used_us = 0;

    size_t batch_bytes = bytes * each * (size_t)s->frontends;
    struct bare bare = bare_rate(bytes, most * (uint32_t)s->frontends,
                                 transport == TRANSPORT_SHM ? blocks / (uint32_t)s->depth : blocks, part);
    b->tensor = block_make(batch_bytes);
    members_scheduler_open(&b->scheduler, BEAT_NS);
    b->scheduler.frontends = (uint32_t)s->frontends;
    b->scheduler.each = each;
    b->scheduler.depth = (uint32_t)s->depth;
    for (int64_t f = 0; f < s->frontends; f++)
        if ((children[f] = fork()) == 0)
            frontend_run(b->scheduler.port, bytes, most);
    memset(&b->backend, 0, sizeof(b->backend));
    memset(&b->latency, 0, sizeof(b->latency));
    b->bytes = b->batches = 0;
    b->first_ns = b->last_ns = 0;
    b->over = false;
    b->backend.look = look;
    b->backend.context = b;
    b->count_ns = clock_now_ns() + (int64_t)(part * NS_PER_S) + NS_PER_S / 2; /* they find each other, too */
    b->end_ns = b->count_ns + (int64_t)(4 * part * NS_PER_S);
    members_scheduler_start(&b->scheduler);
    size_t block = bytes > SLAB_LEAST ? bytes : SLAB_LEAST;
    members_backend_open(&b->backend, b->scheduler.port, BEAT_NS, block * blocks * 2 + SLAB_MORE, choose);
    while (!atomic_load_explicit(&b->over, memory_order_acquire) && /* with look() */
           clock_now_ns() < b->end_ns + 2 * NS_PER_S) {
        if (used_us == 0 && clock_now_ns() >= b->count_ns)
            used_us = cpu_us(children, (uint32_t)s->frontends);
        usleep(1000);
    }
    double used = cpu_us(children, (uint32_t)s->frontends) - used_us;
    members_backend_close(&b->backend);
    for (int64_t f = 0; f < s->frontends; f++) {
        kill(children[f], SIGKILL);
        waitpid(children[f], NULL, 0);
    }
    members_scheduler_stop(&b->scheduler);
    munmap(b->tensor, batch_bytes);
    double rate = b->batches > 1 ? (double)b->bytes / (double)(b->last_ns - b->first_ns) * NS_PER_S : 0;
    double best = windows_best();
    printf("%-9s %9zu %6u %8llu %8.0f %8.0f %4.0f %% %8.0f %8.0f %4.0f %% %8.0f %8.0f %8.1f",
           transport == TRANSPORT_TCP && members_tls ? "tls" : transport_name(transport), bytes,
           each * (uint32_t)s->frontends, (unsigned long long)b->batches, rate / 1e6, bare.rate / 1e6,
           100 * rate / bare.rate, best / 1e6, bare.best / 1e6, 100 * best / bare.best, used / (double)b->bytes * 1e6,
           bare.us_per_byte * 1e6, used / (double)b->bytes * (double)bytes);
    static const double quantiles[] = {0, 0.5, 0.99, 0.999, 0.9999};
    for (unsigned i = 0; i < ARRAY_COUNT(quantiles); i++)
        printf(" %8.0f", (double)latency_quantile_ns(&b->latency, quantiles[i]) / 1e3);
    printf("\n");
    fflush(stdout);
}

#define S struct settings
static const struct option_row rows[] = {
    OPTION_CHOICE(S, transport, "transport", "all|shm|fabric|tcp", "one after the other, or one"),
    OPTION_TEXT(S, certificate, "cluster-cert", "FILE", "links over TCP speak TLS: as of symphony backend"),
    OPTION_TEXT(S, key, "cluster-key", "FILE", "the same"),
    OPTION_TEXT(S, ca, "cluster-ca", "FILE", "the same"),
    OPTION_INT(S, bytes, "bytes", "N", 1, 1 << 28, "of an input; without it several"),
    OPTION_INT(S, frontends, "frontends", "F", 1, MEMBERS_MAX - 2, "processes that inputs come from"),
    OPTION_INT(S, each, "each", "E", 1, 64, "requests of each frontend in a batch; without it 8 to 64"),
    OPTION_INT(S, depth, "depth", "D", 1, 15, "batches under way"),
    OPTION_DOUBLE(S, seconds, "seconds", "T", 0.1, 3600, "for each row"),
    OPTION_FLAG(S, gather, "gather", "put each batch's tensor together, by every transport"),
    OPTION_END,
};
static const struct options options = {
    .command = "bench_pulls",
    .usage = "[OPTION]...",
    .intro = "Measures how a backend gets inputs from frontends, all on this host.",
    .notes = "Example, the incast of the Symphony paper's figure 12:\n"
             "  bench_pulls --bytes 150000 --frontends 8 --depth 1 --seconds 20",
    .rows = rows,
};

int main(int argc, char **argv) {
    static const size_t sizes[] = {1000, 10000, 150000, 1000000, 10000000};
    bench.settings = (struct settings){.frontends = 1, .depth = 3, .seconds = 3};
    int args, status = options_parse(&options, argc, argv, &bench.settings, &args);
    if (status != OPTIONS_GO_ON)
        return status;
    log_set_level(LOG_WARN);
    const struct settings *s = &bench.settings;
    struct sy_error err;
    if (cluster_tls_create(&members_tls, s->certificate, s->key, s->ca, &err) < 0) {
        fprintf(stderr, "bench_pulls: %s\n", err.text);
        return 2;
    }
    printf("%-9s %9s %6s %8s %8s %8s %6s %8s %8s %6s %8s %8s %8s %8s %8s %8s %8s %8s\n", "transport", "bytes", "batch",
           "batches", "MB/s", "bare", "of it", "best", "bare", "of it", "CPU/MB", "bare", "CPU/req", "least us", "p50",
           "p99", "p99.9", "p99.99");
    for (int k = 0; k < TRANSPORTS; k++) {
        if (s->transport && s->transport - 1 != k)
            continue;
        transport = (enum transport_kind)k;
        members_fabric = transport == TRANSPORT_FABRIC ? "tcp" : NULL;
        for (size_t i = 0; i < (s->bytes ? 1 : ARRAY_COUNT(sizes)); i++)
            measure(&bench, s->bytes ? (size_t)s->bytes : sizes[i]);
    }
    return 0;
}
