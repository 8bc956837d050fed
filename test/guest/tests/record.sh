# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# What is recorded, for whom it can be read, and what is said where nothing was recorded.

. /rig/guest.sh

record=/run/udev/module-queue.record
initrd=/run/udev/module-queue.record-initrd
status=/run/udev/module-queue.status
commands="list blame critical-chain plot statistics"

echo user:x:1000:1000::/:/bin/sh >>/etc/passwd

queue() { udevadm module-queue "$@"; }
queue_of_user() { su user -c "udevadm module-queue $*"; }

# fails TEXT COMMAND…: with this text, and without anything else
fails() {
    text=$1
    shift
    ! "$@" >/run/test/out 2>/run/test/err || echo "$*: succeeds"
    [ ! -s /run/test/out ] || echo "$*: says: $(head -n 1 /run/test/out)"
    grep -qF -e "$text" /run/test/err || echo "$*: does not say '$text' but: $(head -n 1 /run/test/err)"
}

# says TEXT COMMAND…
says() {
    text=$1
    shift
    "$@" >/run/test/out 2>&1 || echo "$*: fails: $(tail -n 1 /run/test/out)"
    grep -qF -e "$text" /run/test/out || echo "$*: does not say '$text' but: $(head -n 1 /run/test/out)"
}

# With the udevd that has it.
describe() { /rig/varlinkctl call --json=short /run/udev/io.systemd.Udev io.systemd.Udev.ModuleQueue.Describe '{}'; }

# Where none is running.
udevd_up() {
    udevd_start
    wait_until udevadm control --ping 2>/dev/null
}

# rows KIND EXPRESSION…: of the record's lines of that kind, by awk
rows() {
    kind=$1
    shift
    awk -F '\t' -v kind="$kind" '$1 == kind' $record | awk -F '\t' "$@"
}

module_names >/run/base
mkdir /run/test

# As many as can be: /run/there is what is left.
unload() {
    for round in 1 2 3; do
        for module in $(modules_beyond /run/base); do
            rmmod "$module" 2>/dev/null || :
        done
    done
    module_names >/run/there
}

no_files() { for file in $record $initrd $status; do [ ! -e $file ] || echo "$file is there"; done; }

# Off is off.
udevd_restart module_queue=no
trigger
settle
unload
trigger
settle
judge "record: off: no file" "$(no_files)"
[ ! -e /rig/varlinkctl ] || judge "record: off: Varlink" "$(says '{"on":false}' describe)"
judge "record: off: says why" "$(
    says "The module queue is off: module_queue=no is in udev.conf." queue_of_user
    for command in $commands; do
        fails "There is no record of the module queue. It is off: module_queue=no is in udev.conf." queue $command
    done
)"
udevd_restart
judge "record: not set: says so" "$(says "module_queue= is not set in /etc/udev/udev.conf" queue status)"
judge "record: off by the kernel command line: says so" "$(
    export SYSTEMD_PROC_CMDLINE=udev.module_queue=0
    says "udev.module_queue=no is on the kernel command line" queue status
)"
udevd_stop
wait_until no_udevd
rm -f /run/udev/control
judge "record: no udevd: says so" "$(says "systemd-udevd does not run" queue status)"
udevd_up
echo module_queue=yes >/etc/udev/udev.conf
judge "record: on, but udevd was not started since: says so" "$(says "has not been started since" queue status)"

