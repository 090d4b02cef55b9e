/* fetch.h - one HTTP request and its whole answer, for what is asked before and after a load: metadata, metrics.
 *
 * Functions with a timeout block. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/util/error.h"

struct client_tls;

struct server {
    char host[256], port[6];
    char path[256];               /* in front of every request's path: "" or "/prefix", no slash at the end */
    char authority[270];          /* for the Host header */
    bool secure;                  /* "https://": `tls` is to be set */
    const struct client_tls *tls; /* NULL: plain text */
    const char *headers;          /* lines to send along with every request, each with its line end; "" */
    struct sockaddr_storage address;
    socklen_t address_length;
};

/* "http://HOST[:PORT][/PREFIX]", "https://..." or without either; HOST may be a [v6] address. The port defaults to 80
 * behind "http://", 443 behind "https://", else to 8000, where inference servers listen. -EINVAL and a sentence
 * otherwise. Does not connect. */
int server_parse(const char *url, struct server *server, struct sy_error *err);
/* Looks the host up (with no timeout), tries its addresses in turn, each for at most timeout_ns, and keeps the first
 * that answers. 0, or -errno and a sentence. */
int server_resolve(struct server *server, int64_t timeout_ns, struct sy_error *err);

struct answer {
    int status;
    char *body; /* the caller frees it; a zero byte follows; NULL after an error */
    size_t length;
};

/* Sends the bytes of one request on a fresh connection and reads the answer. 0, or -errno and a sentence. */
int fetch_bytes(const struct server *server, const char *request, size_t length, int64_t timeout_ns,
                struct answer *answer, struct sy_error *err);
/* "GET" or "POST" (with an empty JSON object as its body) of server->path followed by `path`. */
int fetch(const struct server *server, const char *method, const char *path, int64_t timeout_ns, struct answer *answer,
          struct sy_error *err);
