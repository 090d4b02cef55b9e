/* virtual_calls.c - the system calls that the program makes, as virtual hosts have them. The linker puts these
 * functions in place of the C library's (tests/CMakeLists.txt lists them); what is not of the virtual world goes on to
 * those. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/system/thread.h"
#include "core/util/assert.h"
#include "server/threads/calibrate.h"
#include "sim/virtual_net.h"

#define REALTIME_NS   (1700000000 * NS_PER_S) /* CLOCK_REALTIME is ahead of CLOCK_MONOTONIC by so much */
#define CLOCK_CALL_NS 40                      /* what reading a clock takes, so that nobody waits for ever in a loop */
#define LOCK_LOOK_NS  (5 * NS_PER_US)
#define TURN_NS       (5 * NS_PER_US) /* a thread is taken to be busy for so long in each turn of all threads */

/* A function of ours and the one that it stands for. */
#define WRAP(type, name, ...)                                                                                          \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

static bool inside(void) {
    return virtual_world.running != NULL;
}

/* As the C library says it. */
static long result(long rc) {
    if (rc >= 0)
        return rc;
    errno = (int)-rc;
    return -1;
}

/* ---- time ---- */

static int64_t local_now_ns(void) {
    return virtual_local_ns(virtual_self()->host, virtual_world.now_ns);
}

/* A time of this host's, as the world has it. */
static int64_t until_world_ns(int64_t local_ns) {
    return virtual_world_ns(virtual_self()->host, local_ns);
}

static int64_t ns_of(const struct timespec *ts) {
    return ts->tv_sec * NS_PER_S + ts->tv_nsec;
}

WRAP(int, clock_gettime, clockid_t clock, struct timespec *ts) {
    if (!inside())
        return __real_clock_gettime(clock, ts);
    virtual_world.now_ns += clock == CLOCK_MONOTONIC ? CLOCK_CALL_NS : 0; /* lines of the log change nothing */
    int64_t now_ns = local_now_ns() + (clock == CLOCK_REALTIME ? REALTIME_NS : 0);
    *ts = (struct timespec){.tv_sec = now_ns / NS_PER_S, .tv_nsec = now_ns % NS_PER_S};
    return 0;
}

WRAP(int, nanosleep, const struct timespec *for_ts, struct timespec *left) {
    if (!inside())
        return __real_nanosleep(for_ts, left);
    virtual_sleep(NULL, until_world_ns(local_now_ns() + ns_of(for_ts)));
    return 0;
}

WRAP(int, clock_nanosleep, clockid_t clock, int flags, const struct timespec *ts, struct timespec *left) {
    if (!inside())
        return __real_clock_nanosleep(clock, flags, ts, left);
    int64_t at_ns = ns_of(ts) + (flags & TIMER_ABSTIME ? 0 : local_now_ns());
    virtual_sleep(NULL, until_world_ns(at_ns - (clock == CLOCK_REALTIME ? REALTIME_NS : 0)));
    return 0;
}

/* ---- threads ---- */

WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument) {
    if (!inside())
        return __real_pthread_create(thread, attributes, main, argument);
    *thread = (pthread_t)virtual_thread_new(main, argument);
    return 0;
}

WRAP(int, pthread_join, pthread_t thread, void **value) {
    struct virtual_thread *t = (struct virtual_thread *)thread;
    if (!inside())
        return __real_pthread_join(thread, value);
    while (!virtual_thread_over(t, value))
        virtual_sleep(t, TIME_NEVER);
    return 0;
}

WRAP(int, pthread_detach, pthread_t thread) {
    return inside() ? 0 : __real_pthread_detach(thread);
}

WRAP(int, sched_yield, void) {
    if (inside())
        virtual_sleep(NULL, virtual_world.now_ns + LOCK_LOOK_NS);
    return 0;
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *mutex) {
    if (!inside())
        return __real_pthread_mutex_lock(mutex);
    while (pthread_mutex_trylock(mutex))
        virtual_sleep(NULL, virtual_world.now_ns + LOCK_LOOK_NS);
    return 0;
}

