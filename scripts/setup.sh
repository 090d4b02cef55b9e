# setup.sh - the steps of ./run, to be sourced by it in the repository's root. POSIX sh.
#
# Every step looks first whether it is done (installed packages, a stamp that names what was asked for); then it costs
# next to nothing. A file that is fetched or made gets its final name, and its stamp, only when it is complete and
# checked, so an interrupted run is simply started again. Everything stays below build/ and models/, which git
# ignores; only packages are installed elsewhere, by apt-get, and a locale.

BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkgconf libgnutls28-dev libjansson-dev libyaml-dev libnghttp2-dev
                libcurl4-gnutls-dev libfabric-dev libfabric1 libprotobuf-c-dev protobuf-c-compiler zlib1g-dev
                libjpeg-dev libturbojpeg0-dev libpng-dev libcmocka-dev python3 python3-venv ca-certificates openssl curl gnuplot-nox
                locales"
# libFuzzer comes with clang; lld links the many programs of tests. Tests of clusters make hosts of network namespaces.
# CBC says which partition is the best.
TEST_PACKAGES="clang libclang-rt-dev lld iproute2 nftables coinor-cbc"
# For the checks of deploy/: systemd-analyze comes with systemd (nothing of it is started). Slurm's daemons are started by the test
# alone, with a configuration of its own.
DEPLOY_PACKAGES="systemd slurmctld slurmd slurm-client munge"
# Other people's clients, and a library that perf_analyzer needs.
CLIENT_PACKAGES="wrk nghttp2-client libb64-0d"
# The versions are the newest found that Debian 12's Go (1.19) builds.
GO_CLIENTS="github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.8.9 github.com/bojand/ghz/cmd/ghz@v0.117.0 go.k6.io/k6@v0.47.0"
ORT_VERSION=1.31.1
ORT_SHA256_x86_64=fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3
ORT_SHA256_aarch64=8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467
# The newest C header that a Debian package carries. A library serves every API version up to its own.
ORT_HEADER_SUITE=trixie
ORT_HEADER_VERSION=1.21
ORT_HEADER_SHA256=7783e9664bdb0b1b36145b5c8587dd1bc9a399aa000edf2e3dd03003cafc6882
# Debian 12 has no package of llhttp. The library needs only the C library, so Debian 13's works there, too.
LLHTTP_SUITE=trixie
LLHTTP_VERSION=9.2
DISK_NEEDED_MB=2000

say() {
    echo "==> $*"
}

die() {
    echo "run: $*" >&2
    exit 1
}

# One set-up at a time in a tree; the second waits. Held on file descriptor 9 until unlock or exit.
lock() {
    mkdir -p build/logs build/stamps || die "cannot write to $PWD/build"
    exec 9>build/lock
    flock -n 9 || {
        say "waiting for another ./run in this tree to finish its set-up"
        flock 9
    }
}

unlock() {
    exec 9>&-
}

stamp_matches() { # NAME WANTED
    [ -e "build/stamps/$1" ] && [ "$(cat "build/stamps/$1")" = "$2" ]
}

stamp_write() { # NAME VALUE
    echo "$2" >"build/stamps/$1.tmp" && mv "build/stamps/$1.tmp" "build/stamps/$1"
}

sha256_of() { # FILE
    sha256sum "$1" | cut -d ' ' -f 1
}

need_disk() {
    free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
    [ "$free_mb" -ge $DISK_NEEDED_MB ] ||
        die "$PWD has $free_mb MB of disk left; the set-up needs $DISK_NEEDED_MB MB"
}

# Runs a command with its output in a log; when it fails, shows the log's end and stops with the given sentence.
logged() { # LOG SENTENCE COMMAND...
    log=build/logs/$1 sentence=$2
    shift 2
    "$@" >"$log" 2>&1 </dev/null || {
        tail -n 5 "$log" >&2
        die "$sentence. What was done is kept: run it again. All of the output is in $PWD/$log"
    }
}

