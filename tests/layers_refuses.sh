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

expect pass "its own folder" sched/a.c='#include "sched/b.h"'
expect pass "a lower folder" control/a.c='#include "base/b.h"'
expect pass "a generated header" v2/a.c='#include "inference.pb-c.h"'
expect pass "a system header" base/a.c='#include <sys/socket.h>'
expect refuse "a higher folder" sched/a.c='#include "http/b.h"'
expect refuse "a higher folder in a header, with blanks" base/a.h='#  include   "link/b.h"'
expect refuse "a folder that is no layer" sched/a.c='#include "odd/b.h"'
expect refuse "a file in a folder that is no layer" odd/a.c='#include "base/b.h"'
expect refuse "a higher folder, like a header of the system" sched/a.c='#include <http/b.h>' http/b.h=''
expect pass "a header of the system in a folder of such a name" base/a.c='#include <net/if.h>'
expect refuse "a way around" sched/a.c='#include "../http/b.h"'
expect refuse "one of many" base/a.c='#include "base/b.h"' link/c.h='#include "sched/d.h"' cli/e.c='#include "sim/f.h"'
exit $failed
