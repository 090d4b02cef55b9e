#!/bin/sh
# first_answer.sh PACKAGE - installs a package of ./run wheel or ./run deb on a bare Debian, as root, serves a model as the documents say,
# asks it, and says how long each step took. The Debian package's service is started by its unit's own command line, as a user without
# rights, since a folder with a Debian in it has no systemd. For example in a container:
#   podman run --rm -v "$PWD:/symphony:ro" -w /symphony debian:12 tests/packages/first_answer.sh dist/symphony_*.deb
set -eu
package=$1 here=$(cd "$(dirname "$0")" && pwd)
began=$(date +%s)
step() {
    now=$(date +%s)
    echo "first answer: $((now - began)) s: $*"
}
fail() {
    echo "first answer: $*" >&2
    [ ! -e /tmp/serve.log ] || tail -n 20 /tmp/serve.log >&2
    exit 1
}

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
case $package in
*.deb)
    apt-get install -y -qq --no-install-recommends curl "$(realpath "$package")" >/dev/null
    step "installed $package"
    unit=$(dpkg -L symphony | grep 'systemd/system/symphony\.service$')
    cp "$here/double.onnx" /var/lib/symphony/models/
    . /etc/symphony/serve.env # as the unit's EnvironmentFile
    mkdir -p /var/cache/symphony
    chown 10001 /var/cache/symphony
    command=$(sed -n 's/^ExecStart=//p' "$unit" | sed "s|\$SYMPHONY_OPTIONS|$SYMPHONY_OPTIONS|")
    setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs --bounding-set=-all $command >/tmp/serve.log 2>&1 &
    ;;
*.whl)
    apt-get install -y -qq --no-install-recommends curl ca-certificates python3-venv >/dev/null
    step "installed python3-venv"
    python3 -m venv /opt/symphony
    /opt/symphony/bin/pip install -q "$package"
    step "installed $package"
    mkdir -p /srv/models
    cp "$here/double.onnx" /srv/models/
    /opt/symphony/bin/symphony serve /srv/models >/tmp/serve.log 2>&1 &
    ;;
*) fail "$package is neither a wheel nor a Debian package" ;;
esac
server=$!
trap 'kill $server 2>/dev/null || :' EXIT
until curl -s -o /dev/null --fail localhost:8000/v2/models/double/ready; do
    kill -0 $server 2>/dev/null || fail "the server ended"
    [ $(($(date +%s) - began)) -lt 900 ] || fail "the model is not ready"
    sleep 0.1
done
answer=$(curl -s localhost:8000/v2/models/double/infer -d '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}')
case $answer in *'"data":[2.0,4.0,6.0,8.0]'*) ;; *) fail "the answer is $answer" ;; esac
step "$answer"
kill $server
wait $server || fail "the server ended with $?"
step "ended"
