/* curl_line.h - a command line that asks a served model something, for people to paste. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "v2/v2.h"

/* Writes a curl command that asks `server` ("http://localhost:8000") for the listed model that is ready with the
 * smallest inputs, all zeros: with a JSON body where that is short, else with a raw binary one. False if there is no
 * model it could be written for. */
bool curl_line(const struct model_index *models, const char *server, char *line, size_t bytes);
