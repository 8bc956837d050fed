# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Debian kernels' indexes of modules, for look-ups of which nothing is loaded: build/bench/trees/RELEASE/ is a kernel's
# directory of modules with empty files. Sourced after tools/common.sh.

# shellcheck source=test/guest/parts.sh
. "$TOP/test/guest/parts.sh"

trees=$BUILD/bench/trees

declare -A kernel_suites=([6.1]=bookworm [6.12]=trixie)
declare -A kernel_flavours=([amd64]=amd64 [arm64]=arm64 [armhf]=armmp [ppc64el]=powerpc64le [s390x]=s390x)

# tree_deb VERSION ARCHITECTURE: the newest such kernel that is downloaded; nothing if there is none.
tree_deb() {
    find "$SOURCES" -maxdepth 1 -regextype posix-extended \
        -regex ".*/linux-image-$1\.[0-9][^-]*(-[0-9]+)?-${kernel_flavours[$2]}_[^_]*_$2\.deb" | sort -V | tail -n 1
}

# tree_fetch VERSION ARCHITECTURE: download such a kernel. It ends the shell if it cannot.
tree_fetch() {
    apt=(apt_private --suite "${kernel_suites[$1]}" --arch "$2")
    apt_alone "${apt[@]}" apt-get update ||
        say "not all package lists of ${kernel_suites[$1]} for $2 can be read, going on with the others"
    fetch_kernel "linux-image-${kernel_flavours[$2]}"
}

# tree_make DEB: unless it is there; sets tree to its directory.
tree_make() {
    local deb=$1 release key work

    release=$(kernel_release "$deb")
    tree=$trees/$release
    key=$(key_of "tree_make kernel_unpack")-$(basename "$deb")
    key_is "$tree/key" "$key" && return

    say "making the index of kernel $release"
    work=$trees/$release.tmp
    rm -rf "$work" "$tree"
    kernel_unpack "$deb" "$work"
    mv "$work/root/usr/lib/modules/$release" "$tree"
    rm -rf "$work"
    find "$tree" -name '*.ko*' -exec truncate --size 0 {} +
    echo "$key" >"$tree/key"
}
