/* fetch.h - one HTTP request and its whole answer, for questions before and after a load: metadata, metrics.
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
    char path[256];               /* beginning of every request's path: "" or "/prefix", no slash at the end */
    char authority[270];          /* value of the Host header */
    bool secure;                  /* whether the URL begins with "https://": the caller must set `tls` */
    const struct client_tls *tls; /* NULL: plain text */
    const char *headers;          /* header lines of every request, each with its line end; "": none */
    struct sockaddr_storage address;
    socklen_t address_length;
};

/* Reads "http://HOST[:PORT][/PREFIX]", "https://...", or the same without a scheme; HOST may be a [v6] address. The
 * port defaults to 80 behind "http://", 443 behind "https://", else to 8000, where inference servers listen. -EINVAL
 * with a sentence for any other text. Does not connect. */
int server_parse(const char *url, struct server *server, struct sy_error *err);
/* Looks the host up (with no timeout), tries its addresses in turn, each for at most timeout_ns, and keeps the first
 * that answers. 0, or -errno and a sentence. */
int server_resolve(struct server *server, int64_t timeout_ns, struct sy_error *err);

struct answer {
    int status;
    char *body; /* body, followed by a zero byte, which the caller frees; NULL after an error */
    size_t length;
};

/* Sends the bytes of one request on a fresh connection and reads the answer. 0, or -errno and a sentence. */
int fetch_bytes(const struct server *server, const char *request, size_t length, int64_t timeout_ns,
                struct answer *answer, struct sy_error *err);
/* Sends a "GET" or a "POST" (with an empty JSON object as its body) for server->path followed by `path`. */
int fetch(const struct server *server, const char *method, const char *path, int64_t timeout_ns, struct answer *answer,
          struct sy_error *err);
