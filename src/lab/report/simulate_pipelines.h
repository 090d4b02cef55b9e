/* simulate_pipelines.h - how `symphony simulate` shows queries of several models, as a whole and by stage. */
#pragma once

#include <jansson.h>

#include "core/util/text.h"
#include "lab/report/simulation.h"

/* Writes a table, which follows that of the models; nothing without pipelines. */
void simulate_pipelines_table(const struct simulation *simulation, struct text *to);
/* Makes a list of pipelines, which the caller releases. */
json_t *simulate_pipelines_json(const struct simulation *simulation);