# A coldplug.
udevd_restart module_queue=yes
unload
judge "record: on and idle" "$(
    says "The module queue is on, with" queue_of_user status
    says "Loading: 0" queue_of_user status
)"
udevadm settle
sleep 3 # whatever is left of before is written
rows event '{ print $2 }' >/run/before
cat /sys/kernel/uevent_seqnum >/run/seqnum
insertions_start
trigger
settle
grep 'sys_finit_module(' "$TRACING/trace" | grep -Ec '^ *(modprobe|insmod)-' >/run/kernels || :
modules_beyond /run/there | sort >/run/loaded
rows load '$10 == 0 { print $2 }' | sort >/run/recorded
echo "$(wc -l </run/loaded) modules, $(rows load 'END { print NR }') loads, $(rows event 'END { print NR }') events"
# What was asked for once more when it was live is there again.
judge "record: each module ($(uniq /run/recorded | wc -l)), none twice at once" "$(
    rows load '{ if ($12 < done[$2]) print $2 " is there twice"; done[$2] = $14 }'
    lines_beyond /run/loaded </run/recorded | sed 's/$/ is not loaded/'
    missing=$(lines_beyond /run/recorded </run/loaded | xargs)
    [ "$(echo "$missing" | wc -w)" -le "$(cat /run/kernels)" ] || echo "missing: $missing"
    [ -s /run/recorded ] || echo "none"
)"
judge "record: each event once" "$(
    # The kernel may have sent some meanwhile, none before.
    rows event '{ print $2 }' | lines_beyond /run/before | sort -n >/run/events
    uniq -d /run/events
    awk -v before="$(cat /run/seqnum)" '$0 <= before { print $0 " is from before" }' /run/events
    awk -v n="$(cat /run/seqnum)" '{ for (n++; n < $0; n++) print n " is missing" }' /run/events
    [ "$(wc -l </run/events)" -gt 100 ] || echo "only $(wc -l </run/events)"
)"
judge "record: times are in order" "$(
    rows load '!($11 > 0 && $11 <= $12 && $12 <= $14 && ($13 == 0 || ($12 <= $13 && $13 <= $14)))'
    rows load '$12 < last { print "out of order: " $0 } { last = $12 }'
    rows event '!($8 > 0 && $8 <= $9 && $9 <= $10)'
    rows request '!($3 > 0 && $4 != "")'
)"
judge "record: who asked" "$(
    rows load '!($4 != "" && $5 ~ "^/" && $6 > 0 && $8 > 0 && $9 > 1)'
    rows load '{ n += $7 } END { if (!n) print "no pre-load"; if (n == NR) print "only pre-loads" }'
    rows load '$8 > 1 { n++ } END { if (!n) print "nothing was shared" }'
    rows event '!($3 ~ "^/" && $4 != "" && $5 != "")'
    rows event '$7 == 0 { n++ } END { if (!n) print "all were triggered" }'
)"
cp $record "$OUT/record"

judge "record: anybody may read it" "$(
    says "The last disk: " queue_of_user critical-chain
    says "loads: module" queue_of_user critical-chain
    says "The last input device: " queue_of_user critical-chain
    says "virtio_blk" queue_of_user list
    says "virtio_blk" queue_of_user blame
    says "kernel uevent to udev completion" queue_of_user statistics
    says "The last disk: " queue_of_user plot
)"
queue_of_user plot >"$OUT/plot.svg"
mkdir "$OUT/json"
for command in status list blame critical-chain statistics; do
    for format in short pretty; do
        queue_of_user $command --json=$format >"$OUT/json/$command-$format" 2>&1 || :
    done
done
judge "record: blame is sorted" "$(queue blame | sed -n 's/^ *\([0-9.]*\)s .*/\1/p' | sort -c -r -n 2>&1)"
judge "record: list has all" "$(
    [ "$(queue list | grep -c '^ *[0-9.]*s')" -eq "$(rows load 'END { print NR }')" ] ||
        echo "list has other lines than the record"
)"

# What udevd is doing.
mkfifo /run/test/pipe
cat >/rig/hold <<'END'
#!/bin/sh
: >/run/held
: </run/test/pipe
insmod "$1"
END
chmod +x /rig/hold
echo "install dummy /rig/hold $(module_file dummy)" >/etc/modprobe.d/test.conf
rule 'RUN{builtin}+="kmod load dummy"'
modprobe -r dummy 2>/dev/null || :
rm -f /run/held
udevadm trigger --action=change /sys/class/mem/null
wait_until [ -e /run/held ]
cp $record /run/test/then
# One more comes, in a hurry.
rule 'ENV{MODULE_QUEUE_CLASS}="bus", RUN{builtin}+="kmod load dummy"'
udevadm trigger --action=change /sys/class/mem/null
sleep 2
judge "record: status says what is loading" "$(
    says "Loading: 1, bus 1" queue_of_user
    says "Longest: dummy, for " queue_of_user
    cmp $record /run/test/then 2>&1
)"
[ ! -e /rig/varlinkctl ] || judge "record: Varlink says what is loading" "$(
    says '{"on":true,"wait":false,"loadersMax":' describe
    says '"loading":[{"module":"dummy","class":"bus","device":"/devices/virtual/mem/null","seqnum":' describe
    says ',"requests":2,"loader":' describe
    says '"live":false}]}' describe
    says "Whether events wait for their modules" \
        /rig/varlinkctl introspect /run/udev/io.systemd.Udev io.systemd.Udev.ModuleQueue
)"
queue status --json=short >"$OUT/json/busy-short"
pid=$(pids_of systemd-udevd)
kill -KILL "$pid"
while [ -d "/proc/$pid" ]; do usleep 10000; done
judge "record: a udevd that was killed" "$(says "the systemd-udevd that had it was killed" queue_of_user)"
exec 9<>/run/test/pipe
udevd_up
udevadm settle
exec 9>&-
rm /etc/modprobe.d/test.conf

