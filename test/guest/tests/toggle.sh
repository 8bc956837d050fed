# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# A changed module_queue= and `udevadm control --reload`: on and off at once in the versions that read udev.conf again
# (262), no change in those that do not. Nothing that was asked for is lost, and a queue that is off leaves nothing.

. /rig/guest.sh

version=$(udevadm --version)

cat >/etc/modprobe.d/test.conf <<END
install nlmon /rig/hold $(module_file nlmon)
END
cat >/rig/hold <<'END'
#!/bin/sh
touch /run/held
until [ -e /run/go ]; do usleep 5000; done
insmod "$1"
END
chmod +x /rig/hold

# A program of an event that takes as long as we like, and tells its nice level.
cat >/rig/stay <<'END'
#!/bin/sh
cut -d ' ' -f 19 /proc/self/stat >/run/level.new
mv /run/level.new /run/level
until [ -e /run/leave ]; do usleep 5000; done
END
chmod +x /rig/stay

fds() { find "/proc/$(pids_of systemd-udevd)/fd" -type l | wc -l; }

# udevd's nice level
nice_level() { cut -d ' ' -f 19 "/proc/$(pids_of systemd-udevd)/stat"; }

reload() {
    printf '%s\n' "$@" >/etc/udev/udev.conf
    udevadm control --reload
}

# Ask for a module by an event.
ask() {
    rmmod "$1" 2>/dev/null || :
    echo "ACTION==\"change\", SUBSYSTEM==\"mem\", KERNEL==\"null\", RUN{builtin}+=\"kmod load $1\"" \
        >/etc/udev/rules.d/00-test.rules
    udevadm control --reload
    udevadm trigger --action=change /sys/class/mem/null
}

# Whether loads go through the queue: its loader stays for a while. The module is loaded in any case.
how() {
    ask dummy
    udevadm settle --timeout=60
    [ -d /sys/module/dummy ] || echo "nothing is loaded,"
    if [ -n "$(pids_of '(udev-loader)')" ]; then echo "by a loader"; else echo "by a worker"; fi
}

# Its event, once more.
stay() { udevadm trigger --action=change /sys/class/mem/zero; }

not_first() { [ "$(nice_level)" -eq 0 ]; }
no_workers() { [ -z "$(pids_of '(udev-worker)')" ]; }
no_loaders() { [ -z "$(pids_of '(udev-loader)')" ]; }
as_before() { [ "$(fds)" -eq "$fds" ] && [ "$(nice_level)" -eq 0 ]; }

# expect CASE OUTCOME
expect() {
    found=$(how | xargs)
    if [ "$found" = "$2" ]; then ok "toggle: $1"; else failed "toggle: $1" "'$found' instead of '$2'"; fi
}

# Whether `udevadm trigger` gives a UUID to an event for which nobody waits: uuid CASE yes|no
uuid() {
    echo 'ACTION=="change", SUBSYSTEM=="mem", KERNEL=="full", PROGRAM="/rig/uuid $env{SYNTH_UUID}"' \
        >/etc/udev/rules.d/00-test.rules
    udevadm control --reload
    udevadm trigger --action=change /sys/class/mem/full
    udevadm settle --timeout=60
    case $(cat /run/uuid) in
        0) found=no ;;
        *-*) found=yes ;;
        *) found=nothing ;;
    esac
    if [ "$found" = "$2" ]; then ok "toggle: a UUID, $1"; else failed "toggle: a UUID, $1" "$found instead of $2"; fi
}
printf '#!/bin/sh\necho "$1" >/run/uuid\n' >/rig/uuid
chmod +x /rig/uuid

udevd_restart module_queue=no
trigger
settle
expect "off at the start" "by a worker"
if [ "$version" -lt 262 ]; then uuid "off" no; else uuid "off" yes; fi
# Workers stay for 3 s.
wait_until no_workers || sleep 2
fds=$(fds)

