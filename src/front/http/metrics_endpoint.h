/* metrics_endpoint.h - the metrics endpoint: GET /metrics and /metrics/fine on a port of its own, served by a thread of
 * its own. A process that has no other port for it says there, too, whether it lives and is ready: GET /v2/health/live
 * and /v2/health/ready, for which nobody needs a token; and takes orders: POST /v2/repository/models/NAME/load and
 * .../unload. Loading may take minutes, so an order is answered 202 when it was handed on. */
#pragma once

#include "core/util/error.h"
#include "core/util/text.h"
#include "front/http/http_source.h"

struct auth;
struct metrics_server;
struct repository_desk;
struct tls;

struct metrics_config {
    const char *host;
    int tcp_port;                                         /* 0: any free one */
    struct tls *tls;                                      /* NULL: plain text */
    const struct auth *auth;                              /* NULL: nobody needs a token */
    void (*render)(void *context, struct text *out);      /* writes /metrics, on the metrics thread */
    void (*render_fine)(void *context, struct text *out); /* the same for /metrics/fine */
    /* The same for GET /v2/symphony/recording[/SECONDS]: what was recorded in the last seconds. A source of it, which
     * ends before another is asked for; or NULL with a sentence and *rc -ENOENT: there is nothing, or another -errno.
     * NULL: nothing is recorded here */
    struct http_source *(*recording)(void *context, double seconds, int *rc, struct sy_error *err);
    double recording_seconds, recording_seconds_max; /* if the path names no number, and at most */
    bool (*ready)(void *context);                    /* on the same thread; NULL: no health routes */
    struct repository_desk *orders;                  /* takes orders to load and unload models; NULL: nobody does */
    const struct auth *orders_auth;                  /* who may give them; NULL: anybody */
    void *context;
};

/* Starts it; what the configuration points to outlives it. 0 or -errno with a sentence. */
int metrics_server_start(struct metrics_server **server, const struct metrics_config *config, struct sy_error *err);
/* The port it listens on. */
int metrics_server_port(const struct metrics_server *server);
/* NULL is allowed. */
void metrics_server_stop(struct metrics_server *server);
