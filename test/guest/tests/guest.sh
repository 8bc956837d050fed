# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# What the tests' scripts in the guest share, beyond lib.sh.

. /rig/cases.sh

# wait_until COMMAND…: for 4 s at least; what happens then is up to the caller.
wait_until() {
    n=0
    until "$@"; do
        n=$((n + 1))
        [ "$n" -le 2000 ] || return 1
        usleep 2000
    done
}

# The modes that a test goes through, in words. What sanitizers find in stock's own code is not asked for: modes MODE…
modes() {
    for mode; do
        [ "$mode" = no ] && [ -n "${ASAN_OPTIONS-}" ] || echo "$mode"
    done
}

# The pids of the processes with this name.
pids_of() {
    grep -lxF "$1" /proc/[0-9]*/comm 2>/dev/null | cut -d / -f 3
}

# Stop udevd and start it with these settings, lines of udev.conf: udevd_restart [LINE…]. That of 262 may not listen yet
# when the process that starts it ends.
udevd_restart() {
    udevd_stop
    wait_until no_udevd
    printf '%s\n' "$@" >/etc/udev/udev.conf
    udevd_start
    wait_until udevadm control --ping 2>/dev/null
}

# log_start, log: what the kernel's log has got since then.
log_start() { dmesg | tail -n 1 >/run/log-start; }
log() { dmesg | awk 'NR == FNR { last = $0; next } seen { print } $0 == last { seen = 1 }' /run/log-start -; }

no_udevd() {
    [ -z "$(pids_of systemd-udevd)" ]
}

# Whether udevd has handled an event of the device: handled SYSFS-DIRECTORY
handled() {
    if [ -e "$1/ifindex" ]; then
        [ -e "/run/udev/data/n$(cat "$1/ifindex")" ]
    elif [ -e "/sys/class/block/${1##*/}" ]; then
        [ -e "/run/udev/data/b$(cat "$1/dev")" ]
    else
        [ -e "/run/udev/data/c$(cat "$1/dev")" ]
    fi
}

module_file() {
    find /usr/lib/modules/ -name "$1.ko*"
}

# What the next "change" events of /dev/null do, in a rule's words.
rule() {
    echo "ACTION==\"change\", SUBSYSTEM==\"mem\", KERNEL==\"null\", $1" >/etc/udev/rules.d/00-test.rules
    udevadm control --reload
}

# The modules that a journal of the queue says to be asked for, as far as they are in NAMES, a file: strings that end with
# NUL, a name has one letter before it (src/udev/udev-module-message.c). journal_modules JOURNAL NAMES
journal_modules() {
    tr '\000' '\n' <"$1" | sed -n 's/^[as]//p' | grep -xF -f "$2" | sort -u
}

module_names() { cut -d ' ' -f 1 /proc/modules; }

# The lines that are not in FILE, which may be empty: busybox's grep -v -f takes that for "all are in it".
# lines_beyond FILE
lines_beyond() { awk -v file="$1" 'BEGIN { while ((getline < file) > 0) there[$0] } !($0 in there)'; }

# The modules that are not in FILE, newest first, as /proc/modules has them: modules_beyond FILE
modules_beyond() { module_names | lines_beyond "$1"; }

# All modules but those of /run/base, and what a case has left in /run/test. Newest first: nothing is in use then.
unload() {
    for module in $(modules_beyond /run/base); do
        rmmod "$module"
    done
    rm -rf /run/test
    mkdir /run/test
}

# insertions_start, insertions: how many modules udevd's processes have tried to insert since then. The kernel's own
# modprobe does not count.
insertions_start() {
    echo 0 >"$TRACING/events/enable"
    echo 16384 >"$TRACING/saved_cmdlines_size"
    echo 1 >"$TRACING/events/syscalls/sys_enter_finit_module/enable"
    echo >"$TRACING/trace"
}

insertions() {
    grep 'sys_finit_module(' "$TRACING/trace" | grep -Evc '^ *(modprobe|insmod)-' || :
}