WRAP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
    int64_t local_ns = until ? ns_of(until) : TIME_NEVER;
    local_ns -= until && local_ns >= REALTIME_NS ? REALTIME_NS : 0; /* either clock: they are far apart */
    pthread_mutex_unlock(mutex);
    bool woken = virtual_sleep(cond, until_world_ns(local_ns));
    __wrap_pthread_mutex_lock(mutex);
    return woken ? 0 : ETIMEDOUT;
}

WRAP(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *mutex) {
    if (!inside())
        return __real_pthread_cond_wait(cond, mutex);
    __wrap_pthread_cond_timedwait(cond, mutex, NULL);
    return 0;
}

WRAP(int, pthread_cond_signal, pthread_cond_t *cond) {
    virtual_wake(cond, 1);
    return 0;
}

WRAP(int, pthread_cond_broadcast, pthread_cond_t *cond) {
    virtual_wake(cond, UINT32_MAX);
    return 0;
}

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *until) {
    if (operation == FUTEX_WAKE_PRIVATE)
        return virtual_wake((const void *)word, value);
    CHECK_EQ(operation, FUTEX_WAIT_BITSET_PRIVATE);
    virtual_interrupt();
    if (atomic_load_explicit(word, memory_order_acquire) != value)
        return -EAGAIN;
    return virtual_sleep((const void *)word, until ? until_world_ns(ns_of(until)) : TIME_NEVER) ? 0 : -ETIMEDOUT;
}

WRAP(long, syscall, long number, ...) {
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (!inside() || number != SYS_futex)
        return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return result(futex((_Atomic uint32_t *)a[0], (int)a[1], (uint32_t)a[2], (const struct timespec *)a[3]));
}

/* ---- sockets ---- */

WRAP(int, socket, int family, int type, int protocol) {
    return inside() ? (int)result(virtual_socket(family)) : __real_socket(family, type, protocol);
}

WRAP(int, bind, int fd, const struct sockaddr *address, socklen_t bytes) {
    return virtual_is_fd(fd) ? (int)result(virtual_bind(fd, address, bytes)) : __real_bind(fd, address, bytes);
}

WRAP(int, listen, int fd, int backlog) {
    return virtual_is_fd(fd) ? (int)result(virtual_listen(fd)) : __real_listen(fd, backlog);
}

WRAP(int, connect, int fd, const struct sockaddr *address, socklen_t bytes) {
    return virtual_is_fd(fd) ? (int)result(virtual_connect(fd, address, bytes)) : __real_connect(fd, address, bytes);
}

WRAP(int, accept4, int fd, struct sockaddr *address, socklen_t *bytes, int flags) {
    return virtual_is_fd(fd) ? (int)result(virtual_accept(fd, address, bytes))
                             : __real_accept4(fd, address, bytes, flags);
}

WRAP(int, shutdown, int fd, int how) {
    return virtual_is_fd(fd) ? (int)result(virtual_shutdown(fd, how)) : __real_shutdown(fd, how);
}

WRAP(int, getsockname, int fd, struct sockaddr *address, socklen_t *bytes) {
    return virtual_is_fd(fd) ? (int)result(virtual_name(fd, address, bytes)) : __real_getsockname(fd, address, bytes);
}

WRAP(int, setsockopt, int fd, int level, int name, const void *value, socklen_t bytes) {
    return virtual_is_fd(fd) ? (int)result(virtual_option(fd, level, name, value))
                             : __real_setsockopt(fd, level, name, value, bytes);
}

WRAP(int, getsockopt, int fd, int level, int name, void *value, socklen_t *bytes) {
    if (!virtual_is_fd(fd))
        return __real_getsockopt(fd, level, name, value, bytes);
    memset(value, 0, *bytes);
    if (level == SOL_SOCKET && name == SO_ERROR)
        *(int *)value = virtual_error(fd);
    return 0;
}

WRAP(int, ioctl, int fd, unsigned long request, ...) {
    va_list list;
    va_start(list, request);
    void *value = va_arg(list, void *);
    va_end(list);
    if (!virtual_is_fd(fd))
        return __real_ioctl(fd, request, value);
    CHECK_EQ(request, SIOCOUTQ);
    *(int *)value = (int)virtual_unsent(fd);
    return 0;
}

