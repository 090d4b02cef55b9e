/* metrics_endpoint.h - the metrics endpoint: GET /metrics and /metrics/fine, and under /v2/symphony the state, the
 * timeline of accelerators, the trails of requests and a recording, on a port of its own, served by a thread of its
 * own; and a page for browsers that shows these. It says whether the process lives and is ready: GET /v2/health/live
 * and /v2/health/ready, for which nobody needs a token. A process without an HTTP port for clients takes orders there,
 * too: POST /v2/repository/models/NAME/load and .../unload. Loading may take minutes, so an order is answered 202 once
 * it was handed on. */
#pragma once

#include "core/util/error.h"
#include "core/util/text.h"
#include "front/http/http_source.h"

struct auth;
struct metrics_server;
struct repository_desk;
struct tls;

/* A file that browsers ask for. It says nothing of the server, so nobody needs a token. */
struct metrics_file {
    const char *path, *type; /* path of its address; media type */
    const unsigned char *data;
    size_t bytes;
};

struct metrics_config {
    const char *host;
    int tcp_port;                                         /* port; 0: any free one */
    struct tls *tls;                                      /* TLS of the connections; NULL: plain text */
    const struct auth *auth;                              /* tokens that let clients in; NULL: nobody needs one */
    void (*render)(void *context, struct text *out);      /* writes /metrics, on the metrics thread */
    void (*render_fine)(void *context, struct text *out); /* writes /metrics/fine, on the metrics thread */
    /* For GET /v2/symphony/recording[/SECONDS], on the metrics thread: returns a source of the recording of the last
     * `seconds`, which ends before another is asked for; or NULL with a sentence and *rc: -ENOENT, nothing was
     * recorded, or another -errno. The function is NULL if this process records nothing. */
    struct http_source *(*recording)(void *context, double seconds, int *rc, struct sy_error *err);
    /* For GET /v2/symphony/requests?QUERY, on the metrics thread: writes the trails that the query (`length`
     * characters, without the '?') asks for. 0; or a status with a sentence. NULL: this process keeps no trails. */
    int (*requests)(void *context, const char *query, size_t length, struct text *out, struct sy_error *err);
    /* The same for GET /v2/symphony/state?QUERY. If the query has `stream`, it is asked twice a second, and what is
     * written goes out as server-sent events. NULL: there is no such path. */
    int (*state)(void *context, const char *query, size_t length, struct text *out, struct sy_error *err);
    /* For GET /v2/symphony/timeline?QUERY, on the metrics thread: returns a source of the accelerators' timeline; or
     * NULL with a status and a sentence. NULL: nothing is kept. */
    struct http_source *(*timeline)(void *context, const char *query, size_t length, int *status, struct sy_error *err);
    const struct metrics_file *files; /* [file_count] the page for browsers */
    unsigned file_count;
    double recording_seconds, recording_seconds_max; /* seconds if the path names no number; most seconds */
    bool (*ready)(void *context);   /* whether the process is ready, on the metrics thread; NULL: no health paths */
    const _Atomic bool *failed;     /* whether the process is not live; NULL: it always is */
    bool takes_orders;              /* there are paths for orders */
    struct repository_desk *orders; /* desk for orders to load and unload models; NULL: nobody takes them */
    const struct auth *orders_auth; /* tokens that allow orders; NULL: anybody may give them */
    void *context;
};

/* Starts the endpoint. The objects that the configuration points to must outlive it. 0 or -errno with a sentence. */
int metrics_server_start(struct metrics_server **server, const struct metrics_config *config, struct sy_error *err);
/* The port it listens on. */
int metrics_server_port(const struct metrics_server *server);
/* NULL is allowed. */
void metrics_server_stop(struct metrics_server *server);
