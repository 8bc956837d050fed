# SPDX-License-Identifier: GPL-2.0-or-later
# What the guest's init and the scripts that run in the guest share. Whatever is in $OUT when the script ends comes
# out to the host, as files.

OUT=/run/out
TRACING=/sys/kernel/tracing

# A moment with the CPU counters: stamp NAME
stamp() {
    command stamp "$OUT/stamps" "$1"
}

monitor_start() {
    monitor_pid=$(uevmon "$OUT/uevents" 2>"$OUT/uevmon.log")
}

# The record is complete when the recorder is gone.
monitor_stop() {
    kill "$monitor_pid"
    while kill -0 "$monitor_pid" 2>/dev/null; do
        usleep 50000
    done
}

# Returns when udevd is ready. It logs to the kernel's log, which is kept as $OUT/dmesg.
udevd_start() {
    SYSTEMD_LOG_TARGET=kmsg /usr/lib/systemd/systemd-udevd --daemon "$@"
}

udevd_stop() {
    udevadm control --exit
}

trigger() {
    udevadm trigger --type=subsystems --action=add
    udevadm trigger --type=devices --action=add
}

settle() {
    udevadm settle --timeout=300
}

# Mount the disk of modules, which reads so many bytes and so many times a second at most: modules_mount BPS IOPS
# It is a file in memory, and this kernel slows it down, so that it has this machine's time. What the host does has the
# host's: where instructions are counted, this machine's clock jumps on meanwhile.
modules_mount() {
    local module device limits=/run/blkio

    for module in /rig/modules-disk/*.ko*; do
        insmod "$module" || return
    done
    # The control groups of the second kind do not limit the root, where all processes are.
    mkdir $limits
    mount -t cgroup -o blkio none $limits && losetup -r /dev/loop0 /rig/modules-disk/image &&
        read -r device </sys/block/loop0/dev &&
        echo "$device $1" >$limits/blkio.throttle.read_bps_device &&
        echo "$device $2" >$limits/blkio.throttle.read_iops_device &&
        mount -t ext4 -o ro /dev/loop0 /usr/lib/modules
}

# Until no uevent has come for three seconds, or so many: quiesce [SECONDS]
quiesce() {
    local before now still=0

    read -r before </sys/kernel/uevent_seqnum
    while [ "$still" -lt "${1-3}" ]; do
        sleep 1
        read -r now </sys/kernel/uevent_seqnum
        if [ "$now" = "$before" ]; then
            still=$((still + 1))
        else
            still=0
            before=$now
        fi
    done
}

# Who inserts modules, and which: the file that a process opened last tells the name of the module that it inserts.
trace_start() {
    local event

    echo mono >"$TRACING/trace_clock"
    echo 32768 >"$TRACING/buffer_size_kb"
    echo 16384 >"$TRACING/saved_cmdlines_size"
    echo 'p:rig/open do_sys_openat2 file=+0($arg2):ustring' >"$TRACING/kprobe_events"
    echo 'file ~ "*.ko*"' >"$TRACING/events/rig/open/filter"
    for event in rig/open module/module_load module/module_request syscalls/sys_enter_finit_module \
        syscalls/sys_exit_finit_module syscalls/sys_enter_init_module syscalls/sys_exit_init_module; do
        echo 1 >"$TRACING/events/$event/enable"
    done
}

trace_stop() {
    echo 0 >"$TRACING/tracing_on"
    cat "$TRACING/trace" >"$OUT/trace"
    cat "$TRACING"/per_cpu/cpu*/stats >"$OUT/trace.stats"
}

# What there is now: modules, devices and which entry of udev's database is whose, the database, device nodes (rights,
# owner, numbers in hex, name), the kernel's log, the queue's record.
state_save() {
    cp /proc/modules "$OUT/modules"
    find /sys/devices -name subsystem -type l -exec stat -c '%N' {} + >"$OUT/subsystems"
    find /sys/devices \( -name dev -o -name ifindex \) -type f -exec grep -H . {} + >"$OUT/numbers"
    mkdir -p "$OUT/udev"
    cp -a /run/udev/data /run/udev/links /run/udev/tags "$OUT/udev/" 2>/dev/null
    find /dev ! -path '/dev/pts/*' -exec stat -c '%A %u:%g %t:%T %N' {} + | sort -k 4 >"$OUT/dev"
    cp /run/udev/module-queue.record "$OUT/record" 2>/dev/null
    dmesg >"$OUT/dmesg"
}

# Write $OUT to the results disk.
results_write() {
    local module disk

    for module in /rig/disk/*; do
        insmod "$module" 2>/dev/null
    done
    for disk in /sys/block/vd*; do
        [ "$(cat "$disk/serial")" = results ] || continue
        tar -C "$OUT" -cf "/dev/${disk##*/}" . && sync && return
    done
    echo "The results were not written." >/dev/console
}