WRAP(ssize_t, sendmsg, int fd, const struct msghdr *message, int flags) {
    if (!virtual_is_fd(fd))
        return __real_sendmsg(fd, message, flags);
    virtual_interrupt();
    return result(virtual_send(fd, message));
}

WRAP(ssize_t, recvmsg, int fd, struct msghdr *message, int flags) {
    if (!virtual_is_fd(fd))
        return __real_recvmsg(fd, message, flags);
    virtual_interrupt();
    return result(virtual_receive(fd, message));
}

WRAP(ssize_t, send, int fd, const void *data, size_t bytes, int flags) {
    struct iovec piece = {(void *)(uintptr_t)data, bytes};
    return __wrap_sendmsg(fd, &(struct msghdr){.msg_iov = &piece, .msg_iovlen = 1}, flags);
}

WRAP(ssize_t, recv, int fd, void *data, size_t bytes, int flags) {
    struct iovec piece = {data, bytes};
    return __wrap_recvmsg(fd, &(struct msghdr){.msg_iov = &piece, .msg_iovlen = 1}, flags);
}

WRAP(int, eventfd, unsigned value, int flags) {
    return inside() ? (int)result(virtual_event_fd()) : __real_eventfd(value, flags);
}

WRAP(ssize_t, write, int fd, const void *data, size_t bytes) {
    if (fd == STDERR_FILENO && inside()) { /* a line of the log */
        virtual_trace("| %.*s", (int)bytes - 1, (const char *)data);
        return (ssize_t)bytes;
    }
    return virtual_is_fd(fd) ? result(virtual_event_write(fd)) : __real_write(fd, data, bytes);
}

WRAP(ssize_t, read, int fd, void *data, size_t bytes) {
    return virtual_is_fd(fd) ? result(virtual_event_read(fd)) : __real_read(fd, data, bytes);
}

WRAP(int, close, int fd) {
    return virtual_is_fd(fd) ? (int)result(virtual_close(fd)) : __real_close(fd);
}

WRAP(int, fcntl, int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    if (!virtual_is_fd(fd))
        return __real_fcntl(fd, command, argument);
    CHECK_EQ(command, F_DUPFD_CLOEXEC);
    return (int)result(virtual_dup(fd));
}

WRAP(int, epoll_create1, int flags) {
    return inside() ? (int)result(virtual_epoll()) : __real_epoll_create1(flags);
}

WRAP(int, epoll_ctl, int epoll_fd, int operation, int fd, struct epoll_event *event) {
    return virtual_is_fd(epoll_fd) ? (int)result(virtual_epoll_ctl(epoll_fd, operation, fd, event))
                                   : __real_epoll_ctl(epoll_fd, operation, fd, event);
}

static int epoll_wait_for(int fd, struct epoll_event *events, int most, int64_t for_ns) {
    int64_t until_ns = for_ns < 0 ? TIME_NEVER : until_world_ns(local_now_ns() + for_ns);
    return (int)result(virtual_epoll_wait(fd, events, most, until_ns));
}

WRAP(int, epoll_pwait2, int fd, struct epoll_event *events, int most, const struct timespec *for_ts,
     const sigset_t *mask) {
    return virtual_is_fd(fd) ? epoll_wait_for(fd, events, most, for_ts ? ns_of(for_ts) : -1)
                             : __real_epoll_pwait2(fd, events, most, for_ts, mask);
}

WRAP(int, epoll_wait, int fd, struct epoll_event *events, int most, int for_ms) {
    return virtual_is_fd(fd) ? epoll_wait_for(fd, events, most, for_ms < 0 ? -1 : for_ms * NS_PER_MS)
                             : __real_epoll_wait(fd, events, most, for_ms);
}

WRAP(int, poll, struct pollfd *fds, nfds_t count, int for_ms) {
    if (inside() && count == 1 && fds->fd == STDERR_FILENO) { /* lines of the log change nothing */
        fds->revents = fds->events;
        return 1;
    }
    if (count != 1 || !virtual_is_fd(fds->fd))
        return __real_poll(fds, count, for_ms);
    struct epoll_event event = {.events = (uint32_t)fds->events};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK_EQ(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds->fd, &event), 0);
    int ready = epoll_wait(epoll_fd, &event, 1, for_ms);
    close(epoll_fd);
    fds->revents = ready > 0 ? (short)event.events : 0;
    return ready;
}

