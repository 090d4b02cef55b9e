/* test_channel.c - a client's connection, in plain text and over TLS, against GnuTLS as a server, both in one thread.
 */
#include "lab/load/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lab/load/fetch.h"
#include "unit/certificate.h"
#include "unit/test.h"

#define TURNS_MAX  1000
#define LARGE      300000
#define RECEIVE_MS 10000

static char certificate_path[] = TEXT_FILE, key_path[] = TEXT_FILE, other_path[] = TEXT_FILE, other_key[] = TEXT_FILE;

/* Both ends of a connection. */
struct pair {
    struct server address;
    struct client_tls *tls;
    struct channel client;
    int listen_fd, fd;
    gnutls_session_t server; /* NULL: plain text */
    gnutls_certificate_credentials_t credentials;
    gnutls_datum_t ticket_key;
};

static void pair_begin(struct pair *p, const char *host, const struct client_tls_files *files) {
    struct sockaddr_in *address = (struct sockaddr_in *)&p->address.address;
    memset(p, 0, sizeof(*p));
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    p->address.address_length = sizeof(*address);
    strcpy(p->address.host, host);
    p->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(p->listen_fd, (struct sockaddr *)address, sizeof(*address)), 0);
    assert_int_equal(listen(p->listen_fd, 1), 0);
    getsockname(p->listen_fd, (struct sockaddr *)address, &p->address.address_length);
    if (files) {
        assert_int_equal(client_tls_create(&p->tls, files, NULL), 0);
        p->address.tls = p->tls;
    }
    assert_int_equal(channel_open(&p->client, &p->address), 0);
    p->fd = accept4(p->listen_fd, NULL, NULL, SOCK_NONBLOCK);
    assert_true(p->fd >= 0);
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* what is sent is there at once */
    assert_int_equal(channel_connected(&p->client), 0);
    if (!files)
        return;
    gnutls_certificate_allocate_credentials(&p->credentials);
    assert_int_equal(
        gnutls_certificate_set_x509_key_file(p->credentials, certificate_path, key_path, GNUTLS_X509_FMT_PEM), 0);
    gnutls_init(&p->server, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_set_default_priority(p->server);
    gnutls_credentials_set(p->server, GNUTLS_CRD_CERTIFICATE, p->credentials);
    gnutls_session_ticket_key_generate(&p->ticket_key);
    gnutls_session_ticket_enable_server(p->server, &p->ticket_key);
    gnutls_transport_set_int(p->server, p->fd);
}

static void pair_end(struct pair *p) {
    channel_close(&p->client);
    client_tls_destroy(p->tls);
    if (p->server) {
        gnutls_deinit(p->server);
        gnutls_certificate_free_credentials(p->credentials);
        gnutls_free(p->ticket_key.data);
    }
    close(p->fd);
    close(p->listen_fd);
}

/* What the client's handshake comes to. */
static int shake_hands(struct pair *p) {
    int client = -EAGAIN, server = GNUTLS_E_AGAIN;
    for (int i = 0; i < TURNS_MAX && (client == -EAGAIN || server == GNUTLS_E_AGAIN); i++) {
        client = client == -EAGAIN ? channel_handshake(&p->client) : client;
        server = server == GNUTLS_E_AGAIN ? gnutls_handshake(p->server) : server;
    }
    return client;
}

static void client_wait(struct pair *p) {
    struct pollfd ready = {.fd = p->client.fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, RECEIVE_MS), 1);
}

TEST(plain_text) {
    struct pair p;
    char got[16];
    pair_begin(&p, "localhost", NULL);
    assert_int_equal(channel_handshake(&p.client), 0);
    assert_int_equal(channel_receive(&p.client, got, sizeof(got)), -EAGAIN);
    assert_int_equal(channel_events(&p.client, POLLIN), POLLIN);
    assert_int_equal(channel_send(&p.client, "hello", 5), 5);
    assert_int_equal(recv(p.fd, got, sizeof(got), 0), 5);
    assert_int_equal(send(p.fd, "there", 5, 0), 5);
    client_wait(&p);
    assert_int_equal(channel_receive(&p.client, got, sizeof(got)), 5);
    shutdown(p.fd, SHUT_WR);
    client_wait(&p);
    assert_int_equal(channel_receive(&p.client, got, sizeof(got)), 0);
    pair_end(&p);
}

