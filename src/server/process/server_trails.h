/* server_trails.h - the trails that this process's frontends keep: read as they are noted, and as JSON. */
#pragma once

#include "core/data/trail.h"
#include "core/util/text.h"
#include "front/v2/requests_answer.h"
#include "server/threads/model_list.h"

/* Reads the trails of all frontends as they are noted. One thread's. */
struct trail_follower {
    struct model_list *models;
    uint32_t first, end; /* rings of each frontend that are read: first..end-1 */
    uint64_t *next;      /* [frontends][end - first] numbers of the trails to be read next */
    uint32_t ring;       /* index in `next` of the ring that is read */
    uint64_t lost;       /* trails that were overwritten before they were read; its reader adds those not written */
    int64_t said_ns;     /* time of the last trail_follower_missing() that was not 0 */
};

/* `traced`: reads the trails that are traced; else all others. 0 or -ENOMEM; free it in either case. */
int trail_follower_init(struct trail_follower *follower, struct model_list *models, bool traced);
void trail_follower_free(struct trail_follower *follower);
/* Reads up to `most` further trails, of one ring. 0: there were no more; the next call begins a new round. */
uint64_t trail_follower_read(struct trail_follower *follower, struct trail *into, uint64_t most);
/* How many lost trails are to be said now: once a minute, and the `last` time, those since the call before that was not
 * 0. */
uint64_t trail_follower_missing(struct trail_follower *follower, bool last);

/* What is to be added to a time of CLOCK_MONOTONIC for nanoseconds since 1970. */
int64_t server_trails_wall_ns(void);
/* What the numbers of a trail stand for. The list is locked (model_list_lock()) for as long as the names are used.
 * `wall_ns`: as server_trails_wall_ns(). */
struct trail_names server_trail_names(const struct model_list *list, const struct trail *trail, int64_t wall_ns);
