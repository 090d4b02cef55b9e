/* peers.h - how many connections each address has. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct peers;

/* An address without its port: IPv6, or IPv4 mapped into IPv6; zeros for any other kind. */
struct peer_address {
    uint8_t bytes[16];
};

struct peer_address peer_of(const struct sockaddr *address);

/* Whether it is of this machine: loopback, or no address (a Unix socket). */
bool peer_is_local(const struct peer_address *peer);

/* For at most `connections_max` at once. NULL: no memory. */
struct peers *peers_create(uint32_t connections_max);
/* NULL is allowed. */
void peers_destroy(struct peers *peers);
/* Counts one more connection of this address. False: it has `most` already. */
bool peers_add(struct peers *peers, const struct peer_address *peer, uint32_t most);
/* Counts one less, of those that were added. */
void peers_remove(struct peers *peers, const struct peer_address *peer);
