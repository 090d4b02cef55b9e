/* settings.c - maps Triton's log settings to the log's level, and writes those of tracing. */
#include "front/v2/settings.h"

#include <stdio.h>
#include <string.h>

#include "core/system/log.h"

void log_settings_read(struct setting settings[LOG_SETTINGS]) {
    enum log_level level = log_get_level();
    settings[0] = (struct setting){.name = "log_file", .kind = SETTING_TEXT, .text = ""};
    settings[1] = (struct setting){.name = "log_info", .flag = level <= LOG_INFO};
    settings[2] = (struct setting){.name = "log_warning", .flag = level <= LOG_WARN};
    settings[3] = (struct setting){.name = "log_error", .flag = true};
    settings[4] = (struct setting){.name = "log_verbose_level", .kind = SETTING_NUMBER, .number = level == LOG_DEBUG};
    settings[5] = (struct setting){.name = "log_format", .kind = SETTING_TEXT, .text = "default"};
}

static enum log_level least(enum log_level a, enum log_level b) {
    return a < b ? a : b;
}

static enum log_level most(enum log_level a, enum log_level b) {
    return a > b ? a : b;
}

/* The log level after a change of one setting, which is of the right kind and differs from what is in force. */
static int level_change(enum log_level *level, const struct setting *s, struct sy_error *err) {
    if (strcmp(s->name, "log_info") == 0)
        *level = s->flag ? least(*level, LOG_INFO) : most(*level, LOG_WARN);
    else if (strcmp(s->name, "log_warning") == 0)
        *level = s->flag ? least(*level, LOG_WARN) : LOG_ERROR;
    else if (strcmp(s->name, "log_verbose_level") == 0)
        *level = s->number > 0 ? LOG_DEBUG : most(*level, LOG_INFO);
    else
        return error_set(err, 501, "'%.64s' cannot be changed", s->name);
    return 0;
}

static bool same(const struct setting *a, const struct setting *b) {
    return a->kind == SETTING_BOOL     ? a->flag == b->flag
           : a->kind == SETTING_NUMBER ? a->number == b->number
                                       : strcmp(a->text, b->text) == 0;
}

int log_settings_change(const struct setting *settings, size_t count, struct sy_error *err) {
    static const char *const kinds[] = {"true or false", "a number", "a string"};
    enum log_level level = log_get_level();
    struct setting now[LOG_SETTINGS];
    log_settings_read(now);
    for (size_t i = 0; i < count; i++) {
        const struct setting *known = NULL;
        for (int k = 0; k < LOG_SETTINGS && !known; k++)
            known = strcmp(now[k].name, settings[i].name) == 0 ? &now[k] : NULL;
        if (!known)
            return error_set(err, 400, "there is no log setting '%.64s'", settings[i].name);
        if (known->kind != settings[i].kind)
            return error_set(err, 400, "'%.64s' is %s", known->name, kinds[known->kind]);
        int status = same(known, &settings[i]) ? 0 : level_change(&level, &settings[i], err);
        if (status)
            return status;
    }
    log_set_level(level);
    return 0;
}

void trace_settings_read(struct tracing *tracing, uint32_t model, struct trace_setting settings[TRACE_SETTINGS]) {
    struct tracing_settings now = tracing_settings(tracing, model);
    static const char *const names[TRACE_SETTINGS] = {"trace_level",   "trace_rate", "trace_count",
                                                      "log_frequency", "trace_file", "trace_mode"};
    for (int i = 0; i < TRACE_SETTINGS; i++)
        settings[i] = (struct trace_setting){.name = names[i], .value = settings[i].number};
    settings[0].value = now.on ? "TIMESTAMPS" : "OFF";
    snprintf(settings[1].number, TRACE_VALUE_BYTES, "%u", (unsigned)now.rate);
    snprintf(settings[2].number, TRACE_VALUE_BYTES, "%lld", (long long)now.count);
    snprintf(settings[3].number, TRACE_VALUE_BYTES, "%u", (unsigned)now.frequency);
    settings[4].value = tracing ? tracing->file : "";
    settings[5].value = "triton";
}
