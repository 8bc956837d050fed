# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# What coldplug.sh does, with a record of udevd's memory, which takes time of its own.

recorder=$(memmon "$OUT/memory")
# shellcheck source=test/guest/coldplug.sh
. /rig/coldplug.sh
kill "$recorder"
while kill -0 "$recorder" 2>/dev/null; do
    usleep 50000
done
