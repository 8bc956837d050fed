# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# New modules, new settings of libkmod and other indexes while udevd runs: what is loaded is what stock loads, at once
# after `udevadm control --reload`, and without it as soon as udevd looks by itself (model rule 9).

. /rig/guest.sh

# A module tree of our own: small, for depmod to be quick. (Not busybox's, which makes no indexes for libkmod.)
tree=/usr/lib/modules/$(uname -r)
mkdir -p /run/tree/kernel /run/kept
for module in dummy ifb nlmon macvlan brd fat vfat minix ppp_generic pppoe pppox slhc; do
    file=$(module_file $module)
    mkdir -p "/run/tree/${file#"$tree/"}"
    rmdir "/run/tree/${file#"$tree/"}"
    cp "$file" "/run/tree/${file#"$tree/"}"
done
cp "$tree"/modules.builtin* "$tree"/modules.order /run/tree/
mount --bind /run/tree "$tree"
/usr/sbin/depmod

cat >/rig/hold <<'EOF'
#!/bin/sh
: >/run/test/held
until [ -e /run/test/go ]; do usleep 5000; done
insmod "$1"
EOF
chmod +x /rig/hold

module_names >/run/base

unload() {
    for module in $(modules_beyond /run/base); do
        rmmod "$module" || echo "$module cannot be removed"
    done
    rm -rf /run/test
    mkdir /run/test
}

outcome() { modules_beyond /run/base | sort | xargs; }

# What the mem devices load on "change".
{
    for load in null:fs-vfat zero:dummy full:minix random:net-pf-24-proto-0 urandom:nlmon kmsg:ifb; do
        echo "ACTION==\"change\", SUBSYSTEM==\"mem\", KERNEL==\"${load%%:*}\", RUN{builtin}+=\"kmod load ${load#*:}\""
    done
} >/etc/udev/rules.d/00-test.rules

change() {
    for device; do
        udevadm trigger --action=change "/sys/class/mem/$device"
    done
}

# What the devices load: load DEVICE…
load() {
    unload
    change "$@"
    udevadm settle --timeout=60 2>/dev/null || echo "settle failed"
    outcome
}

# found WHAT OUTCOME EXPECTED: a line if these differ.
found() { [ "$2" = "$3" ] || echo "$1: '$2' instead of '$3'"; }

# Add the module to the tree, or take it out of it.
module_add() {
    mv "/run/kept/$1.ko" "$(cat "/run/kept/$1")"
    /usr/sbin/depmod
}

module_take() {
    module_file "$1" >"/run/kept/$1"
    mv "$(cat "/run/kept/$1")" /run/kept/
    /usr/sbin/depmod
}

# udevd looks for changes itself, when it has an event, but not in the three seconds after the last time.
by_command() { udevadm control --reload; }
by_itself() { sleep 4; }

start() {
    udevd_restart "module_queue=$1" ${2-}
    manager=$(pids_of systemd-udevd)
}

lives() {
    udevadm control --ping --timeout=10 || echo "udevd does not answer"
    [ "$(pids_of systemd-udevd)" = "$manager" ] || echo "udevd is another one"
}

for mode in $(modes no yes); do
    for how in by_command by_itself; do
        case=", $(echo $how | tr _ ' '), module_queue=$mode"
        start $mode

        judge "reload: a new module$case" "$(
            module_take vfat
            by_command
            found "without it" "$(load null zero)" "dummy"
            module_add vfat
            $how
            found "with it" "$(load null zero)" "dummy fat vfat"
            lives
        )"

        judge "reload: a new deny list$case" "$(
            found "before" "$(load zero)" "dummy"
            echo 'blacklist dummy' >/etc/modprobe.d/test.conf
            $how
            found "with it" "$(load zero full)" "minix"
            rm /etc/modprobe.d/test.conf
            $how
            found "without it" "$(load zero full)" "dummy minix"
            lives
        )"

        [ $how = by_command ] || continue
        judge "reload: new options$case" "$(
            echo 'options dummy numdummies=3' >/etc/modprobe.d/test.conf
            $how
            found "modules" "$(load zero)" "dummy"
            [ -e /sys/class/net/dummy2 ] || echo "the option is not used"
            rm /etc/modprobe.d/test.conf
            $how
            found "modules" "$(load zero)" "dummy"
            [ ! -e /sys/class/net/dummy2 ] || echo "the option is still used"
            lives
        )"
    done

    judge "reload: indexes are replaced while loads run, module_queue=$mode" "$(
        start $mode
        touch /run/replace
        while [ -e /run/replace ]; do /usr/sbin/depmod; done &
        for round in $(seq 4); do
            found "round $round" "$(load null zero full random urandom)" \
                "dummy fat minix nlmon ppp_generic pppoe pppox slhc vfat"
            [ $((round % 2)) -eq 0 ] || by_command
        done
        rm /run/replace
        wait
        lives
    )"
