/* client_tls.h - TLS of a client, by GnuTLS: whom it trusts, and who it is. One `struct client_tls` is shared by all
 * connections. Set-up: one thread; sessions: any. */
#pragma once

#include <stdbool.h>

#include <gnutls/gnutls.h>

#include "core/util/error.h"

struct client_tls;

/* PEM; each NULL where it is not given. */
struct client_tls_files {
    const char *authorities; /* the server's certificate must be signed by one of these; NULL: one the system trusts */
    const char *certificate; /* the client's, for servers that want one, then those of its signers; with `key` */
    const char *key;
    bool insecure; /* any certificate will do */
};

/* 0 or -errno with a sentence that names the file. */
int client_tls_create(struct client_tls **tls, const struct client_tls_files *files, struct sy_error *err);
/* Call it when no session is left. NULL is allowed. */
void client_tls_destroy(struct client_tls *tls);

/* A non-blocking session, for HTTP/1.1, with the server `host`, a name or an address. The server's certificate must be
 * for `host`, which must outlive the session. NULL: no memory. */
gnutls_session_t client_tls_session(const struct client_tls *tls, const char *host);