set_up() { # [PACKAGE]...
    lock
    set_up_packages $BUILD_PACKAGES $(llhttp_package) "$@"
    set_up_locale
    set_up_llhttp
    set_up_python
    [ -n "${ONNXRUNTIME_ROOT-}" ] || set_up_engine
}

# ---- packages ----

as_root() {
    if [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

packages_missing() { # PACKAGE...
    installed=" $(dpkg-query -W -f '${Package}=${db:Status-Status} ' "$@" 2>/dev/null || :) "
    for package; do
        case $installed in *" $package=installed "*) ;; *) echo "$package" ;; esac
    done
}

read_package_lists() {
    logged apt.log "apt-get could not read the package lists (is the network there?)" \
        as_root apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 update
}

set_up_packages() { # PACKAGE...
    command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
        die "this is not Debian (no apt-get). Install what stands for these packages, then build with cmake --preset" \
            "release: $*"
    missing=$(packages_missing "$@")
    [ -n "$missing" ] || return 0
    missing=$(echo $missing)
    debian=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_ID:-99}") ||
        die "this is not Debian; install $missing by hand and run it again"
    [ "${debian%%.*}" -ge 12 ] || die "this is Debian $debian; Symphony needs Debian 12 or later"
    need_disk
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "needs root to install $missing: run it as root, or install sudo"
        say "sudo may ask for your password, to install packages"
        sudo -v || die "sudo refused; packages to install: $missing"
    fi
    if [ -n "$(dpkg --audit)" ]; then
        say "packages: finishing an interrupted installation"
        logged dpkg.log "dpkg could not finish an interrupted installation" as_root dpkg --configure -a
        logged dpkg.log "apt-get could not mend an interrupted installation" \
            as_root apt-get -y -o DPkg::Lock::Timeout=600 --fix-broken install
    fi
    say "packages: installing $missing"
    read_package_lists
    logged apt.log "apt-get could not install $missing (is the network there?)" \
        as_root apt-get -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 --no-install-recommends install $missing
}

# Models of text have operators that need a locale, most often this one.
set_up_locale() {
    ! locale -a | grep -qix 'en_US\.utf-*8' || return 0
    say "locale: making en_US.UTF-8"
    logged locale.log "localedef could not make the locale en_US.UTF-8" as_root localedef -i en_US -f UTF-8 en_US.UTF-8
}

# ---- Python, for the demonstration models and the end-to-end tests ----

# Packages of PyPI, whose versions and hashes are in a file.
pip_install() { # WHAT REQUIREMENTS [OPTION]...
    what=$1 requirements=$2
    shift 2
    logged "pip-$what.log" "pip could not fetch $what (is the network there?)" \
        build/venv/bin/python -m pip install --disable-pip-version-check --no-deps --require-hashes \
        --only-binary=:all: "$@" -r "$requirements"
}

set_up_python() {
    wanted="$(sha256_of scripts/requirements.txt) $(readlink -f /usr/bin/python3)"
    if stamp_matches python "$wanted" && [ -x build/venv/bin/python ]; then
        return 0
    fi
    need_disk
    say "python: packages of scripts/requirements.txt into build/venv"
    logged venv.log "python3 could not make build/venv" /usr/bin/python3 -m venv --clear build/venv
    pip_install packages scripts/requirements.txt
    stamp_write python "$wanted"
}

# ---- ONNX Runtime: the library from the Python package just installed, the C header from a Debian package ----

