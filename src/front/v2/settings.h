/* settings.h - the settings of logging and tracing that clients may read and change, whatever protocol they speak.
 *
 * Any thread. Only the log's level can be changed; errors are always logged, to standard error. There is no tracing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

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

/* 0 if the trace setting asks for the present state (only trace_level: OFF does), or 501 with a sentence. */
int trace_setting_check(const char *name, const char *const *values, size_t count, struct sy_error *err);
