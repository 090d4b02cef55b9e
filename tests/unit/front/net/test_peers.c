/* test_peers.c - connections by address, against a plain list. */
#include "front/net/peers.h"

#include <arpa/inet.h>

#include "core/util/rng.h"
#include "unit/test.h"

#define ADDRESSES 40
#define MOST      3

static struct peer_address peer_number(uint32_t number) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(number)};
    return peer_of((struct sockaddr *)&address);
}

TEST(loopback_is_local) {
    static const struct {
        const char *address;
        bool local;
    } rows[] = {{"127.0.0.1", true},        {"127.255.0.9", true},  {"128.0.0.1", false}, {"10.0.0.1", false},
                {"0.0.0.0", false},         {"::1", true},          {"::2", false},       {"fe80::1", false},
                {"::ffff:127.0.0.1", true}, {"::127.0.0.1", false}, {"7f00::", false},    {"2001:db8::1", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        bool four = inet_pton(AF_INET, rows[i].address, &v4.sin_addr) == 1;
        assert_true(four || inet_pton(AF_INET6, rows[i].address, &v6.sin6_addr) == 1);
        struct peer_address peer = peer_of(four ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6);
        assert_int_equal(peer_is_local(&peer), rows[i].local);
    }
    struct peer_address peer = peer_of(&(struct sockaddr){.sa_family = AF_UNIX});
    assert_true(peer_is_local(&peer));
}

TEST(an_address_has_so_many_and_no_more) {
    struct peers *peers = peers_create(ADDRESSES * MOST, 0);
    uint32_t counts[ADDRESSES] = {0};
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 100000; i++) {
        uint32_t n = (uint32_t)(rng_next(&rng) % ADDRESSES);
        struct peer_address peer = peer_number(n * 7);
        if (rng_next(&rng) % 2) {
            assert_int_equal(peers_add(peers, &peer, MOST), counts[n] < MOST);
            counts[n] += counts[n] < MOST;
        } else if (counts[n] > 0) {
            peers_remove(peers, &peer);
            counts[n]--;
        }
    }
    for (uint32_t n = 0; n < ADDRESSES; n++) {
        struct peer_address peer = peer_number(n * 7);
        for (; counts[n] < MOST; counts[n]++)
            assert_true(peers_add(peers, &peer, MOST));
        assert_false(peers_add(peers, &peer, MOST));
    }
    peers_destroy(peers);
}

/* A request may go on when its client has left. */
TEST(who_has_a_request_stays) {
    struct peers *peers = peers_create(1, 1);
    struct peer_address one = peer_number(1), two = peer_number(2), three = peer_number(3);
    assert_true(peers_add(peers, &one, MOST));
    struct peer *peer = peers_find(peers, &one);
    peer->requests++;
    peers_remove(peers, &one);
    assert_true(peers_add(peers, &two, MOST));
    assert_ptr_equal(peers_find(peers, &one), peer);
    assert_true(peers_add(peers, &one, MOST));
    assert_int_equal(peer->connections, 1);
    peers_remove(peers, &one);
    peers_remove(peers, &two);
    peer->requests--;
    assert_true(peers_add(peers, &two, MOST));
    peers_find(peers, &two)->requests++;
    peers_remove(peers, &two);
    assert_true(peers_add(peers, &three, MOST)); /* in the place of the first */
    assert_null(peers_find(peers, &one));
    assert_int_equal(peers_find(peers, &two)->requests, 1);
    peers_destroy(peers);
}

TEST(addresses_are_told_apart) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = 1};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = 2};
    inet_pton(AF_INET6, "::ffff:10.0.0.1", &six.sin6_addr);
    inet_pton(AF_INET, "10.0.0.1", &four.sin_addr);
    struct peer_address a = peer_of((struct sockaddr *)&six), b = peer_of((struct sockaddr *)&four);
    assert_memory_equal(&a, &b, sizeof(a));
    inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr);
    a = peer_of((struct sockaddr *)&six);
    assert_memory_not_equal(&a, &b, sizeof(a));
}
