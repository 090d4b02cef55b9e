/* tls.h - TLS of the listening ports and of a cluster's links, by GnuTLS: a certificate and its key, and whom it
 * trusts.
 *
 * With forward secrecy and authenticated encryption only; TLS 1.2 and 1.3 for clients, 1.3 alone between processes of a
 * cluster. One `struct tls` is shared by all threads; its files can be read again while they serve: connections that
 * begin later use the new ones, the others end with what they began with. */
#pragma once

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>

#include "core/util/error.h"

struct tls;
struct tls_credentials;

enum tls_end { TLS_SERVER, TLS_CLIENT };

/* Paths of files in PEM. */
struct tls_files {
    const char *certificate; /* file of our certificate, followed by the certificates that signed it */
    const char *key;         /* file of our certificate's key, not encrypted */
    const char *ca; /* file of the authorities of which one must have signed the other end's certificate; NULL: any
                       client may come */
    /* Both ends are processes of one cluster, which show each other certificates signed by `ca`. The names in these
     * certificates do not matter: processes have no fixed addresses, and the authority signs for nobody else. */
    bool cluster;
};

/* 0 or -errno with a sentence that names the file. In a cluster it is also an error if others would refuse our
 * certificate: it has expired, `ca` has not signed it, or it is not for servers and clients. Called by the thread that
 * starts the server; the strings of `files` outlive the result. */
int tls_create(struct tls **tls, const struct tls_files *files, struct sy_error *err);
/* Call it when no session is left. NULL is allowed. */
void tls_destroy(struct tls *tls);
/* Reads the files again, unless one is a pipe. If one of them cannot be used, everything stays as it was. Any thread.
 */
int tls_reload(struct tls *tls, struct sy_error *err);

/* Prepares a session that gnutls_init() has made for this end: credentials, versions, the one protocol `alpn`. Only in
 * a cluster may `end` be TLS_CLIENT. Returns the credentials that the session uses until tls_release(); NULL: no
 * memory. Any thread. */
struct tls_credentials *tls_prepare(struct tls *tls, gnutls_session_t session, enum tls_end end, const char *alpn);
/* Call it when the session is gone. NULL is allowed. */
void tls_release(struct tls_credentials *credentials);

/* Says why a session with `other` ("server", "client") failed with GnuTLS's `code`. For a refused certificate the
 * sentence says whose it is and what is wrong with it. */
void tls_explain(gnutls_session_t session, int code, const char *other, struct sy_error *err);
