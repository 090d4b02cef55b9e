#!/bin/sh
# layers_refuses.sh CHECK - tries cmake/layers.sh on small trees that must pass and that must not.
set -eu
check=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

file_written() {
    : # nothing else
}

run_check() {
    sh "$check" "$tree"
}

. "${0%/*}/refuses.sh"

expect pass "its own folder" sched/core/a.c='#include "sched/core/b.h"'
expect pass "a lower folder" server/process/a.c='#include "core/util/b.h"'
expect pass "a lower folder of its group" sched/policy/a.c='#include "sched/core/b.h"'
expect pass "a generated header" front/v2/a.c='#include "inference.pb-c.h"'
expect pass "a system header" core/util/a.c='#include <sys/socket.h>'
expect refuse "a higher group" sched/core/a.c='#include "front/http/b.h"'
expect refuse "a higher folder of its group" sched/core/a.c='#include "sched/threads/b.h"'
expect refuse "a higher folder in a header, with blanks" core/util/a.h='#  include   "core/data/b.h"'
expect refuse "a folder that is no layer" sched/core/a.c='#include "odd/b.h"'
expect refuse "a folder that is no layer, in a group" sched/core/a.c='#include "core/odd/b.h"'
expect refuse "a file in a folder that is no layer" odd/odd/a.c='#include "core/util/b.h"'
expect refuse "a higher folder, like a header of the system" sched/core/a.c='#include <front/http/b.h>' front/http/b.h=''
expect pass "a header of the system in a folder of such a name" core/util/a.c='#include <net/if.h>'
expect refuse "a way around" sched/core/a.c='#include "../../front/http/b.h"'
expect pass "a door to the lab" server/process/a.c='#include "lab/sim/rehearsal.h"'
expect refuse "a wall of the lab" server/process/a.c='#include "lab/sim/sim.h"'
expect refuse "a door that is not the server's" sched/threads/a.c='#include "lab/sim/rehearsal.h"'
expect refuse "one of many" core/util/a.c='#include "core/util/b.h"' core/data/c.h='#include "sched/core/d.h"' \
    lab/commands/e.c='#include "lab/sim/f.h"'
exit $failed
