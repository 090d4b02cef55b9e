/* log.c - writes log lines. The level and the process's name are the only statics: nobody
 * would use a log that every caller must be handed. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/container.h"
#include "base/utf8.h"

#define LINE_END 2  /* bytes that are kept for a quote and the end of the line */
#define SPEC_MAX 16 /* of a conversion like "%.3f" */

static _Atomic int level_least = LOG_INFO; /* relaxed: nothing is inferred from it */
static const char *process;                /* NULL: lines do not say it */
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

struct line {
    char at[2048];
    size_t used;
    bool quoted; /* in a value with quotes around it */
    bool full;   /* something did not fit, and nothing more is taken */
};

static void put(struct line *l, const char *bytes, size_t count) {
    l->full |= count > sizeof(l->at) - LINE_END - l->used;
    if (l->full)
        return;
    memcpy(l->at + l->used, bytes, count);
    l->used += count;
}

/* A quote that begins or ends a value. */
static void put_quote(struct line *l) {
    put(l, "\"", 1);
    l->quoted ^= !l->full;
}

static bool needs_quotes(const char *value, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strchr(" \"=\n\t", value[i]))
            return true;
    return false;
}

/* `alone`: nothing else belongs to the value, so that it may get quotes. */
static void put_string(struct line *l, const char *string, size_t count, bool alone) {
    bool quotes = alone && !l->quoted && needs_quotes(string, count);
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

void log_write(enum log_level level, const char *event, const char *fmt, ...) {
    if (level < log_get_level())
        return;
    struct line line = {.used = 0};
    struct timespec ts;
    struct tm tm;
    va_list ap;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    line.used = strftime(line.at, sizeof(line.at), "time=%Y-%m-%dT%H:%M:%S", &tm);
    line.used += (size_t)snprintf(line.at + line.used, sizeof(line.at) - line.used,
                                  ".%03ldZ level=%s %s%s%smsg=", ts.tv_nsec / 1000000, level_names[level],
                                  process ? "process=" : "", process ? process : "", process ? " " : "");
    put_quote(&line);
    put_string(&line, event, strlen(event), false);
    put_quote(&line);
    if (*fmt)
        put(&line, " ", 1);
    va_start(ap, fmt);
    put_pairs(&line, fmt, &ap);
    va_end(ap);
    if (line.quoted)
        line.at[line.used++] = '"';
    utf8_clean(line.at, line.used); /* names come from clients and from file systems, reasons from libraries */
    line.at[line.used++] = '\n';
    for (size_t done = 0; done < line.used;) {
        ssize_t n = write(STDERR_FILENO, line.at + done, line.used - done);
        if (n < 0 && errno != EINTR)
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}
