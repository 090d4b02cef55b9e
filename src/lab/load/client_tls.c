/* client_tls.c - reads certificates, and makes sessions of a client. */
#include "lab/load/client_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct client_tls {
    gnutls_certificate_credentials_t credentials;
    bool insecure;
};

/* Checks that a file can be read, since GnuTLS does not say why it could not. */
static int file_check(const char *path, struct sy_error *err) {
    return access(path, R_OK) < 0 ? error_set(err, -EINVAL, "cannot read '%s': %s", path, strerror(errno)) : 0;
}

static int trust_read(struct client_tls *tls, const char *path, struct sy_error *err) {
    int rc = path ? file_check(path, err) : 0;
    if (rc < 0)
        return rc;
    int count = path ? gnutls_certificate_set_x509_trust_file(tls->credentials, path, GNUTLS_X509_FMT_PEM)
                     : gnutls_certificate_set_x509_system_trust(tls->credentials);
    if (path && count <= 0)
        return error_set(err, -EINVAL, "'%s' holds no certificate to trust%s%s", path, count ? ": " : "",
                         count ? gnutls_strerror(count) : "");
    return 0; /* if the system trusts nobody, every server is refused, and the error says so then */
}

static int key_pair_read(struct client_tls *tls, const struct client_tls_files *files, struct sy_error *err) {
    int rc = file_check(files->certificate, err);
    rc = rc < 0 ? rc : file_check(files->key, err);
    if (rc < 0)
        return rc;
    rc = gnutls_certificate_set_x509_key_file(tls->credentials, files->certificate, files->key, GNUTLS_X509_FMT_PEM);
    return rc < 0 ? error_set(err, -EINVAL, "the certificate in '%s' and the key in '%s' cannot be used: %s",
                              files->certificate, files->key, gnutls_strerror(rc))
                  : 0;
}

int client_tls_create(struct client_tls **tls, const struct client_tls_files *files, struct sy_error *err) {
    struct client_tls *t = calloc(1, sizeof(*t));
    if (!t || gnutls_certificate_allocate_credentials(&t->credentials) < 0) {
        free(t);
        return error_set(err, -ENOMEM, "no memory for TLS");
    }
    t->insecure = files->insecure;
    int rc = files->insecure ? 0 : trust_read(t, files->authorities, err);
    if (rc == 0 && files->certificate)
        rc = key_pair_read(t, files, err);
    if (rc < 0)
        client_tls_destroy(t);
    else
        *tls = t;
    return rc;
}

void client_tls_destroy(struct client_tls *tls) {
    if (!tls)
        return;
    gnutls_certificate_free_credentials(tls->credentials);
    free(tls);
}

gnutls_session_t client_tls_session(const struct client_tls *tls, const char *host) {
    gnutls_datum_t protocol = {(unsigned char *)"http/1.1", 8};
    gnutls_session_t session;
    struct in6_addr address;
    bool is_address = inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
    if (gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0)
        return NULL;
    if (gnutls_set_default_priority(session) < 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials) < 0 ||
        gnutls_alpn_set_protocols(session, &protocol, 1, 0) < 0 ||
        (!is_address && gnutls_server_name_set(session, GNUTLS_NAME_DNS, host, strlen(host)) < 0)) {
        gnutls_deinit(session);
        return NULL;
    }
    if (!tls->insecure)
        gnutls_session_set_verify_cert(session, host, 0);
    gnutls_handshake_set_timeout(session, GNUTLS_INDEFINITE_TIMEOUT); /* whoever waits has a deadline of its own */
    return session;
}