set_up_engine() {
    wanted="$ORT_VERSION $ORT_HEADER_SHA256"
    library=build/onnxruntime/lib/libonnxruntime.so.$ORT_VERSION
    header=build/onnxruntime/include/onnxruntime_c_api.h
    if stamp_matches onnxruntime "$wanted" && [ -e "$library" ] && [ -e "$header" ]; then
        return 0
    fi
    case $(uname -m) in
    x86_64) library_sha256=$ORT_SHA256_x86_64 ;;
    aarch64) library_sha256=$ORT_SHA256_aarch64 ;;
    *) die "no ONNX Runtime $ORT_VERSION for $(uname -m) is known here; name one of yours in ONNXRUNTIME_ROOT" ;;
    esac
    say "ONNX Runtime: library $ORT_VERSION and header $ORT_HEADER_VERSION into build/onnxruntime"
    mkdir -p build/onnxruntime/lib build/onnxruntime/include
    set -- build/venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.$ORT_VERSION
    [ "$(sha256_of "$1")" = $library_sha256 ] || die "$1 is not the library that is pinned here (sha256 differs)"
    cp "$1" "$library.tmp" && mv "$library.tmp" "$library"
    ln -sf libonnxruntime.so.$ORT_VERSION build/onnxruntime/lib/libonnxruntime.so.1
    ln -sf libonnxruntime.so.1 build/onnxruntime/lib/libonnxruntime.so
    [ -e "$header" ] && [ "$(sha256_of "$header")" = $ORT_HEADER_SHA256 ] || fetch_header "$header"
    stamp_write onnxruntime "$wanted"
}

fetch_header() { # HEADER
    fetch_packages $ORT_HEADER_SUITE "libonnxruntime-dev=$ORT_HEADER_VERSION.*" \
        "an unpacked ONNX Runtime release can be named in ONNXRUNTIME_ROOT"
    found=$(find "$apt/unpacked" -name onnxruntime_c_api.h)
    [ -n "$found" ] && [ "$(sha256_of "$found")" = $ORT_HEADER_SHA256 ] ||
        die "onnxruntime_c_api.h of $(cd "$apt/cache" && echo libonnxruntime-dev*.deb) is not the one that is pinned" \
            "here: Debian has published a new revision. Compare, then change ORT_HEADER_SHA256 in scripts/setup.sh"
    mv "$found" "$1"
    rm -rf "$apt"
}

# ---- llhttp: from a package of this Debian, or of a later one ----

llhttp_package() {
    debian=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_ID:-99}") || return 0
    [ "${debian%%.*}" -lt 13 ] || echo libllhttp-dev
}

set_up_llhttp() {
    [ -z "$(llhttp_package)" ] || return 0
    wanted="$LLHTTP_SUITE $LLHTTP_VERSION"
    if stamp_matches llhttp "$wanted" && [ -e build/llhttp/lib/libllhttp.a ] && [ -e build/llhttp/include/llhttp.h ]; then
        return 0
    fi
    fetch_packages $LLHTTP_SUITE "libllhttp-dev=$LLHTTP_VERSION.*" "llhttp can be installed by hand"
    mkdir -p build/llhttp/include build/llhttp/lib
    mv "$(find "$apt/unpacked" -name llhttp.h)" build/llhttp/include/
    mv "$(find "$apt/unpacked" -name libllhttp.a)" build/llhttp/lib/
    rm -rf "$apt"
    stamp_write llhttp "$wanted"
}

# ---- packages of another Debian than this one: only to take files from them ----

