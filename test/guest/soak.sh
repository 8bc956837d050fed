# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Coldplug over and over, each time with what can be unloaded unloaded and the database emptied, and disturbed at
# random (disturb.c says how). Only the first time is not. Each run leaves in $OUT/runs/NUMBER.*:
#   what      what was disturbed: nothing, loaders, workers, udevd
#   actions   what was done, a line each
#   wrong     what must not be, a line each
#   probes    the devices whose probe has failed, and disks whose partitions were not read
#   again     is there if the coldplug was repeated, undisturbed, and says why
#   tar.gz    the state at the end, for equality.py
#
# What is expected, by what was killed (what the kernel does not finish in a process that is killed nobody makes good, in
# stock neither: a probe that fails for that is done again first):
#   loaders   their loads are made by others (model rule 9): the state is right as soon as all is settled. Only what
#             the log says to be given up, since two loaders have died at it, may be missing until it is asked for anew.
#   workers   their events are lost, as in stock, until the next coldplug; a file that was to be renamed may be left.
#   udevd     so are the events that it had not handled. What had been asked for is loaded by the next udevd.

. /rig/guest.sh
. /rig/soak.conf

runs=$OUT/runs
journal=/run/udev/module-queue
mkdir "$runs"

cat >/rig/restart <<'SCRIPT'
#!/bin/sh
# Kill udevd and start it again: restart [all]. With "all" its workers and loaders are killed, too, as systemd does.
. /rig/lib.sh
. /rig/guest.sh
pids_of systemd-udevd | xargs kill -KILL
[ "${1-}" != all ] || { pids_of '(udev-worker)'; pids_of '(udev-loader)'; } | xargs -r kill -KILL 2>/dev/null
wait_until no_udevd || echo "udevd cannot be killed" >&2
cp /run/udev/module-queue /run/owed 2>/dev/null
udevd_start
SCRIPT
chmod +x /rig/restart

module_names() { cut -d ' ' -f 1 /proc/modules; }

# All that nobody uses, and what nobody uses then.
unload() {
    local left='' before=all

    while [ "$left" != "$before" ]; do
        before=$left
        for module in $(awk '$3 == 0 { print $1 }' /proc/modules); do
            rmmod "$module" 2>/dev/null || :
        done
        left=$(module_names | xargs)
    done
}

# What of a list of modules, a line each, is not loaded.
missing() {
    module_names >/run/names
    grep -vxF -f /run/names "$1" || :
}

# The modules at which a loader has died, as the log says: died TEXT
died() {
    dmesg | sed -n "s/.* Loader .* died (signal 9) at module \([^ ]*\) .*$1.*/\1/p" | sort
}

# What the udevd that was killed had been asked for, as far as it can be loaded.
owed() {
    [ ! -e /run/owed ] || journal_modules /run/owed /run/reference
}

settled() {
    settle || echo "settle failed"
    quiesce 1
    settle || echo "settle failed"
    [ ! -e /run/udev/queue ] || echo "/run/udev/queue is left"
    [ ! -s $journal ] || echo "$journal is left"
    udevadm control --ping --timeout=10 2>/dev/null || echo "udevd does not answer"
}

# What the kernel has broken off since who was to do it was killed: probes of devices, reads of partition tables. It is
# done again, as a person would.
probe() {
    dmesg | sed -nE 's/.*: probe of ([^ ]*) failed with error.*/\1/p
        s/.*[] ]([a-z]+): unable to read partition table$/\1/p' | sort -u >"$run.probes"
    while read -r device; do
        if [ -e "/sys/block/$device" ]; then
            blockdev --rereadpt "/dev/$device"
        else
            echo "$device" >"$(echo /sys/bus/*/devices/"$device" | cut -d / -f 1-4)/drivers_probe"
        fi || echo "$device could not be probed again"
    done <"$run.probes"
}

# What must be true when nobody disturbs any more and all is settled: check WHAT
check() {
    settled
    probe
    [ ! -s "$run.probes" ] || settled
    died "It is not tried again" >/run/given-up
    died "It is tried once more" >/run/tried
    lines_beyond /run/tried </run/given-up | sed 's/$/ was given up when one loader had died/'
    if [ "$1" = udevd ]; then
        owed >/run/owed-names
        missing /run/owed-names | lines_beyond /run/given-up | sed 's/$/ was asked for before udevd was killed, and is not loaded/'
    fi
    case $1 in
        nothing) ;;
        loaders) [ ! -s /run/given-up ] || echo "given up: $(xargs </run/given-up)" >"$run.again" ;;
        *) echo "events may be lost" >"$run.again" ;;
    esac
    if [ -e "$run.again" ]; then
        trigger
        settled
    fi
}

# coldplug NUMBER WHAT
coldplug() {
    run=$runs/$(printf %03d "$1")
    echo "$2" >"$run.what"
    unload
    settle
    left=$(module_names | sort | xargs)
    [ "${base=$left}" = "$left" ] || echo "not loaded before the first run, or else: $left" >>"$run.wrong"
    udevadm info --cleanup-db
    rm -f /run/owed
    dmesg -c >/dev/null

    trigger
    if [ "$2" != nothing ]; then
        disturb $((seed * 1000 + $1)) "$2" >"$run.actions" 2>>"$run.wrong" &
        disturber=$!
        settle 2>/dev/null || :         # it gives up if there is no udevd to ask
        usleep 500000
        settle 2>/dev/null || :
        kill $disturber
        wait $disturber || echo "disturb: exit status $?" >>"$run.wrong"
    fi
    check "$2" >>"$run.wrong"

    files=$(find /dev /run/udev -name '.#*' | xargs)
    case $2 in
        nothing | loaders) [ -z "$files" ] || echo "left by a worker that nobody killed: $files" >>"$run.wrong" ;;
    esac
    rm -f $files

    rm -rf /run/state
    mkdir /run/state
    (OUT=/run/state && state_save)
    tar -C /run/state -c . | gzip -1 >"$run.tar.gz"
    stamp "run $1"
}

trigger
settle
quiesce
coldplug 0 nothing
module_names >/run/reference

n=1
while [ $n -le "$count" ]; do
    case $((n % 4)) in
        1 | 3) what=loaders ;;
        2) what=workers ;;
        0) what=udevd ;;
    esac
    coldplug $n $what
    [ $((n % 10)) -ne 0 ] ||
        echo "soak: $n of $count runs, $(cat "$runs"/*.actions | wc -l) disturbances, wrong: $(find "$runs" -name '*.wrong' -size +0 | wc -l)" >/dev/console
    n=$((n + 1))
done
