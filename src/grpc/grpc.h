/* grpc.h - a gRPC frontend: one thread that serves inference.GRPCInferenceService, grpc.health.v1.Health
 * and grpc.reflection on one listening socket, over HTTP/2.
 *
 * As the HTTP frontend (http.h): it has a port of its own, several share one listening socket. All functions here are
 * for the thread that starts and stops the server, unless they say otherwise. */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "net/frontend.h"

struct grpc_frontend;
struct infer_counters;

/* Starts the thread. 0 or -errno with a sentence. */
int grpc_frontend_start(struct grpc_frontend **frontend, const struct frontend_config *config, struct sy_error *err);
/* No new connections from now on (the caller closes its listening socket, too), and no new calls on those there are
 * (GOAWAY), which end with their last call. Returns at once. */
void grpc_frontend_quiesce(struct grpc_frontend *frontend);
/* Requests that are being read, run or answered. Any thread. */
uint32_t grpc_frontend_in_flight(const struct grpc_frontend *frontend);
/* Cancels what is in flight, waits until the scheduler has given every request back (it must still run), answers those
 * UNAVAILABLE as far as clients take it at once, and frees all. NULL is allowed. */
void grpc_frontend_stop(struct grpc_frontend *frontend);

struct frontend_loop *grpc_frontend_loop(struct grpc_frontend *frontend);
/* What it counts of infer requests. Any thread. */
const struct infer_counters *grpc_frontend_counters(const struct grpc_frontend *frontend);
/* Appends what is gRPC's own of the frontends' metrics in Prometheus' text format, summed. Any thread. */
void grpc_frontends_render_metrics(struct grpc_frontend *const *frontends, uint32_t count, struct text *out);
