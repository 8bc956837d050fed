# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# A coldplug, and what it takes to say which device an entry of udev's database belongs to.

trigger
stamp triggered
settle
stamp settled
quiesce
find /sys/devices -name subsystem -type l -exec stat -c '%N' {} + >"$OUT/subsystems"
find /sys/devices \( -name dev -o -name ifindex \) -type f -exec grep -H . {} + >"$OUT/numbers"
