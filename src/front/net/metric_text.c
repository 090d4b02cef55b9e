/* metric_text.c - headings, labels and rows. */
#include "front/net/metric_text.h"

#include <math.h>
#include <stdio.h>

#include "core/util/counter.h"

void metric_heading(struct text *out, const char *name, const char *type, const char *help) {
    text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metric_number(struct text *out, const char *name, const char *type, const char *help, double value) {
    metric_heading(out, name, type, help);
    text_printf(out, floor(value) < value ? "%s %.9g\n" : "%s %.0f\n", name, value);
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

struct metric_model metric_model_of(const char *name, uint32_t version) {
    struct metric_model labels;
    snprintf(labels.text, sizeof(labels.text), "model=\"%s\",version=\"%u\"", metric_label(name).text, version);
    return labels;
}

struct metric_model metric_model(const struct served_model *model) {
    return metric_model_of(model->name, model->version);
}

const char *metric_refusal(enum refusal reason) {
    static const char *const names[REFUSAL_COUNT] = {
        [REFUSAL_NONE] = "frontend",
        [REFUSAL_DEADLINE] = "deadline",
        [REFUSAL_QUEUE_FULL] = "queue_full",
        [REFUSAL_BEST_EFFORT_FULL] = "best_effort_full",
        [REFUSAL_POOL_FULL] = "scheduler_full",
        [REFUSAL_THREAD_BUSY] = "scheduler_busy",
        [REFUSAL_PLANS_FULL] = "accelerator_full",
        [REFUSAL_CANCELLED] = "cancelled",
        [REFUSAL_STRANDED] = "no_accelerator",
        [REFUSAL_LOST] = "lost",
        [REFUSAL_UNPREPARED] = "not_prepared",
        [REFUSAL_UNSCHEDULED] = "no_scheduler",
    };
    return names[reason];
}

void metric_histogram(struct text *out, const char *name, const char *labels, const struct histogram *h,
                      const int64_t *edges, unsigned count, int64_t scale, double unit) {
    int64_t scaled[count + 1];
    uint64_t until[count + 1];
    for (unsigned i = 0; i <= count; i++) {
        scaled[i] = i < count ? edges[i] * scale : INT64_MAX;
        until[i] = 0;
    }
    histogram_count_until(h, scaled, count + 1, until);
    unsigned long long total = until[count];
    for (unsigned i = 0; i < count; i++)
        text_printf(out, "%s_bucket{%s,le=\"%g\"} %llu\n", name, labels, (double)scaled[i] / unit,
                    (unsigned long long)until[i]);
    text_printf(out, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels, total);
    text_printf(out, "%s_sum{%s} %.9g\n", name, labels, (double)counter_get(&h->sum) / unit);
    text_printf(out, "%s_count{%s} %llu\n", name, labels, total);
}

void metric_margin_heading(struct text *out) {
    metric_heading(out, "symphony_margin_seconds", "gauge",
                   "95th percentiles that the scheduler allows for: late wake-ups, dispatch of a batch, reply.");
}

void metric_margin(struct text *out, const char *kind, const char *thread, unsigned index,
                   const struct margin *margin) {
    text_printf(out, "symphony_margin_seconds{kind=\"%s\",thread=\"%s-%u\"} %.9g\n", kind, thread, index,
                (double)margin_ns(margin) / 1e9);
}
