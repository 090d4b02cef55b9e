/* tls.h - TLS of the listening ports, by GnuTLS: the server's certificate and key, and whose clients it trusts.
 *
 * TLS 1.2 and 1.3, with forward secrecy and authenticated encryption only. One `struct tls` is shared by all frontends;
 * its files can be read again while they serve: connections that begin later use the new ones, the others end with what
 * they began with. */
#pragma once

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "base/error.h"

struct tls;
struct tls_credentials;

/* PEM. */
struct tls_files {
    const char *certificate; /* the server's, then those that signed it */
    const char *key;         /* not encrypted */
    const char *client_ca;   /* NULL: any client may come; else clients need a certificate that one of these signed */
};

/* 0 or -errno with a sentence that names the file. Whoever starts the server; `files` outlive it. */
int tls_create(struct tls **tls, const struct tls_files *files, struct sy_error *err);
/* When no session is left. NULL is allowed. */
void tls_destroy(struct tls *tls);
/* Reads the files again. If one of them cannot be used, everything stays as it was. Any thread. */
int tls_reload(struct tls *tls, struct sy_error *err);

/* Prepares a server's session that gnutls_init() has made: credentials, versions, the one protocol `alpn`. Returns what
 * the session uses until tls_release(); NULL: no memory. Any thread. */
struct tls_credentials *tls_prepare(struct tls *tls, gnutls_session_t session, const char *alpn);
/* When the session is gone. NULL is allowed. */
void tls_release(struct tls_credentials *credentials);
