# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Loads end as with stock udevd, whatever libkmod's configuration says; what may rely on a module finds it there;
# and nothing is lost when a process is killed or told to leave in the middle.

. /rig/guest.sh

version=$(udevadm --version)

cat >/etc/modprobe.d/test.conf <<END
blacklist macvlan
install veth /bin/touch /run/test/veth
install nlmon /rig/slow $(module_file nlmon)
install tun /rig/slow $(module_file tun)
install ifb /rig/hold $(module_file ifb)
install gre /rig/count $(module_file gre)
install udp_tunnel /bin/false
options brd rd_nr=3
alias fivedisks brd
options fivedisks rd_nr=5
softdep minix pre: dummy post: brd
alias both minix
alias both dummy
install eql /rig/say 500000 eql $(module_file eql)
install nbd /rig/say 0 nbd $(module_file nbd)
install ufs /rig/say 500000 ufs $(module_file ufs)
softdep efs post: ufs
alias tails eql
alias tails nbd
alias behind efs
alias behind nbd
alias quote:* dummy
alias long:* dummy
END

cat >/rig/slow <<'END'
#!/bin/sh
usleep 300000
insmod "$1"
END
# What comes after the insertion is part of the load.
cat >/rig/say <<'END'
#!/bin/sh
insmod "$3"
usleep "$1"
echo "$2" >>/run/test/said
END
cat >/rig/count <<'END'
#!/bin/sh
echo run >>/run/test/count
insmod "$1"
END
# The first one waits until it may go on, and then does nothing.
cat >/rig/hold <<'END'
#!/bin/sh
if mkdir /run/test/held 2>/dev/null; then
    until [ -e /run/test/go ]; do usleep 5000; done
    [ ! -e /run/test/fail ] || exit 1
fi
insmod "$1"
END
cat >/rig/see <<'END'
#!/bin/sh
cat "/sys/module/$1/initstate" >/run/test/seen 2>&1
END
chmod +x /rig/slow /rig/say /rig/count /rig/hold /rig/see

# What came to be there: modules, in order of name, and what else a case looks at.
outcome() {
    module_names | grep -vxF -f /run/base | sort | xargs
    [ ! -e /run/test/veth ] || echo "install line run"
    [ ! -e /run/test/count ] || echo "install lines run: $(wc -l </run/test/count)"
    [ ! -e /run/test/seen ] || echo "program saw: $(cat /run/test/seen)"
    [ ! -e /run/test/said ] || echo "in order: $(xargs </run/test/said)"
    [ ! -e /sys/module/brd ] || echo "rd_nr=$(cat /sys/module/brd/parameters/rd_nr)"
}

# expect CASE RULE OUTCOME [trigger's options]
expect() {
    if [ "$version" -ge 262 ] && [ "${2#*MODALIAS\}=}" != "$2" ]; then
        skipped "loads: $1, module_queue=$mode" "no rule can set MODALIAS in systemd $version"
        return
    fi
    unload
    rule "$2"
    udevadm trigger --action=change ${4-} /sys/class/mem/null
    [ -n "${4-}" ] || udevadm settle --timeout=60 2>/dev/null
    found=$(outcome | xargs)
    if [ "$found" = "$3" ]; then
        ok "loads: $1, module_queue=$mode"
    else
        failed "loads: $1, module_queue=$mode" "'$found' instead of '$3'"
    fi
}

# Where udev's message of an event stands among the kernel's of what its load has made, as one listener gets them:
# expect_end first|last [trigger's options]
expect_end() {
    unload
    rule 'RUN{builtin}+="kmod load tun"'
    monitor=$(uevmon /run/test/uevents)
    udevadm trigger --action=change ${2-} /sys/class/mem/null
    udevadm settle --timeout=60 2>/dev/null
    kill "$monitor"
    while kill -0 "$monitor" 2>/dev/null; do usleep 20000; done
    found=$(awk -F '\t' '
        $2 == "udev" && $4 ~ /\/mem\/null$/ { print "null" }
        $2 == "kernel" && $3 == "add" && $4 ~ /\/tun$/ { print $4 }' /run/test/uevents | xargs)
    made="/devices/virtual/misc/tun /module/tun"
    case $1 in
        first) expected="null $made" ;;
        last) expected="$made null" ;;
    esac
    if [ "$found" = "$expected" ]; then
        ok "loads: an event's message comes $1${2+ with $2}, module_queue=$mode"
    else
        failed "loads: an event's message comes $1${2+ with $2}, module_queue=$mode" "$found"
    fi
}

