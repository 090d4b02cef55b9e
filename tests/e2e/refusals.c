/* refusals.c - a library to preload: calls of the program are refused, interrupted or done in part, as rules say that
 * another process may change meanwhile. test_refusals.py compiles it, and has the rules' file, which SYMPHONY_REFUSALS
 * names. Processes that the program starts obey the rules, too. Calls of its libraries are left alone. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define DESCRIPTORS 65536

enum kind {             /* as KINDS in test_refusals.py */
            PART,       /* fewer bytes than asked for, of files, pipes and sockets that are streams */
            AGAIN,      /* EAGAIN of a socket that does not wait */
            INTERRUPT,  /* EINTR of what may wait */
            MEMORY,     /* malloc() and the like */
            MAP,        /* mmap(), mprotect() */
            SIZE,       /* ftruncate(), posix_fallocate() */
            THREAD,     /* pthread_create() */
            PROCESS,    /* fork(), posix_spawn() */
            OPEN,       /* files and folders */
            LIST,       /* readdir() */
            ABOUT,      /* stat() and the like */
            SAVE,       /* writing to files */
            CHANGE,     /* rename(), unlink(), fsync() */
            DESCRIPTOR, /* sockets, pipes, eventfd, epoll, memfd */
            WATCH,      /* EPOLL_CTL_ADD */
            CONNECT,
            RESOLVE, /* getaddrinfo() */
            KINDS
};

static struct rules {
    uint64_t seed;
    struct rule {
        uint32_t per_million; /* so many of the calls are refused */
        int32_t error;
        uint64_t skip, most; /* so many are left alone first; so many are refused at most */
        uint64_t least;      /* MEMORY: smaller blocks are left alone */
        _Atomic uint64_t calls, refused;
    } of[KINDS];
} * rules; /* NULL: none */

static uintptr_t program_begin, program_end;
static _Atomic bool edges[DESCRIPTORS]; /* watched edge-triggered: after a short read or EAGAIN no event would come */

static int program_find(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes, (void)context;
    program_begin = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            program_end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return 1; /* the first object is the program */
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SYMPHONY_REFUSALS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    dl_iterate_phdr(program_find, NULL);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*rules), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    rules = at == MAP_FAILED ? NULL : at;
    if (fd >= 0)
        close(fd);
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static bool of_program(const void *caller) {
    return (uintptr_t)caller >= program_begin && (uintptr_t)caller < program_end;
}

/* Whether this call is refused; errno is set then. */
static bool refused(enum kind kind, const void *caller) {
    struct rule *r = rules ? &rules->of[kind] : NULL;
    if (!r || r->per_million == 0 || !of_program(caller))
        return false;
    uint64_t n = atomic_fetch_add(&r->calls, 1);
    if (n < r->skip || mix(rules->seed * KINDS + kind + (n << 20)) % 1000000 >= r->per_million)
        return false;
    if (atomic_fetch_add(&r->refused, 1) >= r->most) {
        atomic_fetch_sub(&r->refused, 1);
        return false;
    }
    errno = r->error;
    return true;
}

#define REFUSED(kind) refused(kind, __builtin_return_address(0))
#define NEXT(name)                                                                                                     \
    static __typeof__(name) *next;                                                                                     \
    if (!next)                                                                                                         \
    next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
/* A function that fails as others of its kind, or does what it always does. */
#define REFUSABLE(kind, result, failure, name, parameters, ...)                                                        \
    result name parameters {                                                                                           \
        NEXT(name);                                                                                                    \
        return REFUSED(kind) ? (failure) : next(__VA_ARGS__);                                                          \
    }

/* ---- memory; dlsym() allocates ---- */

static bool large(size_t bytes) {
    return rules && bytes >= rules->of[MEMORY].least;
}

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
    return large(bytes) && REFUSED(MEMORY) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    return large(count * bytes) && REFUSED(MEMORY) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    return large(bytes) && REFUSED(MEMORY) ? NULL : __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return large(bytes) && REFUSED(MEMORY) ? NULL : __libc_memalign(alignment, bytes);
}

REFUSABLE(MEMORY, char *, NULL, strdup, (const char *text), text)
REFUSABLE(MEMORY, char *, NULL, strndup, (const char *text, size_t most), text, most)
REFUSABLE(MEMORY, FILE *, NULL, open_memstream, (char **text, size_t *bytes), text, bytes)
REFUSABLE(MAP, void *, MAP_FAILED, mmap, (void *at, size_t bytes, int may, int flags, int fd, off_t from), at, bytes,
          may, flags, fd, from)