# The next udevd goes on with it, and that of the initramfs has its own.
rows load '{ print $2, $12 }' >/run/test/loads
udevd_restart module_queue=yes
rmmod dummy 2>/dev/null || :
rule 'RUN{builtin}+="kmod load dummy"'
udevadm trigger --action=change /sys/class/mem/null
udevadm settle
sleep 3
judge "record: goes on after a restart" "$(
    rows load '{ print $2, $12 }' | head -n "$(wc -l </run/test/loads)" | cmp - /run/test/loads 2>&1
    rows load 'END { print $2 }' | grep -qx dummy || echo "the last load is missing"
)"
judge "record: the status is gone with udevd" "$(
    udevd_stop
    wait_until no_udevd
    [ ! -e $status ] || echo "$status is left"
)"
cp $record /run/test/system
touch /etc/initrd-release
udevd_up
unload
cp $record /run/test/system
trigger
settle
rm /etc/initrd-release
judge "record: the initramfs is told apart" "$(
    [ -s $initrd ] || echo "$initrd is missing"
    cmp $record /run/test/system 2>&1
    says "Initramfs:" queue_of_user list
    says "System:" queue_of_user list
    says "Initramfs:" queue_of_user list $initrd
    ! queue list $initrd | grep -q System || echo "both are shown of one file"
    for command in list statistics critical-chain; do
        queue $command --json=short | grep -q '"part":"initramfs".*"part":"system"' ||
            echo "$command: JSON does not tell them apart"
    done
)"
queue list --json=pretty >"$OUT/json/both-pretty"

# Records from elsewhere, and what is none.
mkdir -p /run/test/root/run/udev
cp $record /run/test/root/run/udev/
head -c 3000 $record >/run/test/cut
sed '1s/1$/2/' $record >/run/test/newer
sed '5s/[0-9]*$/x/' $record >/run/test/damaged
sed '$d' $record >/run/test/no-end
: >/run/test/empty
judge "record: other records" "$(
    says "virtio_blk" queue list --root=/run/test/root
    says "virtio_blk" queue list /run/test/root/run/udev/module-queue.record
    fails "There is no record of the module queue in /run/test." queue list --root=/run/test
    fails "/run/test/none does not exist." queue list /run/test/none
    fails "/run/test/cut is cut off in line" queue list /run/test/cut
    fails "/run/test/no-end is cut off in line" queue statistics /run/test/no-end
    fails "/run/test/empty is cut off in line 1" queue blame /run/test/empty
    fails "/run/test/newer is a record of another version" queue plot /run/test/newer
    fails "/run/test/damaged is no record of the module queue, or damaged: line 5" queue list /run/test/damaged
    fails "/etc/passwd is no record of the module queue" queue list /etc/passwd
    fails "/dev/zero is no regular file" queue list /dev/zero
    fails "/run is no regular file" queue list /run
)"
judge "record: output that cannot be written" "$(
    for command in $commands "list --json=short"; do
        ! queue $command $record >/dev/full 2>/run/test/err || echo "$command: succeeds"
        grep -qF "Failed to write all of the output: " /run/test/err || echo "$command: does not say so"
    done
)"
judge "record: one that is damaged does not hide the other" "$(
    cp /run/test/damaged /run/test/root$initrd
    queue list --root=/run/test/root >/run/test/out 2>/run/test/err || echo "it fails"
    grep -q "virtio_blk" /run/test/out || echo "the other is not shown"
    grep -q "is no record of the module queue, or damaged" /run/test/err || echo "nothing is said of it"
)"
judge "record: wrong command lines" "$(
    fails "There is no command 'lists'" queue lists
    fails "--json= takes short or pretty, not 'long'" queue list --json=long
    fails "A plot is SVG" queue plot --json=short
    fails "The status is that of the running" queue status /run/test/cut
    says "critical-chain" queue --help
)"

# udevd does not go on with what it cannot read.
udevd_stop
wait_until no_udevd
cp /run/test/newer $record
log_start
udevd_up
trigger
settle
judge "record: udevd starts a new one where it cannot read the old" "$(
    log | grep -q "Failed to go on with $record of an earlier udevd" || echo "the log does not say so"
    says "System:" queue list
)"
