# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Loaders and workers that are killed, and loaders that are stopped: what was asked for is loaded in the end or named in
# the log, nobody else is held up, settle returns, udevd answers all the time (model rules 6, 8 and 9).

. /rig/guest.sh

# A module that is held is inserted when it may go on, unless its loader is dead by then.
cat >/rig/hold <<'EOF'
#!/bin/sh
read -r kills </run/test/kills
: >"/run/test/held-$1"
until [ -e /run/test/go ]; do usleep 5000; done
read -r now </run/test/kills
[ "$now" = "$kills" ] || exit 1
insmod "$2"
EOF
cat >/rig/see <<'EOF'
#!/bin/sh
cat "/sys/module/$1/initstate" >"/run/test/seen-$1" 2>&1
EOF
cat >/rig/asks_later <<'EOF'
#!/bin/sh
: >/run/test/asks-later
while [ -e /run/test/asks-later ]; do usleep 5000; done
EOF
chmod +x /rig/hold /rig/see /rig/asks_later

held='ifb nlmon brd eql'
for module in $held; do
    echo "install $module /rig/hold $module $(module_file $module)"
done >/etc/modprobe.d/test.conf
echo 'options slow_00 ms=500' >>/etc/modprobe.d/test.conf

# Nothing is loaded, or only what is in FILE: unload [FILE]
unload() {
    for module in $(modules_beyond "${1-/run/base}"); do
        rmmod "$module" 2>/dev/null || :
    done
    udevadm settle 2>/dev/null
    rm -rf /run/test
    mkdir /run/test
    echo 0 >/run/test/kills
}

# rules DEVICE:RUN-LIST…: what the mem devices do on "change"; ~ is a blank.
rules() {
    for rule; do
        echo "ACTION==\"change\", SUBSYSTEM==\"mem\", KERNEL==\"${rule%%:*}\", ${rule#*:}" | tr "~" " "
    done >/etc/udev/rules.d/00-test.rules
    udevadm control --reload
}

load() { echo "RUN{builtin}+=\"kmod~load~$1\""; }

change() {
    for device; do
        udevadm trigger --action=change "/sys/class/mem/$device"
    done
}

are_held() {
    for module; do
        [ -e "/run/test/held-$module" ] || return 1
    done
}

# For 4 s; looks less often than wait_until, which would take the CPU from what is waited for.
hold() {
    for _ in $(seq 400); do
        ! are_held "$@" || return 0
        usleep 10000
    done
    echo "not all loads start of: $*"
}

go() { touch /run/test/go; }

loaders() { pids_of '(udev-loader)'; }
workers() { pids_of '(udev-worker)'; }

# kill_all PIDS…; what they hold is not to be inserted by what is left of them.
kill_all() {
    echo $(($(cat /run/test/kills) + 1)) >/run/test/kills
    rm -f /run/test/held-*
    [ $# -gt 0 ] || echo "there is nobody to kill"
    kill -KILL "$@" 2>/dev/null || :
}

log_says() { log | grep -q "$1" || echo "the log does not say: $1"; }

answers() {
    before=$(cut -d ' ' -f 1 /proc/uptime | tr -d .)
    udevadm control --ping --timeout=10 || echo "udevd does not answer"
    after=$(cut -d ' ' -f 1 /proc/uptime | tr -d .)
    [ $((after - before)) -lt 200 ] || echo "udevd takes $((after - before)) hundredths of a second to answer"
}

is_loaded() {
    for module; do
        [ -d "/sys/module/$module" ] || return 1
    done
}

# ended MODULE…: what must be true in the end.
ended() {
    answers
    udevadm settle --timeout=100 2>/dev/null || echo "settle failed"
    [ ! -e /run/udev/queue ] || echo "/run/udev/queue is there after settle"
    for module; do
        is_loaded "$module" || echo "$module is not loaded"
    done
    [ "$(pids_of systemd-udevd)" = "$manager" ] || echo "udevd is another one"
}

seen() {
    for module; do
        [ "$(cat "/run/test/seen-$module" 2>&1)" = live ] ||
            echo "the program behind $module saw: $(cat "/run/test/seen-$module" 2>&1)"
    done
}

is_idle() { [ -n "$(loaders)" ] && udevadm settle 2>/dev/null; }

start() {
    udevd_restart "module_queue=$1"
    manager=$(pids_of systemd-udevd)
}

module_names >/run/empty
trigger
settle
module_names >/run/base

start yes

judge "deaths: a loader is killed twice over one module, nobody waits" "$(
    unload
    log_start
    rules "null:$(load ifb)"
    change null
    hold ifb
    kill_all $(loaders)
    hold ifb
    kill_all $(loaders)
    ended
    log_says "died (signal 9) at module ifb .*tried once more"
    log_says "died (signal 9) at module ifb .*not tried again"
    ! is_loaded ifb || echo "the module is loaded, the case is void"
    sleep 4                         # a failure answers whoever asks in the next 3 s
    go
    change null
    ended ifb
)"