REFUSABLE(MAP, int, -1, mprotect, (void *at, size_t bytes, int may), at, bytes, may)
REFUSABLE(SIZE, int, -1, ftruncate, (int fd, off_t bytes), fd, bytes)
REFUSABLE(SIZE, int, errno, posix_fallocate, (int fd, off_t from, off_t bytes), fd, from, bytes)

/* ---- threads and processes ---- */

REFUSABLE(THREAD, int, errno, pthread_create,
          (pthread_t * thread, const pthread_attr_t *how, void *(*run)(void *), void *context), thread, how, run,
          context)
REFUSABLE(PROCESS, pid_t, -1, fork, (void))
REFUSABLE(PROCESS, int, errno, posix_spawn,
          (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
           char *const arguments[], char *const environment[]),
          pid, path, actions, how, arguments, environment)

/* ---- files ---- */

int open(const char *path, int flags, ...) {
    NEXT(open);
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    return REFUSED(OPEN) ? -1 : next(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    NEXT(openat);
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    return REFUSED(OPEN) ? -1 : next(folder, path, flags, mode);
}

REFUSABLE(OPEN, FILE *, NULL, fopen, (const char *path, const char *mode), path, mode)
REFUSABLE(OPEN, int, -1, mkdir, (const char *path, mode_t mode), path, mode)
REFUSABLE(OPEN, char *, NULL, mkdtemp, (char *path), path)
REFUSABLE(LIST, struct dirent *, NULL, readdir, (DIR * folder), folder)
REFUSABLE(ABOUT, int, -1, stat, (const char *path, struct stat *about), path, about)
REFUSABLE(ABOUT, int, -1, fstatat, (int folder, const char *path, struct stat *about, int flags), folder, path, about,
          flags)
REFUSABLE(CHANGE, int, -1, rename, (const char *from, const char *to), from, to)
REFUSABLE(CHANGE, int, -1, unlink, (const char *path), path)
REFUSABLE(CHANGE, int, -1, fsync, (int fd), fd)

int fclose(FILE *file) {
    NEXT(fclose);
    bool fails = REFUSED(SAVE);
    int error = errno, rc = next(file);
    errno = fails ? error : errno;
    return fails ? EOF : rc;
}

/* ---- descriptors ---- */

REFUSABLE(DESCRIPTOR, int, -1, socket, (int domain, int type, int protocol), domain, type, protocol)
REFUSABLE(DESCRIPTOR, int, -1, socketpair, (int domain, int type, int protocol, int ends[2]), domain, type, protocol,
          ends)
REFUSABLE(DESCRIPTOR, int, -1, pipe2, (int ends[2], int flags), ends, flags)
REFUSABLE(DESCRIPTOR, int, -1, eventfd, (unsigned count, int flags), count, flags)
REFUSABLE(DESCRIPTOR, int, -1, memfd_create, (const char *name, unsigned flags), name, flags)
REFUSABLE(DESCRIPTOR, int, -1, epoll_create1, (int flags), flags)
REFUSABLE(CONNECT, int, -1, connect, (int fd, const struct sockaddr *address, socklen_t bytes), fd, address, bytes)
REFUSABLE(RESOLVE, int, EAI_AGAIN, getaddrinfo,
          (const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found), host, port,
          hints, found)

int epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event) {
    NEXT(epoll_ctl);
    if (operation != EPOLL_CTL_DEL && fd >= 0 && fd < DESCRIPTORS)
        edges[fd] = event->events & EPOLLET;
    return operation == EPOLL_CTL_ADD && REFUSED(WATCH) ? -1 : next(epoll_fd, operation, fd, event);
}

/* ---- what waits ---- */

REFUSABLE(INTERRUPT, int, -1, accept4, (int fd, struct sockaddr *address, socklen_t *bytes, int flags), fd, address,
          bytes, flags)
REFUSABLE(INTERRUPT, int, -1, poll, (struct pollfd * fds, nfds_t count, int timeout_ms), fds, count, timeout_ms)
REFUSABLE(INTERRUPT, int, -1, epoll_wait, (int epoll_fd, struct epoll_event *events, int most, int timeout_ms),
          epoll_fd, events, most, timeout_ms)
REFUSABLE(INTERRUPT, int, -1, epoll_pwait2,
          (int epoll_fd, struct epoll_event *events, int most, const struct timespec *timeout, const sigset_t *mask),
          epoll_fd, events, most, timeout, mask)

