/* recording_file.h - reads what a server has recorded (server/process/recording.h). Any thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "core/util/error.h"
#include "core/util/text.h"

/* A second or so of what the server counted. */
struct recording_counts {
    double at_s, needed;    /* when it looked; accelerators that the load needed since the look before */
    uint64_t requests, bad; /* since the look before */
    int64_t wanted;         /* accelerators, by the advice for autoscalers; -1: it said nothing */
    uint32_t present;       /* accelerators in service */
};

struct recording_file {
    char version[32]; /* of the server's program */
    bool cluster;     /* a cluster's scheduler recorded: bad is what it refused */
    double seconds;
    uint64_t requests, overwritten, unknown;
    struct recording_counts *looks; /* [look_count] */
    uint32_t look_count;
    const char *scenario, *trace; /* in the text */
    size_t scenario_bytes, trace_bytes;
};

/* Takes the text apart; the text must outlive `file`. -EINVAL with a sentence, -ENOMEM. Free it with
 * recording_file_free(); after an error it is empty. */
int recording_file_read(const char *text, size_t bytes, struct recording_file *file, struct sy_error *err);
void recording_file_free(struct recording_file *file);

/* Another SLO for the requests of a model (NULL: of every model) that have one. */
struct recording_slo {
    const char *model;
    double slo_ms;
};

/* Copies the trace with these SLOs instead of the recorded ones; a later one wins. `plain`: without priorities, for
 * policies that know none. */
void recording_trace_copy(const struct recording_file *file, const struct recording_slo *slos, uint32_t count,
                          bool plain, struct text *out);
/* Copies the scenario, `plain` in the same way. */
void recording_scenario_copy(const struct recording_file *file, bool plain, struct text *out);