if [ "$version" -lt 262 ]; then
    reload module_queue=yes
    expect "systemd $version does not read udev.conf again" "by a worker"
    udevd_restart module_queue=yes
    expect "on by a restart" "by a loader"
    udevd_restart module_queue=no
    expect "off by a restart" "by a worker"
    exit 0
fi

# An event that is older than the queue is handled, too.
udevadm control --stop-exec-queue
ask dummy
reload module_queue=yes
udevadm control --start-exec-queue
if udevadm settle --timeout=20 && [ -d /sys/module/dummy ]; then
    ok "toggle: on while an event waits"
else
    failed "toggle: on while an event waits" "it is not handled"
fi

expect "on by a reload" "by a loader"
uuid "on" no
reload module_queue=yes module_queue_loaders=1
expect "another number of loaders" "by a loader"

# One that was asked for before is loaded all the same, and settle waits for it.
rm -f /run/held /run/go
ask nlmon
wait_until test -e /run/held || failed "toggle: off in the middle of a load" "it has not begun"
reload module_queue=no
if udevadm settle --timeout=1; then
    failed "toggle: off in the middle of a load" "settle has not waited for it"
elif ! udevadm module-queue | grep -q '^The module queue is switched off, and finishes'; then
    failed "toggle: off in the middle of a load" "the status is: $(udevadm module-queue | xargs)"
else
    touch /run/go
    udevadm settle --timeout=60
    if [ -d /sys/module/nlmon ]; then
        ok "toggle: off in the middle of a load"
    else
        failed "toggle: off in the middle of a load" "it is lost"
    fi
fi

# Loaders stay for 3 s, and workers, too.
wait_until no_loaders || sleep 2
expect "off by a reload" "by a worker"
if wait_until as_before || { sleep 2; as_before; }; then
    ok "toggle: off leaves nothing behind"
    uuid "off again" yes
else
    failed "toggle: off leaves nothing behind" "$(fds) file descriptors instead of $fds, nice level $(nice_level)"
fi

# While a queue that is off has work still, and when it ends although there are events.
reload module_queue=yes
rm -f /run/held /run/go /run/level /run/leave
ask nlmon
wait_until test -e /run/held || failed "toggle: off while there are events" "the load has not begun"
echo 'ACTION=="change", SUBSYSTEM=="mem", KERNEL=="zero", RUN+="/rig/stay"' >/etc/udev/rules.d/00-test.rules
reload module_queue=no
stay
if wait_until test -e /run/level && [ "$(cat /run/level)" -eq 0 ]; then
    ok "toggle: workers beside a queue that is off"
else
    failed "toggle: workers beside a queue that is off" "nice level $(cat /run/level)"
fi
touch /run/go
wait_until no_loaders || sleep 2
if no_loaders && wait_until not_first; then
    ok "toggle: off while there are events"
else
    failed "toggle: off while there are events" "nice level $(nice_level)"
fi
touch /run/leave
udevadm settle --timeout=60

# One event is done, and the next one, which it has blocked, has not got its turn yet.
rm -f /run/level /run/leave
stay
wait_until test -e /run/level || failed "toggle: on after an event" "it has not begun"
stay
usleep 200000
udevadm control --stop-exec-queue
touch /run/leave
usleep 500000
reload module_queue=yes
udevadm control --start-exec-queue
expect "on after an event" "by a loader"
if wait_until not_first; then
    ok "toggle: first only while there are events"
else
    failed "toggle: first only while there are events" "nice level $(nice_level)"
fi

reload module_queue=wait
expect "on again by a reload" "by a loader"

# One that is killed leaves its status in /run/udev, which must not pass for a queue.
kill -KILL "$(pids_of systemd-udevd)"
wait_until no_udevd
echo module_queue=no >/etc/udev/udev.conf
udevd_start
wait_until udevadm control --ping 2>/dev/null
uuid "off after a udevd with a queue was killed" yes
