# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Little of everything: nothing hangs, udevd answers, and what stock loads is loaded.

. /rig/guest.sh

# What is there in FILE stays: unload FILE
unload() {
    for module in $(modules_beyond "$1"); do
        rmmod "$module" 2>/dev/null || :
    done
}

# udevd has nothing to do any more when all its children have left, also where /run/udev/queue cannot tell.
has_ended() {
    for _ in $(seq "$1"); do
        [ -n "$(pids_of '(udev-worker)')$(pids_of '(udev-loader)')" ] || return 0
        sleep 1
    done
    return 1
}

# udevd is started by a shell that has done PREPARE: start MODE PREPARE [AFTER]
start() {
    udevd_stop
    wait_until no_udevd
    printf '%s\n' "module_queue=$1" $settings >/etc/udev/udev.conf
    log_start
    case $2 in "mount --bind"*) enter="unshare -m" ;; *) enter= ;; esac
    SYSTEMD_LOG_TARGET=kmsg $enter sh -c "$2
        exec \$run /usr/lib/systemd/systemd-udevd --daemon" || echo "udevd does not start"
    [ -z "${3-}" ] || sh -c "$3" || echo "failed: $3"
}

# What is loaded in the end, beyond FILE: outcome FILE
outcome() {
    udevadm control --ping --timeout=10 || echo "udevd does not answer"
    udevadm settle --timeout=60 2>/dev/null || echo "settle failed"
    has_ended 30 || echo "it does not end"
    modules_beyond "$1" | sort | xargs
}

# coldplug MODE PREPARE, and change MODE PREPARE [AFTER], of the mem devices: what that loads
coldplug() {
    unload /run/empty
    start "$@"
    trigger
    outcome /run/empty
}

change() {
    unload /run/base
    start "$@"
    # All workers at once, before any of them can ask for a loader.
    udevadm control --stop-exec-queue
    udevadm control --ping
    for device in null zero full random urandom kmsg port; do
        echo change >"/sys/class/mem/$device/uevent"
    done
    udevadm control --ping
    udevadm control --start-exec-queue
    outcome /run/base
}

# expect CASE MODE FOUND EXPECTED
expect() {
    if [ "$3" = "$4" ]; then
        ok "scarce: $1, module_queue=$2"
    else
        failed "scarce: $1, module_queue=$2" "'$3' instead of '$4'"
    fi
}

# As stock, in these modes: scarce CASE "MODE…" PREPARE [AFTER]
settings=
scarce() {
    case=$1
    modes=$2
    shift 2
    stock=$(change no "$@")
    for mode in $modes; do
        expect "$case, as stock ($(echo "$stock" | wc -w) modules)" $mode "$(change $mode "$@")" "$stock"
    done
}

# log_says CASE TEXT
log_says() {
    judge "scarce: $1: the log says why" "$(log | grep -q "$2" || echo "it does not say: $2")"
}

# The last udevd has said, once, that it could not write down what was asked for: log_warns CASE ERROR
log_warns() {
    log | grep -F 'Failed to note in /run/udev/module-queue' >/run/warnings || :
    judge "scarce: $1: the log warns, once" "$(
        [ "$(wc -l </run/warnings)" -eq 1 ] || echo "$(wc -l </run/warnings) times"
        grep -qvF "$2" /run/warnings && cat /run/warnings
    )"
}

module_names >/run/empty
trigger
settle
module_names >/run/base
found=$(modules_beyond /run/empty | sort | xargs)       # by stock, in its coldplug
rules=/etc/udev/rules.d/00-test.rules
for load in null:dummy:minix zero:ifb:vfat full:nlmon random:pppoe:brd urandom:veth kmsg:nlmon port:eql; do
    names=$(echo "${load#*:}" | tr : ' ')
    echo "ACTION==\"change\", SUBSYSTEM==\"mem\", KERNEL==\"${load%%:*}\", RUN{builtin}+=\"kmod load $names\""
done >$rules
all='brd dummy eql fat ifb minix nlmon ppp_generic pppoe pppox slhc veth vfat'
mkdir -p /run/empty.d /run/cgroup
mount -t cgroup2 none /run/cgroup
echo "+pids" >/run/cgroup/cgroup.subtree_control
mkdir /run/cgroup/udevd
confined="echo \$\$ >/run/cgroup/udevd/cgroup.procs"

