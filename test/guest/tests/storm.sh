# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Thousands of devices that ask for one module. If it loads, that is one attempt by udevd's processes; if its init fails,
# one for each 3 s (model rule 3; but what is loaded meanwhile makes a new one worth while). And the manager's time grows no
# faster than n log n.

. /rig/guest.sh

uptime_ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }
cpu_ns() { cut -d ' ' -f 1 "/proc/$(pids_of systemd-udevd)/schedstat"; }
options() { echo "options $*" >/etc/modprobe.d/storm.conf; }
udevadm=/rig/udevadm
cp /usr/bin/udevadm $udevadm

# The devices are there before udevd is.
options declines ms=20
insertions_start
start=$(uptime_ms)
trigger
settle
took=$(($(uptime_ms) - start))
attempts=$(dmesg | grep -c 'declines: attempt in (udev-' || :)
loaded=$(($(insertions) - attempts))
judge "storm: 3072 devices more in a coldplug, driver answers ENODEV: $attempts attempts in $took ms, $loaded others" "$(
    [ "$attempts" -ge 1 ] || echo "no attempt"
    [ "$attempts" -le $(((took + 2999) / 3000 + loaded)) ] || echo "too many"
)"
# What comes now is between the manager and the loads: without most of what workers do for an event it takes a third of
# the time.
for rules in /usr/lib/udev/rules.d/*.rules; do
    case $rules in */80-drivers.rules) ;; *) rm "$rules" ;; esac
done

stop() {
    udevd_stop
    wait_until no_udevd
    rmmod slow_00 2>/dev/null || :
    rmmod fixture_bus 2>/dev/null || :
}

# start KIND: udevd as stock, with the queue, or a mutant of that.
start() {
    case $1 in
        stock) mode=no; cp $udevadm /usr/bin/udevadm ;;
        queue) mode=yes; cp $udevadm /usr/bin/udevadm ;;
        *) mode=yes; cp "/rig/mutants/$1" /usr/bin/udevadm ;;
    esac
    SYSTEMD_PROC_CMDLINE=udev.module_queue=$mode udevd_start
}

# storm DEVICES: all of them at once, when udevd has nothing else to do. Sets took, in ms, attempts and cpu, of the manager
# in ns.
storm() {
    settle
    insertions_start
    cpu=$(cpu_ns)
    start=$(uptime_ms)
    udevadm control --stop-exec-queue
    modprobe fixture_bus "devices=$1"
    wait_until udevadm control --ping
    udevadm control --start-exec-queue
    settle
    took=$(($(uptime_ms) - start))
    attempts=$(insertions)
    cpu=$(($(cpu_ns) - cpu))
}

# The time for an event is kept by KIND and DEVICES: cost KIND DEVICES
cost() { echo $((cpu / $2)) >"/run/cost-$1-$2"; }

# assert_attempts CASE DEVICES MOST: without MOST one for each 3 s, rounded up
assert_attempts() {
    stop
    start queue
    storm "$2"
    most=${3-$(((took + 2999) / 3000))}
    judge "storm: $1: $attempts attempts in $took ms" "$(
        [ "$attempts" -ge 1 ] && [ "$attempts" -le "$most" ] || echo "should be 1 to $most"
    )"
}

assert_attempts "3072 devices, driver answers ENODEV" declines:3072
cost queue 3072
assert_attempts "3072 devices with two MODALIASes, driver answers ENODEV" declines:1536,declines_too:1536
options slow_00 ms=0
assert_attempts "3072 devices, driver loads" slow_00:3072 1
options declines ms=0

# noticed WHAT: too many attempts
noticed() {
    if [ "$attempts" -gt $(((took + 2999) / 3000)) ]; then
        ok "storm: noticed: $1: $attempts attempts in $took ms"
    else
        failed "storm: noticed: $1" "$attempts attempts in $took ms"
    fi
}

stop
start forgets
storm declines:200
noticed "failures are not kept, 200 devices"

# The manager's time for an event, from the fewest to the most.
read -r limit sizes </rig/sizes
few=${sizes%% *}
many=${sizes##* }
for size in $sizes; do
    line="storm: the manager's time for each of $size events, us:"
    for kind in stock queue walks; do
        if [ ! -e "/run/cost-$kind-$size" ]; then
            stop
            start $kind
            storm "declines:$size"
            cost $kind "$size"
            [ $kind-$size != stock-500 ] || noticed "stock shares no loads, 500 devices"
        fi
        line="$line $kind $(($(cat "/run/cost-$kind-$size") / 1000))"
    done
    echo "$line"
done

# growth KIND: so many times as much does it take for an event more than stock's manager does
growth() {
    paste "/run/cost-$1-$few" "/run/cost-stock-$few" "/run/cost-$1-$many" "/run/cost-stock-$many" |
        awk '{ printf "%.2f", ($3 - $4) / ($1 - $2) }'
}

# limit is what n log n makes of it.
above() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }

queue=$(growth queue)
judge "storm: from $few to $many devices what the queue adds to the manager's time for each grows $queue times" \
    "$(! above "$queue" "$limit" || echo "more than $limit times")"
walks=$(growth walks)
judge "storm: noticed: all events are looked at: $walks times" "$(above "$walks" "$limit" || echo "not above $limit times")"
