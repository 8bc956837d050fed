# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the host's side of the tests in the guest share. The caller is a test: its name is the file's, its files are
# in build/check/NAME/.

# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../../tools/common.sh"
# shellcheck source=test/guest/tests/cases.sh
. "$TOP/test/guest/tests/cases.sh"
# shellcheck source=test/guest/root.sh
. "$TOP/test/guest/root.sh"

TESTS=$TOP/test/guest/tests
CHECK=$BUILD/check/$ME
OVERLAY=$CHECK/overlay

# An empty overlay for the guest's root, with what the tests' scripts source.
overlay_start() {
    rm -rf "$OVERLAY"
    mkdir -p "$OVERLAY/rig"
    cp "$TESTS/cases.sh" "$TESTS/guest.sh" "$OVERLAY/rig/"
}

# A program of the host into the overlay, with its libraries: overlay_program FILE
overlay_program() {
    install -D -m 755 "$1" "$OVERLAY$(root_path "$1")"
    root_libs "$OVERLAY" "$1"
}

# Boot the small machine, run the test's script in it and print its cases: guest_run BOOT [option of run…]
guest_run() {
    local out=$CHECK/$1 rc=0
    shift

    "$TOP/test/guest/run" --profile small --script "$TESTS/$ME.sh" --overlay "$OVERLAY" --out "$out" "$@" >&2 || rc=$?
    grep -E '^(ok|FAILED|skipped) ' "$out/output" 2>/dev/null || true
    case $rc in
        0) ;;
        1) failed "$ME" "the script in the guest ended early, see $out/output" ;;
        *) failed "$ME" "the guest could not be booted, see $out/console and $out/qemu.log" ;;
    esac
}
