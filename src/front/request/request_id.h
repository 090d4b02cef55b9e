/* request_id.h - the id of a request, in answers, trails and logs: the client's, or one that is made. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/trail.h"

#define REQUEST_ID_MAX 64 /* characters that are kept; the others are cut off */

struct request_id {
    uint8_t length; /* 0: there is none */
    char text[REQUEST_ID_MAX];
    struct trace_context trace;
};

/* Takes a text as the id, unless there is an id already, or the text has characters that a header cannot have, blanks
 * or backslashes. */
void request_id_set(struct request_id *id, const char *text, size_t length);
/* Takes the context of a header `traceparent` (W3C Trace Context, 3.2), and its trace's id as the id, likewise. A
 * header that is not as it should be is ignored. */
void request_id_from_trace(struct request_id *id, const char *traceparent, size_t length);
/* Makes an id of a number, unless there is one already. Different numbers make different ids. */
void request_id_make(struct request_id *id, uint64_t number);