judge "deaths: a loader is killed twice over one module, a program waits" "$(
    unload
    log_start
    rules "null:$(load ifb),RUN+=\"/rig/see~ifb\""
    change null
    hold ifb
    kill_all $(loaders)
    hold ifb
    kill_all $(loaders)
    hold ifb                        # this time by the worker
    [ -z "$(loaders)" ] || echo "there is a loader"
    go
    ended ifb
    seen ifb
    log_says "died (signal 9) at module ifb .*not tried again"
)"

all_at_once() {
    unload
    rules "null:$(load ifb)" "zero:$(load nlmon)" "full:$(load brd)" "random:$(load eql),RUN+=\"/rig/see~eql\""
    change null zero full random
    hold $held
    kill_all $(loaders)
    hold $held
    go
    ended $held
    seen eql
}
judge "deaths: all loaders are killed at once" "$(all_at_once)"

judge "deaths: a loader is killed while a driver probes in it" "$(
    unload
    rmmod slow_00
    log_start
    rules "null:$(load slow_00)" "zero:$(load dummy)"
    change null
    wait_until is_loaded slow_00 || echo "the load did not start"
    kill_all $(loaders)
    change zero
    ended slow_00 dummy
    [ "$(log | grep -c 'probe sleeps')" -eq 1 ] || echo "it probes $(log | grep -c 'probe sleeps') times"
    [ -e /sys/bus/platform/devices/slow_00.0/driver ] || echo "the device has no driver"
)"

are_dead() {
    for pid in "$@"; do
        case $(cut -d ' ' -f 3 "/proc/$pid/stat" 2>/dev/null) in
            '' | Z) ;;
            *) return 1 ;;
        esac
    done
}
judge "deaths: idle loaders are killed" "$(
    unload
    log_start
    go
    rules "null:$(load ifb)" "zero:$(load nlmon)" "full:$(load dummy)"
    change null zero
    wait_until is_idle || echo "there is no idle loader"
    idle=$(loaders)
    kill_all $idle
    # One that takes an order before it dies has not been idle.
    wait_until are_dead $idle || echo "they do not die"
    change full
    ended ifb nlmon dummy
    # With an order on its way to it, it is not idle.
    log_says "died (signal 9)"
)"

# The order for one of them is the next that udevd does then.
unheard() {
    unload
    log_start
    go
    rules "null:$(load ifb)" "zero:$(load nlmon)" "full:PROGRAM=\"/rig/asks_later\",$(load dummy)"
    change null zero
    wait_until is_idle || echo "there is no idle loader"
    change full
    wait_until [ -e /run/test/asks-later ] || echo "the rule does not run"
    killed=$(loaders)
    kill -STOP "$manager"
    kill_all $killed
    rm /run/test/asks-later
    sleep 1
    kill -CONT "$manager"
    ended ifb nlmon dummy
    for loader in $killed; do
        log_says "Loader \[$loader\] died (signal 9) while idle"
    done
    log | grep 'Failed to start' || :
}
judge "deaths: idle loaders are killed, and udevd has not heard of it" "$(unheard)"

judge "deaths: a loader is stopped in its load" "$(
    unload
    rules "null:$(load ifb)" "zero:$(load dummy),RUN+=\"/rig/see~dummy\""
    change null
    hold ifb
    stopped=$(loaders)
    kill -STOP $stopped
    go
    answers
    change zero
    wait_until [ -e /run/test/seen-dummy ] || echo "others do not go on"
    answers
    ! udevadm settle --timeout=2 2>/dev/null || echo "settle does not wait"
    answers
    kill -CONT $stopped
    ended ifb dummy
    seen dummy
)"

