/* thread.c - names, cores and promptness of threads. */
#include "core/system/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/util/time.h"

#define SLICE_PROMPT_NS  (100 * NS_PER_US)
#define SLICE_COMPUTE_NS (3 * NS_PER_MS)
#define NICE_SHARED      10
#define NICE_BACKGROUND  19

/* sched_setattr(2) has no wrapper in glibc before 2.41; this is its first version's layout. */
struct schedule_attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void set_slice(uint64_t slice_ns, int nice_value) {
    struct schedule_attributes a = {.size = sizeof(a), .policy = SCHED_OTHER, .nice = nice_value, .runtime = slice_ns};
    syscall(SYS_sched_setattr, 0, &a, 0);
}

void thread_begin(const char *name, uint32_t index, enum thread_kind kind) {
    char full[16];
    int nice_now = getpriority(PRIO_PROCESS, 0);

    snprintf(full, sizeof(full), "%.10s-%u", name, index % 1000);
    pthread_setname_np(pthread_self(), full);
    prctl(PR_SET_TIMERSLACK, 1);
    if (kind == THREAD_PROMPT)
        set_slice(SLICE_PROMPT_NS, nice_now);
    else if (kind == THREAD_COMPUTE)
        set_slice(SLICE_COMPUTE_NS, nice_now);
    else if (kind == THREAD_SHARED)
        set_slice(SLICE_COMPUTE_NS, nice_now + NICE_SHARED > 19 ? 19 : nice_now + NICE_SHARED);
    else if (kind == THREAD_BACKGROUND) {
        /* for tests: on a machine that is busy for long, a thread at 19 never has a turn */
        const char *nice_of_tests = getenv("SYMPHONY_TEST_NICE");
        set_slice(SLICE_COMPUTE_NS, nice_of_tests ? atoi(nice_of_tests) : NICE_BACKGROUND);
    }
}

void thread_cores_allowed(cpu_set_t *cores) {
    CPU_ZERO(cores);
    sched_getaffinity(getpid(), sizeof(*cores), cores);
}

void thread_condition_init(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int thread_cores_parse(const char *text, cpu_set_t *cores, struct sy_error *err) {
    cpu_set_t allowed;
    const char *at = text;

    thread_cores_allowed(&allowed);
    CPU_ZERO(cores);
    do {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at)
            return error_set(err, -EINVAL, "'%s' is not a list of cores such as 0,2-3", text);
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
            if (end == at)
                return error_set(err, -EINVAL, "'%s' is not a list of cores such as 0,2-3", text);
        }
        if (first < 0 || last < first || last >= CPU_SETSIZE || (*end && *end != ','))
            return error_set(err, -EINVAL, "'%s' is not a list of cores such as 0,2-3", text);
        for (long core = first; core <= last; core++) {
            if (!CPU_ISSET(core, &allowed))
                return error_set(err, -EINVAL, "core %ld is not among those this process may use", core);
            CPU_SET(core, cores);
        }
        at = *end ? end + 1 : end;
    } while (*at);
    return 0;
}

int thread_core_nth(const cpu_set_t *cores, unsigned n) {
    int count = CPU_COUNT(cores);

    if (!count)
        return -1;
    n %= (unsigned)count;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, cores) && n-- == 0)
            return core;
    return -1;
}

int64_t thread_cpu_ns(pthread_t thread) {
    clockid_t clock;
    struct timespec ts;

    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &ts) < 0)
        return 0;
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t thread_busy_ns(void) {
    long long ran_ns, waited_ns;
    FILE *stat = fopen("/proc/thread-self/schedstat", "re");
    int read = stat ? fscanf(stat, "%lld %lld", &ran_ns, &waited_ns) : 0;
    if (stat)
        fclose(stat);
    return read == 2 ? ran_ns + waited_ns : thread_cpu_ns(pthread_self());
}

int thread_pin(const cpu_set_t *cores) {
    return sched_setaffinity(0, sizeof(*cores), cores) < 0 ? -errno : 0;
}