/* Tickets come first, which GnuTLS takes, and then says "again" with more in the socket. */
TEST(what_is_behind_a_ticket_is_received) {
    struct pair p;
    char got[16];
    pair_begin(&p, "localhost", &(struct client_tls_files){.authorities = certificate_path});
    assert_int_equal(shake_hands(&p), 0);
    assert_int_equal(gnutls_protocol_get_version(p.server), GNUTLS_TLS1_3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gnutls_session_ticket_send(p.server, 1, 0), 0);
    assert_int_equal(gnutls_record_send(p.server, "hello", 5), 5);
    client_wait(&p);
    assert_int_equal(channel_receive(&p.client, got, sizeof(got)), 5);
    assert_memory_equal(got, "hello", 5);
    assert_int_equal(channel_receive(&p.client, got, sizeof(got)), -EAGAIN);
    assert_int_equal(channel_events(&p.client, POLLIN), POLLIN);
    gnutls_bye(p.server, GNUTLS_SHUT_WR);
    client_wait(&p);
    assert_int_equal(channel_receive(&p.client, got, sizeof(got)), 0);
    pair_end(&p);
}

TEST(more_than_a_socket_holds_both_ways) {
    static char sent[LARGE], got[LARGE];
    struct pair p;
    size_t out = 0, in = 0;
    for (size_t i = 0; i < LARGE; i++)
        sent[i] = (char)(i * 7 + i / 251);
    pair_begin(&p, "localhost", &(struct client_tls_files){.authorities = certificate_path});
    assert_int_equal(shake_hands(&p), 0);
    while (in < LARGE) {
        ssize_t n = out < LARGE ? channel_send(&p.client, sent + out, LARGE - out) : -EAGAIN;
        assert_true(n > 0 || n == -EAGAIN);
        out += n > 0 ? (size_t)n : 0;
        n = gnutls_record_recv(p.server, got + in, LARGE - in);
        assert_true(n > 0 || n == GNUTLS_E_AGAIN);
        in += n > 0 ? (size_t)n : 0;
    }
    assert_memory_equal(got, sent, LARGE);
    memset(got, 0, LARGE);
    for (in = out = 0; in < LARGE;) {
        ssize_t n = out < LARGE ? gnutls_record_send(p.server, sent + out, LARGE - out) : GNUTLS_E_AGAIN;
        assert_true(n > 0 || n == GNUTLS_E_AGAIN);
        out += n > 0 ? (size_t)n : 0;
        n = channel_receive(&p.client, got + in, LARGE - in);
        assert_true(n > 0 || n == -EAGAIN);
        in += n > 0 ? (size_t)n : 0;
    }
    assert_memory_equal(got, sent, LARGE);
    pair_end(&p);
}

TEST(certificates_are_refused_with_a_reason) {
    static const struct {
        const char *host, *authorities, *why;
        bool insecure;
    } cases[] = {
        {"localhost", certificate_path, NULL, false},
        {"elsewhere", certificate_path, "does not match", false},
        {"127.0.0.1", certificate_path, "does not match", false},
        {"localhost", other_path, "not trusted", false},
        {"localhost", NULL, "not trusted", false},
        {"elsewhere", NULL, NULL, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair p;
        struct sy_error err = {""};
        pair_begin(&p, cases[i].host,
                   &(struct client_tls_files){.authorities = cases[i].authorities, .insecure = cases[i].insecure});
        int rc = shake_hands(&p);
        assert_int_equal(rc, cases[i].why ? -EPROTO : 0);
        if (cases[i].why) {
            channel_explain(&p.client, rc, &err);
            assert_non_null(strstr(err.text, "subject 'CN=test', issuer 'CN=test'"));
            assert_non_null(strcasestr(err.text, cases[i].why));
        }
        pair_end(&p);
    }
}

int main(void) {
    certificate_make(certificate_path, key_path);
    certificate_make(other_path, other_key);
    int failed = tests_run(NULL, NULL);
    unlink(certificate_path);
    unlink(key_path);
    unlink(other_path);
    unlink(other_key);
    return failed;
}
