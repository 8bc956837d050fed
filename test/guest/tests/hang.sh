# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# A module that sleeps in its init for 30 s, with event_timeout=10: its load is never signalled, also if a signal would
# end it (model rule 6), it is named in the log, who depends on it waits, all others go on (7), settle returns after it
# (2). Stock's udevd kills the worker that loads it.

. /rig/guest.sh

devices=/sys/bus/platform/devices
cat >/etc/udev/rules.d/00-test.rules <<'END2'
ACTION=="change", SUBSYSTEM=="mem", KERNEL=="null", RUN{builtin}+="kmod load dummy"
END2

# The coldplug, without the module.
trigger
settle
disk=$(echo /sys/class/block/vd? | cut -d ' ' -f 1)

uptime_ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }

# hang_start MODE KILLABLE: a device that needs the module, and one that needs a module that depends on it, with no more
# workers than these take in stock.
hang_start() {
    echo "options hangs killable=$2" >/etc/modprobe.d/test.conf
    rmmod needs_hangs 2>/dev/null || :
    rmmod hangs 2>/dev/null || :
    udevd_restart "module_queue=$1" event_timeout=10 children_max=2
    dmesg -c >>/run/dmesg
    insertions_start
    read -r seqnum </sys/kernel/uevent_seqnum
    start=$(uptime_ms)
    udevadm trigger --action=add $devices/hangs.0
    udevadm trigger --action=add $devices/needs_hangs.0
}

# others AFTER: what does not go on, so many seconds after the start.
others() {
    sleep $(($1 - ($(uptime_ms) - start) / 1000))
    rmmod dummy 2>/dev/null || :
    before=$(uptime_ms)
    udevadm trigger --action=change --settle "$disk" /sys/class/mem/null
    took=$(($(uptime_ms) - before))
    [ "$took" -lt 1000 ] || echo "events of a disk and of mem/null took $took ms, $1 s after the start"
    [ -d /sys/module/dummy ] || echo "no other module was loaded $1 s after the start"
    [ -e /run/udev/queue ] || echo "udevd looks settled $1 s after the start"
}

# ended [LOADS]: what must be true when settle has returned, with so many loads of other modules.
ended() {
    udevadm settle --timeout=120 || echo "settle: exit status $?"
    dmesg >/run/log
    ended_at=$(uptime_ms)
    [ $((ended_at - start)) -ge 30000 ] || echo "settle returned after $((ended_at - start)) ms"
    for module in hangs needs_hangs; do
        [ "$(cat /sys/module/$module/initstate 2>/dev/null)" = live ] || echo "$module is not live after settle"
    done
    ! grep 'hangs: .* fatal signal' /run/log || :
    # Who needs it has not even tried before.
    [ "$(grep -E 'hangs: init has slept|needs_hangs: init' /run/log | tail -n 1 | grep -c needs_hangs)" = 1 ] ||
        echo "needs_hangs was initialized before hangs"
    [ "$(insertions)" = $((2 + ${1-0})) ] || echo "$(insertions) insertions instead of $((2 + ${1-0}))"
}

for killable in 0 1; do
    kind=$([ $killable = 1 ] && echo killable || echo uninterruptible)

    hang_start yes $killable
    judge "hang: $kind: others go on" "$(others 2; others 15)"
    judge "hang: $kind: not signalled, waited for by settle and by who depends on it" "$(ended 2)"
    judge "hang: $kind: named in the log" "$(
        device=$(realpath $devices/hangs.0)
        what="module hangs (for platform:hangs, device ${device#/sys}, SEQNUM=$((seqnum + 1))) takes long"
        grep -F "$what" /run/log >/run/named || echo "the log does not say: $what"
        # The first time after a third of the time that an event may take, with a second's leeway.
        head -n 1 /run/named | grep -qE 'takes long, [345]s so far' || echo "not first after 3 to 5 s"
        [ "$(wc -l </run/named)" -ge 3 ] || echo "only named $(wc -l </run/named) times"
    )"
    judge "hang: $kind: no event is ended" "$(grep 'Worker .* killed' /run/log)"

    hang_start wait $killable
    judge "hang: $kind: not signalled when the workers that wait are" "$(
        ended
        [ "$(grep -c 'Worker .* processing .* killed' /run/log)" = 2 ] || echo "not two workers were ended"
    )"
done

# Stock, as far as it does otherwise.
hang_start no 1
judge "hang: noticed: with stock others wait" "$([ -n "$(others 2)" ] || echo "they went on")"
judge "hang: noticed: stock signals the load" "$(ended | grep -q 'has got a fatal signal' || echo "it did not")"
dmesg >>/run/dmesg
cp /run/dmesg "$OUT/log"
