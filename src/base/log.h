/* log.h - structured logs on standard error: time, level, event, then key=value pairs (logfmt). Any thread. Never on
 * the hot path: it formats and writes. */
#pragma once

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Lines below `level` are not written. Default LOG_INFO. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* "debug", "info", "warn", "error"; -EINVAL otherwise. */
int log_level_parse(const char *name, enum log_level *level);

/* One line: `event` is a short word or sentence; `fmt` the pairs, e.g. log_write(LOG_INFO, "model loaded", "model=%s",
 * name). Values with blanks are to be quoted by the caller as "...". One write(2) a line, so lines never mix. */
void log_write(enum log_level level, const char *event, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
