/* tls.c - reads certificates, and hands them to sessions. */
#include "front/net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/system/files.h"
#include "core/system/log.h"

#define EXPIRES_SOON_S (14 * 24 * 3600)
#define FILE_BYTES_MAX (4 << 20) /* a file of all authorities of the Web has a quarter of a MiB */

/* Versions and ciphers that HTTP/2 asks for (RFC 9113, 9.2.2); used for HTTP/1.1, too. */
#define PRIORITIES                                                                                                     \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:+AES-128-GCM:"          \
    "+AES-256-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD:%SERVER_PRECEDENCE"

/* Versions and ciphers between processes of a cluster, which all run this program. */
#define PRIORITIES_CLUSTER                                                                                             \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD"

/* Certificate and key of the sessions that began with them; freed when the last of these sessions has ended. */
struct tls_credentials {
    _Atomic uint32_t holders; /* sessions, and `current` of struct tls */
    gnutls_certificate_credentials_t certificate;
};

struct tls {
    struct tls_files files;
    gnutls_priority_t priorities;
    pthread_mutex_t lock;            /* lock of `current`, taken once a connection */
    struct tls_credentials *current; /* credentials of sessions that begin now */
};

/* ---- reading ---- */

/* Opens the file once, since it may be a pipe; `data` is freed by gnutls_free() in either case. */
static int file_read(const char *path, gnutls_datum_t *data, struct sy_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, "cannot read '%s': %s", path, strerror(errno));
    data->data = gnutls_malloc(FILE_BYTES_MAX + 1);
    ssize_t got = data->data ? files_read(fd, data->data, FILE_BYTES_MAX + 1) : -ENOMEM;
    close(fd);
    if (got < 0)
        return error_set(err, (int)got, "cannot read '%s': %s", path, strerror((int)-got));
    if (got > FILE_BYTES_MAX)
        return error_set(err, -EFBIG, "cannot read '%s': larger than %d bytes", path, FILE_BYTES_MAX);
    data->size = (unsigned)got;
    return 0;
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
    int count = rc < 0 ? 0 : gnutls_certificate_set_x509_trust_mem(credentials, &pem, GNUTLS_X509_FMT_PEM);
    gnutls_free(pem.data);
    if (rc < 0)
        return rc;
    return count <= 0 ? error_set(err, -EINVAL, "'%s' holds no certificate to trust%s%s", path, count ? ": " : "",
                                  count ? gnutls_strerror(count) : "")
                      : 0;
}

static int list_verify(const struct tls_files *files, gnutls_x509_trust_list_t trust, gnutls_x509_crt_t *chain,
                       unsigned count, struct sy_error *err) {
    static const char *const purposes[] = {GNUTLS_KP_TLS_WWW_SERVER, GNUTLS_KP_TLS_WWW_CLIENT};
    for (size_t i = 0; i < sizeof(purposes) / sizeof(purposes[0]); i++) {
        gnutls_typed_vdata_st purpose = {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)(uintptr_t)purposes[i], 0};
        unsigned status = 0;
        gnutls_datum_t why = {0};
        int rc = gnutls_x509_trust_list_verify_crt2(trust, chain, count, &purpose, 1, 0, &status, NULL);
        if (rc < 0)
            return error_set(err, -EINVAL, "'%s' cannot be checked: %s", files->certificate, gnutls_strerror(rc));
        if (status == 0)
            continue;
        gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &why, 0);
        error_set(err, -EINVAL, "the certificate in '%s' will not do as a %s's, by the authority in '%s': %s",
                  files->certificate, i ? "client" : "server", files->ca, why.data ? (char *)why.data : "");
        gnutls_free(why.data);
        return -EINVAL;
    }
    return 0;
}

/* Checks our own certificate as the other processes of the cluster will. */
static int own_verify(gnutls_certificate_credentials_t credentials, const struct tls_files *files,
                      struct sy_error *err) {
    gnutls_x509_crt_t *chain;
    gnutls_x509_trust_list_t trust;
    unsigned count;
    if (gnutls_certificate_get_x509_crt(credentials, 0, &chain, &count) < 0)
        return error_set(err, -ENOMEM, "no memory for certificates");
    gnutls_certificate_get_trust_list(credentials, &trust);
    int rc = list_verify(files, trust, chain, count, err);
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(chain[i]);
    gnutls_free(chain);
    return rc;
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
    if (rc == 0 && files->ca)
        rc = trust_read(c->certificate, files->ca, err);
    if (rc == 0 && files->cluster)
        rc = own_verify(c->certificate, files, err);
    if (rc < 0)
        tls_release(c);
    else
        *credentials = c;
    return rc;
}

