# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# What leads to disks and keyboards is handled first, whatever came before it; what it has to wait for comes along, and
# nothing waits for ever. Without the queue events are handled as they come.

. /rig/guest.sh

trigger
settle

disk=$(readlink -f "$(echo /sys/class/block/vd? | cut -d ' ' -f 1)")
bus=${disk%/block/*}
key=$(readlink -f /sys/class/input/event0)
null=$(readlink -f /sys/class/mem/null)
zero=$(readlink -f /sys/class/mem/zero)

cat >/rig/note <<'END'
#!/bin/sh
echo "${DEVPATH##*/}" >>/run/order
[ "$(awk '{ print $19 }' /proc/self/stat)" = 0 ] || echo "nice level of a program: $(awk '{ print $19 }' /proc/self/stat)" >>/run/order
END
chmod +x /rig/note
echo 'ACTION=="change", RUN+="/rig/note"' >/etc/udev/rules.d/99-note.rules

# udevadm control OPTION. With several CPUs udevd of 252 ignores a message that has come while it was accepting the
# connection, and says so.
control() {
    while :; do
        log_start
        udevadm control "$1"
        log | grep -q 'Invalid sender uid' || break
    done
}

# assert_order CASE "NAME…" DEVICE…: when all of them get an event in this order, before any is started, one worker
# handles them in that order. A number instead of a device: wait so many seconds.
assert_order() {
    case=$1
    expected=$2
    shift 2
    : >/run/order
    wait_until udevadm control --ping 2>/dev/null
    control --stop-exec-queue
    for device; do
        if [ -e "$device/uevent" ]; then
            echo change >"$device/uevent"
        else
            sleep "$device"
        fi
    done
    wait_until udevadm control --ping
    control --start-exec-queue
    settle
    order=$(xargs </run/order)
    judge "order: $case" "$([ "$order" = "$expected" ] || echo "it is $order, not $expected")"
}

d=${disk##*/}
b=${bus##*/}

for mode in yes wait; do
    udevd_restart children_max=1 module_queue=$mode
    assert_order "$mode: disk and keyboard first" "$d event0 null zero" "$null" "$disk" "$zero" "$key"
    assert_order "$mode: what the disk waits for comes along" "$b $d null zero" "$null" "$bus" "$zero" "$disk"
    assert_order "$mode: a device's events in their order" "$b $d $b $d null" "$null" "$bus" "$disk" "$bus" "$disk"
    assert_order "$mode: what has waited for long is first" "null $b zero" "$null" 11 "$bus" "$zero"
    assert_order "$mode: also before a disk" "null $d zero" "$null" 11 "$zero" "$disk"
done

udevd_restart children_max=1 module_queue=no
assert_order "no: as they come" "null $d zero event0" "$null" "$disk" "$zero" "$key"

# Less of the CPU would be for good without this capability. What the class of an event decides is only the order.
udevd_stop
wait_until no_udevd
printf '%s\n' children_max=1 module_queue=yes >/etc/udev/udev.conf
SYSTEMD_LOG_TARGET=kmsg /rig/setpriv --bounding-set -sys_nice /usr/lib/systemd/systemd-udevd --daemon
assert_order "without CAP_SYS_NICE" "event0 null zero" "$null" "$key" "$zero"
