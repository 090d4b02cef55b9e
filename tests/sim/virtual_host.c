/* virtual_host.c - the heap of events, threads as coroutines, processes. */
#include "sim/virtual_host.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "core/util/assert.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define FIBER_LEAVE(save, base, bytes) __sanitizer_start_switch_fiber(save, base, bytes)
#define FIBER_ENTER(save, base, bytes) __sanitizer_finish_switch_fiber(save, base, bytes)
#else
#define FIBER_LEAVE(save, base, bytes)                                                                                 \
    do {                                                                                                               \
        (void)(save), (void)(base), (void)(bytes);                                                                     \
    } while (0)
#define FIBER_ENTER(save, base, bytes)                                                                                 \
    do {                                                                                                               \
        (void)(save), (void)(base), (void)(bytes);                                                                     \
    } while (0)
#endif

#define STACK_BYTES      ((size_t)1 << 20) /* touched as it is used */
#define WAKE_LEAST_NS    (2 * NS_PER_US)
#define WAKE_MOST_NS     (50 * NS_PER_US)
#define WAKE_LATE_ONE_OF 1000 /* wake-ups: the core is taken, for up to */
#define WAKE_LATE_NS     (3 * NS_PER_MS)
#define INTERRUPT_ONE_OF 2000
#define PID_FIRST        1000

struct virtual_world virtual_world;

struct event {
    int64_t at_ns;
    uint64_t order;
    virtual_event *event;
    void *context;
    uint64_t tag;
};

struct virtual_thread {
    struct list_node link; /* of all that there were */
    struct virtual_process *process;
    char name[16];
    void *(*main)(void *argument);
    void *argument, *result;
    ucontext_t context;
    char *stack;
    void *fiber;
    bool over, ready, due; /* ready: it is to run; due: it would run, but its process is stopped */
    const void *what;      /* it sleeps for; else NULL */
    uint64_t sleeps;       /* number of the sleep: what was meant for another is ignored */
    int64_t until_ns;      /* when it is over */
    bool woken;
    bool waits, interrupted; /* in virtual_wait(), and stopped there */
    int64_t second;          /* of which `turns` are counted */
    uint32_t turns, turns_most;
};

static struct {
    struct event *events; /* a heap */
    size_t count, room;
    uint64_t order;
    struct list_node threads, processes;
    ucontext_t loop;
    void *fiber;
    const void *stack;
    size_t stack_bytes;
    int pids;
} w;

/* ---- events ---- */

