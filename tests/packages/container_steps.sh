#!/bin/sh
# container_steps.sh STAGE... - runs the RUN lines of these stages of deploy/Containerfile here, one after the other, as root in the
# repository: on a bare Debian, where there is nobody who builds images. What COPY brings is the caller's to bring.
#   container_steps.sh build              builds, and installs into /usr/local
#   container_steps.sh cpu                makes a Debian ready for what is in /usr/local; then starts it as the image does, on a
#                                         file system that cannot be written, and asks it
#   container_steps.sh cuda               the same with the wheel in /tmp/dist (./run wheel). Without a GPU its CPU answers
set -eu
here=$(cd "$(dirname "$0")" && pwd)
for stage; do
    # Lines that end with a backslash go on; a line is one command.
    awk -v stage="$stage" '
        /^#/ { next }
        { text = text $0; if (sub(/\\$/, "", text)) next }
        text ~ /^FROM / { n = split(text, word, " "); inside = word[n] == stage }
        inside && text ~ /^RUN / { print substr(text, 5) }
        { text = "" }' "$here/../../deploy/Containerfile" >/tmp/steps
    [ -s /tmp/steps ] || { echo "container_steps: deploy/Containerfile has no stage $stage that runs anything" >&2 && exit 2; }
    while read -r line; do
        echo "container_steps: $stage: $line"
        sh -c "$line" </dev/null
    done </tmp/steps
done
case $stage in cpu | cuda) ;; *) exit 0 ;; esac

apt-get update -qq && apt-get install -y -qq --no-install-recommends curl >/dev/null
mkdir -p /models
cp "$here/double.onnx" /models/
of_stage() { sed -n "/ AS $stage\$/,/^ENTRYPOINT/p" "$here/../../deploy/Containerfile" | sed -n "$1"; }
command=$(of_stage 's/^ENTRYPOINT \["\(.*\)"\]$/\1/p')
user=$(of_stage 's/^USER //p')
mkdir -p /mnt/image
unshare --mount --propagation unchanged sh -c "mount --bind / /mnt/image && mount --bind /dev /mnt/image/dev && mount --bind /proc /mnt/image/proc &&
    mount -o remount,bind,ro /mnt/image && exec chroot /mnt/image setpriv --reuid=$user --regid=$user --clear-groups --no-new-privs \
    --bounding-set=-all $command serve /models" >/dev/shm/container_steps.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || :' EXIT
n=0
until curl -s --fail -o /dev/null localhost:8000/v2/models/double/ready; do
    n=$((n + 1))
    [ $n -lt 600 ] && kill -0 $server || { cat /dev/shm/container_steps.log >&2 && exit 1; }
    sleep 0.1
done
curl -s localhost:8000/v2/models/double/infer -d '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}'
echo
