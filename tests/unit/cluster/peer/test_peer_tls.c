/* test_peer_tls.c - peers over mutual TLS: frames and bodies as without, in pieces of a byte, and whoever has no
 * certificate of the authority, or speaks no TLS, is sent away with a sentence. */
#include <fcntl.h>

#include "unit/certificate.h"
#include "unit/cluster/peer/peer_rig.h"

static struct tls *ours, *theirs; /* of two authorities */

TEST(bodies_lie_where_they_are_wanted) {
    static const size_t sizes[] = {1, 7, 4096, 4097, 16384, 16385, 100001, BODY_BYTES};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct rig *rig = rig_make(ours);
        char *body = body_make(sizes[i]);
        send_ping(&rig->a, 1);
        send_result(rig, body, sizes[i]);
        send_ping(&rig->a, 2);
        send_ping(&rig->b, 3);
        run(rig);
        assert_int_equal(rig->frames, 4);
        assert_int_equal(rig->bodies, 1);
        assert_int_equal(rig->sent, 1);
        assert_memory_equal(rig->body, body, sizes[i]);
        rig->throw_away = true;
        send_result(rig, body, sizes[i]);
        send_ping(&rig->a, 4);
        run(rig);
        assert_int_equal(rig->frames, 6);
        assert_int_equal(rig->heads[5], 4);
        assert_int_equal(rig->closes, 0);
        assert_int_equal(peer_unsent(&rig->a), 0);
        free(body);
        rig_free(rig);
    }
}

/* Carries a byte each way between two sockets. False: there was none. */
static bool carry(int from, int to) {
    char byte;
    if (recv(from, &byte, 1, MSG_DONTWAIT) != 1)
        return false;
    assert_int_equal(send(to, &byte, 1, 0), 1);
    return true;
}

TEST(records_may_come_in_pieces) {
    struct rig *rig = calloc(1, sizeof(*rig));
    int left[2], right[2];
    static char body[20000];
    memset(body, 'x', sizeof(body));
    rig->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, left), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, right), 0);
    rig_peer(rig, &rig->a, left[0], true, ours);
    rig_peer(rig, &rig->b, right[0], false, ours);
    send_ping(&rig->a, 1);
    send_result(rig, body, sizeof(body));
    send_ping(&rig->a, 2);
    for (bool any = true; any;) {
        any = false;
        while (carry(left[1], right[1])) {
            peer_ready(&rig->b, EPOLLIN, 0);
            any = true;
        }
        while (carry(right[1], left[1])) {
            peer_ready(&rig->a, EPOLLIN, 0);
            any = true;
        }
    }
    assert_int_equal(rig->frames, 3);
    assert_int_equal(rig->bodies, 1);
    assert_memory_equal(rig->body, body, sizeof(body));
    assert_int_equal(rig->closes, 0);
    close(left[1]);
    close(right[1]);
    rig_free(rig);
}

/* The end of a rig that is ours, and a peer that is not, instead of the other one. */
static struct rig *rig_with_other(bool our_server, struct tls *other) {
    struct rig *rig = rig_make(NULL);
    peer_free(&rig->a);
    peer_free(&rig->b);
    for (int i = 0; i < 2; i++)
        assert_int_equal(epoll_ctl(rig->epoll_fd, EPOLL_CTL_DEL, rig->fds[i], NULL), 0);
    rig_peer(rig, &rig->a, rig->fds[0], true, our_server ? other : ours);
    rig_peer(rig, &rig->b, rig->fds[1], false, our_server ? ours : other);
    send_ping(&rig->a, 1);
    run(rig);
    return rig;
}

TEST(another_authority_will_not_do) {
    for (int server = 0; server < 2; server++) {
        struct rig *rig = rig_with_other(server, theirs);
        assert_int_equal(rig->frames, 0);
        assert_int_equal(rig->closes, 2);
        assert_true(strstr(rig->reason, "certificate") || strstr(rig->reason, "ended TLS"));
        rig_free(rig);
    }
}

TEST(who_speaks_plain_text_is_told) {
    struct rig *rig = rig_with_other(true, NULL);
    assert_int_equal(rig->frames, 1); /* what the plain one got; the other got nothing */
    assert_int_equal(rig->kinds[0], FRAME_REFUSED);
    assert_int_equal(rig->closes, 2);
    rig_free(rig);
    rig = rig_with_other(false, NULL);
    assert_int_equal(rig->frames, 0);
    assert_int_equal(rig->closes, 2);
    assert_non_null(strstr(rig->reason, "does not speak TLS")); /* our client's: it was closed last */
    rig_free(rig);
}

TEST(a_handshake_that_stops_gets_no_frame) {
    struct rig *rig = rig_make(ours);
    assert_true(peer_greets(&rig->b));
    assert_false(peer_greets(&rig->a)); /* we are the client */
    peer_ready(&rig->b, EPOLLIN, 0);
    peer_flush(&rig->b);
    assert_true(peer_greets(&rig->b)); /* the client has not shown who it is */
    send_ping(&rig->b, 1);
    peer_flush(&rig->b);
    assert_int_equal(rig->b.out_count, 1); /* it waits */
    peer_ready(&rig->b, EPOLLIN | EPOLLHUP, 0);
    assert_int_equal(rig->closes, 1);
    rig_free(rig);
}