/* ---- names ---- */

/* A name stands for the host that is called so, and for all that are called so with a number behind it. */
WRAP(int, getaddrinfo, const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **list) {
    struct in_addr number;
    char text[INET_ADDRSTRLEN];
    if (!inside() || !name || inet_pton(AF_INET, name, &number) == 1)
        return __real_getaddrinfo(name, port, hints, list);
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    virtual_sleep(NULL, virtual_world.now_ns + virtual_between(NS_PER_MS / 10, 20 * NS_PER_MS));
    struct addrinfo *all = NULL, **last = &all;
    for (uint32_t h = 0; h < virtual_world.host_count; h++) {
        if (strncmp(virtual_world.hosts[h].name, name, strlen(name)) != 0)
            continue;
        struct in_addr address = virtual_address(h);
        inet_ntop(AF_INET, &address, text, sizeof(text));
        if (__real_getaddrinfo(text, port, hints, last) != 0)
            return EAI_AGAIN;
        last = &(*last)->ai_next;
    }
    *list = all;
    return all ? 0 : EAI_NONAME;
}

WRAP(int, gethostname, char *name, size_t bytes) {
    if (!inside())
        return __real_gethostname(name, bytes);
    snprintf(name, bytes, "%s", virtual_world.hosts[virtual_self()->host].name);
    return 0;
}

/* ---- the process ---- */

WRAP(pid_t, getpid, void) {
    return inside() ? virtual_self()->pid : __real_getpid();
}

WRAP(int, kill, pid_t pid, int number) {
    if (!inside())
        return __real_kill(pid, number);
    CHECK_EQ(pid, virtual_self()->pid);
    virtual_signal(virtual_self(), number);
    return 0;
}

WRAP(ssize_t, getrandom, void *to, size_t bytes, unsigned flags) {
    if (!inside())
        return __real_getrandom(to, bytes, flags);
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)virtual_below(256);
    return (ssize_t)bytes;
}

WRAP(int, sigtimedwait, const sigset_t *set, siginfo_t *info, const struct timespec *for_ts) {
    struct virtual_process *p = virtual_self();
    int64_t until_ns = until_world_ns(local_now_ns() + ns_of(for_ts));
    (void)info;
    for (;;) {
        for (int number = 1; number < 32; number++)
            if (p->signals >> number & 1 && sigismember(set, number) == 1) {
                p->signals &= ~(1U << number);
                return number;
            }
        if (!virtual_sleep(&p->signals, until_ns))
            return (int)result(-EAGAIN);
    }
}

WRAP(int, pthread_sigmask, int how, const sigset_t *set, sigset_t *before) {
    return inside() ? 0 : __real_pthread_sigmask(how, set, before);
}

WRAP(void, _exit, int status) {
    if (!inside())
        __real__exit(status);
    virtual_self()->exit_status = status;
    virtual_kill(virtual_self());
    virtual_sleep(NULL, TIME_NEVER);
    __builtin_unreachable();
}

WRAP(void *, mmap, void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (!inside() || !(flags & MAP_SHARED) || !virtual_self()->no_memory)
        return __real_mmap(at, bytes, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

/* ---- what measures or asks the machine ---- */

WRAP(void, thread_begin, const char *name, uint32_t index, enum thread_kind kind) {
    char full[16];
    (void)kind;
    if (!inside())
        return;
    snprintf(full, sizeof(full), "%.10s-%u", name, index % 1000);
    virtual_thread_name(full);
}

WRAP(int64_t, thread_cpu_ns, pthread_t thread) {
    (void)thread;
    return 0;
}

WRAP(int64_t, thread_busy_ns, void) {
    if (!inside())
        return __real_thread_busy_ns();
    return virtual_world.sways ? virtual_busy_ns(local_now_ns()) : (int64_t)virtual_world.turns * TURN_NS;
}

WRAP(void, calibrate, struct calibration *c) {
    *c = (struct calibration){.wake_ns = 100 * NS_PER_US,
                              .dispatch_ns = 200 * NS_PER_US,
                              .copy_ns_per_byte = 0.1,
                              .reply_ns = 200 * NS_PER_US};
}
