/* measured.h - shared by the figures that are measured (`reproduce --measured`). */
#pragma once

#include <jansson.h>

#include "report.h"

/* Table 1 of the Symphony paper: models on an NVIDIA 1080Ti. */
struct published_model {
    const char *name;
    double alpha_ms, beta_ms, ratio; /* the last: beta/alpha, from more digits */
    double file_mb, static_mb, dynamic_mb;
};

#define PUBLISHED_MODELS 6
extern const struct published_model published_models[PUBLISHED_MODELS];

/* Says on what machine the section was measured: the processor's name and how many of its cores there are. */
void report_machine(struct context *c);
/* What a shell command prints, as JSON that the caller releases. Its variable SYMPHONY names the program beside this
 * one. NULL: it could not say anything. */
json_t *measured_json(const char *command);

void live_run(struct context *c);
void threads_run(struct context *c);
void partitions_run(struct context *c);
void profiles_run(struct context *c);
