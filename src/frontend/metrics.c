/* metrics.c - GET /metrics and /metrics/fine. */
#include "frontend/metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/http_headers.h"
#include "frontend/listen.h"
#include "frontend/tls.h"

#define CONNECTIONS_MAX 64
#define IDLE_TIMEOUT_S  120

struct metrics_server {
    struct MHD_Daemon *daemon;
    int tcp_port;
    struct metrics_config config;
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
    bool fine = strcmp(url, "/metrics/fine") == 0;
    if (strcmp(url, "/metrics") != 0 && !fine) {
        text_put(&text, "the metrics are at /metrics\n");
        return respond(connection, MHD_HTTP_NOT_FOUND, &text, "text/plain");
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        text_put(&text, "/metrics takes GET only\n");
        return respond(connection, MHD_HTTP_METHOD_NOT_ALLOWED, &text, "text/plain");
    }
    if (server->config.auth && !http_authorized(connection, server->config.auth)) {
        text_put(&text, "/metrics needs a token\n");
        return respond(connection, MHD_HTTP_UNAUTHORIZED, &text, "text/plain");
    }
    (fine ? server->config.render_fine : server->config.render)(server->config.context, &text);
    return respond(connection, text.failed ? MHD_HTTP_INTERNAL_SERVER_ERROR : MHD_HTTP_OK, &text,
                   "text/plain; version=0.0.4");
}

/* A connection over TLS holds on to what its session began with. */
static void on_connection(void *context, struct MHD_Connection *connection, void **credentials,
                          enum MHD_ConnectionNotificationCode code) {
    const struct metrics_server *server = context;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED)
        tls_release(*credentials);
    else if (server->config.tls && info)
        *credentials = tls_prepare(server->config.tls, info->tls_session, "http/1.1");
}

int metrics_server_start(struct metrics_server **server, const struct metrics_config *config, struct sy_error *err) {
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD;
    struct metrics_server *s = calloc(1, sizeof(*s));
    int fd;
    if (!s)
        return error_set(err, -ENOMEM, "no memory for the metrics endpoint");
    s->config = *config;
    int rc = listen_open(config->host, config->tcp_port, &fd, &s->tcp_port, err);
    if (rc < 0)
        goto err_free;
    s->daemon = MHD_start_daemon(config->tls ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, on_request, s,
                                 MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_HTTPS_CERT_CALLBACK2, tls_no_certificate,
                                 MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_CONNECTION_LIMIT,
                                 (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S,
                                 MHD_OPTION_END);
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
