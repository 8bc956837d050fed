# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# What was asked for is loaded in the end, whatever becomes of udevd meanwhile.

. /rig/guest.sh

journal=/run/udev/module-queue

# As systemd's service: udevd and all that it starts are in a cgroup.
cgroup=/sys/fs/cgroup/udevd
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir $cgroup

# These start, and wait until they may go on: go.
cat >/rig/hold <<'END'
#!/bin/sh
mkdir -p "/run/test/held/$1"
: </run/test/pipe
insmod "$2"
END
chmod +x /rig/hold
for module in ifb nlmon; do
    echo "install $module /rig/hold $module $(module_file $module)"
done >/etc/modprobe.d/test.conf
cat >/etc/udev/rules.d/00-test.rules <<'END'
ACTION!="change", GOTO="test_end"
SUBSYSTEM=="mem", KERNEL=="null", RUN{builtin}+="kmod load ifb"
SUBSYSTEM=="mem", KERNEL=="zero", RUN{builtin}+="kmod load nlmon"
SUBSYSTEM=="mem", KERNEL=="full", RUN{builtin}+="kmod load fs-vfat"
SUBSYSTEM=="mem", KERNEL=="random", RUN{builtin}+="kmod load dummy"
LABEL="test_end"
END
asked="ifb nlmon vfat dummy"

go() { exec 9<>/run/test/pipe; }

# All but the modules that were there first, as far as that can be; newest first.
unload() {
    exec 9>&-
    module_names | grep -vxF -f /run/first | while read -r module; do
        rmmod "$module" 2>/dev/null || :
    done
    rm -rf /run/test
    mkdir /run/test
    mkfifo /run/test/pipe
}

# start [COMMAND…]: udevd, by that command
start() {
    (
        echo 0 >$cgroup/cgroup.procs
        export SYSTEMD_LOG_TARGET=kmsg
        exec "$@" /usr/lib/systemd/systemd-udevd --daemon 9>&-
    )
}

group_is_empty() { [ -z "$(cat $cgroup/cgroup.procs)" ]; }

# What systemd does when the manager is gone, and the service has KillMode=mixed.
kill_rest() {
    echo 1 >$cgroup/cgroup.kill
    wait_until group_is_empty || echo "udevd's processes cannot be killed"
}

# no_udevd_within SECONDS
no_udevd_within() {
    for i in $(seq "$1"); do
        ! no_udevd || return 0
        sleep 1
    done
    echo "udevd is there after $1 s"
}

stop() {
    udevadm control --exit || :
    no_udevd_within 30
    kill_rest
}

# crash WHAT: the manager is killed, with "all" the rest, too, and another udevd started
crash() {
    kill -KILL $(pids_of systemd-udevd)
    [ "$1" != all ] || kill_rest
    rm -rf /run/test/held
    usleep 100000
    start
}

held() { [ -d /run/test/held/ifb ] && [ -d /run/test/held/nlmon ]; }

# events N: that many have ended
events() { [ "$(grep -c '^UDEV  *\[.*/mem/' /run/test/monitor)" -ge "$1" ]; }

# Four modules are asked for, one event each. There are two loaders, and the first two modules take them if they wait.
ask() {
    : >/run/test/monitor
    udevadm monitor --udev >>/run/test/monitor &
    monitor=$!
    wait_until grep -q received /run/test/monitor || :
    usleep 100000
    udevadm trigger --action=change /sys/class/mem/null /sys/class/mem/zero
    wait_until held || echo "the loads do not start"
    udevadm trigger --action=change /sys/class/mem/full /sys/class/mem/random
    wait_until events 4 || echo "the events do not end"
    kill $monitor
    udevadm control --ping || echo "udevd does not answer"
}

# settle returns, and leaves nothing. What is there after it may be of a uevent that the kernel has sent since: a USB disk
# is looked for after a second. So it counts when none has come meanwhile.
settled() {
    local before i left now=''

    udevadm control --ping || echo "udevd does not answer"
    for i in $(seq 20); do
        read -r before </sys/kernel/uevent_seqnum
        udevadm settle --timeout=60 2>/dev/null || echo "settle failed"
        left=$(ls -d /run/udev/queue $journal 2>/dev/null || :)
        read -r now </sys/kernel/uevent_seqnum
        [ "$now" != "$before" ] || break
    done
    [ "$now" = "$before" ] || echo "uevents do not end"
    [ -z "$left" ] || echo "left: $left"
}

