/* http.h - an HTTP/1.1 frontend: one thread that serves the Open Inference Protocol on one listening socket.
 *
 * A frontend takes requests, keeps their inputs, hands them to the scheduler through its port and answers them. Several
 * frontends share one listening socket. All functions here are for the thread that starts and stops the server, unless
 * they say otherwise. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"
#include "frontend/port.h"
#include "repository/served_model.h"

struct http_frontend;

struct http_config {
    int listen_fd;               /* of http_listen(); the frontend duplicates it */
    uint32_t index;              /* names the thread: "http-0" */
    struct port *port;           /* outlives the frontend */
    struct served_model *models; /* outlive the frontend; the index is request.model */
    uint32_t model_count;
    const _Atomic bool *ready, *draining; /* what /v2/health/ready answers: 200, 400 before ready, 503 when draining */
    uint64_t body_bytes_max;              /* 0: 64 MiB. More is answered 413 */
    uint64_t inputs_bytes_max;            /* 0: 1 GiB. Memory for the inputs of all requests; when it is full: 503 */
    uint32_t requests_max;                /* 0: 8192. Infer requests at once; when all are taken: 503 */
    uint32_t connections_max;             /* 0: 10000, or what the limit of open files allows; more wait unaccepted */
    uint32_t idle_timeout_s;              /* 0: 300. A connection that sends nothing for so long is closed */
    bool busy_poll;                       /* spin instead of sleeping */
};

/* Listens on host ("0.0.0.0", "::", a name) and port; 0: any free port, which *bound_port tells. A port that a killed
 * server left behind can be taken at once; one that is in use is -EADDRINUSE. *fd is the caller's to close, any time
 * after the frontends have started. */
int http_listen(const char *host, int tcp_port, int *fd, int *bound_port, struct sy_error *err);

/* Starts the thread. 0 or -errno with a sentence. */
int http_frontend_start(struct http_frontend **frontend, const struct http_config *config, struct sy_error *err);

/* No new connections from now on (the caller closes its listening socket, too); every answer closes its connection.
 * Returns at once. */
void http_frontend_quiesce(struct http_frontend *frontend);
/* Infer requests that are being read, run or answered; idle connections do not count. Any thread. */
uint32_t http_frontend_in_flight(const struct http_frontend *frontend);
/* Cancels what is in flight, waits until the scheduler has given every request back (it must still run), answers those
 * 503 as far as clients take it at once, and frees all. NULL is allowed. */
void http_frontend_stop(struct http_frontend *frontend);

/* Appends the frontends' metrics in Prometheus' text format, summed. Any thread. */
void http_frontends_render_metrics(struct http_frontend *const *frontends, uint32_t count, struct text *out);
