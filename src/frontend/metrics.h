/* metrics.h - the metrics endpoint: GET /metrics on a port of its own, served by a thread of its own. */
#pragma once

#include "base/error.h"
#include "base/text.h"

struct auth;
struct metrics_server;

/* Starts it on host and port; 0: any free port. For every GET /metrics with a token of `auth` (NULL: none is needed)
 * `render` writes the answer, on the metrics thread. 0 or -errno with a sentence. */
int metrics_server_start(struct metrics_server **server, const char *host, int tcp_port, const struct auth *auth,
                         void (*render)(void *context, struct text *out), void *context, struct sy_error *err);
/* The port it listens on. */
int metrics_server_port(const struct metrics_server *server);
/* NULL is allowed. */
void metrics_server_stop(struct metrics_server *server);