unsettled() {
    udevadm control --ping || echo "udevd does not answer"
    ! udevadm settle --timeout=1 2>/dev/null || echo "settle does not wait"
}

# loaded MODULE…
loaded() {
    for module; do
        [ "$(cat "/sys/module/$module/initstate" 2>/dev/null)" = live ] || echo "$module is not loaded"
    done
}

missing() {
    module_names >/run/after
    grep -vxF -f /run/after /run/base
}

all_there() { [ -z "$(missing)" ]; }

# All that a coldplug loads is there: complete WHEN. Settle does not wait for the kernel's timers: a USB disk is looked
# for after a second.
complete() {
    wait_until all_there || echo "missing $1: $(missing | xargs)"
}

# said TEXT…: udevd's log has it since log_start
said() {
    log >/run/test/log
    for text; do
        grep -q "$text" /run/test/log || echo "the log does not say: $text"
    done
}

# killed WHAT ROUNDS: with held loads
killed() {
    unload
    log_start
    ask
    for round in $(seq "$2"); do
        crash "$1"
        wait_until held || echo "round $round: the loads do not start again"
    done
    unsettled
    go
    settled
    loaded $asked
    said "udevd before this one has left 4 requests"
}

# coldplug_killed WHAT MS…: so long after the first module is asked for. Not all devices have their driver in the end if
# a loader was killed in its probe, which the kernel may then end with an error: the module is live, and nobody probes
# again. As in stock.
coldplug_killed() {
    what=$1
    shift
    for ms; do
        unload
        go
        trigger
        wait_until [ -e $journal ] || echo "no module is asked for"
        usleep "${ms}000"
        cp $journal /run/test/left 2>/dev/null || : >/run/test/left
        crash $what
        settled
        journal_modules /run/test/left /run/base >/run/test/noted || :
        wc -l </run/test/noted >>/run/noted
        loaded $(cat /run/test/noted)
        trigger
        settled
        [ $what = all ] || complete "when killed after $ms ms"
    done
    [ "$(awk '{ n += $1 } END { print n + 0 }' /run/noted)" -gt 0 ] || echo "nothing was ever left"
}

# told_in_loads COMMAND…: to leave, with held loads
told_in_loads() {
    unload
    log_start
    ask
    "$@" &
    usleep 300000
    ! no_udevd || echo "udevd does not wait"
    go
    no_udevd_within 10
    said "Waiting for 2 modules that are loading" "Waiting for module ifb" "Waiting for module nlmon"
    loaded $asked
    [ ! -e $journal ] || echo "$journal is left"
    kill_rest
    start
    settled
}

# told_in_coldplug COMMAND…
told_in_coldplug() {
    unload
    go
    trigger
    usleep 300000
    "$@" &
    no_udevd_within 60
    [ ! -e $journal ] || echo "$journal is left"
    kill_rest
    start
    trigger
    settled
    complete "when told to leave"
}

signal() { kill "-$1" $(pids_of systemd-udevd); }

# The loads are held and do not end.
stop_in_vain() {
    read -r before _ </proc/uptime
    signal TERM
    no_udevd_within 100
    read -r after _ </proc/uptime
    took=$((${after%.*} - ${before%.*}))
    { [ $took -ge 78 ] && [ $took -le 90 ]; } || echo "the stop took $took s"
    said "Not waiting longer for module ifb" "Not waiting longer for module nlmon"
    kill_rest
}

gives_up() {
    unload
    log_start
    ask
    stop_in_vain
    for module in vfat dummy; do
        said "Module $module was asked for and is not loaded yet.*next udevd whose queue is on loads it"
    done
    rm -rf /run/test/held
    start
    wait_until held || echo "the loads do not start again"
    unsettled
    go
    settled
    loaded $asked
}

# settings [LINE…]: udevd is started with these from now on
settings() { printf '%s\n' "$@" >/etc/udev/udev.conf; }

module_names >/run/first
: >/run/noted
stop
settings module_queue=yes module_queue_loaders=2
start
trigger
settle
module_names >/run/base
unload

judge "restart: a coldplug can be repeated" "$(
    n=$(module_names | wc -l)
    all=$(wc -l </run/base)
    [ $((all - n)) -ge 10 ] || echo "only $((all - n)) of $all modules can be unloaded"
)"

