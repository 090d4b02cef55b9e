/* metric_text.c - headings and labels. */
#include "stats/metric_text.h"

#include <stdio.h>

void metric_heading(struct text *out, const char *name, const char *type, const char *help) {
    text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

struct metric_label metric_label(const char *name) {
    struct metric_label label;
    char *out = label.text;
    for (; *name && out < label.text + sizeof(label.text) - 2; name++) {
        if (*name == '\\' || *name == '"' || *name == '\n')
            *out++ = '\\';
        *out++ = *name == '\n' ? 'n' : *name;
    }
    *out = '\0';
    return label;
}

struct metric_model metric_model(const struct served_model *model) {
    struct metric_model labels;
    snprintf(labels.text, sizeof(labels.text), "model=\"%s\",version=\"%u\"", metric_label(model->name).text,
             model->version);
    return labels;
}
