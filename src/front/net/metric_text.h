/* metric_text.h - the parts of Prometheus' text format. */
#pragma once

#include "core/data/messages.h"
#include "core/util/histogram.h"
#include "core/util/margin.h"
#include "core/util/text.h"
#include "model/config/served_model.h"

/* "# HELP ..." and "# TYPE ..." of a metric. */
void metric_heading(struct text *out, const char *name, const char *type, const char *help);
/* A metric that has one value. */
void metric_number(struct text *out, const char *name, const char *type, const char *help, double value);
/* A model's name as the value of a label: backslash, quote and line feed escaped. The names of folders that cannot name
 * a model are shown, too: their models are set aside. */
struct metric_label {
    char text[2 * MODEL_NAME_MAX];
};
struct metric_label metric_label(const char *name);
/* A model's labels: model="NAME",version="N". */
struct metric_model {
    char text[2 * MODEL_NAME_MAX + 40];
};
struct metric_model metric_model(const struct served_model *model);
struct metric_model metric_model_of(const char *name, uint32_t version);

/* The value of the label `reason` of symphony_refused_requests_total. */
const char *metric_refusal(enum refusal reason);

/* A histogram with these labels: for each edge how many values are at most that, then the values' sum and number. An
 * edge is edges[i] * scale in the histogram's unit, and is shown divided by `unit`: 1e9 for nanoseconds shown as
 * seconds. */
void metric_histogram(struct text *out, const char *name, const char *labels, const struct histogram *h,
                      const int64_t *edges, unsigned count, int64_t scale, double unit);

/* symphony_margin_seconds, of which several roles have rows. The thread's label is `thread`-`index`. */
void metric_margin_heading(struct text *out);
void metric_margin(struct text *out, const char *kind, const char *thread, unsigned index, const struct margin *margin);
