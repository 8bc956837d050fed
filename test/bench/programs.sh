# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Programs that measure or check without a guest. Sourced after tools/common.sh.

# Build one, and what it needs; sets program to its path: program_build NAME
program_build() {
    if [ ! -e "$BUILD/unit/build.ninja" ]; then
        "$TOP/tools/build" >&2
        "$TOP/tools/unit" >&2
    fi
    run_logged "$BUILD/bench/$1.log" ninja -C "$BUILD/unit" "test/bench/$1" || fail "cannot build $1"
    program=$BUILD/unit/test/bench/$1
}
