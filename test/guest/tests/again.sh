# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# What was unloaded is loaded again by the next trigger; where nothing is to be loaded a trigger loads nothing, asks for
# nothing and costs no more than with stock's udevd.

. /rig/guest.sh

modules() { module_names | sort; }

udevd_restart module_queue=yes
trigger
settle
modules >/run/modules
echo "$(wc -l </run/modules) modules"

judge "again: what was unloaded is loaded again" "$(
    # As many as can be.
    for round in 1 2 3 4 5; do
        for module in $(awk '$3 == 0 { print $1 }' /proc/modules); do
            rmmod "$module" 2>/dev/null || :
        done
    done
    modules >/run/left
    [ $(($(wc -l </run/modules) - $(wc -l </run/left))) -ge 10 ] ||
        echo "only $(($(wc -l </run/modules) - $(wc -l </run/left))) could be unloaded"
    settle
    trigger
    settle
    modules | diff /run/modules - | grep '^[<>]'
)"

# Some drivers for kinds of processors find that this one is of another kind. They are tried with each trigger, by stock's
# udevd as well, and are no part of what follows. busybox's modprobe knows no -R.
ln -s "$(command -v kmod)" /rig/modprobe
for device in LNXSYSTM:00/LNXSYBUS:00/ACPI*/LNXCPU:00 system/cpu/cpu0; do
    /rig/modprobe -R "$(sed -n 's/^MODALIAS=//p' /sys/devices/$device/uevent)" || :
done | sort -u | grep -vxF -f /run/modules | sed 's/^/blacklist /' >/etc/modprobe.d/test.conf
cat /etc/modprobe.d/test.conf

# start KIND: udevd as stock, with the queue, with the queue and events that wait, or a mutant of the queue.
cp /usr/bin/udevadm /rig/udevadm
start() {
    udevd_stop
    wait_until no_udevd
    case $1 in
        no | yes | wait) mode=$1; cp /rig/udevadm /usr/bin/udevadm ;;
        *) mode=yes; cp "/rig/mutants/$1" /usr/bin/udevadm ;;
    esac
    echo "module_queue=$mode" >/etc/udev/udev.conf
    udevd_start
}

# Nothing happens but events.
coldplug() {
    trigger
    settle
}

# Of the udevd that runs.
loads_nothing() {
    insertions_start
    coldplug
    [ "$(insertions)" = 0 ] || echo "$(insertions) insertions"
    [ -z "$(pids_of '(udev-loader)')" ] || echo "there are loaders"
}

asks_for_nothing() {
    udevadm control --log-level=debug
    dmesg -c >>"$OUT/log"
    coldplug
    dmesg | grep -F 'Asking for' || :
    dmesg | grep -qF 'is there already' || echo "the log does not say that modules are there"
}

for mode in yes wait; do
    start $mode
    judge "again: a trigger of a settled system loads nothing, module_queue=$mode" "$(loads_nothing)"
    judge "again: a trigger of a settled system asks for nothing, module_queue=$mode" "$(asks_for_nothing)"
done
start asks
judge "again: noticed: loaders for what is there" "$([ -n "$(loads_nothing)" ] || echo "there are none")"
judge "again: noticed: requests for what is there" "$(asks_for_nothing | grep -q 'Asking for' || echo "there are none")"

# busy: how long the CPU has been busy, in nanoseconds, by the scheduler.
busy() { awk '$1 == "cpu0" { print $8 }' /proc/schedstat; }

median() { sort -n | sed -n "$((($1 + 1) / 2))p"; }

rounds=3
for round in $(seq $rounds); do
    for kind in no yes first; do
        start $kind
        # The first one after a start is as that of a boot, where udevd does not know yet that nothing is to be loaded.
        coldplug
        usleep 300000
        before=$(busy)
        coldplug
        after=$(busy)
        echo $((after - before)) >>/run/busy-$kind
        echo "CPU of a coldplug, $kind: $(((after - before) / 1000000)) ms"
    done
done

# thousandths KIND: of stock's time
thousandths() { echo $(($(median $rounds <"/run/busy-$1") * 1000 / $(median $rounds </run/busy-no))); }

# 1050 are promised, 1004 to 1008 measured.
queue=$(thousandths yes)
judge "again: CPU time of a trigger of a settled system: $queue thousandths of stock's" \
    "$([ "$queue" -lt 1030 ] || echo "not less than 1030")"
first=$(thousandths first)
judge "again: noticed: CPU time when the manager always goes first: $first thousandths" \
    "$([ "$first" -ge 1030 ] || echo "less than 1030")"
