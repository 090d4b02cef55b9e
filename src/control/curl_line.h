/* curl_line.h - writes a command line that sends a request to a served model, for people to paste. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "v2/v2.h"

/* Writes a curl command for `server` ("http://localhost:8000") and, of the listed models that are ready, the one with
 * the smallest inputs; all values are zero. The body is JSON if that is short, else raw binary. False if there is no
 * such model. */
bool curl_line(const struct model_index *models, const char *server, char *line, size_t bytes);
