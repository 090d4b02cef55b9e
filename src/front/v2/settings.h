/* settings.h - the settings of logging that clients may read and change, whatever protocol they speak; and the settings
 * of tracing (front/request/tracing.h) as text.
 *
 * Any thread. Only the log's level can be changed; errors are always logged, to standard error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"
#include "front/request/tracing.h"

enum setting_kind { SETTING_BOOL, SETTING_NUMBER, SETTING_TEXT };

struct setting {
    const char *name;
    enum setting_kind kind;
    bool flag;        /* value of a SETTING_BOOL */
    uint32_t number;  /* value of a SETTING_NUMBER */
    const char *text; /* value of a SETTING_TEXT */
};

#define LOG_SETTINGS 6

/* Reads the present settings; names and kinds are always the same. */
void log_settings_read(struct setting settings[LOG_SETTINGS]);
/* Changes the given settings, all or none. 0, or a status with a sentence: 400 for an unknown setting or a wrong kind,
 * 501 for a setting that cannot be changed. */
int log_settings_change(const struct setting *settings, size_t count, struct sy_error *err);

#define TRACE_SETTINGS    6
#define TRACE_VALUE_BYTES 24 /* bytes of a number as text */

/* A setting of tracing as clients see it: a list for trace_level, else one text. */
struct trace_setting {
    const char *name;
    const char *value; /* text, or `number` */
    char number[TRACE_VALUE_BYTES];
};

/* Reads the settings in force, of a model or TRACING_ALL. `tracing` NULL: the server writes no traces. */
void trace_settings_read(struct tracing *tracing, uint32_t model, struct trace_setting settings[TRACE_SETTINGS]);
