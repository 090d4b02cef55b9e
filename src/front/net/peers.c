/* peers.c - addresses and their counts, in a hash table whose records do not move. */
#include "front/net/peers.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/assert.h"
#include "core/util/siphash.h"

#define NONE UINT32_MAX

struct peers {
    struct siphash_key key; /* secret key of the hash: without it a client with many addresses could choose some that
                               collide, and make searches long */
    uint32_t mask;
    uint32_t count, fresh, free; /* number of records; first record that was never used; first of the free ones */
    struct peer *records;
    uint32_t heads[];
};

struct peer_address peer_of(const struct sockaddr *address) {
    struct peer_address peer = {{0}};
    if (address->sa_family == AF_INET6) {
        memcpy(peer.bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, sizeof(peer.bytes));
    } else if (address->sa_family == AF_INET) {
        memset(peer.bytes + 10, 0xff, 2);
        memcpy(peer.bytes + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
    }
    return peer;
}

bool peer_is_local(const struct peer_address *peer) {
    static const struct peer_address none, loopback = {.bytes = {[15] = 1}};
    static const uint8_t mapped[] = {[10] = 0xff, [11] = 0xff, [12] = 127};
    return memcmp(peer, &none, sizeof(none)) == 0 || memcmp(peer, &loopback, sizeof(loopback)) == 0 ||
           memcmp(peer->bytes, mapped, sizeof(mapped)) == 0;
}

struct peers *peers_create(uint32_t connections_max, uint32_t requests_max) {
    uint32_t count = connections_max + requests_max, heads = 16;
    while (heads < count)
        heads *= 2;
    struct peers *peers = malloc(sizeof(*peers) + heads * sizeof(peers->heads[0]));
    if (!peers)
        return NULL;
    *peers = (struct peers){.mask = heads - 1, .count = count, .free = NONE};
    memset(peers->heads, 0xff, heads * sizeof(peers->heads[0]));
    peers->records = calloc(count, sizeof(peers->records[0])); /* pages take no memory until they are used */
    if (!peers->records || siphash_key_draw(&peers->key) < 0) {
        peers_destroy(peers);
        return NULL;
    }
    return peers;
}

void peers_destroy(struct peers *peers) {
    if (!peers)
        return;
    free(peers->records);
    free(peers);
}

static uint32_t *head_of(struct peers *peers, const struct peer_address *address) {
    uint64_t halves[2];
    memcpy(halves, address->bytes, sizeof(halves));
    return &peers->heads[(uint32_t)siphash_words(&peers->key, halves, 2) & peers->mask];
}

struct peer *peers_find(struct peers *peers, const struct peer_address *address) {
    for (uint32_t at = *head_of(peers, address); at != NONE; at = peers->records[at].next)
        if (memcmp(&peers->records[at].address, address, sizeof(*address)) == 0)
            return &peers->records[at];
    return NULL;
}

/* Frees a record if its address has neither connections nor requests. */
static void forget(struct peers *peers, struct peer *peer) {
    uint32_t index = (uint32_t)(peer - peers->records), *at = head_of(peers, &peer->address);
    if (peer->connections > 0 || peer->requests > 0)
        return;
    while (*at != NONE && *at != index)
        at = &peers->records[*at].next;
    if (*at == NONE)
        return; /* the record is free already */
    *at = peer->next;
    peer->next = peers->free;
    peers->free = index;
}

static struct peer *record_take(struct peers *peers) {
    if (peers->free == NONE &&
        peers->fresh == peers->count) /* requests have ended that had outlived their connections */
        for (uint32_t i = 0; i < peers->count; i++)
            forget(peers, &peers->records[i]);
    if (peers->free == NONE) {
        CHECK_LT(peers->fresh, peers->count);
        return &peers->records[peers->fresh++];
    }
    struct peer *peer = &peers->records[peers->free];
    peers->free = peer->next;
    return peer;
}

bool peers_add(struct peers *peers, const struct peer_address *address, uint32_t most) {
    struct peer *peer = peers_find(peers, address);
    if (peer && peer->connections >= most)
        return false;
    if (!peer) {
        uint32_t *head = head_of(peers, address);
        peer = record_take(peers);
        *peer = (struct peer){.address = *address, .next = *head};
        *head = (uint32_t)(peer - peers->records);
    }
    peer->connections++;
    return true;
}

void peers_remove(struct peers *peers, const struct peer_address *address) {
    struct peer *peer = peers_find(peers, address);
    CHECK(peer && peer->connections > 0);
    peer->connections--;
    forget(peers, peer);
}