/* ---- for the thread that starts the server ---- */

int tls_create(struct tls **tls, const struct tls_files *files, struct sy_error *err) {
    struct tls *t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, -ENOMEM, "no memory for TLS");
    t->files = *files;
    pthread_mutex_init(&t->lock, NULL);
    int rc = gnutls_priority_init(&t->priorities, files->cluster ? PRIORITIES_CLUSTER : PRIORITIES, NULL);
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
    const char *const paths[] = {tls->files.certificate, tls->files.key, tls->files.ca};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (paths[i] && file_is_pipe(paths[i]))
            return 0;
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

void tls_release(struct tls_credentials *c) {
    /* acq_rel: all uses by other threads come before the credentials are freed */
    if (!c || atomic_fetch_sub_explicit(&c->holders, 1, memory_order_acq_rel) > 1)
        return;
    gnutls_certificate_free_credentials(c->certificate);
    free(c);
}

struct tls_credentials *tls_prepare(struct tls *tls, gnutls_session_t session, enum tls_end end, const char *alpn) {
    static gnutls_typed_vdata_st purposes[] = {
        [TLS_SERVER] = {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT, 0},
        [TLS_CLIENT] = {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)GNUTLS_KP_TLS_WWW_SERVER, 0},
    }; /* purpose that the other end's certificate must have */
    /* who serves HTTP/1.1 serves HTTP/1.0, too, which `curl -0` names alone */
    const gnutls_datum_t protocols[] = {{(unsigned char *)alpn, (unsigned)strlen(alpn)},
                                        {(unsigned char *)"http/1.0", strlen("http/1.0")}};
    unsigned protocol_count = end == TLS_SERVER && strcmp(alpn, "http/1.1") == 0 ? 2 : 1;
    pthread_mutex_lock(&tls->lock);
    struct tls_credentials *c = tls->current;
    atomic_fetch_add_explicit(&c->holders, 1, memory_order_relaxed); /* relaxed: `current` holds it, under the lock */
    pthread_mutex_unlock(&tls->lock);
    if (gnutls_priority_set(session, tls->priorities) < 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, c->certificate) < 0 ||
        gnutls_alpn_set_protocols(session, protocols, protocol_count, GNUTLS_ALPN_MANDATORY) < 0) {
        tls_release(c);
        return NULL;
    }
    if (tls->files.ca) {
        if (end == TLS_SERVER)
            gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_cert2(session, &purposes[end], 1, 0);
    }
    return c;
}

/* "subject 'CN=a', issuer 'CN=b'" of the other end's certificate. */
static void other_describe(gnutls_session_t session, char *text, size_t size) {
    gnutls_x509_crt_t certificate;
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
    char subject[160] = "", issuer[160] = "";
    size_t subject_size = sizeof(subject), issuer_size = sizeof(issuer);
    snprintf(text, size, "unreadable");
    if (count == 0 || gnutls_x509_crt_init(&certificate) < 0)
        return;
    if (gnutls_x509_crt_import(certificate, &chain[0], GNUTLS_X509_FMT_DER) == 0) {
        gnutls_x509_crt_get_dn(certificate, subject, &subject_size);
        gnutls_x509_crt_get_issuer_dn(certificate, issuer, &issuer_size);
        snprintf(text, size, "subject '%s', issuer '%s'", subject, issuer);
    }
    gnutls_x509_crt_deinit(certificate);
}

void tls_explain(gnutls_session_t session, int code, const char *other, struct sy_error *err) {
    gnutls_datum_t why = {0};
    char whose[400];
    if (code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR) {
        unsigned status = gnutls_session_get_verify_cert_status(session);
        other_describe(session, whose, sizeof(whose));
        gnutls_certificate_verification_status_print(status, gnutls_certificate_type_get(session), &why, 0);
        error_set(err, 0, "the %s's certificate (%s) is refused: %s", other, whose, why.data ? (char *)why.data : "");
        gnutls_free(why.data);
    } else if (code == GNUTLS_E_FATAL_ALERT_RECEIVED) {
        error_set(err, 0, "the %s ended TLS: %s", other, gnutls_alert_get_name(gnutls_alert_get(session)));
    } else {
        error_set(err, 0, "TLS failed: %s", gnutls_strerror(code));
    }
}
