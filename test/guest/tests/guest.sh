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

# The pids of the processes with this name.
pids_of() {
    grep -lxF "$1" /proc/[0-9]*/comm 2>/dev/null | cut -d / -f 3
}

# Stop udevd and start it with these settings, lines of udev.conf: udevd_restart [LINE…]
udevd_restart() {
    udevd_stop
    wait_until no_udevd
    printf '%s\n' "$@" >/etc/udev/udev.conf
    udevd_start
}

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