judge "restart: killed with all its processes, 3 times" "$(killed all 3)"
judge "restart: killed, its loaders go on, 3 times" "$(killed manager 3)"
judge "restart: killed with all its processes, in a coldplug" "$(coldplug_killed all 0 50)"
judge "restart: killed, its loaders go on, in a coldplug" "$(coldplug_killed manager 0 600)"
judge "restart: told to exit, in loads" "$(told_in_loads udevadm control --exit)"
judge "restart: SIGTERM, in loads" "$(told_in_loads signal TERM)"
judge "restart: SIGTERM, in a coldplug" "$(told_in_coldplug signal TERM)"
judge "restart: a stop that takes too long" "$(gives_up)"

# Of the initramfs only /run stays. The real root has a modprobe.d and rules of its own.
judge "restart: the root is switched in a coldplug" "$(
    mkdir /sysroot
    mount -t tmpfs tmpfs /sysroot
    for dir in dev proc run sys tmp usr; do
        mkdir /sysroot/$dir
        mount --bind /$dir /sysroot/$dir
    done
    cp -a /etc /bin /sbin /lib* /sysroot/
    rm /sysroot/etc/modprobe.d/test.conf /sysroot/etc/udev/rules.d/00-test.rules

    unload
    ask
    trigger
    usleep 200000
    udevadm control --exit --timeout=1 2>/dev/null || :
    no_udevd_within 100
    kill_rest
    [ -s $journal ] || echo "nothing is left to the real root"
    start chroot /sysroot
    settled
    loaded $asked
    trigger
    settled
    complete "in the real root"
    stop
    umount /sysroot/dev /sysroot/proc /sysroot/run /sysroot/sys /sysroot/tmp /sysroot/usr /sysroot
)"

# broken CASE LOG-TEXT: with what is in the place of the journal
broken() {
    judge "restart: $1 in the place of the journal" "$(
        unload
        go
        log_start
        start
        udevadm control --ping || echo "udevd does not answer"
        said "$2"
        ask
        settled
        loaded $asked
        stop
    )"
    rm -rf $journal
}

echo "nobody has written this" >$journal
broken "garbage" "cut off or damaged at byte 0 of"
echo "udev module queue 99" >$journal
broken "another version" "writes it in another way"
ln -s /etc/passwd $journal
broken "a symbolic link" "Failed to read.*Too many levels of symbolic links"
mkfifo $journal
broken "a pipe" "Failed to read"

judge "restart: a cut-off journal" "$(
    unload
    start
    ask
    head -c $(($(stat -c %s $journal) - 1)) $journal >/run/cut
    go
    settled
    stop
    unload
    go
    mv /run/cut $journal
    log_start
    start
    settled
    said "cut off or damaged at byte [0-9]* of [0-9]*: the rest is ignored, the 3 requests" "has left 3 requests"
    n=0
    for module in $asked; do
        [ ! -d /sys/module/$module ] || n=$((n + 1))
    done
    [ $n -eq 3 ] || echo "$n of 3 modules are loaded"
    stop
)"

judge "restart: a directory in the place of the journal" "$(
    unload
    mkdir $journal
    log_start
    start
    ask
    said "Failed to read $journal" "Failed to remove $journal" "Failed to note in $journal"
    [ "$(grep -c "Failed to note" /run/test/log)" -eq 1 ] || echo "that is said several times"
    stop_in_vain
    said "Module vfat was asked for and is not loaded.*lost" "Module dummy was asked for and is not loaded.*lost"
    rmdir $journal
)"

judge "restart: module_queue=no leaves the journal alone" "$(
    unload
    go
    echo "udev module queue 99" >$journal
    before=$(stat -c '%X %Y %Z %s' $journal)
    sleep 2
    settings module_queue=no
    start
    ask
    udevadm settle --timeout=60 || echo "settle failed"
    loaded $asked
    stop
    [ "$(stat -c '%X %Y %Z %s' $journal)" = "$before" ] || echo "it was looked at"
    rm $journal
)"
settings module_queue=yes module_queue_loaders=2

# noticed CASE MUTANT TEXT COMMAND…: what the command says of that udevd has the text
noticed() {
    case=$1 text=$3
    cp "/rig/mutants/$2" /usr/bin/udevadm
    shift 3
    start
    found=$("$@")
    case $found in
        *"$text"*) ok "restart: noticed: $case" ;;
        *) failed "restart: noticed: $case" "${found:-nothing is wrong}" ;;
    esac
    go
    stop
}
[ -d /rig/mutants ] || exit 0
noticed "no journal is written" forgets "is not loaded" killed all 1
noticed "udevd looks settled with a journal" settled "settle does not wait" gives_up
