/* simulate_pipelines.h - how `symphony simulate` shows queries of several models: whole ones, and their stages. */
#pragma once

#include <jansson.h>

#include "core/util/text.h"
#include "lab/report/simulation.h"

/* A table, after that of the models; nothing without pipelines. */
void simulate_pipelines_table(const struct simulation *simulation, struct text *to);
/* A list, the caller's. */
json_t *simulate_pipelines_json(const struct simulation *simulation);
