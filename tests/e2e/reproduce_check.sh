#!/bin/sh
# reproduce_check.sh REPRODUCE FOLDER - runs `reproduce --quick` into the folder, and checks that every figure that it
# lists has a table, a plot, and what was published; that one figure alone leaves the others as they were; and that the
# document does not depend on the number of threads.
set -eu
reproduce=$1 folder=$2
document=$folder/reproduction.md

die() {
    echo "reproduce_check: $*" >&2
    exit 1
}

rm -rf "$folder"
"$reproduce" --quick --output "$folder"
figures=$("$reproduce" --list | cut -d ' ' -f 1)
[ -n "$figures" ] || die "--list shows no figures"
for figure in $figures; do
    section=$(sed -n "/^<!-- begin $figure -->$/,/^<!-- end $figure -->$/p" "$document")
    [ -n "$section" ] || die "$figure is not in the document"
    echo "$section" | grep -q '^|---|' || die "$figure has no table"
    echo "$section" | grep -q '^\*\*Published\.\*\* .' || die "$figure does not say what was published"
    echo "$section" | grep -q "(reproduction/$figure.svg)" || die "$figure does not show its plot"
    grep -q '</svg>' "$folder/reproduction/$figure.svg" || die "$figure has no plot"
    ! echo "$section" | grep -Eq '\| *-?(nan|inf)' || die "$figure has numbers that are none"
done

cp "$document" "$folder/before.md"
set -- $figures
"$reproduce" --quick --jobs 1 --output "$folder" "$1"
cmp "$folder/before.md" "$document" || die "the document depends on the number of threads, or lost the other figures"
if "$reproduce" --output "$folder" no-such-figure 2>/dev/null; then
    die "a figure that does not exist is no mistake"
fi