done

# replace INDEX: by what comes in, at once. In one file system as libkmod sees it: else mv copies, and gives the file a
# time of whole seconds, which may be the old one's.
replace() {
    cat >"$tree/new"
    mv "$tree/new" "$tree/$1"
}

# broken INDEX HOW: what is loaded when an index breaks while udevd runs, at first, when it is read again, and when it
# is there again.
broken() {
    cp "$tree/$1" /run/kept/index
    size=$(stat -c %s /run/kept/index)
    load full >/dev/null            # there are workers, and loaders
    unload
    case $2 in
        cut) head -c $((size / 3)) /run/kept/index | cat >"$tree/$1" ;;
        emptied) : >"$tree/$1" ;;
        garbage) head -c "$size" /dev/urandom | replace "$1" ;;
        garbled) { head -c 12 /run/kept/index; head -c "$size" /dev/zero | tr '\0' '\377'; } | replace "$1" ;;
    esac
    echo "at first: $(load null zero random)"
    lives
    by_command
    echo "read again: $(load null zero random)"
    lives
    replace "$1" </run/kept/index
    by_command
    echo "whole again: $(load null zero random)"
    lives
}

# Who has mapped an index that is cut then dies of SIGBUS. Stock's workers do, too: nothing for sanitizers to report.
[ -z "${ASAN_OPTIONS-}" ] || export ASAN_OPTIONS="$ASAN_OPTIONS:handle_sigbus=0"
for broken in modules.alias.bin:emptied modules.alias.bin:garbage modules.dep.bin:cut modules.dep.bin:garbled; do
    index=${broken%:*}
    how=${broken#*:}
    start no
    stock=$(broken $index $how)
    start yes
    queue=$(broken $index $how)
    judge "reload: $index is $how while udevd runs ($(echo "$stock" | tr '\n' ';'))" \
        "$([ "$queue" = "$stock" ] || echo "the queue: $queue")"
done

# What waits in the queue is loaded with what is there then.
start yes module_queue_loaders=1
held() {
    unload
    echo "install ifb /rig/hold $(module_file ifb)" >/etc/modprobe.d/test.conf
    by_command
    change kmsg
    wait_until [ -e /run/test/held ] || echo "the load did not start"
    change zero random
    usleep 200000
}

go() {
    touch /run/test/go
    udevadm settle --timeout=60 2>/dev/null || echo "settle failed"
}

# As a file of its own: libkmod, and so stock, too, does not notice what is written into a file that is there.
denied() {
    held
    echo 'blacklist dummy' >/etc/modprobe.d/deny.conf
    by_command
    go
    rm /etc/modprobe.d/deny.conf
    found "loaded" "$(outcome)" "ifb ppp_generic pppoe pppox slhc"
    lives
}
judge "reload: a deny list that comes while a module waits" "$(denied)"

judge "reload: an index that is cut while modules wait" "$(
    held
    cp "$tree/modules.dep.bin" /run/kept/index
    : >"$tree/modules.dep.bin"
    go
    outcome >&2
    lives
    replace modules.dep.bin </run/kept/index
    rm /etc/modprobe.d/test.conf
    by_command
    sleep 4
    found "when it is whole" "$(load zero random)" "dummy ppp_generic pppoe pppox slhc"
    lives
)"

# This version of udevd reads udev.conf when it starts, and not on reload.
is_on() { load zero >/run/loaded; if [ -n "$(pids_of '(udev-loader)')" ]; then echo yes; else echo no; fi; }

judge "reload: switched on and off by restarts, not by reload" "$(
    on=yes
    start yes
    for next in no yes; do
        echo module_queue=$next >/etc/udev/udev.conf
        by_command
        [ "$(is_on)" = $on ] || echo "a reload has switched the queue from $on to $(is_on)"
        found "before the restart" "$(cat /run/loaded)" dummy
        start $next
        on=$next
        [ "$(is_on)" = $on ] || echo "the queue is $(is_on) after a restart with $on"
        found "after the restart" "$(cat /run/loaded)" dummy
    done
)"

[ -d /rig/mutants ] || exit 0
rm /usr/bin/udevadm                 # it runs
cp /rig/mutants/keeps /usr/bin/udevadm
start yes module_queue_loaders=1
found=$(denied)
case $found in
    *"loaded: 'dummy ifb "*) ok "reload: noticed: loaders stay with what they have read" ;;
    *) failed "reload: noticed: loaders stay with what they have read" "${found:-nothing is wrong}" ;;
esac
