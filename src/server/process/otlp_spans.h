/* otlp_spans.h - a request's trail as spans of OTLP's JSON (ExportTraceServiceRequest of opentelemetry-proto 1). Pure.
 *
 *     infer m [state, status, reason, ...]        parent: the client's span, if it gave one
 *       receive   first byte .. last byte
 *       queue     .. begin of the run              prepare_ms, company_ms, accelerator_ms
 *       run       on an accelerator                batch, predicted_ms
 *       reply     .. the answer had gone out */
#pragma once

#include "core/data/trail.h"
#include "core/util/text.h"
#include "front/v2/requests_answer.h"

#define OTLP_SPANS_MOST 5 /* spans of one trail */

/* Whether the trail is exported: unless its client gave a context and does not record the trace. */
static inline bool otlp_wanted(const struct trail *trail) {
    return !(trail->trace.flags & TRACE_GIVEN) || trail->trace.flags & TRACE_SAMPLED;
}
/* Appends the spans of a trail, with commas between them; returns their number. `salt`: a number of this process, from
 * which ids are made. */
unsigned otlp_spans_put(struct text *out, const struct trail *trail, const struct trail_names *names, uint64_t salt);
/* Appends what comes before and behind the spans. */
void otlp_begin(struct text *out, const char *service);
void otlp_end(struct text *out);
