#!/bin/sh
# upgrade.sh OLD.deb NEW.deb - on a bare Debian, as root: installs an older package, serves a model by its unit's command line, installs
# the newer one over it while clients ask, starts that one, removes and purges it, and looks at what is left. For example in a container:
#   podman run --rm -v "$PWD:/symphony:ro" -w /symphony debian:12 tests/packages/upgrade.sh old/symphony_*.deb dist/symphony_*.deb
set -eu
old=$(realpath "$1") new=$(realpath "$2") here=$(cd "$(dirname "$0")" && pwd)
question='{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}'
fail() {
    echo "upgrade: $*" >&2
    [ ! -e /tmp/serve.log ] || tail -n 20 /tmp/serve.log >&2
    exit 1
}
asked() {
    answer=$(curl -s localhost:8000/v2/models/double/infer -d "$question") || answer=
    case $answer in *'"data":[2.0,4.0,6.0,8.0]'*) ;; *) return 1 ;; esac
}
start() { # as symphony.service does, since a folder with a Debian in it has no systemd
    . /etc/symphony/serve.env
    command=$(sed -n 's/^ExecStart=//p' "$(dpkg -L symphony | grep 'systemd/system/symphony\.service$')" |
        sed "s|\$SYMPHONY_OPTIONS|$SYMPHONY_OPTIONS|")
    mkdir -p /var/cache/symphony
    chown 10001 /var/cache/symphony
    setpriv --reuid=10001 --regid=10001 --clear-groups --no-new-privs --bounding-set=-all $command >/tmp/serve.log 2>&1 &
    server=$!
    n=0
    until asked; do
        n=$((n + 1))
        [ $n -lt 1200 ] && kill -0 $server 2>/dev/null || fail "the server does not answer"
        sleep 0.1
    done
}

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends curl "$old" >/dev/null
before=$(dpkg-query -W -f '${Version}' symphony)
cp "$here/double.onnx" /var/lib/symphony/models/
echo '# mine' >>/etc/symphony/serve.env
start
(while [ ! -e /tmp/over ]; do asked && echo yes || echo no; done >/tmp/answers) &
asker=$!
apt-get install -y -qq --no-install-recommends "$new" >/dev/null
asked || fail "the old server does not answer while the new program is there"
touch /tmp/over
wait $asker
! grep -q no /tmp/answers || fail "$(grep -c no /tmp/answers) questions were not answered during the upgrade"
after=$(dpkg-query -W -f '${Version}' symphony)
[ "$before" != "$after" ] || fail "$after is what was there before: nothing was installed"
grep -q '^# mine' /etc/symphony/serve.env || fail "the operator's options are lost"
kill $server
wait $server || fail "the old server ended with $?"
start
kill $server
wait $server || fail "the new server ended with $?"
echo "upgrade: $before to $after: $(grep -c yes /tmp/answers) questions meanwhile, all answered; $(symphony --version)"

apt-get purge -y -qq symphony >/dev/null 2>&1
left=$(find /etc/symphony /usr/*/symphony* /usr/share/*/symphony* /var/lib/symphony /var/cache/symphony /var/cache/private /lib/systemd/system/symphony* \
    /etc/systemd/system/*/symphony* /var/lib/systemd/deb-systemd-helper-enabled/symphony* ! -type d 2>/dev/null || :)
[ "$left" = /var/lib/symphony/models/double.onnx ] || fail "purged, but there is still: $left"
echo "upgrade: purged, and only the model is left"
