/* metrics.c - GET /metrics. */
#include "frontend/metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/http_headers.h"
#include "frontend/listen.h"

#define CONNECTIONS_MAX 64
#define IDLE_TIMEOUT_S  120

struct metrics_server {
    struct MHD_Daemon *daemon;
    int tcp_port;
    const struct auth *auth;
    void (*render)(void *context, struct text *out);
    void *context;
};

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, struct text *text,
                               const char *type) {
    struct MHD_Response *response = MHD_create_response_from_buffer(text->length, text->data, MHD_RESPMEM_MUST_COPY);
    text_free(text);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **seen) {
    struct metrics_server *server = context;
    struct text text = {0};
    (void)version;
    (void)upload;
    (void)upload_bytes;
    (void)seen;
    if (strcmp(url, "/metrics") != 0) {
        text_put(&text, "the metrics are at /metrics\n");
        return respond(connection, MHD_HTTP_NOT_FOUND, &text, "text/plain");
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        text_put(&text, "/metrics takes GET only\n");
        return respond(connection, MHD_HTTP_METHOD_NOT_ALLOWED, &text, "text/plain");
    }
    if (server->auth && !http_authorized(connection, server->auth)) {
        text_put(&text, "/metrics needs a token\n");
        return respond(connection, MHD_HTTP_UNAUTHORIZED, &text, "text/plain");
    }
    server->render(server->context, &text);
    return respond(connection, text.failed ? MHD_HTTP_INTERNAL_SERVER_ERROR : MHD_HTTP_OK, &text,
                   "text/plain; version=0.0.4");
}

int metrics_server_start(struct metrics_server **server, const char *host, int tcp_port, const struct auth *auth,
                         void (*render)(void *context, struct text *out), void *context, struct sy_error *err) {
    struct metrics_server *s = calloc(1, sizeof(*s));
    int fd;
    if (!s)
        return error_set(err, -ENOMEM, "no memory for the metrics endpoint");
    s->auth = auth;
    s->render = render;
    s->context = context;
    int rc = listen_open(host, tcp_port, &fd, &s->tcp_port, err);
    if (rc < 0)
        goto err_free;
    s->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET,
                                 fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S, MHD_OPTION_END);
    if (!s->daemon) {
        rc = error_set(err, -EIO, "the metrics endpoint does not start: %s", strerror(errno));
        goto err_close;
    }
    *server = s;
    return 0;

err_close:
    close(fd);
err_free:
    free(s);
    return rc;
}

int metrics_server_port(const struct metrics_server *server) {
    return server->tcp_port;
}

void metrics_server_stop(struct metrics_server *server) {
    if (!server)
        return;
    MHD_stop_daemon(server->daemon);
    free(server);
}
