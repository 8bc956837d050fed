# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Bad settings, bad messages, bad indexes: a clear message, nothing else changes, udevd runs on.

. /rig/guest.sh

rule() {
    echo "ACTION==\"change\", SUBSYSTEM==\"mem\", KERNEL==\"null\", $1" >/etc/udev/rules.d/00-test.rules
}

change() { udevadm trigger --action=change /sys/class/mem/null && udevadm settle --timeout=60 2>/dev/null; }

# Whether udevd answers, loads, and has loaders or not: alive yes|no
alive() {
    udevadm control --ping || echo "udevd does not answer"
    rmmod dummy 2>/dev/null || :
    change || echo "settle failed"
    [ -d /sys/module/dummy ] || echo "no module is loaded any more"
    if [ -n "$(pids_of '(udev-loader)')" ]; then found=yes; else found=no; fi
    [ "$found" = "$1" ] || echo "the queue is on: $found, should be $1"
}

rule 'RUN{builtin}+="kmod load dummy"'

# setting ON WARNING KERNEL-COMMAND-LINE UDEV.CONF-LINE…: what is wrong
setting() {
    on=$1 warning=$2
    export SYSTEMD_PROC_CMDLINE="$3"
    shift 3
    log_start
    # udev.conf is read before the log's target is known.
    udevd_restart "$@" 2>/run/stderr || echo "udevd does not start"
    unset SYSTEMD_PROC_CMDLINE
    if [ -n "$warning" ]; then
        { cat /run/stderr; log; } | grep -qF "$warning" || echo "no warning: $warning"
    else
        warned=$({ cat /run/stderr; log; } | grep -i module_queue | head -n 1)
        [ -z "$warned" ] || echo "a warning: $warned"
    fi
    alive "$on"
}

file=/etc/udev/udev.conf
line="kernel command line"
loaders="module_queue_loaders takes a number from 1 to 256"
mode="module_queue takes no, yes or wait"
judge "input: no settings" "$(setting no '' '')"
judge "input: udev.conf: module_queue=yes" "$(setting yes '' '' module_queue=yes)"
judge "input: udev.conf: module_queue=wait" "$(setting yes '' '' module_queue=wait)"
judge "input: udev.conf: quotes and comments" \
    "$(setting yes '' '' '# module_queue=no' 'module_queue="yes"' 'module_queue_loaders=1')"
judge "input: udev.conf: module_queue=maybe" "$(setting no "$file: $mode, not 'maybe'" '' module_queue=maybe)"
judge "input: udev.conf: module_queue=Wait " "$(setting no "$file: $mode, not 'Wait'" '' 'module_queue=Wait ')"
judge "input: udev.conf: module_queue=" "$(setting no "" '' 'module_queue=')"
judge "input: udev.conf: a line without =" "$(setting yes '' '' module_queue 'module_queue=yes')"
judge "input: udev.conf: an unknown key" "$(setting no '' '' 'module_cue=yes' 'module_queue_loader=0')"
for n in 0 -1 257 4294967297 many 1.5; do
    judge "input: udev.conf: module_queue_loaders=$n" \
        "$(setting yes "$file: $loaders, not '$n'" '' module_queue=yes "module_queue_loaders=$n")"
done
judge "input: udev.conf: bytes over 127" \
    "$(setting no "$mode, not '$(printf 'j\303\244')'" '' "$(printf 'module_queue=j\303\244')")"
judge "input: command line: yes" "$(setting yes '' udev.module_queue=yes)"
judge "input: command line: rd. when there is no initramfs" "$(setting no '' rd.udev.module_queue=wait)"
touch /etc/initrd-release
judge "input: command line: rd. in the initramfs" "$(setting yes '' rd.udev.module_queue=wait)"
rm /etc/initrd-release
judge "input: command line: off wins over udev.conf" "$(setting no '' udev.module_queue=0 module_queue=yes)"
judge "input: command line: maybe" \
    "$(setting yes "$line: $mode, not 'maybe'" udev.module_queue=maybe module_queue=yes)"
judge "input: command line: no value" "$(setting yes 'udev.module_queue' udev.module_queue module_queue=yes)"
judge "input: command line: loaders" \
    "$(setting yes "$line: $loaders, not '0'" 'udev.module_queue=yes udev.module_queue_loaders=0')"

# Messages. All that is not a worker is ignored, whatever it sends; what a worker sends must be a request.
udevd_restart module_queue=yes
manager=$(pids_of systemd-udevd)

# sent worker|stranger WHAT LOG-TEXT
sent() {
    rmmod ifb 2>/dev/null || :
    change
    sender=0
    [ "$1" = stranger ] || sender=$(pids_of '(udev-worker)' | head -n 1)
    log_start
    stranger "$manager" "$sender" "$2"
    udevadm control --ping || echo "udevd does not answer"
    udevadm settle 2>/dev/null
    log | grep -q "$3" || echo "the log does not say: $3"
    if [ "$1 $2" = "worker request" ]; then
        [ -d /sys/module/ifb ] || echo "a good request is not served"
    else
        [ ! -d /sys/module/ifb ] || echo "the module was loaded"
    fi
    alive yes
}

for what in empty short header long garbage steps unterminated request; do
    judge "input: a message from a stranger: $what" \
        "$(sent stranger $what 'Ignoring a module request from process [0-9]*, which is no worker')"
done
for what in empty short header long garbage steps unterminated; do
    judge "input: a message from a worker: $what" \
        "$(sent worker $what 'Ignoring a module request of [0-9]* bytes from worker .* that cannot be read')"
done
judge "input: a message from a worker: request" "$(sent worker request .)"

# Indexes that are missing or cut off. What stock loads then is what the queue must load.
tree=/usr/lib/modules/$(uname -r)
rule 'RUN{builtin}+="kmod load dummy fs-vfat fs-minix net-pf-24-proto-0"'
unload() {
    for module in minix vfat fat pppoe pppox ppp_generic slhc dummy; do
        rmmod $module 2>/dev/null || :
    done
}

loaded_with() {
    udevd_restart "module_queue=$1"
    unload
    change || echo "settle failed"
    udevadm control --ping || echo "udevd does not answer"
    for module in minix vfat fat pppoe pppox ppp_generic slhc dummy; do
        [ ! -d "/sys/module/$module" ] || printf '%s ' $module
    done
}

if [ -n "${ASAN_OPTIONS-}" ]; then
    skipped "input: indexes that are cut off" "libkmod takes sizes from behind their end, in stock, too"
    indexes=''
else
    indexes='modules.alias.bin modules.dep.bin modules.softdep'
fi
for index in $indexes; do
    cp "$tree/$index" /run/index
    size=$(stat -c %s /run/index)
    for keep in missing 0 7 13 100 $((size / 2)) $((size - 1)); do
        [ "$keep" -lt "$size" ] 2>/dev/null || [ "$keep" = missing ] || continue
        rm -f "$tree/$index"
        [ "$keep" = missing ] || head -c "$keep" /run/index >"$tree/$index"
        log_start
        stock=$(loaded_with no)
        queue=$(loaded_with yes)
        if [ "$stock" = "$queue" ]; then
            ok "input: $index: $keep bytes (loaded: ${stock:-nothing})"
        else
            failed "input: $index: $keep bytes" "stock loaded: $stock; the queue: $queue"
        fi
    done
    cp /run/index "$tree/$index"
done
rule 'RUN{builtin}+="kmod load dummy"'
udevd_restart module_queue=yes
judge "input: udevd is well in the end" "$(alive yes)"
