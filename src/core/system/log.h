/* log.h - structured logs on standard error: time, level, event, then key=value pairs (logfmt, or JSON). Any thread.
 * Never on the hot path: a call formats and writes. No call waits for a reader of standard error: lines that it does
 * not take are queued; when LOG_QUEUE_BYTES are queued, further lines are dropped and counted. */
#pragma once

#define LOG_QUEUE_BYTES (256 << 10) /* bytes of queued lines */
#define LOG_DRAIN_MS    500         /* milliseconds that a process which ends waits for a reader */

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Lines below `level` are not written. Default LOG_INFO. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* Reads "debug", "info", "warn" or "error". 0, or -EINVAL for another name. */
int log_level_parse(const char *name, enum log_level *level);

enum log_format { LOG_LOGFMT, LOG_JSON };
/* Lines are pairs, or JSON objects with the same keys. Call it before threads start. Default LOG_LOGFMT. */
void log_set_format(enum log_format format);
/* Reads "logfmt" or "json". 0, or -EINVAL for another name. */
int log_format_parse(const char *name, enum log_format *format);

/* Makes every line name the process: for child processes whose lines go to the same place as their parent's. `name`
 * must stay in place. */
void log_set_process(const char *name);

/* Writes one line: `event` is a short word or sentence; `fmt` the pairs, e.g. log_write(LOG_INFO, "model loaded",
 * "model=%s", name). A string that is a value by itself (model=%s) gets quotes around it if it has blanks, quotes or
 * equals signs; in quotes (reason=\"%s\") its quotes and backslashes are escaped by backslashes. So no string can look
 * like another pair. A line has at most 2047 bytes; a line that is cut still ends its quotes. Conversions: %s, %d, %i,
 * %u, %x, %X (with l, ll, z), %e, %f, %g; none other. As JSON a value without quotes is a number if it looks like one,
 * which a %s never is; a pair that does not fit is left out. Each line is one write(2), so lines never mix, unless lines were
 * queued. */
void log_write(enum log_level level, const char *event, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Writes queued lines for as long as standard error takes some within `most_ms`. Call it now and then, and at the end
 * of the process. */
void log_drain(int most_ms);

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