long=$(head -c 4091 /dev/zero | tr '\0' x)

for mode in $(modes no yes wait); do
    udevd_restart "module_queue=$mode"
    [ -e /run/base ] || { trigger; settle; module_names >/run/base; }

    expect "by name" 'RUN{builtin}+="kmod load dummy"' "dummy"
    expect "by alias" 'RUN{builtin}+="kmod load fs-vfat"' "fat vfat"
    expect "by MODALIAS" 'ENV{MODALIAS}="fs-vfat", RUN{builtin}+="kmod load"' "fat vfat"
    expect "a dependency with an install line, once" 'RUN{builtin}+="kmod load ip6_gre"' \
        "gre ip6_gre ip6_tunnel tunnel6 install lines run: 1"
    expect "nothing more after a dependency that fails" 'RUN{builtin}+="kmod load vxlan"' ""
    expect "an alias of two modules" 'RUN{builtin}+="kmod load both"' "brd dummy minix rd_nr=3"
    expect "an alias of two modules with install lines" 'RUN{builtin}+="kmod load tails"' "eql nbd in order: eql nbd"
    expect "an alias of two modules, one of them has more behind it" 'RUN{builtin}+="kmod load behind"' \
        "efs nbd ufs in order: ufs nbd"
    expect "several, a wrong one among them" 'RUN{builtin}+="kmod load dummy nosuchmodule brd"' "brd dummy rd_nr=3"
    expect "a missing module" 'RUN{builtin}+="kmod load nosuchmodule"' ""
    expect "dependencies" 'RUN{builtin}+="kmod load net-pf-24-proto-0"' "ppp_generic pppoe pppox slhc"
    expect "a deny-listed module" 'RUN{builtin}+="kmod load macvlan"' ""
    expect "a deny-listed dependency" 'RUN{builtin}+="kmod load macvtap"' "macvlan macvtap tap"
    expect "an install line" 'RUN{builtin}+="kmod load veth"' "install line run"
    expect "options by module" 'RUN{builtin}+="kmod load brd"' "brd rd_nr=3"
    expect "options by alias" 'RUN{builtin}+="kmod load fivedisks"' "brd rd_nr=5"
    expect "soft dependencies" 'RUN{builtin}+="kmod load minix"' "brd dummy minix rd_nr=3"
    expect "two entries of a RUN list" 'RUN{builtin}+="kmod load dummy", RUN{builtin}+="kmod load brd"' \
        "brd dummy rd_nr=3"
    expect "no MODALIAS" 'RUN{builtin}+="kmod load"' ""
    expect "an empty MODALIAS" 'ENV{MODALIAS}="", RUN{builtin}+="kmod load"' ""
    expect "a MODALIAS with blanks and quotes" \
        'OPTIONS="string_escape=none", ENV{MODALIAS}=e"quote: a \"b'\''s\" \\", RUN{builtin}+="kmod load"' "dummy"
    expect "a MODALIAS with newlines" \
        'OPTIONS="string_escape=none", ENV{MODALIAS}=e"quote:\n\t\nx", RUN{builtin}+="kmod load"' "dummy"
    expect "a MODALIAS with bytes over 127" \
        'OPTIONS="string_escape=none", ENV{MODALIAS}=e"quote:\xff\xc3\x28\xe2", RUN{builtin}+="kmod load"' "dummy"
    expect "a name of 4096 bytes" "RUN{builtin}+=\"kmod load long:$long\"" "dummy"
    expect "a name of 12278 bytes" "RUN{builtin}+=\"kmod load long:$long$long$long\"" "dummy"

    expect "a program of the same RUN list" 'RUN{builtin}+="kmod load nlmon", RUN+="/rig/see nlmon"' \
        "nlmon program saw: live"
    expect "a rule behind IMPORT" \
        'IMPORT{builtin}="kmod load nlmon"
         ACTION=="change", KERNEL=="null", TEST=="/sys/module/nlmon/initstate", RUN+="/rig/see nlmon"' \
        "nlmon program saw: live"
    expect "udevadm trigger --settle" 'RUN{builtin}+="kmod load nlmon"' "nlmon" --settle
    case $mode in
        yes) expect_end first ;;
        *) expect_end last ;;
    esac
    expect_end last --settle
