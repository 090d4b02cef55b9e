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

/* An address that has connections, or requests that have outlived their connections. The struct does not move as long
 * as the address has any. */
struct peer {
    struct peer_address address;
    uint32_t connections;
    uint32_t requests; /* requests that have a slot; counted where slots are taken and given back */
    uint32_t next;     /* index of the next address with the same hash, or of the next free one */
};

struct peer_address peer_of(const struct sockaddr *address);

/* Whether the address is of this machine: loopback, or no address (a Unix socket). */
bool peer_is_local(const struct peer_address *peer);

/* For at most so many connections and requests at once. NULL: no memory. */
struct peers *peers_create(uint32_t connections_max, uint32_t requests_max);
/* NULL is allowed. */
void peers_destroy(struct peers *peers);
/* Counts one more connection of this address. False: the address has `most` connections already. */
bool peers_add(struct peers *peers, const struct peer_address *address, uint32_t most);
/* Counts one connection less of this address. */
void peers_remove(struct peers *peers, const struct peer_address *address);
/* The counts of an address that has a connection. */
struct peer *peers_find(struct peers *peers, const struct peer_address *address);