# Uses the machine's own apt sources with another suite, so that mirrors, proxies and keys are the machine's. The lists
# go to a directory of their own, which the machine's apt does not see. apt checks the signatures.
# The package is unpacked in $apt/unpacked; the caller removes $apt.
fetch_packages() { # SUITE PACKAGE=VERSION WHAT-ELSE
    apt=$PWD/build/apt suite=$1 package=$2 otherwise=$3
    own_suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    own_suites="$own_suite stable oldstable testing unstable sid"
    rm -rf "$apt"
    mkdir -p "$apt/sources.list.d" "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/unpacked"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ ! -e "$file" ] || awk -v own="$own_suites" -v new="$suite" '
            BEGIN { RS = ""; FS = "\n"; count = split(own, suites, " ") }
            {
                text = ""; wanted = 0; binary = 0; enabled = 1
                for (i = 1; i <= NF; i++) {
                    line = $i
                    if (tolower(line) ~ /^suites:/) {
                        for (k = 1; k <= count; k++) if (index(line " ", " " suites[k] " ")) wanted = 1
                        line = "Suites: " new
                    }
                    if (tolower(line) ~ /^types:/) { binary = line ~ /deb( |$)/; line = "Types: deb" }
                    if (tolower(line) ~ /^enabled: *no/) enabled = 0
                    text = text line "\n"
                }
                if (wanted && binary && enabled) print text
            }' "$file" >>"$apt/sources.list.d/own.sources"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ ! -e "$file" ] || awk -v own=" $own_suites " -v new="$suite" '
            $1 == "deb" { for (i = 3; i < NF; i++) if (index(own, " " $i " ")) { $i = new; print; next } }' \
            "$file" >>"$apt/sources.list.d/own.list"
    done
    cat "$apt"/sources.list.d/* 2>/dev/null | grep -q . ||
        die "no entry for $own_suite in this machine's apt sources: $package of Debian $suite cannot be fetched"
    say "fetching $package of Debian $suite"
    set -- -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/sources.list.d" \
        -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o Acquire::Languages=none \
        -o Acquire::Retries=3 -o APT::Sandbox::User=root
    logged apt-fetch.log "apt-get could not read Debian $suite's package list (is the network there?)" \
        apt-get "$@" update
    (cd "$apt/cache" && apt-get "$@" download "$package") >build/logs/apt-fetch.log 2>&1 || {
        tail -n 5 build/logs/apt-fetch.log >&2
        die "Debian $suite no longer has $package, or the network failed; $otherwise"
    }
    dpkg -x "$apt"/cache/*.deb "$apt/unpacked"
}

# ---- other people's clients: for the end-to-end tests, and for ./run referees ----

# Unpacks the packages of a client into a folder. Fails where the client is there already, or not for this machine.
client_unpack() { # CLIENT PROGRAM REQUIREMENTS FOLDER
    [ "$(uname -m)" = x86_64 ] || return 1
    wanted="$(sha256_of "$3")"
    ! stamp_matches "$1" "$wanted" || [ ! -x "$2" ] || return 1
    need_disk
    say "$1: packages of $3 into build/clients"
    rm -rf "$4"
    pip_install "$1" "$3" --target "$4"
}

set_up_perf_analyzer() {
    client_unpack perf_analyzer build/clients/perf_analyzer/bin/perf_analyzer scripts/requirements-clients.txt \
        build/clients/perf_analyzer || return 0
    stamp_write perf_analyzer "$wanted"
}

set_up_helm() {
    client_unpack helm build/clients/bin/helm scripts/requirements-helm.txt build/clients/unpacked || return 0
    (cd build/clients/unpacked && tar -xzf aws_cdk/*/_jsii/*.tgz package/lib/layer.zip && python3 -m zipfile -e package/lib/layer.zip .)
    mkdir -p build/clients/bin
    chmod +x build/clients/unpacked/helm/helm
    mv build/clients/unpacked/helm/helm build/clients/bin/
    rm -rf build/clients/unpacked
    stamp_write helm "$wanted"
}

# Programs out of packages whose installation would start a server.
program_unpack() { # PROGRAM PACKAGE
    say "$1: out of the package $2 into build/clients"
    rm -rf build/clients/unpacked
    mkdir -p build/clients/unpacked build/clients/bin
    (cd build/clients/unpacked && apt-get -o Acquire::Retries=3 download "$2") >"build/logs/$1.log" 2>&1 &&
        dpkg-deb -x build/clients/unpacked/*.deb build/clients/unpacked ||
        die "apt-get could not fetch the package $2 (is the network there?): see $PWD/build/logs/$1.log"
    mv "build/clients/unpacked/usr/bin/$1" build/clients/bin/
    rm -rf build/clients/unpacked
}

# In Debian 12 it is in the package of Prometheus itself.
set_up_promtool() {
    if [ -x build/clients/bin/promtool ] || command -v promtool >/dev/null; then
        return 0
    fi
    need_disk
    [ -n "$(apt-cache search --names-only '^prometheus$')" ] || read_package_lists
    package=$(apt-cache search --names-only '^promtool$' | cut -d ' ' -f 1)
    program_unpack promtool "${package:-prometheus}"
}

set_up_etcd() {
    if [ -x build/clients/bin/etcd ] || command -v etcd >/dev/null; then
        return 0
    fi
    need_disk
    [ -n "$(apt-cache search --names-only '^etcd-server$')" ] || read_package_lists
    program_unpack etcd etcd-server
}

set_up_go_clients() {
    for client in $GO_CLIENTS; do
        name=$(basename "${client%@*}")
        if stamp_matches "client-$name" "$client" && [ -x "build/clients/bin/$name" ]; then
            continue
        fi
        command -v go >/dev/null || set_up_packages golang-go
        need_disk
        say "building $client into build/clients (a minute or two)"
        logged "client-$name.log" "go could not build $client (is the network there?)" \
            env GOBIN="$PWD/build/clients/bin" GOPATH="$PWD/build/clients/go" GOCACHE="$PWD/build/clients/go-cache" \
            GOFLAGS="-modcacherw -buildvcs=false" go install "$client"
        stamp_write "client-$name" "$client"
    done
    rm -rf build/clients/go build/clients/go-cache
}

# ---- demonstration models, builds, tests ----

DEMO_MODELS="filetype text-orientation text-detection text-recognition recommender"

make_models() {
    wanted=$(cat scripts/demo_models.py scripts/requirements*.txt | sha256sum)
    complete=yes
    for model in $DEMO_MODELS; do
        [ -e "models/$model/1/model.onnx" ] || complete=
    done
    if [ -n "$complete" ] && stamp_matches models "$wanted"; then
        return 0
    fi
    need_disk
    say "models: $DEMO_MODELS"
    build/venv/bin/python scripts/demo_models.py --repository models --downloads build/downloads </dev/null ||
        die "the demonstration models could not be made. What was done is kept: run it again"
    stamp_write models "$wanted"
}

make_pipelines() {
    make_models
    wanted=$(cat scripts/demo_pipelines.py scripts/demo_models.py scripts/requirements*.txt | sha256sum)
    if [ -e pipelines/read-text/config.pbtxt ] && stamp_matches pipelines "$wanted"; then
        return 0
    fi
    need_disk
    say "pipelines: wake-words read-text"
    build/venv/bin/python scripts/demo_pipelines.py --repository pipelines --models models \
        --downloads build/downloads </dev/null || die "the demonstration pipelines could not be made"
    stamp_write pipelines "$wanted"
}

PRESETS="release asan tsan"

configure() { # PRESET
    case " $PRESETS " in *" $1 "*) ;; *) die "no preset '$1': there are $PRESETS" ;; esac
    if [ "$1" = asan ]; then
        set_up_packages $TEST_PACKAGES # clang
    fi
    wanted="$(sha256_of CMakePresets.json) ${ONNXRUNTIME_ROOT-}"
    if [ -e "build/$1/build.ninja" ] && stamp_matches "configured-$1" "$wanted"; then
        return 0
    fi
    say "configuring build/$1"
    logged "configure-$1.log" "cmake could not configure build/$1" \
        cmake --preset "$1" -U 'ONNXRuntime_*' -DONNXRUNTIME_ROOT="${ONNXRUNTIME_ROOT-}"
    sed -n 's/^-- symphony: /    /p' "build/logs/configure-$1.log"
    stamp_write "configured-$1" "$wanted"
}

build() { # PRESET TARGET...
    configure "$1"
    preset=$1
    shift
    say "building build/$preset"
    cmake --build --preset "$preset" --target "$@" </dev/null || die "the build of $preset failed"
}
