# package.sh - ./run wheel and ./run deb, to be sourced by run. POSIX sh.

# lintian judges the package.
DEB_PACKAGES="debhelper dpkg-dev fakeroot lintian"

# The version; of a commit that is no release with its time in UTC, since an installed package is replaced only by one of a
# higher version. SEPARATOR makes that lower than the release's. Where git is not there, the version alone.
package_version() { # SEPARATOR
    version=$(sed -n 's/^project(symphony VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
    time=$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S 2>/dev/null) || time=
    if [ -z "$time" ] || git tag --points-at HEAD | grep -Fqx "v$version"; then
        echo "$version"
    else
        echo "$version$1dev$time"
    fi
}

# The program as it is installed, stripped, in build/package/installed.
install_for_package() { # PREFIX
    build release symphony symphony-server
    rm -rf build/package/installed
    logged install.log "cmake could not install the program" \
        env DESTDIR="$PWD/build/package/installed" cmake --install build/release --prefix "$1" --strip
}

make_wheel() {
    wanted=$(sha256_of scripts/requirements-wheel.txt)
    if ! stamp_matches wheel "$wanted"; then
        say "wheel: packages of scripts/requirements-wheel.txt into build/wheel"
        rm -rf build/wheel
        pip_install wheel scripts/requirements-wheel.txt --target build/wheel
        stamp_write wheel "$wanted"
    fi
    install_for_package /usr
    mkdir -p dist
    logged wheel.log "the wheel could not be made" \
        env PATH="$PWD/build/wheel/bin:$PATH" PYTHONPATH="$PWD/build/wheel" build/venv/bin/python -B scripts/make_wheel.py \
        build/package/installed/usr/bin/symphony "$(package_version .)" dist
    say "wheel: $(tail -n 1 build/logs/wheel.log)"
}

# The package is for the Debian on which it is made: it depends on the names and versions of that one's libraries.
make_deb() {
    install_for_package /usr
    release=$(. /etc/os-release && echo "${VERSION_ID:-0}")
    version=$(package_version '~')-1~deb$release
    tree=build/package/deb/symphony
    rm -rf build/package/deb
    mkdir -p "$tree" dist
    cp -r deploy/debian "$tree/debian"
    cp -r build/package/installed "$tree/installed"
    sed 's|/usr/local/|/usr/|' deploy/systemd/symphony.service >"$tree/debian/symphony.service"
    cp deploy/systemd/serve.env "$tree/debian/"
    printf 'symphony (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- Symphony developers <symphony@localhost.localdomain>  %s\n' \
        "$version" "$(date -R -r CMakeLists.txt)" >"$tree/debian/changelog"
    logged deb.log "the package could not be made" sh -c "cd $tree && exec dpkg-buildpackage --build=binary --no-sign --no-check-builddeps"
    rm -f dist/symphony_*.deb
    cp build/package/deb/symphony_*.deb dist/
    say "deb: lintian"
    lintian --fail-on error,warning dist/symphony_*.deb || die "lintian complains of the package"
    say "deb: $(ls dist/symphony_*.deb)"
}
