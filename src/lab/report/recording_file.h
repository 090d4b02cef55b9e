/* recording_file.h - reads a server's recording (server/load/recording.h). Any thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "core/util/error.h"
#include "core/util/text.h"

/* The server's counts of about a second, up to one look. */
struct recording_counts {
    double at_s, needed;    /* time of the look; accelerators that the load needed since the look before */
    uint64_t requests, bad; /* requests that ended since the look before, and the bad ones of them */
    int64_t wanted;         /* accelerators that the server advised; -1: no advice */
    uint32_t present;       /* accelerators in service */
};

struct recording_file {
    char version[32]; /* version of the server's program */
    bool cluster;     /* whether a cluster's scheduler recorded: bad requests are those that it refused */
    double seconds;
    uint64_t requests, overwritten, unknown;
    struct recording_counts *looks; /* [look_count] */
    uint32_t look_count;
    const char *scenario, *trace; /* scenario and trace, in the text */
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

/* Copies the trace with these SLOs instead of the recorded ones; of two for a model the later one counts. `plain`:
 * without priorities, for policies that have none. */
void recording_trace_copy(const struct recording_file *file, const struct recording_slo *slos, uint32_t count,
                          bool plain, struct text *out);
/* Copies the scenario. `plain`: without priorities. */
void recording_scenario_copy(const struct recording_file *file, bool plain, struct text *out);
