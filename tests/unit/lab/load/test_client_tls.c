/* test_client_tls.c - a client's sessions over a pair of sockets, against GnuTLS as a server. Whose certificates are
 * refused, and what is said then, is in test_channel.c. */
#include "lab/load/client_tls.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/net/tls.h"
#include "unit/certificate.h"
#include "unit/test.h"

#define TURNS_MAX 1000

static char certificate_path[] = TEXT_FILE, key_path[] = TEXT_FILE, other_path[] = TEXT_FILE, other_key[] = TEXT_FILE;

struct pair {
    struct client_tls *tls;
    gnutls_session_t client, server;
    gnutls_certificate_credentials_t credentials;
    int fds[2];
};

/* `wanted`: whether the server wants a certificate of the client, as GnuTLS says it. */
static void pair_begin(struct pair *p, const char *host, const struct client_tls_files *files,
                       gnutls_certificate_request_t wanted) {
    gnutls_datum_t protocols[] = {{(unsigned char *)"h2", 2}, {(unsigned char *)"http/1.1", 8}};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->fds), 0);
    assert_int_equal(client_tls_create(&p->tls, files, NULL), 0);
    p->client = client_tls_session(p->tls, host);
    assert_non_null(p->client);
    gnutls_transport_set_int(p->client, p->fds[0]);
    gnutls_certificate_allocate_credentials(&p->credentials);
    gnutls_certificate_set_x509_key_file(p->credentials, certificate_path, key_path, GNUTLS_X509_FMT_PEM);
    gnutls_init(&p->server, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_set_default_priority(p->server);
    gnutls_credentials_set(p->server, GNUTLS_CRD_CERTIFICATE, p->credentials);
    gnutls_certificate_server_set_request(p->server, wanted);
    gnutls_alpn_set_protocols(p->server, protocols, 2, 0);
    gnutls_transport_set_int(p->server, p->fds[1]);
}

static void pair_end(struct pair *p) {
    gnutls_deinit(p->client);
    gnutls_deinit(p->server);
    gnutls_certificate_free_credentials(p->credentials);
    client_tls_destroy(p->tls);
    close(p->fds[0]);
    close(p->fds[1]);
}

/* What the client's handshake comes to, and what it receives behind it. */
static int talk(struct pair *p) {
    int client = GNUTLS_E_AGAIN, server = GNUTLS_E_AGAIN;
    char byte;
    for (int i = 0; i < TURNS_MAX && (client == GNUTLS_E_AGAIN || server == GNUTLS_E_AGAIN); i++) {
        client = client == GNUTLS_E_AGAIN ? gnutls_handshake(p->client) : client;
        server = server == GNUTLS_E_AGAIN ? gnutls_handshake(p->server) : server;
    }
    if (client == 0 && server < 0) { /* TLS 1.3: the server refuses behind the client's back */
        gnutls_alert_send_appropriate(p->server, server);
        client = (int)gnutls_record_recv(p->client, &byte, 1);
    }
    return client;
}

TEST(a_server_is_told_its_name_and_the_protocol) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", "::1"};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct pair p;
        char name[64] = "";
        size_t length = sizeof(name);
        unsigned type;
        gnutls_datum_t protocol;
        pair_begin(&p, hosts[i], &(struct client_tls_files){.insecure = true}, GNUTLS_CERT_IGNORE);
        assert_int_equal(talk(&p), 0);
        int rc = gnutls_server_name_get(p.server, name, &length, &type, 0);
        assert_int_equal(rc, i == 0 ? 0 : GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE); /* no addresses (RFC 6066, 3) */
        assert_string_equal(name, i == 0 ? "localhost" : "");
        assert_int_equal(gnutls_alpn_get_selected_protocol(p.client, &protocol), 0);
        assert_int_equal(protocol.size, 8);
        assert_memory_equal(protocol.data, "http/1.1", 8);
        pair_end(&p);
    }
}

TEST(a_certificate_is_shown_to_who_wants_one) {
    struct client_tls_files files = {.authorities = certificate_path, .certificate = other_path, .key = other_key};
    struct pair p;
    unsigned count = 0;
    pair_begin(&p, "localhost", &files, GNUTLS_CERT_REQUIRE);
    assert_int_equal(talk(&p), 0);
    assert_non_null(gnutls_certificate_get_peers(p.server, &count));
    assert_int_equal(count, 1);
    pair_end(&p);
}

TEST(a_server_that_wants_one_says_so) {
    struct pair p;
    struct sy_error err = {""};
    pair_begin(&p, "localhost", &(struct client_tls_files){.authorities = certificate_path}, GNUTLS_CERT_REQUIRE);
    int rc = talk(&p);
    assert_int_equal(rc, GNUTLS_E_FATAL_ALERT_RECEIVED);
    tls_explain(p.client, rc, "server", &err);
    assert_non_null(strstr(err.text, "the server ended TLS: "));
    tls_explain(p.client, GNUTLS_E_PREMATURE_TERMINATION, "server", &err);
    assert_non_null(strstr(err.text, "TLS failed: "));
    pair_end(&p);
}

TEST(files_that_will_not_do_are_named) {
    static const struct {
        struct client_tls_files files;
        const char *want;
    } cases[] = {
        {{.authorities = "/nowhere.pem"}, "cannot read '/nowhere.pem'"},
        {{.authorities = key_path}, "holds no certificate to trust"},
        {{.certificate = "/nowhere.pem", .key = key_path}, "cannot read '/nowhere.pem'"},
        {{.certificate = certificate_path, .key = other_key}, "cannot be used"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct client_tls *tls;
        struct sy_error err = {""};
        assert_int_equal(client_tls_create(&tls, &cases[i].files, &err), -EINVAL);
        assert_non_null(strstr(err.text, cases[i].want));
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
