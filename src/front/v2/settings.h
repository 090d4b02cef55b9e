/* settings.h - the settings of logging and tracing that clients may read and change, whatever protocol they speak.
 *
 * Any thread. The log's level is the one that can be changed; errors are always logged, to standard error. There is no
 * tracing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

enum setting_kind { SETTING_BOOL, SETTING_NUMBER, SETTING_TEXT };

struct setting {
    const char *name;
    enum setting_kind kind;
    bool flag;
    uint32_t number;
    const char *text;
};

#define LOG_SETTINGS 6

/* As they are now: the names and kinds are always the same. */
void log_settings_read(struct setting settings[LOG_SETTINGS]);
/* Changes the given ones, all or none. 0, or a status with a sentence: 400 for an unknown one or a wrong kind, 501 for
 * what cannot be changed. */
int log_settings_change(const struct setting *settings, size_t count, struct sy_error *err);

/* 0 if the trace setting asks for what is in force anyway (only trace_level: OFF does), or 501 with a sentence. */
int trace_setting_check(const char *name, const char *const *values, size_t count, struct sy_error *err);
