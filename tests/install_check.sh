#!/bin/sh
# install_check.sh CMAKE BUILD_DIR - installs into an empty place; the program there must start with the library beside it.
set -eu
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
"$1" --install "$2" --prefix "$prefix" >/dev/null
"$prefix/bin/symphony" --version
if ldd "$prefix/bin/symphony" | grep onnxruntime >"$prefix/linked"; then
    cat "$prefix/linked"
    grep -qE " ($prefix|/usr|/lib)/" "$prefix/linked"
fi
