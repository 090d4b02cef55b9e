#!/bin/sh
# deploy.sh SOURCE_DIR SYMPHONY PYTHON - checks deploy/ without running it (e2e/test_deploy.py does): systemd's own check of the units, and
# deploy_check.py. A tool that is missing is a failure.
set -eu
source=$1 symphony=$2 python=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "deploy: $*" >&2
    exit 1
}
command -v systemd-analyze >/dev/null || fail "no systemd-analyze: install the packages that ./run test installs"
"$python" -c 'import kubernetes_validate' || fail "no kubernetes-validate: ./run makes a Python that has it"

for role in scheduler frontend backend serve; do
    "$symphony" $role --help >"$work/$role.help"
    # The unit, with a program that is there, and its example of options.
    unit=symphony-$role.service
    [ $role != serve ] || unit=symphony.service
    sed -e "s|/usr/local/bin/symphony\(-server\)\{0,1\} |$symphony |" "$source/deploy/systemd/$unit" >"$work/symphony-$role.service"
    systemd-analyze verify --man=no "$work/symphony-$role.service" >"$work/verify" 2>&1 || {
        cat "$work/verify" >&2
        fail "systemd refuses symphony-$role.service"
    }
    [ ! -s "$work/verify" ] || {
        cat "$work/verify" >&2
        fail "systemd complains of symphony-$role.service"
    }
    # Of 100: how much of the machine a unit may harm. 30 leaves little but the network, and a backend its devices.
    systemd-analyze security --offline=true --threshold=30 --no-pager "$work/symphony-$role.service" >"$work/security" 2>&1 || {
        cat "$work/security" >&2
        fail "symphony-$role.service may do too much"
    }
done
"$python" -B "$source/tests/deploy_check.py" "$source" "$work" "$symphony"
