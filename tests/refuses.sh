# refuses.sh - for the tests of checks: tries a check on small trees that must pass and that must not. A script that
# reads this file sets $tree, and defines run_check, which runs the check there, and file_written FILE, which prepares
# a file.
failed=0

# expect pass|refuse WHAT FILE=TEXT...
expect() {
    wanted=$1 what=$2
    shift 2
    rm -rf "$tree/src"
    for pair; do
        file=$tree/src/${pair%%=*}
        mkdir -p "${file%/*}"
        printf '%s\n' "${pair#*=}" >"$file"
        file_written "$file"
    done
    got=pass
    run_check >"$tree/out" 2>&1 || got=refuse
    if [ $got != "$wanted" ]; then
        echo "$what: wanted $wanted, got $got"
        cat "$tree/out"
        failed=1
    fi
}
