/* trace_file.c - a thread that reads trails, and writes arrays. */
#include "server/process/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/system/ticker.h"
#include "front/v2/json_put.h"
#include "server/process/server_trails.h"

#define EVERY_NS  (200 * NS_PER_MS) /* time between two looks at the rings */
#define READ_MOST 128               /* trails that are read at once */

struct trace_file {
    struct trail_follower follower;
    struct tracing *tracing;
    int fd;              /* file that is written; -1: none is open */
    uint64_t at;         /* place in it of the array's end */
    uint32_t traces;     /* traces in it */
    uint32_t frequency;  /* log_frequency with which it was opened */
    uint32_t number;     /* number of the next file of a log_frequency */
    uint64_t id;         /* id of the last trace */
    struct text text;    /* traces that are not written yet */
    struct sy_error why; /* why traces were not written, the last time */
    struct ticker ticker;
};

/* Opens the next file, as an empty array. */
static int file_open(struct trace_file *f, struct sy_error *err) {
    char path[4096];
    f->frequency = atomic_load_explicit(&f->tracing->frequency, memory_order_relaxed);
    if (f->frequency)
        snprintf(path, sizeof(path), "%s.%u", f->tracing->file, f->number++);
    else
        snprintf(path, sizeof(path), "%s", f->tracing->file);
    if (f->fd >= 0)
        close(f->fd);
    f->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0640);
    f->at = 1;
    f->traces = 0;
    if (f->fd < 0 || pwrite(f->fd, "[]", 2, 0) != 2)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    return 0;
}

static void event_put(struct text *out, const char *name, int64_t ns) {
    text_printf(out, ",{\"name\":\"%s\",\"ns\":%lld}", name, (long long)ns);
}

static void trace_put(struct trace_file *f, const struct trail *t, const struct trail_names *names) {
    struct text *out = &f->text;
    unsigned long long id = ++f->id;
    text_printf(out, "%s{\"id\":%llu,\"model_name\":", f->traces > 0 ? "," : "", id);
    json_put_string(out, names->model ? names->model : "");
    text_printf(out, ",\"model_version\":%u,\"request_id\":", (unsigned)names->version);
    json_put_bytes(out, t->id, t->id_length);
    int64_t complete_ns = t->arrival_ns + t->body_us * NS_PER_US, end_ns = t->arrival_ns + t->took_us * NS_PER_US;
    text_printf(out, "},{\"id\":%llu,\"timestamps\":[{\"name\":\"REQUEST_START\",\"ns\":%lld}", id,
                (long long)t->arrival_ns);
    event_put(out, "QUEUE_START", complete_ns);
    if (t->run_us > 0) {
        int64_t start_ns = t->arrival_ns + t->start_us * NS_PER_US, run_end_ns = start_ns + t->run_us * NS_PER_US;
        event_put(out, "COMPUTE_START", start_ns);
        event_put(out, "COMPUTE_INPUT_END", start_ns); /* inputs are gathered before the run */
        event_put(out, "COMPUTE_OUTPUT_START", run_end_ns);
        event_put(out, "COMPUTE_END", run_end_ns);
    }
    event_put(out, "REQUEST_END", end_ns);
    text_put(out, "]}");
    f->traces++;
}

/* Writes the text before the array's end. */
static void text_write(struct trace_file *f, uint32_t traces) {
    text_put_char(&f->text, ']');
    size_t bytes = f->text.length;
    bool whole = !f->text.failed && f->fd >= 0;
    ssize_t wrote = whole && bytes > 1 ? pwrite(f->fd, f->text.data, bytes, (off_t)f->at) : 0;
    if (bytes > 1 && (!whole || wrote != (ssize_t)bytes)) {
        f->follower.lost += traces; /* on a full disk: the array ends where it did */
        if (whole)
            error_set(&f->why, -EIO, "%s: %s", f->tracing->file, strerror(wrote < 0 ? errno : ENOSPC));
        if (f->fd >= 0 && (pwrite(f->fd, "]", 1, (off_t)f->at) != 1 || ftruncate(f->fd, (off_t)f->at + 1) < 0))
            f->at = 1;
    } else if (bytes > 1) {
        f->at += bytes - 1;
    }
    text_clear(&f->text);
}

static void tick(void *file, bool last) {
    struct trace_file *f = file;
    struct trail read[READ_MOST];
    uint64_t count;
    while ((count = trail_follower_read(&f->follower, read, READ_MOST)) > 0) {
        model_list_lock(f->follower.models);
        uint32_t pending = 0;
        for (uint64_t i = 0; i < count; i++) {
            bool full = f->frequency && f->traces >= f->frequency;
            if (f->fd < 0 || full ||
                f->frequency != atomic_load_explicit(&f->tracing->frequency, memory_order_relaxed)) {
                text_write(f, pending);
                pending = 0;
                file_open(f, &f->why);
            }
            const struct trail_names names = server_trail_names(f->follower.models, &read[i], 0);
            trace_put(f, &read[i], &names);
            pending++;
        }
        model_list_unlock(f->follower.models);
        text_write(f, pending);
    }
    uint64_t missing = trail_follower_missing(&f->follower, last);
    if (missing > 0)
        log_warn("traces are missing, since they could not be written", "file=%s traces=%llu reason=\"%s\"",
                 f->tracing->file, (unsigned long long)missing, f->why.text);
}

static void trace_file_free(struct trace_file *f) {
    if (f->fd >= 0)
        close(f->fd);
    text_free(&f->text);
    trail_follower_free(&f->follower);
    free(f);
}

int trace_file_start(struct trace_file **file, struct model_list *models, struct tracing *tracing,
                     struct sy_error *err) {
    struct trace_file *f = calloc(1, sizeof(*f));
    if (!f || trail_follower_init(&f->follower, models, true) < 0) {
        free(f);
        return error_set(err, -ENOMEM, "no memory for the traces");
    }
    f->tracing = tracing;
    f->fd = -1;
    text_init(&f->text, NULL, 0);
    int rc = file_open(f, err);
    if (rc == 0)
        rc = ticker_start(&f->ticker, "traces", EVERY_NS, tick, f, err);
    if (rc < 0) {
        trace_file_free(f);
        return rc;
    }
    *file = f;
    return 0;
}

void trace_file_stop(struct trace_file *f) {
    if (!f)
        return;
    ticker_stop(&f->ticker);
    trace_file_free(f);
}
