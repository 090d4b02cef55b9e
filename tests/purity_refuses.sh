#!/bin/sh
# purity_refuses.sh CHECK CC NM - tries cmake/purity.sh on small trees that must pass and that must not.
set -eu
check=$1 cc=$2 nm=$3
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
tree="$top/a blank"
mkdir "$tree"

file_written() {
    case $1 in *.c) "$cc" -w -O2 -c "$1" -o "$1.o" ;; esac
}

run_check() {
    sh "$check" "$nm" "$tree" "$tree"/src/*/*/*.c.o
}

. "${0%/*}/refuses.sh"

helper='#include <time.h>
long helper(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_nsec; }'
calls_helper='long helper(void); long core(void) { return helper(); }'

expect pass "arithmetic" sched/core/a_core.c='int core(int a) { return a + 1; }'
expect pass "a harmless helper" sched/core/a_core.c="$calls_helper" core/util/helper.c='long helper(void) { return 1; }'
expect refuse "a clock" sched/core/a_core.c="$helper"
expect refuse "a clock behind a helper" sched/core/a_core.c="$calls_helper" core/util/helper.c="$helper"
expect pass "a clock in a shell" sched/threads/a.c="$helper"
expect refuse "malloc in a core" sched/core/a_core.c='void *malloc(unsigned long); void *core(void) { return malloc(9); }'
expect refuse "malloc in the queue" sched/core/deadline_queue.c='void *malloc(unsigned long); void *q(void) { return malloc(9); }'
expect refuse "a clock in the election" cluster/membership/election.c="$helper"
expect pass "a clock elsewhere in its folder" cluster/membership/registry.c="$helper"
expect pass "malloc in the simulator" lab/sim/a.c='void *malloc(unsigned long); void *sim(void) { return malloc(9); }'
expect refuse "a clock in what bounds a peer's clock" core/data/clock_sync.c="$helper"
expect pass "a clock beside it" core/data/other.c="$helper"
expect refuse "rand in the simulator" lab/sim/a.c='int rand(void); int sim(void) { return rand(); }'
expect refuse "a lock" lab/sim/a.c='int pthread_mutex_lock(void *); int sim(void *m) { return pthread_mutex_lock(m); }'
expect refuse "a cycle counter" sched/core/a_core.c='long core(void) { return 0 /* rdtsc */; }'
expect refuse "the clock header in a core's header" sched/core/a_core.c='int core(void) { return 1; }' \
    sched/core/a_core.h='#include "core/system/clock.h"'
exit $failed
