# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash

# Root directories of a release of the distribution, to build and install packages in. Sourced after common.sh.

# chroot_make DIR SUITE VARIANT: make DIR a minimal system of SUITE with what a VARIANT of mmdebstrap has (buildd, say),
# unless it is there. Its packages come from where the machine's own come from.
chroot_make() {
    local dir=$1 suite=$2 variant=$3 part=$1.part

    [ ! -d "$dir" ] || return 0
    [ "$(id -u)" -eq 0 ] || fail "only root can make a chroot"
    apt_install mmdebstrap debian-archive-keyring
    say "making a chroot of $suite"
    # If we were killed in here once. Nothing is ever mounted in it but in a name space of its own.
    rm -rf "$part"
    mkdir -p "$(dirname "$dir")"
    apt_sources deb "$suite" "$part.list" "$part.sources"
    apt-config dump --no-empty Acquire >"$part.conf"
    run_logged "$dir.log" mmdebstrap --variant="$variant" --aptopt="$part.conf" "$suite" "$part" "$part.list" "$part.sources" ||
        fail "cannot make a chroot of $suite"
    rm "$part".{list,sources,conf}
    mv "$part" "$dir"
}

# chroot_run DIR COMMAND…: run it as root in DIR, with /proc and /sys. These are mounted in a name space of its own: they
# are gone when it has ended, however it ends.
chroot_run() {
    # shellcheck disable=SC2016
    unshare --mount sh -c '
        mount -t proc proc "$1/proc" && mount -t sysfs -o ro sysfs "$1/sys" && exec chroot "$@"' sh "$@"
}

# chroot_apt DIR LOG ARGUMENT…: apt-get in DIR, never asking; its output is in the file LOG.
chroot_apt() {
    local dir=$1 log=$2 lists=$1/var/lib/apt/lists
    shift 2

    [ -n "$(find "$lists" -maxdepth 1 -name '*Packages*')" ] || run_logged "$log" chroot_run "$dir" apt-get update ||
        fail "cannot read the package lists in $dir"
    run_logged "$log" chroot_run "$dir" env DEBIAN_FRONTEND=noninteractive apt-get -y --no-install-recommends "$@"
}