TEST(a_strangers_frames_are_short) {
    for (int known = 0; known < 2; known++) {
        struct rig *rig = rig_make(ours);
        if (known)
            peer_welcome(&rig->b);
        void *head = peer_frame(&rig->a, FRAME_HELLO, 1, 100000, 0);
        memset(head, ' ', 100000);
        run(rig);
        assert_int_equal(rig->frames, known);
        assert_int_equal(rig->b.closed, !known);
        rig_free(rig);
    }
}

/* What TLS of a cluster does not begin with. */
TEST(certificates_that_others_would_refuse) {
    static const struct {
        time_t lasts_s;
        const char *purpose;
        bool other_authority;
        const char *says; /* NULL: it will do */
    } cases[] = {
        {CERTIFICATE_LASTS_S, NULL, false, NULL},
        {-60, NULL, false, "expired"},
        {CERTIFICATE_LASTS_S, GNUTLS_KP_TLS_WWW_SERVER, false, "as a client's"},
        {CERTIFICATE_LASTS_S, GNUTLS_KP_TLS_WWW_CLIENT, false, "as a server's"},
        {CERTIFICATE_LASTS_S, NULL, true, "NOT trusted"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char ca[] = TEXT_FILE, other_ca[] = TEXT_FILE, certificate[] = TEXT_FILE, key[] = TEXT_FILE;
        struct authority authority, other;
        struct sy_error err = {.text = ""};
        struct tls *tls = NULL;
        authority_make(&authority, ca);
        authority_make(&other, other_ca);
        authority_sign(&authority, certificate, key, cases[i].lasts_s, cases[i].purpose);
        const struct tls_files files = {
            .certificate = certificate, .key = key, .ca = cases[i].other_authority ? other_ca : ca, .cluster = true};
        assert_int_equal(tls_create(&tls, &files, &err), cases[i].says ? -EINVAL : 0);
        if (cases[i].says) {
            assert_non_null(strstr(err.text, cases[i].says));
            assert_non_null(strstr(err.text, certificate));
        }
        tls_destroy(tls);
        authority_free(&authority);
        authority_free(&other);
        unlink(ca), unlink(other_ca), unlink(certificate), unlink(key);
    }
}

/* Makes a pipe that holds what the file holds, as a shell does for <(...). Returns the end to read, at `path`. */
static int pipe_of(const char *file, char path[32]) {
    char text[8192];
    int from = open(file, O_RDONLY), ends[2];
    ssize_t bytes = read(from, text, sizeof(text));
    assert_true(bytes > 0 && bytes < (ssize_t)sizeof(text));
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, (size_t)bytes), bytes);
    close(ends[1]);
    close(from);
    snprintf(path, 32, "/dev/fd/%d", ends[0]);
    return ends[0];
}

TEST(files_may_be_pipes_and_are_read_once) {
    char ca[] = TEXT_FILE, certificate[] = TEXT_FILE, key[] = TEXT_FILE, paths[3][32];
    struct authority authority;
    struct sy_error err = {.text = ""};
    struct tls *tls = NULL;
    authority_make(&authority, ca);
    authority_sign(&authority, certificate, key, CERTIFICATE_LASTS_S, NULL);
    const int ends[] = {pipe_of(ca, paths[0]), pipe_of(certificate, paths[1]), pipe_of(key, paths[2])};
    struct tls_files files = {.certificate = paths[1], .key = paths[2], .ca = paths[0], .cluster = true};
    assert_int_equal(tls_create(&tls, &files, &err), 0);
    assert_int_equal(tls_reload(tls, &err), 0);
    tls_destroy(tls);
    files = (struct tls_files){.certificate = certificate, .key = key, .ca = "/dev/zero", .cluster = true};
    assert_int_equal(tls_create(&tls, &files, &err), -EFBIG);
    assert_non_null(strstr(err.text, "/dev/zero"));
    for (size_t i = 0; i < ARRAY_COUNT(ends); i++)
        close(ends[i]);
    authority_free(&authority);
    unlink(ca), unlink(certificate), unlink(key);
}

static struct tls *tls_make(void) {
    char ca[] = TEXT_FILE, certificate[] = TEXT_FILE, key[] = TEXT_FILE;
    struct authority authority;
    struct tls *tls;
    struct sy_error err;
    authority_make(&authority, ca);
    authority_sign(&authority, certificate, key, CERTIFICATE_LASTS_S, NULL);
    const struct tls_files files = {.certificate = certificate, .key = key, .ca = ca, .cluster = true};
    assert_int_equal(tls_create(&tls, &files, &err), 0);
    authority_free(&authority);
    unlink(ca), unlink(certificate), unlink(key);
    return tls;
}

int main(void) {
    ours = tls_make();
    theirs = tls_make();
    int failed = tests_run(NULL, NULL);
    tls_destroy(ours);
    tls_destroy(theirs);
    return failed;
}
