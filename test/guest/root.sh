# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Functions that fill a root file system for the guest. Sourced by images and run.

# Where a host path goes: /usr is merged in the guest, whatever the host has.
root_path() {
    case "$1" in
        /usr/*) echo "$1" ;;
        *) echo "/usr$1" ;;
    esac
}

# root_libs DIR FILE: the shared libraries that the file needs, into DIR.
root_libs() {
    local dir="$1" lib

    { ldd "$2" 2>/dev/null || :; } | sed -nE 's|^[^/]*(/[^ :]+) \(0x.*|\1|p' | sort -u | while read -r lib; do
        install -D -m 755 "$lib" "$dir$(root_path "$lib")"
    done
}

# root_pack DIR PATH… [EXPRESSION]: what is under the paths of DIR, and true for find's expression, as an archive that the
# kernel unpacks, to stdout.
root_pack() {
    local dir="$1"
    shift

    (cd "$dir" && find "$@" -print0 | LC_ALL=C sort -z | cpio --null --create --format=newc --owner=0:0 --quiet)
}
