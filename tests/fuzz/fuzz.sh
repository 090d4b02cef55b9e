#!/bin/sh
# fuzz.sh TARGET KEPT FOUND RUNS - gives a target its kept inputs and RUNS inputs drawn from SYMPHONY_SEED on: the same ones each time.
# With SYMPHONY_FUZZ_SECONDS it draws for so long instead, and what is new stays in FOUND for the next time.
set -eu
mkdir -p "$3"
if [ -n "${SYMPHONY_FUZZ_SECONDS-}" ]; then
    exec "$1" -max_total_time="$SYMPHONY_FUZZ_SECONDS" -timeout=60 -artifact_prefix="$3/" "$3" "$2"
fi
new=$(mktemp -d) # libFuzzer writes what is new into the first folder
trap 'rm -rf "$new"' EXIT
"$1" -seed="${SYMPHONY_SEED-1}" -runs="$4" -timeout=60 -artifact_prefix="$3/" "$new" "$2" || {
    status=$?
    echo "fuzz.sh: SYMPHONY_SEED=${SYMPHONY_SEED-1} ./run test fuzz/$(basename "$2") repeats it; the input is in $3"
    exit $status
}
