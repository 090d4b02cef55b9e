/* fabric.h - libfabric: reads memory of another process without that process taking part (RMA), over connected
 * endpoints (FI_EP_MSG). The library is loaded at its first use; the program runs without it.
 *
 * The event functions are called by fabric_look(), and by fabric_end_close() for other connections than the closed one;
 * `down` also by fabric_post(). Owned by the link thread, or by the thread that takes its turn, one at a time. Only
 * fabric_open(), fabric_listen() and fabric_region() block. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/util/error.h"

#define FABRIC_FDS 2

struct fabric;
struct fabric_end; /* a connection */

/* None of these functions may close a connection. `of` is the owner's context of a connection. */
struct fabric_events {
    /* A process wants to connect, and shows a secret. Returns the connection's context; NULL: refused, which the log
     * need not say each time. NULL where nobody listens. */
    void *(*asked)(void *owner, const uint64_t secret[2]);
    /* A requested connection is accepted; from then on `of` owns the connection, and closes it. */
    void (*accepted)(void *of, struct fabric_end *end);
    /* A connection is established. */
    void (*up)(void *of);
    /* A connection has failed, or the other side has closed it; `of` closes it later. No further event of this
     * connection comes. */
    void (*down)(void *of, const char *reason);
    /* A piece of a read has arrived, with so many bytes. Pieces come in any order. */
    void (*read)(void *of, uint64_t tag, size_t bytes);
};

/* Memory that others may read, or that reads arrive in. */
struct fabric_region {
    void *mr;       /* libfabric's object */
    uintptr_t base; /* begin of the memory, as registered */
    uintptr_t from; /* begin of the same memory, as this process uses it; may be another mapping */
    size_t bytes;
    uint64_t key;    /* key by which others read the memory */
    uint64_t remote; /* begin of the memory for others */
};

/* Opens a provider ("tcp", "verbs"). 0, or -errno with a sentence: the library or the provider is not here. */
int fabric_open(struct fabric **fabric, const char *provider, const struct fabric_events *events, void *owner,
                struct sy_error *err);
/* Closes everything that is open. NULL is allowed. */
void fabric_close(struct fabric *fabric);
/* Listens for connections at an address of the host (NULL: all of IPv4). *address is then the socket address. 0 or
 * -errno with a sentence. */
int fabric_listen(struct fabric *fabric, const char *host, struct sockaddr_storage *address, struct sy_error *err);
/* Sets the descriptors to be watched for reading; returns their count. */
uint32_t fabric_fds(const struct fabric *fabric, int fds[FABRIC_FDS]);
/* Call it before waiting for the descriptors. False: there are events already. */
bool fabric_may_sleep(struct fabric *fabric);
/* Calls the event functions for all that has happened. */
void fabric_look(struct fabric *fabric);

/* Registers memory. `remote`: others may read it; else reads may arrive in it. `from`: its begin, as this process uses
 * it. 0 or -errno with a sentence. The memory stays registered until fabric_close(). */
int fabric_region(struct fabric *fabric, void *base, uintptr_t from, size_t bytes, bool remote,
                  struct fabric_region *region, struct sy_error *err);

/* Begins to connect. 0 or -errno with a sentence. */
int fabric_connect(struct fabric *fabric, const struct sockaddr *address, const uint64_t secret[2], void *of,
                   struct fabric_end **end, struct sy_error *err);
/* Closes a connection: its reads end, and no further event of this connection comes. NULL is allowed. */
void fabric_end_close(struct fabric_end *end);
/* Reads `bytes` from an address of the other side to `to`, which is in `region`, in pieces of at most
 * FABRIC_PIECE_BYTES. The end of each piece is reported by `read` with the tag, or by `down`. The read begins with the
 * next fabric_look(), together with other reads, or with fabric_post(). 0, or -ENOMEM: nothing is read. */
#define FABRIC_PIECE_BYTES ((size_t)256 * 1024)
int fabric_read(struct fabric_end *end, const struct fabric_region *region, void *to, size_t bytes, uint64_t remote,
                uint64_t key, uint64_t tag);
/* Begins a connection's reads now. */
void fabric_post(struct fabric_end *end);
