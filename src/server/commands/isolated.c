/* isolated.c - starts the backends of `serve --isolate`, watches and ends them. */
#include "server/commands/isolated.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/data/running.h"
#include "core/data/visible.h"
#include "core/system/child_call.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/memory_file.h"
#include "core/system/thread.h"
#include "front/request/repository_order.h"
#include "server/threads/model_control.h"

#define TOKEN_BYTES 16
#define ARGUMENTS   (2 * REPOSITORIES_MAX + 44)
/* Delay before a backend that ended before it joined is started again; doubled each time. */
#define AGAIN_NS     (100 * NS_PER_MS)
#define AGAIN_MOST   (5 * NS_PER_S) /* longest such delay */
#define LOOK_NS      (1 * NS_PER_S)
#define END_LOOK_NS  (2 * NS_PER_MS)
#define END_LEAST_NS (100 * NS_PER_MS)

struct isolated_backend {
    pid_t pid; /* process; 0: none runs */
    int running_fd;
    uint64_t joined;  /* incarnation of the last process that joined */
    bool drained;     /* order to the accelerator of which the process knows */
    int64_t later_ns; /* delay between the last end and the next start */
    int64_t again_ns; /* time of the next start */
    const struct accelerator_group *group;
    uint32_t device; /* index of the accelerator in its group */
};

struct isolated {
    struct isolated_config config;
    struct isolated_backend *backends; /* [count] */
    struct running **running;          /* [count] */
    const char **types;                /* [count] */
    uint32_t count;
    int token_fd;
    char address[48], token_file[32];
    isolated_channel *channels;   /* [count] */
    struct repository_desk *desk; /* NULL: nobody takes the channels */
    pthread_t thread;
    _Atomic bool started; /* the thread runs */
    int64_t timeout_ns;
    _Atomic bool failed; /* isolated_failed() */
    _Atomic bool stop;   /* order to the thread to end; `timeout_ns` is set before */
};

void isolated_ring(void *isolated) {
    struct isolated *d = isolated;
    if (atomic_load_explicit(&d->started, memory_order_acquire)) /* with isolated_start() */
        pthread_kill(d->thread, SIGCHLD);
}

/* ---- what the backends and their parent share ---- */

static int token_make(struct isolated *d, struct sy_error *err) {
    uint8_t bytes[TOKEN_BYTES];
    char text[2 * TOKEN_BYTES + 1];
    uint64_t name;
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes) || getrandom(&name, sizeof(name), 0) != sizeof(name))
        return error_set(err, -EIO, "no random numbers");
    snprintf(d->address, sizeof(d->address), "@symphony-isolate-%016" PRIx64, name);
    for (unsigned i = 0; i < TOKEN_BYTES; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    for (uint32_t n = 0; n < d->count; n++)
        memcpy(d->running[n]->token, text, sizeof(text));
    d->token_fd = memory_file("token", text, sizeof(text) - 1);
    if (d->token_fd < 0)
        return error_set(err, d->token_fd, "no file in memory: %s", strerror(-d->token_fd));
    snprintf(d->token_file, sizeof(d->token_file), "/proc/self/fd/%d", d->token_fd);
    return 0;
}

static void isolated_free(struct isolated *d) {
    bool whole = d->backends && d->running && d->types && d->channels; /* else no descriptor is open */
    for (uint32_t n = 0; whole && n < d->count; n++) {
        if (d->running[n])
            munmap(d->running[n], sizeof(struct running));
        if (d->backends[n].running_fd >= 0)
            close(d->backends[n].running_fd);
        if (d->channels[n] >= 0)
            close(d->channels[n]);
    }
    free(d->channels);
    if (d->token_fd >= 0)
        close(d->token_fd);
    free(d->types);
    free(d->running);
    free(d->backends);
    free(d);
}

