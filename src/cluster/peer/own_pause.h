/* own_pause.h - whether this process was itself away: stopped, its virtual machine frozen, or without a core.
 *
 * A process that waits for heartbeats calls own_pause_look() often. A long time between two calls means that the
 * process was away and read nothing, so that silence proves nothing: heartbeats may lie in its sockets, or the other
 * processes may have been stopped, too. So a process that was away takes nobody for dead until it has been back for a
 * while. A process that is away again and again takes nobody for dead at all. Reads no clock. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct own_pause {
    int64_t looked_ns; /* time of the last look; at first, begin of the wait for heartbeats */
    int64_t judge_ns;  /* time before which nobody is taken for dead */
};

/* Takes a look; `now_ns` never decreases. True: the process was away, since the last look is more than `apart_ns` ago;
 * nobody is then taken for dead for `wait_ns` from now on. */
static inline bool own_pause_look(struct own_pause *pause, int64_t now_ns, int64_t apart_ns, int64_t wait_ns) {
    bool away = now_ns - pause->looked_ns > apart_ns;
    pause->looked_ns = now_ns;
    if (away)
        pause->judge_ns = now_ns + wait_ns;
    return away;
}