static bool before(const struct event *a, const struct event *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void virtual_at(int64_t at_ns, virtual_event *event, void *context, uint64_t tag) {
    if (w.count == w.room) {
        w.room = w.room ? 2 * w.room : 1024;
        w.events = realloc(w.events, w.room * sizeof(*w.events));
        CHECK(w.events);
    }
    struct event new = {at_ns, w.order++, event, context, tag};
    size_t i = w.count++;
    for (; i > 0 && before(&new, &w.events[(i - 1) / 2]); i = (i - 1) / 2)
        w.events[i] = w.events[(i - 1) / 2];
    w.events[i] = new;
}

static struct event event_next(void) {
    struct event first = w.events[0], last = w.events[--w.count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w.count; i = child) {
        child += child + 1 < w.count && before(&w.events[child + 1], &w.events[child]);
        if (!before(&w.events[child], &last))
            break;
        w.events[i] = w.events[child];
    }
    w.events[i] = last;
    return first;
}

void virtual_run(int64_t until_ns) {
    while (w.count > 0 && w.events[0].at_ns <= until_ns) {
        struct event next = event_next();
        if (next.at_ns > virtual_world.now_ns)
            virtual_world.now_ns = next.at_ns;
        next.event(next.context, next.tag);
    }
    if (until_ns > virtual_world.now_ns)
        virtual_world.now_ns = until_ns;
}

uint64_t virtual_below(uint64_t n) {
    return rng_below(&virtual_world.rng, n);
}

int64_t virtual_between(int64_t low, int64_t high) {
    return low + (int64_t)virtual_below((uint64_t)(high - low) + 1);
}

bool virtual_chance(double probability) {
    return rng_uniform(&virtual_world.rng) < probability;
}

void virtual_trace(const char *format, ...) {
    const struct virtual_process *self = virtual_self();
    va_list arguments;
    if (!virtual_world.trace)
        return;
    fprintf(stderr, "%10.6f %-12s ", (double)(virtual_world.now_ns - VIRTUAL_BEGIN_NS) / NS_PER_S,
            self ? self->name : "");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* ---- threads ---- */

static void thread_run(void *context, uint64_t sleep) {
    struct virtual_thread *t = context;
    if (t->over || t->process->over || (!t->ready && sleep != t->sleeps))
        return;
    if (t->ready && sleep != 0)
        return;                                            /* its time is over, and it was woken before */
    if (!t->ready && virtual_world.now_ns < t->until_ns) { /* the clock has stood */
        virtual_at(t->until_ns, thread_run, t, sleep);
        return;
    }
    if (t->process->stopped) {
        t->due = true;
        t->ready = true;
        return;
    }
    int64_t second = virtual_world.now_ns / NS_PER_S;
    t->turns = second == t->second ? t->turns + 1 : 1;
    t->second = second;
    t->turns_most = t->turns > t->turns_most ? t->turns : t->turns_most;
    t->ready = false;
    t->what = NULL;
    virtual_world.turns++;
    virtual_world.digest =
        (virtual_world.digest ^ (uint64_t)virtual_world.now_ns ^ (uint64_t)t->process->pid) * 0x100000001b3;
    virtual_world.running = t;
    FIBER_LEAVE(&w.fiber, t->stack, STACK_BYTES);
    swapcontext(&w.loop, &t->context);
    FIBER_ENTER(w.fiber, NULL, NULL);
    virtual_world.running = NULL;
    if (t->over || t->process->over) {
        munmap(t->stack, STACK_BYTES);
        t->stack = NULL;
    }
}

static void thread_ready(struct virtual_thread *t) {
    if (t->ready)
        return;
    t->ready = true;
    int64_t late_ns = virtual_below(WAKE_LATE_ONE_OF) == 0 ? virtual_between(0, WAKE_LATE_NS)
                                                           : virtual_between(WAKE_LEAST_NS, WAKE_MOST_NS);
    virtual_at(virtual_world.now_ns + late_ns, thread_run, t, 0);
}

/* Back to the events. */
static void thread_leave(struct virtual_thread *t) {
    FIBER_LEAVE(t->over ? NULL : &t->fiber, w.stack, w.stack_bytes);
    swapcontext(&t->context, &w.loop);
    FIBER_ENTER(t->fiber, &w.stack, &w.stack_bytes);
}

bool virtual_sleep(const void *what, int64_t until_ns) {
    struct virtual_thread *t = virtual_world.running;
    t->what = what;
    t->woken = false;
    t->sleeps++;
    t->until_ns = until_ns > virtual_world.now_ns ? until_ns : virtual_world.now_ns + 1;
    if (until_ns != TIME_NEVER)
        virtual_at(t->until_ns, thread_run, t, t->sleeps);
    thread_leave(t);
    return t->woken;
}

int virtual_wait(const void *what, int64_t until_ns) {
    struct virtual_thread *t = virtual_world.running;
    t->waits = true;
    bool woken = virtual_sleep(what, until_ns), interrupted = t->interrupted;
    t->waits = t->interrupted = false;
    return interrupted ? -EINTR : woken;
}

uint32_t virtual_wake(const void *what, uint32_t most) {
    uint32_t count = 0;
    list_for_each (node, &w.threads) {
        struct virtual_thread *t = list_entry(node, struct virtual_thread, link);
        if (count == most)
            break;
        if (t->what != what || t->over || t->process->over)
            continue;
        t->what = NULL;
        t->woken = true;
        thread_ready(t);
        count++;
    }
    return count;
}

void virtual_interrupt(void) {
    if (virtual_world.running && virtual_below(INTERRUPT_ONE_OF) == 0)
        virtual_sleep(NULL, virtual_world.now_ns + virtual_between(WAKE_LEAST_NS, WAKE_LATE_NS));
}

static void thread_main(void) {
    struct virtual_thread *t = virtual_world.running;
    FIBER_ENTER(NULL, &w.stack, &w.stack_bytes);
    t->result = t->main(t->argument);
    t->over = true;
    virtual_wake(t, UINT32_MAX);
    thread_leave(t);
}

static struct virtual_thread *thread_new(struct virtual_process *process, void *(*main)(void *argument),
                                         void *argument) {
    struct virtual_thread *t = calloc(1, sizeof(*t));
    CHECK(t);
    t->process = process;
    t->main = main;
    t->argument = argument;
    t->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(t->stack != MAP_FAILED);
    CHECK_EQ(getcontext(&t->context), 0);
    t->context.uc_stack.ss_sp = t->stack;
    t->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&t->context, thread_main, 0);
    snprintf(t->name, sizeof(t->name), "main");
    list_append(&w.threads, &t->link);
    thread_ready(t);
    return t;
}

struct virtual_thread *virtual_thread_new(void *(*main)(void *argument), void *argument) {
    return thread_new(virtual_self(), main, argument);
}

void virtual_thread_name(const char *name) {
    snprintf(virtual_world.running->name, sizeof(virtual_world.running->name), "%s", name);
}

int64_t virtual_busy_ns(int64_t now_ns) {
    const char *name = virtual_world.running->name;
    int64_t at_ns = now_ns + (name[strlen(name) - 1] % 2 ? NS_PER_S : 0), of_turn_ns = at_ns % (2 * NS_PER_S);
    return at_ns / (2 * NS_PER_S) * NS_PER_S + (of_turn_ns < NS_PER_S ? of_turn_ns : NS_PER_S);
}

bool virtual_thread_over(const struct virtual_thread *t, void **result) {
    if (t->over && result)
        *result = t->result;
    return t->over;
}

/* ---- hosts ---- */

void virtual_begin(uint64_t seed, bool trace) {
    virtual_world =
        (struct virtual_world){.now_ns = VIRTUAL_BEGIN_NS, .trace = trace, .sways = seed % 7 == 2, .digest = seed};
    rng_seed(&virtual_world.rng, seed);
    list_init(&w.threads);
    list_init(&w.processes);
    w.pids = PID_FIRST;
}

uint32_t virtual_host_add(const char *name, int64_t offset_ns, int64_t drift_ppb) {
    CHECK_LT(virtual_world.host_count, VIRTUAL_HOSTS_MAX);
    struct virtual_host *h = &virtual_world.hosts[virtual_world.host_count];
    snprintf(h->name, sizeof(h->name), "%s", name);
    h->offset_ns = offset_ns;
    h->drift_ppb = drift_ppb;
    return virtual_world.host_count++;
}

int64_t virtual_local_ns(uint32_t host, int64_t now_ns) {
    const struct virtual_host *h = &virtual_world.hosts[host];
    return now_ns + h->offset_ns + (now_ns - VIRTUAL_BEGIN_NS) / 1000 * h->drift_ppb / 1000000;
}

int64_t virtual_world_ns(uint32_t host, int64_t local_ns) {
    const struct virtual_host *h = &virtual_world.hosts[host];
    if (local_ns == TIME_NEVER)
        return TIME_NEVER;
    int64_t now_ns =
        local_ns - h->offset_ns - (virtual_world.now_ns - VIRTUAL_BEGIN_NS) / 1000 * h->drift_ppb / 1000000;
    while (virtual_local_ns(host, now_ns) < local_ns) /* the drift since; it converges at once */
        now_ns += local_ns - virtual_local_ns(host, now_ns);
    return now_ns;
}

/* ---- processes ---- */

struct virtual_process *virtual_self(void) {
    return virtual_world.running ? virtual_world.running->process : NULL;
}

static void process_end(struct virtual_process *p) {
    p->over = true;
    p->over_ns = virtual_world.now_ns;
    virtual_process_over(p);
    list_for_each (node, &w.threads) {
        struct virtual_thread *t = list_entry(node, struct virtual_thread, link);
        if (t->process != p || !t->stack || t == virtual_world.running)
            continue;
        munmap(t->stack, STACK_BYTES);
        t->stack = NULL;
    }
}

static void *process_main(void *process) {
    struct virtual_process *p = process;
    p->exit_status = p->main(p->context);
    virtual_trace("ended with status %d", p->exit_status);
    process_end(p);
    return NULL;
}

struct virtual_process *virtual_start(uint32_t host, const char *name, int (*main)(void *context), void *context) {
    struct virtual_process *p = calloc(1, sizeof(*p));
    CHECK(p);
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->host = host;
    p->pid = w.pids++;
    p->main = main;
    p->context = context;
    p->began_ns = virtual_world.now_ns;
    list_append(&w.processes, &p->link);
    thread_new(p, process_main, p);
    return p;
}

void virtual_kill(struct virtual_process *p) {
    if (p->over)
        return;
    virtual_trace("kill %s", p->name);
    process_end(p);
}

void virtual_stop(struct virtual_process *p) {
    if (p->over || p->stopped)
        return;
    virtual_trace("stop %s", p->name);
    p->stopped = true;
    p->stopped_ns = virtual_world.now_ns;
    list_for_each (node, &w.threads) { /* their waits are over, whatever comes until they are continued */
        struct virtual_thread *t = list_entry(node, struct virtual_thread, link);
        if (t->process != p || t->over || !t->waits || t->ready)
            continue;
        t->interrupted = t->ready = t->due = true;
        t->what = NULL;
    }
}

void virtual_continue(struct virtual_process *p) {
    if (p->over || !p->stopped || virtual_world.now_ns < virtual_world.hosts[p->host].frozen_ns)
        return;
    virtual_trace("continue %s", p->name);
    p->stopped_sum_ns += virtual_world.now_ns - p->stopped_ns;
    p->stopped = false;
    list_for_each (node, &w.threads) {
        struct virtual_thread *t = list_entry(node, struct virtual_thread, link);
        if (t->process != p || !t->due)
            continue;
        t->due = t->ready = false;
        thread_ready(t);
    }
}

static void thaw(void *process, uint64_t tag) {
    (void)tag;
    virtual_continue(process);
}

void virtual_freeze(uint32_t host, int64_t for_ns, bool stands) {
    struct virtual_host *h = &virtual_world.hosts[host];
    virtual_trace("%s freezes for %.3f ms, and its clock %s", h->name, (double)for_ns / NS_PER_MS,
                  stands ? "stands" : "goes on");
    h->frozen_ns = virtual_world.now_ns + for_ns;
    h->offset_ns -= stands ? for_ns : 0;
    list_for_each (node, &w.threads) {
        struct virtual_thread *t = list_entry(node, struct virtual_thread, link);
        if (stands && t->process->host == host && !t->over && t->until_ns != TIME_NEVER)
            t->until_ns += for_ns;
    }
    list_for_each (node, &w.processes) {
        struct virtual_process *p = list_entry(node, struct virtual_process, link);
        if (p->host != host || p->over)
            continue;
        p->stopped_ns = p->stopped ? p->stopped_ns : virtual_world.now_ns;
        p->stopped = true;
        virtual_at(h->frozen_ns, thaw, p, 0);
    }
}

int64_t virtual_stopped_ns(const struct virtual_process *p) {
    return p->stopped_sum_ns + (p->stopped ? virtual_world.now_ns - p->stopped_ns : 0);
}

void virtual_signal(struct virtual_process *p, int number) {
    if (p->over)
        return;
    virtual_trace("signal %d to %s", number, p->name);
    p->signals |= 1U << number;
    p->asked_ns = p->asked_ns ? p->asked_ns : virtual_world.now_ns;
    virtual_wake(&p->signals, 1);
}

uint32_t virtual_turns_most(const struct virtual_process *p, const char **name) {
    uint32_t most = 0;
    list_for_each (node, &w.threads) {
        const struct virtual_thread *t = list_entry(node, struct virtual_thread, link);
        if (t->process != p || t->turns_most < most)
            continue;
        most = t->turns_most;
        *name = t->name;
    }
    return most;
}
