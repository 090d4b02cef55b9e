#!/bin/sh
# layers.sh SOURCE_DIR - refuses includes that point upwards. A file may include its own folder and those before it in
# this list, which ARCHITECTURE.md draws; a folder that is not in the list is refused, too. Only through these doors does
# what comes before the lab see the lab. The build runs this check.
set -eu
layers="
    core/util core/system core/data
    model/engine model/config model/onnx model/repository model/profile model/prefix
    sched/plan sched/core sched/policy sched/threads
    front/bulk front/request front/net front/v2 front/http front/grpc
    back/engine back/executor
    cluster/peer cluster/membership cluster/roles
    server/threads server/models server/load server/stats server/process server/commands
    lab/scenario lab/sim lab/load lab/planfile lab/report lab/stress lab/commands"
doors="lab/scenario/scenario.h lab/sim/rehearsal.h" # for the server: emulated models, and rehearsals

cd "$1"
find src -mindepth 2 -name '*.[ch]' -exec grep -HnoE '^ *# *include *["<][a-z0-9_.]+/[^">]+[">]' {} + |
    awk -F: -v layers="$(echo $layers)" -v doors=" $doors " '
    function folder(path) { return match(path, "^[^/]*/[^/]*/") ? substr(path, 1, RLENGTH - 1) : "" }
    BEGIN { for (n = split(layers, names, " "); n > 0; n--) place[names[n]] = n }
    {
        from = folder(substr($1, length("src/") + 1))
        split($3, include, "[\"<>]")
        to = folder(include[2])
        if (!(include[2] in ours)) ours[include[2]] = !index($3, "<") || system("test -e src/" include[2]) == 0
        if (!ours[include[2]]) next # a header of the system
        if (include[2] ~ /^[.]/) why = "a path that begins with dots"
        else if (!(from in place)) why = "src/" from " is no layer"
        else if (!(to in place)) why = "src/" to " is no layer"
        else if (from ~ "^server/" && index(doors, " " include[2] " ")) next
        else if (place[to] > place[from]) why = "src/" from " stands before src/" to
        else next
        print "layers: " $1 ":" $2 ": \"" include[2] "\": " why
        bad = 1
    }
    END { exit bad }' || {
    echo "layers: refused (see ARCHITECTURE.md, the folders)" >&2
    exit 1
}
