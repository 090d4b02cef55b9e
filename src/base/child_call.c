/* child_call.c - a child that answers by a pipe. */
#include "base/child_call.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct answer {
    int rc;
    struct sy_error err;
};

/* In the child. The answer fits into a pipe, so that it is written whole. */
static void answer_send(int pipe, int (*call)(void *context, struct sy_error *err), void *context) {
    struct answer answer = {.rc = 0, .err = {""}};
    answer.rc = call(context, &answer.err);
    fflush(NULL);
    _exit(write(pipe, &answer, sizeof(answer)) != sizeof(answer));
}

/* In the parent: the answer, or how the child ended without one. */
static int answer_take(int pipe, pid_t child, struct sy_error *err) {
    struct answer answer;
    size_t have = 0;
    ssize_t got;
    int status;
    do {
        got = read(pipe, (char *)&answer + have, sizeof(answer) - have);
        have += got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (have == sizeof(answer)) {
        if (answer.rc)
            error_set(err, answer.rc, "%s", answer.err.text);
        return answer.rc;
    }
    if (WIFSIGNALED(status))
        return error_set(err, -ECANCELED, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return error_set(err, -ECANCELED, "ended with exit status %d", WEXITSTATUS(status));
}

int child_call(int (*call)(void *context, struct sy_error *err), void *context, struct sy_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return error_set(err, -errno, "no pipe: %s", strerror(errno));
    fflush(NULL); /* or the child would print it again */
    pid_t child = fork();
    if (child < 0) {
        int rc = error_set(err, -errno, "no child process: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return rc;
    }
    if (child == 0) {
        close(ends[0]);
        answer_send(ends[1], call, context);
    }
    close(ends[1]);
    int rc = answer_take(ends[0], child, err);
    close(ends[0]);
    return rc;
}