/* ---- bytes ---- */

/* How many of the bytes are to be read or written; SIZE_MAX: the call is refused. */
static size_t part_of(int fd, size_t bytes, bool writes, const void *caller) {
    struct stat st;
    int type = 0, error = errno;
    socklen_t type_bytes = sizeof(type);
    if (!rules || !of_program(caller) || bytes == 0 || fd == STDERR_FILENO || fd < 0 || fd >= DESCRIPTORS ||
        fstat(fd, &st) < 0)
        return bytes;
    bool is_socket = S_ISSOCK(st.st_mode), is_file = S_ISREG(st.st_mode), is_pipe = S_ISFIFO(st.st_mode);
    bool is_stream = is_socket && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 && type == SOCK_STREAM;
    bool edge = is_socket && !writes && edges[fd];
    errno = error;
    if (((is_socket || is_pipe) && refused(INTERRUPT, caller)) ||
        (is_socket && !edges[fd] && fcntl(fd, F_GETFL) & O_NONBLOCK && refused(AGAIN, caller)) ||
        (is_file && writes && refused(SAVE, caller)))
        return SIZE_MAX;
    /* a pipe takes PIPE_BUF bytes as a whole */
    if (bytes == 1 || edge || !(is_stream || is_file || (is_pipe && (!writes || bytes > PIPE_BUF))) ||
        !refused(PART, caller))
        return bytes;
    return 1 + mix(rules->seed + bytes + atomic_load(&rules->of[PART].calls)) % (bytes < 64 ? bytes : 64);
}

#define PART_OF(fd, bytes, writes) part_of(fd, bytes, writes, __builtin_return_address(0))
#define PARTIAL(writes, name, parameters, fd, data, ...)                                                               \
    ssize_t name parameters {                                                                                          \
        NEXT(name);                                                                                                    \
        size_t part = PART_OF(fd, bytes, writes);                                                                      \
        return part == SIZE_MAX ? -1 : next(fd, data, part __VA_ARGS__);                                               \
    }

PARTIAL(false, read, (int fd, void *data, size_t bytes), fd, data)
PARTIAL(false, pread, (int fd, void *data, size_t bytes, off_t from), fd, data, , from)
PARTIAL(false, recv, (int fd, void *data, size_t bytes, int flags), fd, data, , flags)
PARTIAL(true, write, (int fd, const void *data, size_t bytes), fd, data)
PARTIAL(true, pwrite, (int fd, const void *data, size_t bytes, off_t to), fd, data, , to)
PARTIAL(true, send, (int fd, const void *data, size_t bytes, int flags), fd, data, , flags)

/* The message with only the first `most` of its bytes, or with all. */
static struct msghdr shorten(const struct msghdr *message, size_t most, struct iovec pieces[IOV_MAX]) {
    struct msghdr part = *message;
    part.msg_iov = pieces;
    for (part.msg_iovlen = 0; part.msg_iovlen < message->msg_iovlen && most > 0; part.msg_iovlen++) {
        struct iovec *piece = &pieces[part.msg_iovlen];
        *piece = message->msg_iov[part.msg_iovlen];
        piece->iov_len = piece->iov_len < most ? piece->iov_len : most;
        most -= piece->iov_len;
    }
    return part;
}

static size_t bytes_of(const struct msghdr *message) {
    size_t bytes = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        bytes += message->msg_iov[i].iov_len;
    return bytes;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    NEXT(recvmsg);
    struct iovec pieces[IOV_MAX];
    size_t bytes = bytes_of(message), part = PART_OF(fd, bytes, false);
    if (part == bytes || part == SIZE_MAX)
        return part == SIZE_MAX ? -1 : next(fd, message, flags);
    struct msghdr less = shorten(message, part, pieces);
    ssize_t n = next(fd, &less, flags);
    message->msg_controllen = less.msg_controllen;
    message->msg_flags = less.msg_flags;
    return n;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    NEXT(sendmsg);
    struct iovec pieces[IOV_MAX];
    size_t bytes = bytes_of(message), part = message->msg_control ? bytes : PART_OF(fd, bytes, true);
    if (part == bytes || part == SIZE_MAX) /* what brings descriptors is sent as a whole */
        return part == SIZE_MAX ? -1 : next(fd, message, flags);
    struct msghdr less = shorten(message, part, pieces);
    return next(fd, &less, flags);
}
