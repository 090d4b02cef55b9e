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
    int error;           /* errno of the last write that failed; 0: lines came faster than they were taken */
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

/* Writes the text, which is of so many lines, in pieces of whole lines, which a pipe that poll() calls writable takes
 * whole. Lines that are not taken are lost; so are all if memory was out for a part of one. */
static void lines_write(struct access_log *l, uint64_t lines) {
    size_t most = l->is_file ? FILE_PIECE : PIPE_BUF, done = 0;
    struct pollfd to = {.fd = l->fd, .events = POLLOUT};
    l->error = l->text.failed ? ENOMEM : l->error;
    while (done < l->text.length && !l->text.failed) {
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
        for (const char *end = at + n; (at = memchr(at, '\n', (size_t)(end - at))); at++)
            lines--;
        done += (size_t)n;
    }
    l->follower.lost += lines;
    text_clear(&l->text);
}

static void tick(void *log, bool last) {
    struct access_log *l = log;
    struct trail read[READ_MOST];
    int64_t wall_ns = server_trails_wall_ns();
    uint64_t count, lines = 0;
    struct sy_error err;
    if (atomic_exchange_explicit(&l->reopen, false, memory_order_relaxed) && path_open(l, &err) < 0)
        log_error("the access log stays in its old file", "reason=\"%s\"", err.text);
    while ((count = trail_follower_read(&l->follower, read, READ_MOST)) > 0) {
        model_list_lock(l->follower.models);
        for (uint64_t i = 0; i < count; i++) {
            const struct trail_names names = server_trail_names(l->follower.models, &read[i], wall_ns);
            requests_trail_put(&l->text, &read[i], &names);
            text_put_char(&l->text, '\n');
        }
        model_list_unlock(l->follower.models);
        lines += count;
        if (l->text.length >= FILE_PIECE || l->text.failed) {
            lines_write(l, lines);
            lines = 0;
        }
    }
    lines_write(l, lines);
    uint64_t missing = trail_follower_missing(&l->follower, last);
    if (missing > 0) {
        log_warn("lines of the access log are missing", "file=%s lines=%llu reason=\"%s\"", l->path,
                 (unsigned long long)missing, l->error ? strerror(l->error) : "it could not be written fast enough");
        l->error = 0;
    }
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
