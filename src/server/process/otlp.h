/* otlp.h - sends the trails of requests (core/data/trail.h) to a collector as spans: OTLP over HTTP, as JSON
 * (https://opentelemetry.io/docs/specs/otlp).
 *
 * A thread of its own reads the frontends' rings, so no request waits for the collector. What the collector does not
 * take is dropped, counted, and said in the log. */
#pragma once

#include "server/threads/model_list.h"

struct otlp;

/* `url`: http://HOST:PORT or https://HOST:PORT, to which /v1/traces is added unless it has a path. `headers`: further
 * headers, "NAME=VALUE,..." as in OTEL_EXPORTER_OTLP_HEADERS; NULL: none. `service`: the service's name. The list
 * outlives the exporter. 0 or -errno with a sentence; whether somebody listens there is not looked at. */
int otlp_start(struct otlp **otlp, struct model_list *models, const char *url, const char *headers, const char *service,
               struct sy_error *err);
/* Appends the counts of spans as Prometheus' text. Any thread. NULL is allowed. */
void otlp_render(const struct otlp *otlp, struct text *out);
/* Sends what was noted, for a second at most, and ends; call it when no frontend notes any more. NULL is allowed. */
void otlp_stop(struct otlp *otlp);
