/* test_tls_stream.c - a server's end of TLS in memory, against GnuTLS as a client, in pieces of every size. */
#include "front/net/tls_stream.h"

#include <errno.h>
#include <stdint.h>

#include "unit/certificate.h"
#include "unit/test.h"

#define MESSAGE_BYTES 100000

static char certificate_path[] = TEXT_FILE, key_path[] = TEXT_FILE;

/* ---- a client and the stream, and what is on the way between them ---- */

struct pair {
    struct tls *tls;
    struct tls_stream *stream;
    gnutls_session_t client;
    gnutls_certificate_credentials_t trust;
    struct text to_server, to_client, arrived; /* arrived: what the stream has opened */
    size_t taken;                              /* by the client, of what is for it */
    ssize_t last;                              /* of tls_stream_read() */
};

static ssize_t client_pull(gnutls_transport_ptr_t context, void *data, size_t bytes) {
    struct pair *p = context;
    size_t left = p->to_client.length - p->taken;
    if (left == 0) {
        gnutls_transport_set_errno(p->client, EAGAIN);
        return -1;
    }
    bytes = bytes < left ? bytes : left;
    memcpy(data, p->to_client.data + p->taken, bytes);
    p->taken += bytes;
    return (ssize_t)bytes;
}

static ssize_t client_push(gnutls_transport_ptr_t context, const void *data, size_t bytes) {
    text_append(&((struct pair *)context)->to_server, data, bytes);
    return (ssize_t)bytes;
}

static void pair_begin(struct pair *p, const char *client_alpn) {
    struct tls_files files = {.certificate = certificate_path, .key = key_path};
    gnutls_datum_t alpn = {(unsigned char *)client_alpn, (unsigned)strlen(client_alpn)};
    struct sy_error err;
    memset(p, 0, sizeof(*p));
    assert_int_equal(tls_create(&p->tls, &files, &err), 0);
    p->stream = tls_stream_create(p->tls, TLS_SERVER, "h2", &p->to_client);
    assert_non_null(p->stream);
    gnutls_init(&p->client, GNUTLS_CLIENT | GNUTLS_NONBLOCK);
    gnutls_set_default_priority(p->client);
    gnutls_certificate_allocate_credentials(&p->trust);
    gnutls_credentials_set(p->client, GNUTLS_CRD_CERTIFICATE, p->trust);
    gnutls_alpn_set_protocols(p->client, &alpn, 1, 0);
    gnutls_transport_set_ptr(p->client, p);
    gnutls_transport_set_pull_function(p->client, client_pull);
    gnutls_transport_set_push_function(p->client, client_push);
}

static void pair_end(struct pair *p) {
    gnutls_deinit(p->client);
    gnutls_certificate_free_credentials(p->trust);
    tls_stream_destroy(p->stream);
    tls_destroy(p->tls);
    text_free(&p->to_server);
    text_free(&p->to_client);
    text_free(&p->arrived);
}

/* Hands the stream all that is for it, in pieces. */
static void deliver(struct pair *p, size_t step) {
    static char opened[16384];
    for (size_t at = 0; at < p->to_server.length && p->last >= 0; at += step) {
        size_t left = p->to_server.length - at;
        char *piece = malloc(step < left ? step : left); /* so that a step beyond it is seen */
        memcpy(piece, p->to_server.data + at, step < left ? step : left);
        tls_stream_give(p->stream, piece, step < left ? step : left);
        while ((p->last = tls_stream_read(p->stream, opened, sizeof(opened))) > 0)
            text_append(&p->arrived, opened, (size_t)p->last);
        free(piece);
    }
    p->to_server.length = 0;
}

static void shake_hands(struct pair *p, size_t step) {
    int rc;
    for (int turns = 0; turns < 10; turns++) {
        rc = gnutls_handshake(p->client);
        deliver(p, step);
        if (rc == 0 && tls_stream_established(p->stream))
            return;
        assert_true(rc == 0 || rc == GNUTLS_E_AGAIN);
    }
    fail();
}

static void message_fill(char *message) {
    for (int i = 0; i < MESSAGE_BYTES; i++)
        message[i] = (char)(i * 31 >> 3);
}

TEST(bytes_arrive_in_both_directions) {
    static const size_t steps[] = {1, 7, 1000, 16384, SIZE_MAX / 2};
    static char message[MESSAGE_BYTES], got[MESSAGE_BYTES];
    message_fill(message);
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
        struct pair p;
        struct sy_error err;
        pair_begin(&p, "h2");
        shake_hands(&p, steps[s]);
        assert_int_equal(tls_reload(p.tls, &err), 0); /* what has begun goes on */
        for (size_t at = 0; at < MESSAGE_BYTES;)
            at += (size_t)gnutls_record_send(p.client, message + at, MESSAGE_BYTES - at);
        deliver(&p, steps[s]);
        assert_int_equal(p.arrived.length, MESSAGE_BYTES);
        assert_memory_equal(p.arrived.data, message, MESSAGE_BYTES);
        assert_int_equal(tls_stream_write(p.stream, message, MESSAGE_BYTES), 0);
        tls_stream_end(p.stream);
        size_t at = 0;
        ssize_t n;
        while ((n = gnutls_record_recv(p.client, got + at, MESSAGE_BYTES - at)) > 0 && at + (size_t)n < MESSAGE_BYTES)
            at += (size_t)n;
        assert_memory_equal(got, message, MESSAGE_BYTES);
        assert_int_equal(gnutls_record_recv(p.client, got, 1), 0); /* and that was all */
        gnutls_bye(p.client, GNUTLS_SHUT_WR);
        deliver(&p, steps[s]);
        assert_int_equal(p.last, -ESHUTDOWN);
        pair_end(&p);
    }
}

TEST(what_is_no_tls_ends_the_stream) {
    struct pair p;
    pair_begin(&p, "h2");
    text_put(&p.to_server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n and more than a record's head");
    deliver(&p, 100);
    assert_int_equal(p.last, -ECONNRESET);
    assert_false(tls_stream_established(p.stream));
    pair_end(&p);
}

TEST(another_protocol_is_refused_with_an_alert) {
    struct pair p;
    pair_begin(&p, "http/1.1");
    gnutls_handshake(p.client);
    deliver(&p, 1000);
    assert_int_equal(p.last, -ECONNRESET);
    int rc;
    while ((rc = gnutls_handshake(p.client)) == GNUTLS_E_WARNING_ALERT_RECEIVED) {
    }
    assert_int_equal(rc, GNUTLS_E_FATAL_ALERT_RECEIVED);
    assert_int_equal(gnutls_alert_get(p.client), GNUTLS_A_NO_APPLICATION_PROTOCOL);
    pair_end(&p);
}

TEST(a_broken_record_ends_the_stream) {
    struct pair p;
    pair_begin(&p, "h2");
    shake_hands(&p, 1000);
    gnutls_record_send(p.client, "hello", 5);
    p.to_server.data[p.to_server.length - 1] ^= 1;
    deliver(&p, 1000);
    assert_int_equal(p.last, -ECONNRESET);
    assert_int_equal(p.arrived.length, 0);
    pair_end(&p);
}

int main(void) {
    certificate_make(certificate_path, key_path);
    int failed = tests_run(NULL, NULL);
    unlink(certificate_path);
    unlink(key_path);
    return failed;
}