int isolated_create(struct isolated **isolated, struct isolated_shared *shared, const struct isolated_config *config,
                    struct sy_error *err) {
    struct isolated *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set(err, -ENOMEM, "out of memory");
    d->config = *config;
    d->token_fd = -1;
    for (uint32_t g = 0; g < config->group_count; g++)
        d->count += config->groups[g].count;
    d->backends = calloc(d->count, sizeof(*d->backends));
    d->running = calloc(d->count, sizeof(*d->running));
    d->types = calloc(d->count, sizeof(*d->types));
    d->channels = calloc(d->count, sizeof(*d->channels));
    int rc = d->backends && d->running && d->types && d->channels ? 0 : error_set(err, -ENOMEM, "out of memory");
    for (uint32_t n = 0; rc == 0 && n < d->count; n++) {
        d->backends[n].running_fd = -1;
        atomic_init(&d->channels[n], -1);
    }
    for (uint32_t g = 0, n = 0; rc == 0 && g < config->group_count; g++)
        for (uint32_t i = 0; rc == 0 && i < config->groups[g].count; i++, n++) {
            d->backends[n].group = &config->groups[g];
            d->backends[n].device = i;
            d->types[n] = config->groups[g].type;
            int fd = visible_create(sizeof(struct running));
            d->backends[n].running_fd = fd < 0 ? -1 : fd;
            d->running[n] = fd < 0 ? NULL : visible_map(fd, sizeof(struct running));
            if (d->running[n]) {
                d->running[n]->parent = (uint32_t)getpid();
                atomic_init(&d->running[n]->state, RUNNING_STARTS);
            } else {
                rc = error_set(err, fd < 0 ? fd : -ENOMEM, "no memory to share with the backends");
            }
        }
    rc = rc < 0 ? rc : token_make(d, err);
    if (rc < 0) {
        isolated_free(d);
        return rc;
    }
    *isolated = d;
    *shared = (struct isolated_shared){d->address, d->token_file, d->count, d->running, d->types};
    return 0;
}

isolated_channel *isolated_channels(struct isolated *d, struct repository_desk *desk) {
    d->desk = desk;
    return d->channels;
}

/* ---- starting ---- */

/* The arguments of a child, and their texts. */
struct arguments {
    char *at[ARGUMENTS];
    char texts[4096];
    size_t used;
    uint32_t count;
};

__attribute__((format(printf, 2, 3))) static void argument_add(struct arguments *a, const char *format, ...) {
    char *text = a->texts + a->used;
    va_list list;
    va_start(list, format);
    int bytes = vsnprintf(text, sizeof(a->texts) - a->used, format, list);
    va_end(list);
    a->used += (size_t)bytes + 1;
    a->at[a->count++] = text;
}

static void argument_path(struct arguments *a, const char *option, const char *path) {
    if (!path)
        return;
    argument_add(a, "%s", option);
    a->at[a->count++] = (char *)(uintptr_t)path;
}

static void arguments_fill(const struct isolated *d, uint32_t n, struct arguments *a) {
    static const char *const kinds[] = {[ACCELERATOR_CPU] = "cpu", [ACCELERATOR_CUDA] = "cuda"};
    const struct serve_settings *s = d->config.settings;
    const struct accelerator_group *group = d->backends[n].group;
    int core = thread_core_nth(&d->config.cores, n);

    argument_add(a, "symphony: accelerator %u (%s)", n, group->type);
    argument_add(a, "backend");
    argument_add(a, "--isolated=%u", n);
    argument_add(a, "--isolated-device=%u", d->backends[n].device);
    argument_add(a, "--name=accelerator-%u", n);
    argument_add(a, "--join=%s", d->address);
    argument_add(a, "--heartbeat-ms=%.17g", s->heartbeat_ms);
    argument_add(a, "--transport=shm");
    if (group->kind == ACCELERATOR_EMULATED)
        argument_add(a, "--accelerators=emulated:1:%s", group->type);
    else
        argument_add(a, "--accelerators=%s:1:%s", kinds[group->kind], group->type);
    if (core < 0)
        argument_add(a, "--pin=none");
    else
        argument_add(a, "--pin=%d", core);
    if (s->control_mode != CONTROL_NONE) {
        argument_add(a, "--model-control-mode=explicit"); /* the parent follows the repository (isolated_orders.h) */
        argument_add(a, "--repository-poll-secs=%.17g", s->poll_secs);
        argument_add(a, "--max-models=%lld", (long long)s->max_models);
    }
    argument_add(a, "--spin=%.17g", s->spin);
    argument_add(a, "--run-limit=%.17g", s->run_limit_s);
    if (s->run_memory_mib > 0)
        argument_add(a, "--run-memory-max-mib=%lld", (long long)((s->run_memory_mib + d->count - 1) / d->count));
    if (s->busy_poll)
        argument_add(a, "--busy-poll");
    if (s->slo_ms > 0)
        argument_add(a, "--slo-ms=%.17g", s->slo_ms);
    if (s->memory_mib > 0)
        argument_add(a, "--memory-mib=%lld", (long long)s->memory_mib);
    argument_add(a, "--inputs-max-mib=%lld", (long long)s->inputs_mib);
    argument_add(a, "--drain-timeout=%.17g", s->drain_timeout_s);
    argument_add(a, "--no-metrics");
    for (uint32_t i = 0; i < s->repository_count; i++)
        argument_path(a, "--repository", s->repositories[i]);
    argument_path(a, "--model-name", s->model_name);
    argument_path(a, "--op-library-dir", s->op_library_dir);
    argument_path(a, "--cache-dir", s->cache_dir);
    argument_path(a, "--log-level", s->log_level);
    argument_path(a, "--log-format", s->log_format);
    a->at[a->count] = NULL;
}

