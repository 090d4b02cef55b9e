/* tls.c - reads certificates, and hands them to sessions. */
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define EXPIRES_SOON_S (14 * 24 * 3600)

/* What HTTP/2 asks for (RFC 9113, 9.2.2), which is wise for HTTP/1.1, too. */
#define PRIORITIES                                                                                                     \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:+AES-128-GCM:"          \
    "+AES-256-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD:%SERVER_PRECEDENCE"

/* Freed when the last session that began with it has ended. */
struct tls_credentials {
    _Atomic uint32_t holders;
    gnutls_certificate_credentials_t certificate;
};

struct tls {
    struct tls_files files;
    gnutls_priority_t priorities;
    pthread_mutex_t lock; /* of `current`; taken once a connection */
    struct tls_credentials *current;
};

/* ---- reading ---- */

static int file_read(const char *path, gnutls_datum_t *data, struct sy_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC); /* GnuTLS does not say why it could not */
    if (fd < 0)
        return error_set(err, -errno, "cannot read '%s': %s", path, strerror(errno));
    close(fd);
    int rc = gnutls_load_file(path, data);
    return rc < 0 ? error_set(err, -EIO, "cannot read '%s': %s", path, gnutls_strerror(rc)) : 0;
}

/* Logs the certificate's subject and end, and warns if clients will refuse it. */
static int certificate_check(const char *path, const gnutls_datum_t *pem, struct sy_error *err) {
    gnutls_x509_crt_t *chain;
    unsigned count;
    int rc = gnutls_x509_crt_list_import2(&chain, &count, pem, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        return error_set(err, -EINVAL, "'%s' holds no certificate: %s", path, gnutls_strerror(rc));
    char name[256] = "";
    size_t bytes = sizeof(name);
    gnutls_x509_crt_get_dn(chain[0], name, &bytes);
    time_t ends = gnutls_x509_crt_get_expiration_time(chain[0]), now = time(NULL);
    if (ends < now)
        log_warn("the certificate has expired", "file=%s subject=\"%s\"", path, name);
    else if (ends - now < EXPIRES_SOON_S)
        log_warn("the certificate expires soon", "file=%s subject=\"%s\" hours=%lld", path, name,
                 (long long)(ends - now) / 3600);
    else
        log_info("certificate", "file=%s subject=\"%s\" days=%lld", path, name, (long long)(ends - now) / 86400);
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(chain[i]);
    gnutls_free(chain);
    return 0;
}

static int key_check(const char *path, const gnutls_datum_t *pem, struct sy_error *err) {
    gnutls_x509_privkey_t key;
    int rc = gnutls_x509_privkey_init(&key);
    if (rc < 0)
        return error_set(err, -ENOMEM, "no memory for a key");
    rc = gnutls_x509_privkey_import2(key, pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_x509_privkey_deinit(key);
    if (rc == GNUTLS_E_DECRYPTION_FAILED)
        return error_set(err, -EINVAL, "the key in '%s' is encrypted; it must be given without a password", path);
    return rc < 0 ? error_set(err, -EINVAL, "'%s' holds no private key: %s", path, gnutls_strerror(rc)) : 0;
}

static int key_pair_read(gnutls_certificate_credentials_t credentials, const struct tls_files *files,
                         struct sy_error *err) {
    gnutls_datum_t certificate = {0}, key = {0};
    int rc = file_read(files->certificate, &certificate, err);
    rc = rc < 0 ? rc : file_read(files->key, &key, err);
    rc = rc < 0 ? rc : certificate_check(files->certificate, &certificate, err);
    rc = rc < 0 ? rc : key_check(files->key, &key, err);
    if (rc == 0) {
        int status = gnutls_certificate_set_x509_key_mem(credentials, &certificate, &key, GNUTLS_X509_FMT_PEM);
        if (status == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
            rc = error_set(err, -EINVAL, "the key in '%s' is not that of the certificate in '%s'", files->key,
                           files->certificate);
        else if (status < 0)
            rc = error_set(err, -EINVAL, "'%s' and '%s' cannot be used: %s", files->certificate, files->key,
                           gnutls_strerror(status));
    }
    gnutls_free(certificate.data);
    if (key.data)
        gnutls_memset(key.data, 0, key.size);
    gnutls_free(key.data);
    return rc;
}

static int trust_read(gnutls_certificate_credentials_t credentials, const char *path, struct sy_error *err) {
    gnutls_datum_t pem = {0};
    int rc = file_read(path, &pem, err);
    if (rc < 0)
        return rc;
    int count = gnutls_certificate_set_x509_trust_mem(credentials, &pem, GNUTLS_X509_FMT_PEM);
    gnutls_free(pem.data);
    return count <= 0 ? error_set(err, -EINVAL, "'%s' holds no certificate to trust%s%s", path, count ? ": " : "",
                                  count ? gnutls_strerror(count) : "")
                      : 0;
}

static int credentials_read(struct tls_credentials **credentials, const struct tls_files *files, struct sy_error *err) {
    struct tls_credentials *c = calloc(1, sizeof(*c));
    int rc;
    if (!c || gnutls_certificate_allocate_credentials(&c->certificate) < 0) {
        free(c);
        return error_set(err, -ENOMEM, "no memory for certificates");
    }
    atomic_init(&c->holders, 1);
    rc = key_pair_read(c->certificate, files, err);
    if (rc == 0 && files->client_ca)
        rc = trust_read(c->certificate, files->client_ca, err);
    if (rc < 0)
        tls_release(c);
    else
        *credentials = c;
    return rc;
}

/* ---- for who starts the server ---- */

int tls_create(struct tls **tls, const struct tls_files *files, struct sy_error *err) {
    struct tls *t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, -ENOMEM, "no memory for TLS");
    t->files = *files;
    pthread_mutex_init(&t->lock, NULL);
    int rc = gnutls_priority_init(&t->priorities, PRIORITIES, NULL);
    rc = rc < 0 ? error_set(err, -EINVAL, "GnuTLS does not know what TLS needs: %s", gnutls_strerror(rc))
                : credentials_read(&t->current, files, err);
    if (rc < 0)
        tls_destroy(t);
    else
        *tls = t;
    return rc;
}

void tls_destroy(struct tls *tls) {
    if (!tls)
        return;
    tls_release(tls->current);
    if (tls->priorities)
        gnutls_priority_deinit(tls->priorities);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

int tls_reload(struct tls *tls, struct sy_error *err) {
    struct tls_credentials *fresh, *old;
    int rc = credentials_read(&fresh, &tls->files, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&tls->lock);
    old = tls->current;
    tls->current = fresh;
    pthread_mutex_unlock(&tls->lock);
    tls_release(old);
    return 0;
}

/* ---- for sessions ---- */

static struct tls_credentials *credentials_hold(struct tls *tls) {
    pthread_mutex_lock(&tls->lock);
    struct tls_credentials *c = tls->current;
    atomic_fetch_add_explicit(&c->holders, 1, memory_order_relaxed); /* `current` holds it meanwhile */
    pthread_mutex_unlock(&tls->lock);
    return c;
}

void tls_release(struct tls_credentials *c) {
    /* acq_rel: what others did with it comes before it is freed */
    if (!c || atomic_fetch_sub_explicit(&c->holders, 1, memory_order_acq_rel) > 1)
        return;
    gnutls_certificate_free_credentials(c->certificate);
    free(c);
}

struct tls_credentials *tls_prepare(struct tls *tls, gnutls_session_t session, const char *alpn) {
    static gnutls_typed_vdata_st for_clients = {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT,
                                                0};
    gnutls_datum_t protocol = {(unsigned char *)alpn, (unsigned)strlen(alpn)};
    struct tls_credentials *c = credentials_hold(tls);
    if (gnutls_priority_set(session, tls->priorities) < 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, c->certificate) < 0 ||
        gnutls_alpn_set_protocols(session, &protocol, 1, GNUTLS_ALPN_MANDATORY) < 0) {
        tls_release(c);
        return NULL;
    }
    if (tls->files.client_ca) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_cert2(session, &for_clients, 1, 0);
    }
    return c;
}
