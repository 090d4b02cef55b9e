/* access_log.c - a thread that reads trails, and writes lines. */
#include "server/process/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/ticker.h"
#include "server/process/server_trails.h"

#define EVERY_NS    (100 * NS_PER_MS) /* time between two looks at the rings */
#define READ_MOST   256               /* trails that are read at once */
#define FILE_PIECE  (64 << 10)        /* bytes that are written at once, to a file */
#define PATIENCE_MS 500               /* time that a pipe may take no bytes, before lines are dropped */

struct access_log {
    struct trail_follower follower;
    const char *path;
    int fd;
    bool is_file;        /* which always takes bytes; else it is a pipe or a terminal */
    struct text text;    /* whole lines that are not written yet */
    uint64_t dropped;    /* lines that were not taken, and were not said yet */
    int error;           /* errno of the last write that failed; 0: lines came faster than they were taken */
    int64_t said_ns;     /* time at which missing lines were last said */
    _Atomic bool reopen; /* a lone flag: the path is to be opened anew */
    struct ticker ticker;
};

static int path_open(struct access_log *l, struct sy_error *err) {
    struct stat st;
    int fd = strcmp(l->path, "-") == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                       : open(l->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", l->path, strerror(errno));
    if (l->fd >= 0)
        close(l->fd);
    l->fd = fd;
    l->is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    return 0;
}

static uint64_t lines_in(const char *at, size_t bytes) {
    uint64_t lines = 0;
    for (const char *end = at + bytes; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        lines++;
    return lines;
}

/* Writes the text in pieces of whole lines, which a pipe that poll() calls writable takes whole. Lines that are not
 * taken are lost. */
static void lines_write(struct access_log *l) {
    size_t most = l->is_file ? FILE_PIECE : PIPE_BUF, done = 0;
    struct pollfd to = {.fd = l->fd, .events = POLLOUT};
    while (done < l->text.length) {
        const char *at = l->text.data + done;
        size_t left = l->text.length - done, bytes = left;
        if (left > most) {
            const char *end = memrchr(at, '\n', most);
            bytes = end ? (size_t)(end + 1 - at) : most;
        }
        if (poll(&to, 1, PATIENCE_MS) != 1)
            break;
        ssize_t n = write(l->fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            l->error = errno;
            break;
        }
        done += (size_t)n;
    }
    if (done < l->text.length)
        l->dropped += lines_in(l->text.data + done, l->text.length - done);
    text_clear(&l->text);
}

/* Reads the trails that were noted since the last time, and writes them. */
static void look(struct access_log *l) {
    struct trail read[READ_MOST];
    int64_t wall_ns = server_trails_wall_ns();
    uint64_t count;
    while ((count = trail_follower_read(&l->follower, read, READ_MOST)) > 0) {
        const struct model_index *listed = model_list_lock(l->follower.models);
        for (uint64_t i = 0; i < count; i++) {
            const struct trail_names names = server_trail_names(listed, &read[i], wall_ns);
            requests_trail_put(&l->text, &read[i], &names);
            text_put_char(&l->text, '\n');
        }
        model_list_unlock(l->follower.models);
        if (l->text.length >= FILE_PIECE)
            lines_write(l);
    }
    lines_write(l);
    int64_t now_ns = clock_now_ns();
    uint64_t lost = l->dropped + l->follower.lost;
    if (lost > 0 && now_ns - l->said_ns >= 60 * NS_PER_S) {
        log_warn("lines of the access log are missing", "file=%s lines=%llu reason=\"%s\"", l->path,
                 (unsigned long long)lost, l->error ? strerror(l->error) : "it could not be written fast enough");
        l->error = 0;
        l->dropped = l->follower.lost = 0;
        l->said_ns = now_ns;
    }
}

static void tick(void *log, bool last) {
    struct access_log *l = log;
    struct sy_error err;
    (void)last;
    if (atomic_exchange_explicit(&l->reopen, false, memory_order_relaxed) && path_open(l, &err) < 0)
        log_error("the access log stays in its old file", "reason=\"%s\"", err.text);
    look(l);
}

static void access_log_free(struct access_log *l) {
    if (l->fd >= 0)
        close(l->fd);
    text_free(&l->text);
    trail_follower_free(&l->follower);
    free(l);
}

int access_log_start(struct access_log **log, struct model_list *models, const char *path, struct sy_error *err) {
    struct access_log *l = calloc(1, sizeof(*l));
    if (!l || trail_follower_init(&l->follower, models, false) < 0) {
        free(l);
        return error_set(err, -ENOMEM, "no memory for the access log");
    }
    l->path = path;
    l->fd = -1;
    text_init(&l->text, NULL, 0);
    int rc = path_open(l, err);
    if (rc == 0)
        rc = ticker_start(&l->ticker, "access-log", EVERY_NS, tick, l, err);
    if (rc < 0) {
        access_log_free(l);
        return rc;
    }
    *log = l;
    return 0;
}

void access_log_reopen(struct access_log *l) {
    if (l)
        atomic_store_explicit(&l->reopen, true, memory_order_relaxed);
}

void access_log_stop(struct access_log *l) {
    if (!l)
        return;
    ticker_stop(&l->ticker);
    access_log_free(l);
}
