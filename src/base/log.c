/* log.c - writes log lines. The level is the only static: nobody would use a log that every caller must be handed. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/container.h"
#include "base/utf8.h"

static _Atomic int level_least = LOG_INFO; /* relaxed: nothing is inferred from it */
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

void log_write(enum log_level level, const char *event, const char *fmt, ...) {
    if (level < log_get_level())
        return;
    char line[2048];
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t used = strftime(line, sizeof(line), "time=%Y-%m-%dT%H:%M:%S", &tm);
    used += (size_t)snprintf(line + used, sizeof(line) - used, ".%03ldZ level=%s msg=\"%s\"%s", ts.tv_nsec / 1000000,
                             level_names[level], event, *fmt ? " " : "");
    if (used < sizeof(line)) {
        va_list ap;
        va_start(ap, fmt);
        used += (size_t)vsnprintf(line + used, sizeof(line) - used, fmt, ap);
        va_end(ap);
    }
    if (used > sizeof(line) - 1)
        used = sizeof(line) - 1;
    utf8_clean(line, used); /* names come from clients and from file systems, reasons from libraries */
    line[used++] = '\n';
    for (size_t done = 0; done < used;) {
        ssize_t n = write(STDERR_FILENO, line + done, used - done);
        if (n < 0 && errno != EINTR)
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}
