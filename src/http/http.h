/* http.h - an HTTP/1.1 frontend: one thread that serves the Open Inference Protocol on one listening socket.
 *
 * A frontend takes requests, keeps their inputs, hands them to the scheduler through its port and answers them. Several
 * frontends share one listening socket. All functions here are for the thread that starts and stops the server, unless
 * they say otherwise. */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "net/frontend.h"

struct infer_counters;

struct http_frontend;

/* Starts the thread. 0 or -errno with a sentence. */
int http_frontend_start(struct http_frontend **frontend, const struct frontend_config *config, struct sy_error *err);

/* No new connections from now on (the caller closes its listening socket, too); every answer closes its connection.
 * Returns at once. */
void http_frontend_quiesce(struct http_frontend *frontend);
/* Infer requests that are being read, run or answered; idle connections do not count. Any thread. */
uint32_t http_frontend_in_flight(const struct http_frontend *frontend);
/* Cancels what is in flight, waits until the scheduler has given every request back (it must still run), answers those
 * 503 as far as clients take it at once, and frees all. NULL is allowed. */
void http_frontend_stop(struct http_frontend *frontend);

struct frontend_loop *http_frontend_loop(struct http_frontend *frontend);
/* What it counts of infer requests. Any thread. */
const struct infer_counters *http_frontend_counters(const struct http_frontend *frontend);
/* Appends what is HTTP's own of the frontends' metrics in Prometheus' text format, summed. Any thread. */
void http_frontends_render_metrics(struct http_frontend *const *frontends, uint32_t count, struct text *out);
