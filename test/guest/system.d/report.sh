# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What has become of the boot, in $OUT: the system's state, failed units, settle's exit status, the log of both stages,
# the sandbox that udevd runs in, and what lib.sh saves.

# shellcheck source=test/guest/lib.sh
. /rig/lib.sh

systemctl is-system-running --wait >"$OUT/state"
systemctl --failed --no-legend --plain >"$OUT/failed"
settle
echo $? >"$OUT/settle"
quiesce 3
touch /run/watch-end
while systemctl --quiet is-active watch.service; do sleep 0.2; done

systemctl show systemd-udevd.service >"$OUT/service"
cp "/proc/$(systemctl show --property MainPID --value systemd-udevd.service)/status" "$OUT/udevd"
udevadm --version >"$OUT/version"
journalctl --boot --output short-monotonic --no-hostname >"$OUT/journal"
state_save
echo 0 >"$OUT/status"
results_write
systemctl poweroff --force --force
