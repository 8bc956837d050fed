# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Over thousands of requests the manager does not grow, and in the end it has lost nothing.

. /rig/lib.sh
. /rig/guest.sh

# Half of them load, half of them fail. They are never live, so each look-up is a request.
mkdir -p /etc/modprobe.d /etc/udev/rules.d
rm -f /usr/lib/udev/rules.d/*           # udev's own take time, and ask for nothing here
names=''
for i in $(seq 25); do
    echo "install leaks_good$i /bin/true"
    echo "install leaks_bad$i /bin/false"
    names="$names leaks_good$i leaks_bad$i"
done >/etc/modprobe.d/leaks.conf
echo "ACTION==\"change\", SUBSYSTEM==\"mem\", RUN{builtin}+=\"kmod load$names\"" >/etc/udev/rules.d/00-test.rules
echo module_queue=yes >/etc/udev/udev.conf

# N events of 50 requests each, on several devices at once.
requests() {
    for device in $(yes 'null zero full random' | tr ' ' '\n' | head -n "$1"); do
        udevadm trigger --action=change "/sys/class/mem/$device"
    done
    udevadm settle --timeout=120
}

# start LOG COMMAND…: in the foreground, and in the log what it says
start() {
    log=$OUT/$1
    shift
    SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_LEVEL=debug "$@" >"$log" 2>&1 &
    udevd=$!
    wait_until udevadm control --ping 2>/dev/null
}

# stop N: after so many requests
stop() {
    udevadm control --exit
    wait "$udevd" || failed "leaks: udevd ends well" "exit status $?"
    found=$(grep -c 'Asking for 1 module loads' "$log" || :)
    [ "$found" -eq "$1" ] || failed "leaks: there are $1 requests" "there are $found, see ${log##*/}"
}

is_full() {
    [ -e /run/udev/module-queue.record ] || return
    awk '{ n[$1]++ } END { exit !(n["load"] >= 4096 && n["request"] >= 8192 && n["event"] >= 16384) }' \
        /run/udev/module-queue.record
}

# Anonymous memory, in KiB.
size() { awk '$1 == "RssAnon:" { print $2 }' "/proc/$udevd/status"; }

start log /usr/lib/systemd/systemd-udevd
off=$(grep 'The module queue stays off' "$log" || :)
if [ -n "$off" ]; then
    skipped "leaks" "$off"
    exit
fi
# Until the record of the queue has no room for more (udev-module-record.h): it is to grow until then.
asked=0
rounds=0
until is_full; do
    rounds=$((rounds + 1))
    [ "$rounds" -le 100 ] || break
    # The record is written, and read here, after each round: they are few.
    for i in $(seq 8); do
        udevadm trigger --action=change --subsystem-match=tty
    done
    requests 6
    asked=$((asked + 300))
done
before=$(size)
requests 80
after=$(size)
stop $((asked + 4000))
judge "leaks: the manager does not grow when its record is full, in 4,000 requests ($before to $after KiB)" "$(
    is_full || echo "the record is not full"
    [ "$after" -lt $((before + 64)) ] || echo "it does"
)"

start valgrind env VALGRIND_LIB=/usr/libexec/valgrind valgrind.bin --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite \
    --child-silent-after-fork=yes --log-file="$OUT/memcheck" /usr/lib/systemd/systemd-udevd
requests 20
stop 1000
judge "leaks: valgrind: nothing is lost over 1,000 requests" "$(
    grep -qE 'definitely lost: 0 bytes|no leaks are possible' "$OUT/memcheck" ||
        { grep 'definitely lost' "$OUT/memcheck" || echo "valgrind has not come to the end"; }
)"
judge "leaks: valgrind: no error" "$(grep -q 'ERROR SUMMARY: 0 errors' "$OUT/memcheck" || grep 'ERROR SUMMARY' "$OUT/memcheck")"