/* Starts backend n. A child inherits the cores of the thread that starts it, so the thread is pinned meanwhile to the
 * backend's own core and the cores of no accelerator, if there are any. */
static void backend_start(struct isolated *d, uint32_t n) {
    struct isolated_backend *b = &d->backends[n];
    struct arguments arguments = {.count = 0};
    cpu_set_t parents, cores;
    arguments_fill(d, n, &arguments);
    thread_cores_allowed(&parents);
    cores = parents;
    int own = thread_core_nth(&d->config.cores, n);
    if (own >= 0) {
        CPU_XOR(&cores, &parents, &d->config.cores); /* one or the other; the parent may have given its own up */
        CPU_AND(&cores, &cores, &parents);
        if (CPU_COUNT(&cores) == 0)
            cores = parents;
        CPU_SET(own, &cores);
    }
    thread_pin(&cores);
    int ends[2], rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ? -errno : 0;
    if (rc == 0) {
        rc = child_spawn(&b->pid, "/proc/self/exe", arguments.at, b->running_fd, ends[1]);
        close(ends[1]);
        if (rc == 0 && d->desk) {
            ends[0] = atomic_exchange_explicit(&d->channels[n], ends[0], memory_order_acq_rel); /* with who takes it */
            doorbell_ring(&d->desk->bell);
        }
        if (ends[0] >= 0)
            close(ends[0]);
    }
    thread_pin(&parents);
    if (rc < 0) {
        b->pid = 0;
        b->later_ns = AGAIN_MOST;
        b->again_ns = clock_now_ns() + b->later_ns;
        log_error("backend not started", "accelerator=%u reason=\"%s\"", n, strerror(-rc));
    }
}

/* ---- watching ---- */

/* Starts the backends that have not been started, or have ended: at once those that had joined, the others later, since
 * they may end again and again. Returns the time of the next look. */
static int64_t backends_look(struct isolated *d, int64_t now_ns) {
    int64_t until_ns = now_ns + LOOK_NS;
    for (uint32_t n = 0; n < d->count; n++) {
        struct isolated_backend *b = &d->backends[n];
        int status;
        if (b->pid > 0 && waitpid(b->pid, &status, WNOHANG) == b->pid) {
            atomic_store_explicit(&d->running[n]->state, RUNNING_STARTS,
                                  memory_order_relaxed); /* nobody else writes it now */
            uint64_t incarnation = atomic_load_explicit(&d->running[n]->incarnation, memory_order_relaxed);
            bool joined = incarnation != b->joined;
            b->pid = 0;
            b->joined = incarnation;
            b->later_ns = joined ? 0 : b->later_ns ? 2 * b->later_ns : AGAIN_NS;
            b->later_ns = b->later_ns < AGAIN_MOST ? b->later_ns : AGAIN_MOST;
            b->again_ns = now_ns + b->later_ns;
            if (WIFEXITED(status) && incarnation == 0)
                atomic_store_explicit(&d->failed, true, memory_order_relaxed); /* a lone flag */
            else if (WIFSIGNALED(status))
                log_error("backend ended; it is started again",
                          "accelerator=%u requests=%u reason=\"killed by signal %d (%s)\"", n,
                          atomic_load_explicit(&d->running[n]->count, memory_order_relaxed), WTERMSIG(status),
                          strsignal(WTERMSIG(status)));
            else
                log_error("backend ended; it is started again", "accelerator=%u reason=\"ended with exit status %d\"",
                          n, WEXITSTATUS(status));
        }
        bool drained = atomic_load_explicit(&d->running[n]->drained, memory_order_relaxed); /* a lone flag */
        if (b->pid == 0 && now_ns >= b->again_ns)
            backend_start(d, n); /* it looks at its orders once it can take ISOLATED_LOOK */
        else if (b->pid > 0 && drained != b->drained)
            kill(b->pid, ISOLATED_LOOK);
        b->drained = drained;
        if (b->pid == 0 && b->again_ns < until_ns)
            until_ns = b->again_ns;
    }
    return until_ns;
}

