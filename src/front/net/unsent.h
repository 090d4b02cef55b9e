/* unsent.h - bytes of answers that clients have not taken, which the frontend keeps, and the client that has lately
 * taken the least.
 *
 * A connection is listed while its socket, or the client's HTTP/2 windows, have not taken all of its answers; other
 * connections cost nothing here. A byte counts as taken once the client's machine has acknowledged it: the kernel takes
 * megabytes at once, even for clients that read nothing. Owned by one frontend's thread. */
#pragma once

#include <stdint.h>

#include "core/util/list.h"
#include "front/net/stream.h"

/* A connection's part; zero at first, except for `link` and `stream`. */
struct unsent {
    struct list_node link;
    struct stream *stream;
    uint64_t handed;  /* bytes of answers that the stream was ever given */
    uint64_t bytes;   /* bytes of answers that are kept now; 0: not listed */
    uint64_t taken;   /* unsent_taken() at the last unsent_look() */
    uint64_t lately;  /* bytes taken until the last unsent_look(); each second counts half as much as the next one */
    int64_t since_ns; /* time since which the connection is listed */
};

/* A frontend's part. */
struct unsent_home {
    struct list_node list; /* listed connections */
    uint64_t bytes;        /* bytes of answers that are kept for them */
};

/* The slow path of unsent_keep(). */
void unsent_changed(struct unsent_home *home, struct unsent *unsent, uint64_t bytes, int64_t now_ns);
/* Notes that `bytes` of answers are kept for the connection now. */
static inline void unsent_keep(struct unsent_home *home, struct unsent *unsent, uint64_t bytes, int64_t now_ns) {
    if (bytes != unsent->bytes)
        unsent_changed(home, unsent, bytes, now_ns);
}
/* Bytes of answers that the client has lately taken, as `lately` counts them. Makes a system call. */
uint64_t unsent_lately(const struct unsent *unsent);
/* Bytes of answers that the client has ever taken. Makes a system call. */
uint64_t unsent_taken(const struct unsent *unsent);
/* Once a second: renews `taken` and `lately` of the listed connections. */
void unsent_look(struct unsent_home *home);
/* The listed connection whose client has lately taken the least; of equal ones, the one that is listed for longest.
 * NULL: fewer than two are listed. Each call looks at no more than UNSENT_LOOKED_AT connections, the next call at the
 * following ones. */
#define UNSENT_LOOKED_AT 256
struct unsent *unsent_least(struct unsent_home *home);
