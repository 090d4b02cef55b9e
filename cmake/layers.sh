#!/bin/sh
# layers.sh SOURCE_DIR - refuses includes that point upwards. A file may include its own folder and those before it in
# this list, which ARCHITECTURE.md draws; a folder that is not in the list is refused, too. The build runs this check.
set -eu
layers="base tensor image link table engine onnx repository profile prefix sharing plan pipeline sched policy backend request v2 stats net http grpc scenario
    sim peer cluster control load stress report planfile cli"

cd "$1"
find src -mindepth 2 -name '*.[ch]' -exec grep -HnoE '^ *# *include *["<][a-z0-9_.]+/[^">]+[">]' {} + | awk -F: -v layers="$(echo $layers)" '
    BEGIN { for (n = split(layers, names, " "); n > 0; n--) place[names[n]] = n }
    {
        split($1, from, "/")
        split($3, include, "[\"<>]")
        split(include[2], to, "/")
        if (!(include[2] in ours)) ours[include[2]] = !index($3, "<") || system("test -e src/" include[2]) == 0
        if (!ours[include[2]]) next # a header of the system
        if (to[1] ~ /^[.]/) why = "a path that begins with dots"
        else if (!(from[2] in place)) why = "src/" from[2] " is no layer"
        else if (!(to[1] in place)) why = "src/" to[1] " is no layer"
        else if (place[to[1]] > place[from[2]]) why = "src/" from[2] " stands before src/" to[1]
        else next
        print "layers: " $1 ":" $2 ": \"" include[2] "\": " why
        bad = 1
    }
    END { exit bad }' || {
    echo "layers: refused (see ARCHITECTURE.md, the folders)" >&2
    exit 1
}
