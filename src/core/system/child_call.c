/* child_call.c - starts child processes that answer by a pipe. */
#include "core/system/child_call.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/system/log.h"
#include "core/system/machine.h"

#define POLL_MS         100          /* time after which a stop is noticed at the latest */
#define MEMORY_RESERVED (1ULL << 30) /* by stacks of threads, which count whole, however little they use */

extern char **environ;

struct answer {
    int rc;
    struct sy_error err;
};

int child_call(int (*call)(void *context, struct sy_error *err), void *context, struct sy_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return error_set(err, -errno, "no pipe: %s", strerror(errno));
    fflush(NULL); /* else the child would print buffered text again */
    pid_t child = fork();
    if (child < 0) {
        int rc = error_set(err, -errno, "no child process: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return rc;
    }
    struct answer answer = {.rc = 0, .err = {""}};
    if (child == 0) {
        close(ends[0]);
        answer.rc = call(context, &answer.err);
        fflush(NULL);
        _exit(write(ends[1], &answer, sizeof(answer)) != sizeof(answer)); /* it fits into a pipe: written whole */
    }
    close(ends[1]);
    size_t have = 0;
    ssize_t got;
    do {
        got = read(ends[0], (char *)&answer + have, sizeof(answer) - have);
        have += got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    if (have == sizeof(answer)) {
        if (answer.rc)
            error_set(err, answer.rc, "%s", answer.err.text);
        return answer.rc;
    }
    if (WIFSIGNALED(status))
        return error_set(err, -ECANCELED, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return error_set(err, -ECANCELED, "ended with exit status %d", WEXITSTATUS(status));
}

/* ---- this program anew ---- */

int child_spawn(pid_t *pid, const char *program, char *const argv[], int requests, int answers) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc)
        return -rc;
    rc = posix_spawnattr_init(&attributes);
    if (rc)
        goto err_actions;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    rc = posix_spawn_file_actions_adddup2(&actions, requests, STDIN_FILENO);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(&actions, answers, CHILD_FD);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    if (!rc)
        rc = posix_spawn(pid, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
err_actions:
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}

/* ---- limits ---- */

/* Makes system calls fail that open sockets of a network. Where the system has no such filters, they do not fail. */
static int sockets_limit(void) {
#if defined(__x86_64__)
    const uint32_t here = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
    const uint32_t here = AUDIT_ARCH_AARCH64;
#else
    return -ENOTSUP;
#endif
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, here, 0, 7), /* system calls of another architecture have other numbers */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 5, 0),         /* system calls of x32 have other numbers */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 4, 0), /* it makes sockets without a call */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
    };
    const struct sock_fprog program = {.len = sizeof(filter) / sizeof(*filter), .filter = filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

/* What wants more memory than the machine has fails there, instead of ending somebody else. */
static void memory_limit(void) {
    uint64_t own_pages = 0, bytes = machine_memory_bytes() + MEMORY_RESERVED;
    struct rlimit most;
    FILE *sizes = fopen("/proc/self/statm", "re");
    if (!sizes)
        return;
    if (fscanf(sizes, "%*u %*u %*u %*u %*u %" SCNu64, &own_pages) == 1 && getrlimit(RLIMIT_DATA, &most) == 0 &&
        own_pages * (uint64_t)sysconf(_SC_PAGESIZE) < bytes && bytes < most.rlim_max) { /* not beside shadow memory */
        most.rlim_cur = most.rlim_max = bytes;
        setrlimit(RLIMIT_DATA, &most);
    }
    fclose(sizes);
}

void child_limit(bool gpu) {
    const struct rlimit none = {0, 0};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    setrlimit(RLIMIT_CORE, &none);
    if (!gpu)
        memory_limit();
    int rc = sockets_limit();
    if (rc < 0)
        log_debug("a child keeps the network", "reason=\"%s\"", strerror(-rc));
}
