# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Parts of the guest that are built once and again only when what they are made from has changed, and Debian's
# packages, which go into them. Sourced after tools/common.sh by what builds parts.

# A part that is complete has a file with its key: what it was made from. key_is FILE KEY
key_is() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }

# key_of "FUNCTION…" FILE…: of the functions that make a part, and of the files that go into it.
# shellcheck disable=SC2086
key_of() { { declare -f $1; cat "${@:2}" /dev/null; } | sha256sum | cut -d ' ' -f 1; }

# How apt is called for packages: of the machine's own release and architecture, unless set otherwise (apt_private).
apt=()

# Downloads Debian's packages, as far as they are not there, and sets debs to their files.
fetch() {
    local name names missing=() retry=${retried:+no}

    names=$("${apt[@]}" apt-get --print-uris download "$@" 2>/dev/null | cut -d ' ' -f 2) || names=
    debs=()
    for name in $names; do
        debs+=("$SOURCES/$name")
        [ -f "$SOURCES/$name" ] || missing+=("${name%%_*}")
    done
    if [ -n "$names" ]; then
        [ ${#missing[@]} -gt 0 ] || return 0
        say "downloading ${missing[*]}"
        ! (cd "$SOURCES" &&
            apt_alone "${apt[@]}" apt-get -o APT::Sandbox::User=root download "${missing[@]}") ||
            return 0
    fi
    # The lists of an old machine may name files that are gone, or not all that there is.
    [ -z "$retry" ] || fail "cannot download $*"
    apt_alone "${apt[@]}" apt-get update || fail "cannot read the package lists"
    retried=yes fetch "$@"
}

# fetch_kernel PACKAGE: the kernel that linux-image-amd64, say, depends on.
fetch_kernel() {
    local package

    package=$("${apt[@]}" apt-cache depends "$1" 2>/dev/null |
        sed -nE '/^ *Depends: (linux-image-[0-9])/{s//\1/p;q}')
    [ -n "$package" ] || fail "apt does not say which kernel $1 is (apt-get update?)"
    fetch "$package"
}

# kernel_release DEB: of a kernel image package, as uname -r says it.
kernel_release() {
    local package
    package=$(dpkg-deb --field "$1" Package)
    [[ $package == linux-image-* ]] || fail "$1 is not a kernel image package"
    package=${package#linux-image-}
    echo "${package%-unsigned}"
}

# kernel_unpack DEB DIR: all of it into DIR/deb, but for the modules: DIR/root is a root directory with these and their
# index.
kernel_unpack() {
    local deb=$1 dir=$2 modules

    mkdir -p "$dir/deb" "$dir/root/usr/lib"
    ln -s usr/lib "$dir/root/lib"
    dpkg-deb -x "$deb" "$dir/deb" || fail "cannot unpack $deb"
    modules=$dir/deb/usr/lib/modules
    [ -d "$modules" ] || modules=$dir/deb/lib/modules
    mv "$modules" "$dir/root/usr/lib/" || fail "no modules in $deb"
    depmod -b "$dir/root" "$(kernel_release "$deb")" || fail "cannot make the index of the modules in $deb"
}
