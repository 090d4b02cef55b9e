#!/bin/sh
# reproduce_check.sh REPRODUCE FOLDER - runs `reproduce --quick`, and the same with --measured, into the folder, and checks
# that every figure that it lists has data, a plot, and what was published; that one figure alone leaves the others as they
# were; and that the document in virtual time does not depend on the number of threads.
set -eu
reproduce=$1 folder=$2
document=$folder/reproduction.md measured=$folder/reproduction-measured.md

die() {
    echo "reproduce_check: $*" >&2
    exit 1
}

# The figures of the second argument, which the document of the first has.
figures_check() {
    [ -n "$2" ] || die "--list shows no figures for $1"
    for figure in $2; do
        section=$(section_of "$1" "$figure")
        [ -n "$section" ] || die "$figure is not in $1"
        [ "$(wc -l <"$folder/reproduction/$figure.csv")" -ge 3 ] || die "$figure has no data"
        echo "$section" | grep -q '^\*\*Published\.\*\* .' || die "$figure does not say what was published"
        echo "$section" | grep -q "(reproduction/$figure.svg)" || die "$figure does not show its plot"
        grep -q '</svg>' "$folder/reproduction/$figure.svg" || die "$figure has no plot"
        # A busy machine may not have the time in which threads are measured without a pause.
        [ "$1" = "$measured" ] || ! grep -Eq '(^|,) *-?(nan|inf)' "$folder/reproduction/$figure.csv" || die "$figure has numbers that are none"
    done
}

section_of() {
    awk -v heading="### <a id=\"$2\"></a>" '/^##/ { shown = index($0, heading) == 1 } shown' "$1"
}

rm -rf "$folder"
"$reproduce" --quick --output "$folder"
"$reproduce" --quick --measured --output "$folder"
figures=$("$reproduce" --list | grep -v '(--measured)$' | cut -d ' ' -f 1)
figures_measured=$("$reproduce" --list | grep '(--measured)$' | cut -d ' ' -f 1)
figures_check "$document" "$figures"
figures_check "$measured" "$figures_measured"

cp "$document" "$folder/before.md"
set -- $figures
"$reproduce" --quick --jobs 1 --output "$folder" "$1"
cmp "$folder/before.md" "$document" || die "the document depends on the number of threads, or lost the other figures"

cp "$measured" "$folder/before.md"
set -- $figures_measured
"$reproduce" --quick --measured --output "$folder" "$1"
section_of "$folder/before.md" "$2" | grep -q . || die "the measured document had no $2"
[ "$(section_of "$folder/before.md" "$2")" = "$(section_of "$measured" "$2")" ] || die "$1 measured again changed $2"
if "$reproduce" --output "$folder" "$1" 2>/dev/null; then
    die "a measured figure is taken for one in virtual time"
fi
if "$reproduce" --output "$folder" no-such-figure 2>/dev/null; then
    die "a figure that does not exist is no mistake"
fi
