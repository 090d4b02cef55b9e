/* certificate.h - certificates, made at once: one for localhost that signs itself, and those of an authority. */
#pragma once

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <time.h>

#include "unit/text_file.h"

#define CERTIFICATE_LASTS_S (30 * 86400)

static inline gnutls_x509_privkey_t certificate_key(void) {
    gnutls_x509_privkey_t key;
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(
        gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0), 0);
    return key;
}

/* One that lacks who signs it. */
static inline gnutls_x509_crt_t certificate_begin(const char *name, gnutls_x509_privkey_t key, time_t lasts_s) {
    static unsigned serial;
    gnutls_x509_crt_t certificate;
    serial++;
    assert_int_equal(gnutls_x509_crt_init(&certificate), 0);
    gnutls_x509_crt_set_version(certificate, 3);
    gnutls_x509_crt_set_serial(certificate, &serial, sizeof(serial));
    gnutls_x509_crt_set_dn(certificate, name, NULL);
    gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, "localhost", 9, GNUTLS_FSAN_SET);
    gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 3600);
    gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + lasts_s);
    gnutls_x509_crt_set_key(certificate, key);
    return certificate;
}

/* Writes their PEM to temporary files; the paths are as for text_file(), or NULL. */
static inline void certificate_write(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key, char *certificate_path,
                                     char *key_path) {
    gnutls_datum_t pem;
    assert_int_equal(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &pem), 0);
    text_file(certificate_path, pem.data, pem.size);
    gnutls_free(pem.data);
    if (!key_path)
        return;
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
    text_file(key_path, pem.data, pem.size);
    gnutls_free(pem.data);
}

/* Its PEM, and that of its key, as temporary files; the paths are as for text_file(). The subject is CN=test. */
static inline void certificate_make(char *certificate_path, char *key_path) {
    gnutls_x509_privkey_t key = certificate_key();
    gnutls_x509_crt_t certificate = certificate_begin("CN=test", key, CERTIFICATE_LASTS_S);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    certificate_write(certificate, key, certificate_path, key_path);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

struct authority {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
};

static inline void authority_make(struct authority *a, char *certificate_path) {
    a->key = certificate_key();
    a->certificate = certificate_begin("CN=authority", a->key, CERTIFICATE_LASTS_S);
    gnutls_x509_crt_set_basic_constraints(a->certificate, 1, -1);
    gnutls_x509_crt_set_key_usage(a->certificate, GNUTLS_KEY_KEY_CERT_SIGN);
    assert_int_equal(gnutls_x509_crt_sign2(a->certificate, a->certificate, a->key, GNUTLS_DIG_SHA256, 0), 0);
    certificate_write(a->certificate, a->key, certificate_path, NULL);
}

static inline void authority_free(struct authority *a) {
    gnutls_x509_crt_deinit(a->certificate);
    gnutls_x509_privkey_deinit(a->key);
}

/* `purpose`: an OID, for which alone it is; NULL: for anything. The subject is CN=member. */
static inline void authority_sign(const struct authority *a, char *certificate_path, char *key_path, time_t lasts_s,
                                  const char *purpose) {
    gnutls_x509_privkey_t key = certificate_key();
    gnutls_x509_crt_t certificate = certificate_begin("CN=member", key, lasts_s);
    if (purpose)
        assert_int_equal(gnutls_x509_crt_set_key_purpose_oid(certificate, purpose, 0), 0);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, a->certificate, a->key, GNUTLS_DIG_SHA256, 0), 0);
    certificate_write(certificate, key, certificate_path, key_path);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}
