# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# How a test says what came out, one line a case; in the guest and on the host. tools/check counts these lines.

ok() {
    echo "ok $1"
}

# failed CASE WHY
failed() {
    echo "FAILED $1: $2"
}

# skipped CASE REASON
skipped() {
    echo "skipped $1: $2"
}

# The result of a test that has collected what is wrong, a line each: judge CASE WRONG
judge() {
    if [ -z "$2" ]; then
        ok "$1"
    else
        failed "$1" "$(echo "$2" | head -n 5 | cut -c 1-200 | tr '\n' ';')"
    fi
}
