#!/bin/sh
# install_check.sh CMAKE BUILD_DIR - installs into an empty place; the program there must start with the library beside it,
# and the documents must have all the files that they link to.
set -eu
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
"$1" --install "$2" --prefix "$prefix" >/dev/null
"$prefix/bin/symphony" --version
if ldd "$prefix/bin/symphony" | grep onnxruntime >"$prefix/linked"; then
    cat "$prefix/linked"
    grep -qE " ($prefix|/usr|/lib)/" "$prefix/linked"
fi

cd "$prefix/share/doc/symphony"
# What units of systemd name, when the prefix is /usr/local.
sed -n 's|^Documentation=file:///usr/local/share/doc/symphony/||p' deploy/systemd/*.service | sort -u >"$prefix/named"
[ -s "$prefix/named" ]
while read -r file; do
    [ -e "$file" ] || { echo "install: a unit names $file, which is not there" >&2 && exit 1; }
done <"$prefix/named"
find . -name '*.md' | while read -r document; do
    sed 's/](/\n](/g' "$document" | sed -n '/^](/{s/^](\([^)#]*\).*/\1/; /:/d; /./p}' | sort -u | while read -r link; do
        [ -e "$(dirname "$document")/$link" ] || { echo "install: $document links to $link, which is not there" >&2 && exit 1; }
    done
done