expect "enough for all" no "$(change no :)" "$all"
settings="children_max=1"
expect "one worker" yes "$(change yes :)" "$all"
settings="module_queue_loaders=1"
expect "one loader" yes "$(change yes :)" "$all"
settings="children_max=1 module_queue_loaders=1"
expect "one worker, one loader" wait "$(change wait :)" "$all"
expect "one worker, one loader, in a coldplug of $(echo "$found" | wc -w) modules" yes "$(coldplug yes :)" "$found"
settings=
expect "a coldplug with $(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo) MiB" yes "$(coldplug yes :)" "$found"

# udevd raises the limit if it may.
files='run="/rig/setpriv --bounding-set -sys_resource"; ulimit -n'
scarce "64 files" yes "$files 64"
scarce "32 files" yes "$files 32"
log_says "32 files" "Too many open files"

for n in 8 3; do
    echo $n >/run/cgroup/udevd/pids.max
    before=$(cat /run/cgroup/udevd/pids.events)
    scarce "$n processes" "yes wait" "$confined"
    judge "scarce: $n processes: the limit is reached" \
        "$([ "$(cat /run/cgroup/udevd/pids.events)" != "$before" ] || echo never)"
done
log_says "3 processes" "Failed to start a module loader, .*, events that wait for some load them by themselves"

# With the loader, whose install line does not end, and one worker all processes are there that may be.
hangs() {
    unload /run/base
    echo max >/run/cgroup/udevd/pids.max
    mkfifo /run/fifo
    echo "install eql read -r x </run/fifo; exec insmod $(module_file eql)" >/etc/modprobe.d/test.conf
    echo 'ACTION=="change", SUBSYSTEM=="mem", KERNEL=="mem", IMPORT{builtin}="kmod load minix"' >>$rules
    start yes "$confined"
    echo change >/sys/class/mem/port/uevent
    wait_until is_alone || echo "the worker does not leave"
    echo $(($(cat /run/cgroup/udevd/pids.current) + 1)) >/run/cgroup/udevd/pids.max
    echo change >/sys/class/mem/mem/uevent
    wait_until [ -d /sys/module/minix ] || echo "the worker does not load by itself"
    udevadm control --ping --timeout=10 || echo "udevd does not answer"
    [ ! -d /sys/module/eql ] || echo "the load that is held has ended, the case is void"
    timeout 5 sh -c "echo go >/run/fifo" || echo "nobody holds it"
    [ "$(outcome /run/base)" = "eql minix" ] || echo "loaded in the end: $(modules_beyond /run/base | xargs)"
    rm /etc/modprobe.d/test.conf
}
is_alone() { [ -n "$(pids_of '(udev-loader)')" ] && [ -z "$(pids_of '(udev-worker)')" ]; }
judge "scarce: no process, and the only loader hangs" "$(hangs)"
log_says "no process, and the only loader hangs" \
    "Failed to start a module loader, .*, events that wait for some load them by themselves"
echo max >/run/cgroup/udevd/pids.max

scarce "no /sys/module" yes "mount --bind /run/empty.d /sys/module"
scarce "no /proc" yes "mount --bind /run/empty.d /proc"

# Stock ends an event that it cannot write to the database with an error, before RUN. What a rule needs by itself is
# loaded by then.
echo 'ACTION=="change", SUBSYSTEM=="mem", KERNEL=="null", IMPORT{builtin}="kmod load minix"' >>$rules
mount --bind /run/udev /run/udev
scarce "/run/udev cannot be written" yes "mount -o remount,rw,bind /run/udev" "mount -o remount,ro,bind /run/udev"
log_warns "/run/udev cannot be written" "Read-only file system"
mount -o remount,rw,bind /run/udev
udevd_stop
wait_until no_udevd
umount -l /run/udev
mount -t tmpfs -o size=64k tmpfs /run/udev
scarce "/run/udev is full" yes "rm -rf /run/udev/*" "dd if=/dev/zero of=/run/udev/full 2>/dev/null; [ -s /run/udev/full ]"
log_warns "/run/udev is full" "No space left on device"
