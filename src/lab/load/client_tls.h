/* client_tls.h - TLS of a client, by GnuTLS: the authorities that the client trusts, and its certificate. All
 * connections share one `struct client_tls`. Set-up: one thread; sessions: any thread. */
#pragma once

#include <stdbool.h>

#include <gnutls/gnutls.h>

#include "core/util/error.h"

struct client_tls;

/* Files in PEM format; NULL: not given. */
struct client_tls_files {
    const char *authorities; /* authorities, one of which must have signed the server's certificate; NULL: those that
                              * the system trusts */
    const char *certificate; /* the client's certificate, for servers that want one, then those of its signers; needs
                              * `key` */
    const char *key;         /* private key of the client's certificate */
    bool insecure;           /* whether any certificate of the server will do */
};

/* Reads the files. 0 or -errno with a sentence that names the file. */
int client_tls_create(struct client_tls **tls, const struct client_tls_files *files, struct sy_error *err);
/* Call it when no session is left. NULL is allowed. */
void client_tls_destroy(struct client_tls *tls);

/* Makes a non-blocking session for HTTP/1.1 with the server `host`, a name or an address. The server's certificate must
 * be for `host`, which must outlive the session. NULL: no memory. */
gnutls_session_t client_tls_session(const struct client_tls *tls, const char *host);
