# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# `udevadm settle` must not return while a uevent of a finished load is unread.

. /rig/guest.sh

# Loads that make devices late in their init. "udevadm settle" and the look at the device are real-time processes:
# nothing comes between.
loads='null:dummy:/sys/class/net/dummy0 zero:tun:/sys/class/misc/tun random:brd:/sys/class/block/ram15
    full:uinput:/sys/class/misc/uinput'
{
    echo 'ACTION!="change", GOTO="test_end"'
    for load in $loads; do
        IFS=: read -r device module _ <<END
$load
END
        echo "SUBSYSTEM==\"mem\", KERNEL==\"$device\", RUN{builtin}+=\"kmod load $module\""
    done
    echo 'SUBSYSTEM=="mem", KERNEL=="port", RUN{builtin}+="kmod load ifb"'
    echo 'SUBSYSTEM=="mem", KERNEL=="kmsg", RUN+="/rig/hold event"'
    echo 'LABEL="test_end"'
} >/etc/udev/rules.d/00-test.rules

# hold NAME [MODULE-FILE]: wait for a line in the pipe, then insert the module and end.
cat >/rig/hold <<'END'
#!/bin/sh
touch "/run/hold/$1-waits"
read -r _ <"/run/hold/$1"
[ $# -eq 1 ] || insmod "$2"
END
chmod +x /rig/hold
mkdir /run/hold
mkfifo /run/hold/event /run/hold/load
echo "install ifb /rig/hold load $(module_file ifb)" >/etc/modprobe.d/hold.conf

# settle_and_look CASE DEVICE…: a line for each device that settle has not waited for.
cat >/rig/settle_and_look <<'END'
#!/bin/sh
. /rig/guest.sh
udevadm settle --timeout=60 2>/dev/null || echo "udevadm settle: exit status $?"
[ ! -e /run/udev/queue ] || echo "/run/udev/queue is there after settle"
for device; do
    if [ ! -e "$device" ]; then
        echo "${device##*/} is not there after settle"
    elif ! handled "$device"; then
        echo "the uevent of ${device##*/} was not handled when settle returned"
    fi
done
END
chmod +x /rig/settle_and_look
settle_and_look() { chrt -f 50 /rig/settle_and_look "$@"; }

# N times all loads at once, as they come.
natural() {
    wrong=
    for round in $(seq "$1"); do
        modules='' devices='' sources=''
        for load in $loads; do
            modules="$modules $(echo "$load" | cut -d : -f 2)"
            devices="$devices $(echo "$load" | cut -d : -f 3)"
            sources="$sources /sys/class/mem/$(echo "$load" | cut -d : -f 1)"
        done
        rmmod $modules 2>/dev/null || :
        udevadm settle 2>/dev/null
        udevadm trigger --action=change $sources
        found=$(settle_and_look $devices)
        [ -z "$found" ] || wrong="$wrong${wrong:+
}round $round: $found"
        [ "$(for d in $devices; do [ -e "$d" ] && echo; done | wc -l)" -eq 4 ] || break
    done
    echo "$wrong"
}

# One round in which the manager finds all at once, in this order: an event has ended, the uevents of a load, the
# load has ended. It then has no other event, and with equal priorities sd-event goes on with the result, not with
# the uevents: its heap of equals puts the last one where the first one was. A look at the load, every 50 ms, in
# between would change that order: the ping lets the manager do it before the stop, which is short.
held() {
    rm -f /run/hold/*-waits
    rmmod ifb 2>/dev/null || :
    udevadm settle 2>/dev/null
    manager=$(pids_of systemd-udevd)
    udevadm trigger --action=change /sys/class/mem/kmsg
    wait_until [ -e /run/hold/event-waits ] || { echo "the event did not run its program"; return; }
    udevadm trigger --action=change /sys/class/mem/port
    wait_until [ -e /run/hold/load-waits ] || { echo "the load did not start"; return; }
    settle_and_look /sys/class/net/ifb1 &
    usleep 200000                   # settle watches /run/udev/queue, and the event that asked for the load has ended
    udevadm control --ping
    kill -STOP "$manager"
    echo >/run/hold/event
    usleep 3000
    echo >/run/hold/load
    wait_until [ -e /sys/class/net/ifb1 ] || echo "the load did not end"
    usleep 3000
    kill -CONT "$manager"
    wait $!
}

# N rounds, or as many as it takes to see it fail.
held_rounds() {
    for round in $(seq "$1"); do
        found=$(held)
        [ -z "$found" ] || { echo "round $round: $found"; return; }
    done
}

udevd_restart module_queue=yes
judge "settle: 200 loads, all handled when settle returns" "$(natural 50)"
judge "settle: an event, the uevents and the result of a load at once" "$(held_rounds 10)"

for udevadm in /rig/mutants/*; do
    [ -e "$udevadm" ] || continue       # there are none with sanitizers
    udevd_stop
    wait_until no_udevd
    cp "$udevadm" /usr/bin/udevadm
    udevd_start
    found=$(held_rounds 10)
    case $found in
        *" settle "* | *" settle") ok "settle: noticed: loader results with ${udevadm##*/} priority" ;;
        *) failed "settle: noticed: loader results with ${udevadm##*/} priority" "${found:-settle was right in 10 rounds}" ;;
    esac
done