/* ---- the end ---- */

static void signal_all(const struct isolated *d, int number) {
    for (uint32_t n = 0; n < d->count; n++)
        if (d->backends[n].pid > 0)
            kill(d->backends[n].pid, number);
}

/* Waits until all backends have ended, or until `until_ns`. Returns whether all have. */
static bool all_ended(struct isolated *d, int64_t until_ns) {
    for (;;) {
        uint32_t left = 0;
        for (uint32_t n = 0; n < d->count; n++) {
            struct isolated_backend *b = &d->backends[n];
            if (b->pid > 0 && waitpid(b->pid, NULL, WNOHANG) == b->pid)
                b->pid = 0;
            left += b->pid > 0;
        }
        if (left == 0 || clock_now_ns() >= until_ns)
            return left == 0;
        clock_sleep(END_LOOK_NS);
    }
}

static void *isolated_main(void *context) {
    struct isolated *d = context;
    sigset_t ends;
    thread_begin("isolated", 0, THREAD_PROMPT);
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    while (!atomic_load_explicit(&d->stop, memory_order_acquire)) { /* with isolated_stop() */
        int64_t left_ns = backends_look(d, clock_now_ns()) - clock_now_ns();
        left_ns = left_ns > 0 ? left_ns : 0;
        const struct timespec left = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
        sigtimedwait(&ends, NULL, &left);
    }
    signal_all(d, ISOLATED_STOP);
    if (!all_ended(d, clock_now_ns() + (d->timeout_ns > END_LEAST_NS ? d->timeout_ns : END_LEAST_NS))) {
        signal_all(d, SIGKILL);
        all_ended(d, TIME_NEVER);
    }
    return NULL;
}

int isolated_start(struct isolated *d, struct sy_error *err) {
    int rc = -pthread_create(&d->thread, NULL, isolated_main, d);
    atomic_store_explicit(&d->started, rc == 0, memory_order_release); /* with isolated_ring() */
    return rc < 0 ? error_set(err, rc, "no thread to start the backends: %s", strerror(-rc)) : 0;
}

bool isolated_failed(const struct isolated *d) {
    return atomic_load_explicit(&d->failed, memory_order_relaxed); /* a lone flag */
}

void isolated_stop(struct isolated *d, int64_t timeout_ns) {
    if (!d)
        return;
    d->timeout_ns = timeout_ns;
    atomic_store_explicit(&d->stop, true, memory_order_release); /* with isolated_main() */
    if (d->started) {
        pthread_kill(d->thread, SIGCHLD); /* wakes it */
        pthread_join(d->thread, NULL);
    }
    isolated_free(d);
}

/* ---- in a child ---- */

bool isolated_begin(struct serve_settings *settings) {
    static char name[16], token_file[32];
    const char *devices = getenv("CUDA_VISIBLE_DEVICES");
    const uint32_t number = (uint32_t)settings->isolated_device;
    char device[128];
    struct running *running = visible_map(STDIN_FILENO, sizeof(*running));
    if (!running)
        return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (running->parent != (uint32_t)getppid()) /* the parent died before prctl() */
        return false;
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    snprintf(device, sizeof(device), "%u", number);
    for (uint32_t i = 0; devices && *devices && i < number; i++) {
        const char *comma = strchr(devices, ',');
        devices = comma ? comma + 1 : NULL;
    }
    if (devices && *devices)
        snprintf(device, sizeof(device), "%.*s", (int)strcspn(devices, ","), devices);
    setenv("CUDA_VISIBLE_DEVICES", device, 1); /* CUDA then sees only the backend's device, as its first */
    child_limit(strncmp(settings->accelerators, "cuda", 4) == 0);
    snprintf(name, sizeof(name), "accelerator-%u", (unsigned)settings->isolated % 1000);
    log_set_process(name);
    prctl(PR_SET_NAME, name);
    int token = memory_file("token", running->token, strnlen(running->token, sizeof(running->token)));
    if (token < 0)
        return false;
    snprintf(token_file, sizeof(token_file), "/proc/self/fd/%d", token);
    settings->cluster_token_file = token_file;
    settings->running = running;
    return true;
}
