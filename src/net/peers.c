/* peers.c - addresses and their connections, in a table with open addressing. */
#include "net/peers.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/siphash.h"

struct slot {
    struct peer_address peer;
    uint32_t connections; /* 0: free */
};

struct peers {
    struct siphash_key
        key; /* secret: a client with many addresses could else choose some that collide, and make searches long */
    uint32_t mask;
    struct slot slots[];
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

struct peers *peers_create(uint32_t connections_max) {
    uint32_t count = 16;
    while (count < 2 * connections_max)
        count *= 2;
    struct peers *peers = calloc(1, sizeof(*peers) + count * sizeof(struct slot));
    if (peers && siphash_key_draw(&peers->key) < 0) {
        free(peers);
        return NULL;
    }
    if (peers)
        peers->mask = count - 1;
    return peers;
}

void peers_destroy(struct peers *peers) {
    free(peers);
}

static uint32_t home_of(const struct peers *peers, const struct peer_address *peer) {
    uint64_t halves[2];
    memcpy(halves, peer->bytes, sizeof(halves));
    return (uint32_t)siphash_words(&peers->key, halves, 2) & peers->mask;
}

/* The slot of this address, or the free one where it would be. The table is never more than half full. */
static struct slot *slot_of(struct peers *peers, const struct peer_address *peer) {
    uint32_t at = home_of(peers, peer);
    while (peers->slots[at].connections > 0 && memcmp(&peers->slots[at].peer, peer, sizeof(*peer)) != 0)
        at = (at + 1) & peers->mask;
    return &peers->slots[at];
}

bool peers_add(struct peers *peers, const struct peer_address *peer, uint32_t most) {
    struct slot *slot = slot_of(peers, peer);
    if (slot->connections >= most)
        return false;
    slot->peer = *peer;
    slot->connections++;
    return true;
}

void peers_remove(struct peers *peers, const struct peer_address *peer) {
    struct slot *slot = slot_of(peers, peer);
    CHECK(slot->connections > 0);
    if (--slot->connections > 0)
        return;
    /* later ones move into the hole, unless their home lies behind it */
    uint32_t hole = (uint32_t)(slot - peers->slots);
    for (uint32_t at = (hole + 1) & peers->mask; peers->slots[at].connections > 0; at = (at + 1) & peers->mask) {
        uint32_t home = home_of(peers, &peers->slots[at].peer);
        if (((at - home) & peers->mask) < ((at - hole) & peers->mask))
            continue;
        peers->slots[hole] = peers->slots[at];
        peers->slots[at].connections = 0;
        hole = at;
    }
}
