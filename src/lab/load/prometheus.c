/* prometheus.c - reads the samples of Prometheus' text format. */
#include "lab/load/prometheus.h"

#include <stdlib.h>
#include <string.h>

/* The brace that ends the labels; a brace in a quoted value does not. NULL: there is none. */
static const char *labels_close(const char *at, const char *end) {
    bool quoted = false;
    for (; at < end && (quoted || *at != '}'); at++) {
        quoted ^= *at == '"';
        at += quoted && *at == '\\';
    }
    return at < end ? at : NULL;
}

static bool line_read(const char *line, size_t length, struct prometheus_sample *s) {
    size_t name = strcspn(line, "{ \t\n#");
    if (name == 0 || name >= length)
        return false;
    const char *after = line + name;
    *s = (struct prometheus_sample){.name = line, .name_length = name, .labels = after, .labels_end = after};
    if (*after == '{') {
        s->labels = after + 1;
        s->labels_end = labels_close(after + 1, line + length);
        if (!s->labels_end)
            return false;
        after = s->labels_end + 1;
    }
    after += strspn(after, " \t");
    char *end;
    s->value = strtod(after, &end);
    return end > after && end <= line + length;
}

bool prometheus_next(const char **text, struct prometheus_sample *sample) {
    while (**text) {
        const char *line = *text;
        size_t length = strcspn(line, "\n");
        *text += length + (line[length] == '\n');
        if (line_read(line, length, sample))
            return true;
    }
    return false;
}

bool prometheus_named(const struct prometheus_sample *s, const char *name, const char *suffix) {
    size_t length = strlen(name);
    return s->name_length == length + strlen(suffix) && memcmp(s->name, name, length) == 0 &&
           memcmp(s->name + length, suffix, strlen(suffix)) == 0;
}

const char *prometheus_label(const struct prometheus_sample *s, const char *label, size_t *length) {
    size_t label_length = strlen(label);
    for (const char *at = s->labels; at < s->labels_end;) {
        const char *quote = memchr(at, '"', (size_t)(s->labels_end - at));
        const char *close = quote ? memchr(quote + 1, '"', (size_t)(s->labels_end - quote - 1)) : NULL;
        if (!close)
            return NULL;
        while (at < quote && (*at == ',' || *at == ' '))
            at++;
        if ((size_t)(quote - at) == label_length + 1 && memcmp(at, label, label_length) == 0) {
            *length = (size_t)(close - quote - 1);
            return quote + 1;
        }
        at = close + 1;
    }
    return NULL;
}

uint32_t prometheus_label_among(const struct prometheus_sample *s, const char *label, const char *const *names,
                                uint32_t count) {
    size_t length;
    const char *value = prometheus_label(s, label, &length);
    for (uint32_t i = 0; value && i < count; i++)
        if (strlen(names[i]) == length && memcmp(names[i], value, length) == 0)
            return i;
    return count;
}
