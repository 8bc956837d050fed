# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# With module_queue=no, udevd makes no system call that the distribution's udevd does not make.

. /rig/guest.sh

cat >/etc/udev/rules.d/00-test.rules <<'END'
ACTION=="change", SUBSYSTEM=="mem", KERNEL=="null", RUN{builtin}+="kmod load dummy nosuchmodule fs-vfat"
ACTION=="change", SUBSYSTEM=="mem", KERNEL=="zero", RUN+="/bin/true"
END
trigger
settle
ours=/rig/ours
cp /usr/bin/udevadm $ours

# traced NAME UDEVADM: ten events, traced from the first call of the manager to the last one; a file a process.
traced() {
    cp "$2" /usr/bin/udevadm
    mkdir -p "/run/trace/$1"
    SYSTEMD_LOG_TARGET=kmsg strace -ff -y -o "/run/trace/$1/pid" /usr/lib/systemd/systemd-udevd &
    tracer=$!
    wait_until udevadm control --ping 2>/dev/null || failed "off: $1" "udevd does not start"
    for i in 1 2 3 4 5; do
        rmmod dummy vfat fat 2>/dev/null || :
        udevadm settle 2>/dev/null
        udevadm trigger --action=change /sys/class/mem/null
        udevadm trigger --action=change /sys/class/mem/zero
        udevadm settle 2>/dev/null
    done
    manager=$(pids_of systemd-udevd)
    pids_of "(udev-loader)" >"/run/trace/$1/loaders"
    # But those of its workers, whose number is luck.
    for fd in /proc/"$manager"/fd/*; do
        readlink "$fd"
    done | grep -v pidfd | sed 's/:\[[0-9]*\]$//; s|^/dev/pts/.*|(output)|; s|^pipe$|(output)|; s|^/run/out/output$|(output)|' |
        sort >"/run/trace/$1/fds"
    sleep 4                         # idle workers leave
    udevadm control --reload
    udevadm control --exit
    wait $tracer || :
    mv "/run/trace/$1/pid.$manager" "/run/trace/$1/manager"
    cat "/run/trace/$1"/pid.* >"/run/trace/$1/workers"
    for role in manager workers; do
        sed -nE 's/^([a-z_0-9]+)\(.*/\1/p' "/run/trace/$1/$role" | sort | uniq -c | awk '{ print $2 "\t" $1 }' \
            >"$OUT/$1-$role.calls"
    done
    # What there is for all devices alike, and not for the one that happens to be handled.
    grep -hoE '^[a-z0-9_]+\([^"]*"/(etc|proc/[a-z]|run)[^"]*"' "/run/trace/$1/manager" "/run/trace/$1/workers" |
        sed 's/^[^"]*//; s/[0-9][0-9]*/N/g' | grep -v '"/run/udev/\(data\|links\|tags\|watch\)/' | sort -u >"$OUT/$1.paths"
    grep -E '^(openat|socket|socketpair|pidfd_open|epoll_create1|timerfd_create|signalfd4|inotify_init1|memfd_create)\(' \
        "/run/trace/$1/manager" | grep -v '"/usr/\|"/lib/\|ld.so.cache\|/proc/[0-9]' >"$OUT/$1-manager.opens"
}

udevd_stop
wait_until no_udevd
traced stock /rig/stock/udevadm
printf 'module_queue=no\n' >/etc/udev/udev.conf
traced off $ours
printf 'module_queue=yes\n' >/etc/udev/udev.conf
traced on $ours

# What is in the second file's first column and not in the first one's.
more() {
    cut -f 1 "$OUT/$1" >/run/names
    cut -f 1 "$OUT/$2" | grep -vxF -f /run/names || :
}

for role in manager workers; do
    judge "off: no further system call, $role ($(wc -l <"$OUT/off-$role.calls") calls by name)" \
        "$(more stock-$role.calls off-$role.calls)"
done
judge "off: the same open files" "$(
    cmp -s /run/trace/stock/fds /run/trace/off/fds ||
        echo "stock: $(xargs </run/trace/stock/fds), off: $(xargs </run/trace/off/fds)"
)"
judge "off: no loader" "$(cat /run/trace/off/loaders)"

opened() { grep -c "$1" "$OUT/$2-manager.opens" || :; }
# Later versions read it by a table, in which ours stand, too.
reads=1
[ "$(udevadm --version)" -lt 255 ] || reads=0
judge "off: udev.conf is read $reads times more, nothing else is opened more often" "$(
    [ "$(opened '"/etc/udev/udev.conf"' off)" -eq $(($(opened '"/etc/udev/udev.conf"' stock) + reads)) ] ||
        echo "udev.conf: stock $(opened udev.conf stock), off $(opened udev.conf off) times"
    for what in socket socketpair epoll_create1 timerfd_create signalfd4 inotify_init1 memfd_create; do
        [ "$(opened "^$what(" off)" -le "$(opened "^$what(" stock)" ] || echo "$what: more than in stock"
    done
)"
judge "off: no further path ($(wc -l <"$OUT/off.paths") of /etc, /proc and /run)" "$(more stock.paths off.paths)"
# The test sees it when the queue is on.
judge "off: noticed: the queue is on" "$(
    [ -n "$(more stock.paths on.paths)" ] || echo "no further path"
    [ -n "$(more stock-manager.calls on-manager.calls)" ] || echo "no further system call of the manager"
    ! cmp -s /run/trace/stock/fds /run/trace/on/fds || echo "the same open files"
    [ -s /run/trace/on/loaders ] || echo "no loader"
)"
cp /run/trace/stock/fds "$OUT/stock-fds"
cp /run/trace/off/fds "$OUT/off-fds"
