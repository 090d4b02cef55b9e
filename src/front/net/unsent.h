/* unsent.h - answers that clients have not taken: how many bytes a frontend keeps for them, and whose client has taken
 * the least of late.
 *
 * A connection is listed from when its socket, or the client's HTTP/2 windows, did not take an answer at once until
 * all of it has gone; others cost nothing here. What counts as taken is what the client's machine has acknowledged: the
 * kernel takes megabytes at once, for clients that read nothing, too. One frontend's thread. */
#pragma once

#include <stdint.h>

#include "core/util/list.h"
#include "front/net/stream.h"

/* Of a connection; zeroed, but for `link` and `stream`. */
struct unsent {
    struct list_node link;
    struct stream *stream;
    uint64_t handed; /* bytes of answers that the stream was given, in all */
    uint64_t bytes;  /* of answers that are kept */
    uint64_t taken;  /* what unsent_taken() was when it was looked at last, */
    uint64_t lately; /* and what was taken of late: each second counts half as much as the next one */
    int64_t since_ns;
};

/* Of a frontend. */
struct unsent_home {
    struct list_node list;
    uint64_t bytes;
};

/* The slow path of unsent_keep(). */
void unsent_changed(struct unsent_home *home, struct unsent *unsent, uint64_t bytes, int64_t now_ns);
/* So many bytes of answers are kept for the connection now. */
static inline void unsent_keep(struct unsent_home *home, struct unsent *unsent, uint64_t bytes, int64_t now_ns) {
    if (bytes != unsent->bytes)
        unsent_changed(home, unsent, bytes, now_ns);
}
/* How many bytes of answers its client has taken of late. A system call. */
uint64_t unsent_lately(const struct unsent *unsent);
/* How many bytes of answers its client has taken in all. A system call. */
uint64_t unsent_taken(const struct unsent *unsent);
/* Once a second: what was taken since. */
void unsent_look(struct unsent_home *home);
/* The listed connection whose client has taken the least of late, of equal ones the one that is listed for longest.
 * NULL: none, or only one is listed. Where more than UNSENT_LOOKED_AT are listed it looks at so many, each time at
 * others. */
#define UNSENT_LOOKED_AT 256
struct unsent *unsent_least(struct unsent_home *home);
