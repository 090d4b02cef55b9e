/* link_tally.h - what became of the requests that went over the connections with each peer, by the peer's role and
 * name: it outlives the connections, as requests are lost when one ends. Owned by the link thread. */
#pragma once

#include <stdint.h>

#include "cluster/peer/hello.h"

#define LINK_TALLIES_MOST 4096 /* peers that are told apart; later ones are counted together, as number 0 */

enum link_count {
    LINK_PULLED, /* inputs went over the connection; a scheduler counts none */
    LINK_LATE,   /* scheduler: the backend's run ended late; frontend: the same; backend: the frontend's inputs did not
                    come in time */
    LINK_LOST,   /* scheduler: the backend or the frontend had it; frontend: the backend had it; backend: it did not get
                    the inputs from the frontend, or could not give it the answer */
    LINK_COUNTS,
};

struct link_tally {
    enum cluster_role role; /* role of the peer */
    char name[HELLO_NAME_MAX];
    uint64_t counts[LINK_COUNTS]; /* requests, by enum link_count */
};

/* Zeroed at first. */
struct link_tallies {
    struct link_tally *of; /* [count] number i + 1 */
    uint32_t count, room;
    struct link_tally others; /* number 0 */
};

void link_tallies_free(struct link_tallies *tallies);
/* The number of a peer's tally, which stays the same. */
uint32_t link_tally_of(struct link_tallies *tallies, enum cluster_role role, const char *name);

static inline struct link_tally *link_tally_at(struct link_tallies *tallies, uint32_t number) {
    return number ? &tallies->of[number - 1] : &tallies->others;
}