done

# From here on with the queue in mode yes, and a load that is held: held RULE
udevd_restart module_queue=yes
held() {
    unload
    rule "$1"
    udevadm trigger --action=change /sys/class/mem/null
    wait_until [ -d /run/test/held ] || echo "the load did not start"
}

# What must be true in the end: ended [LOG-TEXT]
ended() {
    udevadm control --ping || echo "udevd does not answer"
    udevadm settle --timeout=60 2>/dev/null || echo "settle failed"
    [ -d /sys/module/ifb ] || echo "the module is not loaded"
    [ $# -eq 0 ] || dmesg | grep -q "$1" || echo "the log does not say: $1"
}

ifb='RUN{builtin}+="kmod load ifb"'

judge "loads: a loader is killed in its load" "$(
    held "$ifb"
    pids_of "(udev-loader)" | xargs kill -KILL
    touch /run/test/fail /run/test/go
    ended "Loader .* died (signal 9) at module ifb .*tried once more"
)"

# Its probe goes on in the background, and the load waits for that.
judge "loads: a loader is killed whose module is live" "$(
    unload
    rmmod ahci
    rule 'RUN{builtin}+="kmod load ahci"'
    udevadm trigger --action=change /sys/class/mem/null
    wait_until grep -qsx live /sys/module/ahci/initstate || echo "the module is not loaded"
    pids_of "(udev-loader)" | xargs kill -KILL
    udevadm settle --timeout=60 2>/dev/null || echo "settle failed"
    found=$(dmesg | sed -n 's/.*Loader .* died (signal 9) at module ahci .*)\. *//p' | cut -d , -f 1)
    [ "$found" = "It is live" ] || echo "the log says '$found'"
)"

judge "loads: a worker is killed that waits" "$(
    held "$ifb, RUN+=\"/rig/see ifb\""
    usleep 100000
    pids_of "(udev-worker)" | xargs kill -KILL
    touch /run/test/go
    ended
    [ ! -e /run/test/count ] || echo "install lines run: $(wc -l </run/test/count)"
    [ ! -e /run/test/seen ] || echo "the program was run"
)"

judge "loads: reload in a load" "$(
    held "$ifb"
    udevadm control --reload
    touch /run/test/go
    ended
    rule 'RUN{builtin}+="kmod load dummy"'
    udevadm trigger --action=change --settle /sys/class/mem/null
    [ -d /sys/module/dummy ] || echo "no module is loaded any more"
)"

judge "loads: udevd is told to exit in a load" "$(
    held "$ifb"
    udevadm control --exit
    usleep 200000
    touch /run/test/go
    wait_until no_udevd || echo "udevd does not exit"
    [ -d /sys/module/ifb ] || echo "the module is not loaded"
    wait_until [ -z "$(pids_of '(udev-loader)')" ] || echo "a loader is left"
    udevd_start || echo "udevd does not start again"
    ended
)"

judge "loads: udevd is told to exit in a coldplug" "$(
    unload
    trigger
    udevadm control --exit
    wait_until no_udevd || echo "udevd does not exit"
    udevd_start
    trigger
    settle || echo "settle failed"
    module_names >/run/after
    missing=$(grep -vxF -f /run/after /run/base | xargs)
    [ -z "$missing" ] || echo "missing: $missing"
)"
