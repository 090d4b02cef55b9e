/* prometheus.h - reads the samples of Prometheus' text format, one after the other, without copying.
 *
 * Pure; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prometheus_sample {
    const char *name;
    size_t name_length;
    const char *labels, *labels_end; /* text between the braces; equal: no labels */
    double value;
};

/* Reads the next sample at *text, and moves *text behind it. Skips other lines. False at the end. */
bool prometheus_next(const char **text, struct prometheus_sample *sample);
/* Whether the sample is called `name` with `suffix` behind it. */
bool prometheus_named(const struct prometheus_sample *sample, const char *name, const char *suffix);
/* The value of a label, not terminated; NULL if the sample has no label of that name. A value with escapes ends at its
 * first '"'. */
const char *prometheus_label(const struct prometheus_sample *sample, const char *label, size_t *length);
/* The index in names[count] of the label's value; `count` if it is not there. */
uint32_t prometheus_label_among(const struct prometheus_sample *sample, const char *label, const char *const *names,
                                uint32_t count);
