/* log.c - writes log lines. The level, the process's name and the queue are static: nobody would use a log that every
 * caller must be handed. */
#include "core/system/log.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/util/container.h"
#include "core/util/utf8.h"

#define LINE_MOST 2048
#define JSON_MOST 4096 /* bytes of a line as JSON; a pipe that takes anything takes PIPE_BUF bytes, which is as many   \
                        */
#define LINE_END 2     /* bytes that are kept for a quote and the end of the line */
#define SPEC_MAX 16    /* bytes of a conversion like "%.3f" */

static _Atomic int level_least = LOG_INFO; /* relaxed: nothing is inferred from it */
static const char *process;                /* name of the process in lines; NULL: none */
static enum log_format format;             /* constant once threads run */
static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_set_level(enum log_level level) {
    atomic_store_explicit(&level_least, level, memory_order_relaxed);
}

enum log_level log_get_level(void) {
    return (enum log_level)atomic_load_explicit(&level_least, memory_order_relaxed);
}

int log_level_parse(const char *name, enum log_level *level) {
    for (unsigned i = 0; i < ARRAY_COUNT(level_names); i++)
        if (strcmp(name, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return 0;
        }
    return -EINVAL;
}

int log_format_parse(const char *name, enum log_format *parsed) {
    *parsed = strcmp(name, "json") == 0 ? LOG_JSON : LOG_LOGFMT;
    return *parsed == LOG_JSON || strcmp(name, "logfmt") == 0 ? 0 : -EINVAL;
}

void log_set_format(enum log_format wanted) {
    format = wanted;
}

struct line {
    char at[LINE_MOST];
    size_t used;
    bool quoted; /* whether the end of the line is within a value in quotes */
    bool full;   /* whether some text did not fit: then no more is taken */
};

static void put(struct line *l, const char *bytes, size_t count) {
    l->full |= count > sizeof(l->at) - LINE_END - l->used;
    if (l->full)
        return;
    memcpy(l->at + l->used, bytes, count);
    l->used += count;
}

/* Adds a quote that begins or ends a value. */
static void put_quote(struct line *l) {
    put(l, "\"", 1);
    l->quoted ^= !l->full;
}

/* `alone`: nothing else belongs to the value, so that it may get quotes. */
static void put_string(struct line *l, const char *string, size_t count, bool alone) {
    bool quotes = alone && !l->quoted && format == LOG_JSON; /* so that it is no number */
    for (size_t i = 0; i < count && alone && !l->quoted && !quotes; i++)
        quotes = strchr(" \"=\n\t", string[i]);
    if (quotes)
        put_quote(l);
    for (size_t i = 0; i < count; i++) {
        const char both[] = {'\\', string[i]};
        bool escaped = l->quoted && (string[i] == '"' || string[i] == '\\');
        put(l, escaped ? both : &both[1], escaped ? 2 : 1);
    }
    if (quotes)
        put_quote(l);
}

/* False: the conversion is none of those that log.h lists, and no argument was taken. */
static bool put_number(struct line *l, const char *spec, va_list *ap) {
    char text[400]; /* also for %f of the largest number */
    size_t last = strlen(spec) - 1;
    bool real = strchr("efg", spec[last]) != NULL, whole = strchr("diuxX", spec[last]) != NULL;
    int count;
    if (whole && spec[last - 1] == 'z')
        count = snprintf(text, sizeof(text), spec, va_arg(*ap, size_t));
    else if (whole && spec[last - 1] == 'l' && spec[last - 2] == 'l')
        count = snprintf(text, sizeof(text), spec, va_arg(*ap, long long));
    else if (whole && spec[last - 1] == 'l')
        count = snprintf(text, sizeof(text), spec, va_arg(*ap, long));
    else if (whole)
        count = snprintf(text, sizeof(text), spec, va_arg(*ap, int));
    else if (real)
        count = snprintf(text, sizeof(text), spec, va_arg(*ap, double));
    else
        return false;
    put(l, text, (size_t)count < sizeof(text) ? (size_t)count : sizeof(text) - 1);
    return true;
}

/* Formats as vsnprintf() does, but no string argument can end its value or its quotes. */
static void put_pairs(struct line *l, const char *fmt, va_list *ap) {
    for (const char *at = fmt; *at;) {
        if (*at == '"') {
            put_quote(l);
            at++;
        }
        size_t plain = strcspn(at, "%\"");
        put(l, at, plain);
        at += plain;
        if (*at != '%')
            continue;
        char spec[SPEC_MAX];
        size_t bytes = 1 + strspn(at + 1, "-+ #0123456789.*hlz") + 1;
        if (bytes >= sizeof(spec) || !at[bytes - 1]) /* a mistake of the caller, whose arguments cannot be told apart */
            return;
        memcpy(spec, at, bytes);
        spec[bytes] = '\0';
        if (spec[bytes - 1] == 's') {
            const char *dot = strchr(spec, '.');
            int most = !dot ? -1 : dot[1] == '*' ? va_arg(*ap, int) : (int)strtol(dot + 1, NULL, 10);
            const char *string = va_arg(*ap, const char *);
            string = string ? string : "(null)";
            bool alone = at > fmt && at[-1] == '=' && (at[bytes] == ' ' || !at[bytes]);
            put_string(l, string, most < 0 ? strlen(string) : strnlen(string, (size_t)most), alone);
        } else if (!put_number(l, spec, ap)) {
            return;
        }
        at += bytes;
    }
}

void log_set_process(const char *name) {
    process = name;
}

/* Writes the part of a line before the pairs. */
static void put_head(struct line *l, enum log_level level, const char *event) {
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    l->used = strftime(l->at, sizeof(l->at), "time=%Y-%m-%dT%H:%M:%S", &tm);
    l->used +=
        (size_t)snprintf(l->at + l->used, sizeof(l->at) - l->used, ".%03ldZ level=%s %s%s%smsg=", ts.tv_nsec / 1000000,
                         level_names[level], process ? "process=" : "", process ? process : "", process ? " " : "");
    put_quote(l);
    put_string(l, event, strlen(event), false);
    put_quote(l);
}

/* ---- JSON ---- */

static bool is_number(const char *at, size_t count) {
    const char *end = at + count, *digits = at += count > 0 && *at == '-';
    while (at < end && isdigit((unsigned char)*at))
        at++;
    bool whole = at > digits && (*digits != '0' || at - digits == 1);
    if (at < end && *at == '.') {
        digits = ++at;
        while (at < end && isdigit((unsigned char)*at))
            at++;
        whole &= at > digits;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at += at + 1 < end && (at[1] == '+' || at[1] == '-') ? 2 : 1;
        digits = at;
        while (at < end && isdigit((unsigned char)*at))
            at++;
        whole &= at > digits;
    }
    return whole && at == end;
}

/* Length of the value at `at`, with its quotes if it has any. */
static size_t value_length(const char *at, const char *end) {
    const char *from = at;
    if (at == end || *at != '"')
        return (const char *)(memchr(at, ' ', (size_t)(end - at)) ?: end) - from;
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    return (size_t)(at < end ? at + 1 - from : end - from);
}

/* Turns a line's pairs into an object: both escape quotes and backslashes alike, and utf8_clean() has left no other
 * character to escape. A pair that does not fit is left out. Returns the object's bytes. */
static size_t json_write(const struct line *l, char out[JSON_MOST]) {
    const char *at = l->at, *end = l->at + l->used;
    size_t used = 0;
    out[used++] = '{';
    while (at < end) {
        const char *equals = memchr(at, '=', (size_t)(end - at));
        if (!equals)
            break;
        size_t key = (size_t)(equals - at), bytes = value_length(equals + 1, end);
        const char *value = equals + 1;
        if (used + key + 2 * bytes + sizeof(",\"\":\"\"}\n") > JSON_MOST)
            break;
        bool bare = bytes > 0 && (*value == '"' || is_number(value, bytes));
        used += (size_t)sprintf(out + used, "%s\"%.*s\":%s", used > 1 ? "," : "", (int)key, at, bare ? "" : "\"");
        for (size_t i = 0; i < bytes; i++) {
            if (!bare && (value[i] == '"' || value[i] == '\\'))
                out[used++] = '\\';
            out[used++] = value[i];
        }
        if (!bare)
            out[used++] = '"';
        at = value + bytes;
        at += at < end; /* the blank */
    }
    out[used++] = '}';
    return used;
}

/* ---- writing ---- */

/* The lines that standard error did not take yet, the oldest first. */
static struct {
    pthread_mutex_t lock;
    char lines[LOG_QUEUE_BYTES];
    size_t used;
    unsigned long long dropped; /* number of lines dropped since a line last told of it */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Writes as many bytes as standard error takes without waiting; returns how many. A pipe that poll() calls writable
 * takes PIPE_BUF bytes, in which any line fits. After an error all bytes count as written. */
static size_t bytes_write(const char *bytes, size_t count) {
    struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
    size_t done = 0;
    while (done < count && poll(&to, 1, 0) == 1) {
        size_t most = count - done < JSON_MOST ? count - done : JSON_MOST;
        ssize_t n = write(STDERR_FILENO, bytes + done, most);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0 && errno != EINTR)
            return count;
        done += n > 0 ? (size_t)n : 0;
    }
    return done;
}

/* Writes queued lines, as far as standard error takes them. Under the lock. */
static void queue_write(void) {
    size_t done = queue.used ? bytes_write(queue.lines, queue.used) : 0;
    queue.used -= done;
    memmove(queue.lines, queue.lines + done, queue.used);
}

/* Ends a line, and writes it behind the queued ones, queues it, or drops it. Under the lock. */
static void line_add(struct line *l) {
    char json[JSON_MOST];
    const char *bytes = l->at;
    if (l->quoted)
        l->at[l->used++] = '"';
    utf8_clean(l->at, l->used); /* names come from clients and from file systems, reasons from libraries */
    size_t count = l->used;
    if (format == LOG_JSON) {
        count = json_write(l, json);
        json[count++] = '\n';
        bytes = json;
    } else {
        l->at[count++] = '\n';
    }
    queue_write();
    size_t done = queue.used ? 0 : bytes_write(bytes, count), left = count - done;
    if (left > sizeof(queue.lines) - queue.used) {
        queue.dropped++;
        return;
    }
    memcpy(queue.lines + queue.used, bytes + done, left);
    queue.used += left;
}

/* Adds a line that says how many lines were dropped, once there is room again. Under the lock. */
static void dropped_say(void) {
    char pair[40];
    if (!queue.dropped || sizeof(queue.lines) - queue.used < JSON_MOST)
        return;
    struct line line = {.used = 0};
    put_head(&line, LOG_WARN, "log lines dropped, since nobody read them");
    snprintf(pair, sizeof(pair), " count=%llu", queue.dropped);
    put(&line, pair, strlen(pair));
    queue.dropped = 0;
    line_add(&line);
}

void log_drain(int most_ms) {
    struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
    pthread_mutex_lock(&queue.lock);
    do {
        queue_write();
        dropped_say();
    } while (queue.used && poll(&to, 1, most_ms) == 1);
    pthread_mutex_unlock(&queue.lock);
}

static void fork_prepare(void) {
    pthread_mutex_lock(&queue.lock);
}

static void fork_parent(void) {
    pthread_mutex_unlock(&queue.lock);
}

static void fork_child(void) {
    queue.used = 0; /* the child's parent writes the queued lines */
    queue.dropped = 0;
    pthread_mutex_unlock(&queue.lock);
}

__attribute__((constructor)) static void fork_handle(void) {
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

void log_write(enum log_level level, const char *event, const char *fmt, ...) {
    if (level < log_get_level())
        return;
    struct line line = {.used = 0};
    va_list ap;
    put_head(&line, level, event);
    if (*fmt)
        put(&line, " ", 1);
    va_start(ap, fmt);
    put_pairs(&line, fmt, &ap);
    va_end(ap);
    pthread_mutex_lock(&queue.lock);
    queue_write();
    dropped_say();
    line_add(&line);
    pthread_mutex_unlock(&queue.lock);
}
