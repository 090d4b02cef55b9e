/* peers.h - how many connections, and requests, each address has. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct peers;

/* An address without its port: IPv6, or IPv4 mapped into IPv6; zeros for any other kind. */
struct peer_address {
    uint8_t bytes[16];
};

/* An address that has a connection, or requests that have outlived theirs. It stays in its place as long. */
struct peer {
    struct peer_address address;
    uint32_t connections;
    uint32_t requests; /* with a slot; counted by who takes and gives slots */
    uint32_t next;     /* of those with the same hash, or of the free ones */
};

struct peer_address peer_of(const struct sockaddr *address);

/* Whether it is of this machine: loopback, or no address (a Unix socket). */
bool peer_is_local(const struct peer_address *peer);

/* For at most so many at once. NULL: no memory. */
struct peers *peers_create(uint32_t connections_max, uint32_t requests_max);
/* NULL is allowed. */
void peers_destroy(struct peers *peers);
/* Counts one more connection of this address. False: it has `most` already. */
bool peers_add(struct peers *peers, const struct peer_address *address, uint32_t most);
/* Counts one less, of those that were added. */
void peers_remove(struct peers *peers, const struct peer_address *address);
/* One that has a connection. */
struct peer *peers_find(struct peers *peers, const struct peer_address *address);
