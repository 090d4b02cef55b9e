/* own_pause.h - whether this process was itself away: stopped, its virtual machine frozen, or without a core.
 *
 * A process that waits for heartbeats looks at the clock often. If it did not for a while, it read nothing meanwhile
 * either, and silence proves nothing: the heartbeats may lie in its sockets, or the others may have been stopped with
 * it. So it takes nobody for dead until it has been back for a while. A process that is away again and again takes
 * nobody for dead at all. Reads no clock. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct own_pause {
    int64_t looked_ns; /* the last look; at first, when it began to wait */
    int64_t judge_ns;  /* nobody is taken for dead before */
};

/* A look; `now_ns` never decreases. True: the process was away just now, since the last look is more than `apart_ns`
 * ago; it then waits `wait_ns` from now until it judges. */
static inline bool own_pause_look(struct own_pause *pause, int64_t now_ns, int64_t apart_ns, int64_t wait_ns) {
    bool away = now_ns - pause->looked_ns > apart_ns;
    pause->looked_ns = now_ns;
    if (away)
        pause->judge_ns = now_ns + wait_ns;
    return away;
}
