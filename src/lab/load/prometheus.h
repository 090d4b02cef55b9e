/* prometheus.h - the samples of Prometheus' text format, one after the other, without copying.
 *
 * Pure; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prometheus_sample {
    const char *name;
    size_t name_length;
    const char *labels, *labels_end; /* between the braces; equal: there are none */
    double value;
};

/* The next sample at *text, which moves on behind it; other lines are skipped. False at the end. */
bool prometheus_next(const char **text, struct prometheus_sample *sample);
/* Whether the sample is called `name` with `suffix` behind it. */
bool prometheus_named(const struct prometheus_sample *sample, const char *name, const char *suffix);
/* The text of a label, not terminated; NULL if it has none of that name. A value with escapes ends at its first '"'. */
const char *prometheus_label(const struct prometheus_sample *sample, const char *label, size_t *length);
/* Which of names[count] the label has as its value; `count` if none. */
uint32_t prometheus_label_among(const struct prometheus_sample *sample, const char *label, const char *const *names,
                                uint32_t count);
