/* metric_text.h - the parts of Prometheus' text format. */
#pragma once

#include "base/text.h"
#include "repository/served_model.h"

/* "# HELP ..." and "# TYPE ..." of a metric. */
void metric_heading(struct text *out, const char *name, const char *type, const char *help);
/* A model's name as the value of a label: backslash, quote and line feed escaped. Folders whose name is no model's are
 * shown, too, as models that are set aside. */
struct metric_label {
    char text[2 * MODEL_NAME_MAX];
};
struct metric_label metric_label(const char *name);
/* A model's labels: model="NAME",version="N". */
struct metric_model {
    char text[2 * MODEL_NAME_MAX + 40];
};
struct metric_model metric_model(const struct served_model *model);