# Its order is read when it goes on. Stock's worker holds its event in the same way, until it is killed at the event
# timeout.
judge "deaths: an idle loader is stopped" "$(
    unload
    log_start
    go
    rules "null:$(load ifb)" "zero:$(load nlmon)" "full:$(load dummy),RUN+=\"/rig/see~dummy\""
    change null
    wait_until is_idle || echo "there is no idle loader"
    stopped=$(loaders)
    kill -STOP $stopped
    change zero
    usleep 100000
    change full
    wait_until [ -e /run/test/seen-dummy ] || echo "others do not go on"
    answers
    sleep 70                        # a third of the event timeout
    answers
    ! is_loaded nlmon || echo "the stopped loader got no order, the case is void"
    log_says "module nlmon .* takes long"
    kill -CONT $stopped
    ended ifb nlmon dummy
    seen dummy
)"

# With "wait", so that all events wait for their loads.
start wait

judge "deaths: workers are killed that wait, each for its own module" "$(
    unload
    rules "null:$(load ifb)" "zero:$(load nlmon)" "full:$(load brd)" "random:$(load eql)"
    change null zero full random
    hold $held
    kill -KILL $(workers)
    answers
    go
    ended $held
)"

judge "deaths: workers are killed that wait for the same module" "$(
    unload
    rules "*:$(load ifb)" "kmsg:$(load dummy)"
    change null zero full random urandom
    hold ifb
    usleep 300000
    [ "$(workers | wc -l)" -ge 5 ] || echo "there are only $(workers | wc -l) workers"
    kill -KILL $(workers)
    answers
    change kmsg
    go
    ended ifb dummy
)"

rm /etc/udev/rules.d/00-test.rules
mv /etc/modprobe.d/test.conf /run/

# Coldplugs in which a loader is killed every few ms, again and again. Where two have died over the same module, the
# next trigger brings it, and the devices behind it; but not those whose probe the kernel has broken off (to start a
# kernel thread, say, fails in a process that is being killed), nor what is behind them: these are probed again. Either
# is named in the log.
broken_probes() { log | sed -nE 's/.*: probe of ([^ ]+) failed with error -.*/\1/p'; }

storm() {
    unload /run/empty
    log_start
    touch /run/storm
    round=0
    while [ -e /run/storm ]; do
        # One after the other of them; with few processes, which take the CPU from the coldplug.
        round=$((round + 1))
        set -- $(grep -lxF '(udev-loader)' /proc/[0-9]*/comm 2>/dev/null || :)
        if [ $# -gt 0 ]; then
            shift $((round % $#))
            loader=${1%/comm}
            kill -KILL "${loader#/proc/}" 2>/dev/null || :
        fi
        usleep 20000
    done &
    killer=$!
    trigger
    ended
    rm /run/storm
    wait $killer
    module_names >/run/now
    missing=$(grep -vxF -f /run/now /run/base | xargs)
    died=$(log | grep -c 'Loader .* died (signal 9) at module') || :
    lost=$(log | grep -c 'Loader .* died (signal 9) at module .*not tried again') || :
    echo "storm: $died loads died, $lost for good; missing then: $missing"
    [ "$died" -gt 0 ] || echo "wrong: none has died"
    broken=$(broken_probes)
    [ -z "$missing" ] || [ "$lost" -gt 0 ] || [ -n "$broken" ] ||
        echo "wrong: the log names no module and no device, but there are missing: $missing"
    sleep 4
    trigger
    ended
    broken=$(broken_probes)
    for device in $broken; do
        echo "storm: the kernel has broken off the probe of $device"
        echo "$device" | tee /sys/bus/*/drivers_probe >/dev/null 2>&1 || :
    done
    [ -z "$broken" ] || { trigger; ended; }
    module_names >/run/now
    grep -vxF -f /run/now /run/base | sed 's/^/wrong: it is still missing: /'
}

for mode in yes wait; do
    start $mode
    storm >/run/storm.out
    grep '^storm' /run/storm.out
    judge "deaths: a coldplug with a loader killed every 20 ms, module_queue=$mode" "$(grep -v '^storm' /run/storm.out)"
done

[ -d /rig/mutants ] || exit 0
mv /run/test.conf /etc/modprobe.d/

# noticed CASE MUTANT TEXT COMMAND: what the command says of that udevd has the text
noticed() {
    rm /usr/bin/udevadm             # it runs
    cp "/rig/mutants/$2" /usr/bin/udevadm
    start yes
    found=$($4)
    case $found in
        *"$3"*) ok "deaths: noticed: $1" ;;
        *) failed "deaths: noticed: $1" "${found:-nothing is wrong}" ;;
    esac
}
noticed "a load whose loader has died is not tried again" gives_up "ifb is not loaded" all_at_once
noticed "a load waits that a dead loader has got" keeps_to_it "Failed to start" unheard
