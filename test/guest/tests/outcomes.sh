# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# With the queue, a load comes to what it comes to in stock udevd, with the same error: each case is tried in both (and
# with module_queue=wait), and must give what is written here.

. /rig/guest.sh

part=${part:?}                      # of the test, from the kernel command line

# All of the debug log, not to the kernel's, where a process and its children may write 200 lines in 5 s.
LOG=/run/udevd.log
udevd_start() {
    SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_LEVEL=debug /usr/lib/systemd/systemd-udevd --daemon "$@" >>$LOG 2>&1
}

# The others only cost time here: each case has udevd read them again.
find /usr/lib/udev/rules.d -type f ! -name 80-drivers.rules -exec rm {} +

cat >/rig/mark <<'EOF'
#!/bin/sh
echo "$*" >>/run/test/marks
EOF
# hold NAME: the module is inserted when it may go on.
cat >/rig/hold <<'EOF'
#!/bin/sh
touch /run/test/held
until [ -e /run/test/go ]; do usleep 5000; done
/sbin/modprobe --ignore-install "$1"
EOF
# settle NAME SECONDS [OPTION…]: it should take so long.
cat >/rig/settle <<'EOF'
#!/bin/sh
name=$1 seconds=$2 rc=0
shift 2
before=$(cut -d . -f 1 /proc/uptime)
udevadm settle "$@" || rc=$?
took=$(($(cut -d . -f 1 /proc/uptime) - before))
[ "$took" -lt "$seconds" ] || [ "$took" -gt $((seconds + 2)) ] || took="$seconds or so"
/rig/mark "settle: status $rc after $took s"
/sbin/modprobe --ignore-install "$name"
EOF
chmod +x /rig/mark /rig/hold /rig/settle

# Do not let one case's lines stand in the next one's log.
log_next() {
    dmesg -c >>"$OUT/kernel.log"
    cat $LOG >>"$OUT/udevd.log"
    : >$LOG
}

# What libkmod said of the modules that were asked for, in stock's words and in ours.
errors() {
    sed -nE "
        s/^Failed to insert module '(.*)': (.*)/\1: \2/p
        s/^Module (.*) cannot be loaded: (.*)/\1: \2/p
        s/^Module '?([^' ]*)'? is deny-listed.*/\1: deny-listed/p
        s/^(Failed to find module|No module for) '(.*)'.*/\2: not found/p
        s/^(Failed to look up module alias|Cannot look up) '([^']*)': (.*)/\2: \3/p
        /^Error running install command /p" $LOG
}

# What came to be there: modules in the order of their loads, what the fixtures have said, by name, what install lines have
# said, and the errors, by name. Fixtures and errors count once: a dependency that fails is tried a second time with the
# queue, by the load of the module that needs it.
outcome() {
    modules=$(module_names | grep -vxF -f /run/base | tac | xargs)
    echo "${modules:-nothing}"
    ! [ -e /sys/module/slow_01 ] || echo "slow_01: ms=$(cat /sys/module/slow_01/parameters/ms)"
    dmesg | sed 's/^\[[^]]*\] //' | grep -E '^(plain_|asks_|fails|needs_fails|rival_|wants_firmware)' |
        grep -v 'is there, number 0$' | sort -u
    cat /run/test/marks 2>/dev/null || :
    errors | sort -u
}

# prepare CONFIG RULE: with these lines of modprobe.d.
prepare() {
    unload
    printf '%s\n' "$1" >/etc/modprobe.d/test.conf
    rule "$2"
    log_next
}

# check CASE OUTCOME: the lines are joined.
check() {
    found=$(outcome | paste -sd ';' | sed 's/;/; /g')
    if [ "$found" = "$2" ]; then
        ok "outcomes: $1, module_queue=$mode"
    else
        failed "outcomes: $1, module_queue=$mode" "'$found' instead of '$2'"
    fi
}

end_event() {
    udevadm settle --timeout=300 2>/dev/null || /rig/mark "udevadm settle failed"
}

# expect CASE CONFIG LOADS OUTCOME: `kmod load` of these.
expect() {
    prepare "$2" "RUN{builtin}+=\"kmod load $3\""
    udevadm trigger --action=change /sys/class/mem/null
    end_event
    check "$1" "$4"
}

# expect_device CASE DEVICE OUTCOME: of its driver.
expect_device() {
    prepare '' ''
    udevadm trigger --action=add /sys/devices/pci*/*/"$2.0"
    end_event
    check "$1" "$3"
}

asks() {
    expect "a module that asks for another one" '' asks_another \
        "asks_another plain_one; asks_another: asks for plain_one; asks_another: was answered 0 for plain_one"
    expect "a module that asks for another one, which is asked for as well" '' "asks_another plain_one" \
        "asks_another plain_one; asks_another: asks for plain_one; asks_another: was answered 0 for plain_one"
    expect "a module that asks for one that fails" 'options asks_another another=needs_fails' asks_another \
        "asks_another; asks_another: asks for needs_fails; asks_another: was answered 256 for needs_fails; fails: fails"
}

soft_dependencies() {
    expect "soft dependencies" 'softdep plain_two pre: plain_one post: plain_three' plain_two \
        "plain_one plain_two plain_three"
    expect "soft dependencies that fail" 'softdep plain_two pre: fails nosuchmodule post: needs_fails plain_three' \
        plain_two "plain_two plain_three; fails: fails; needs_fails: Unknown symbol fails_always (err -2)"
    circle='softdep plain_one pre: plain_two
softdep plain_two pre: plain_one'
    expect "soft dependencies in a circle" "$circle" plain_one "plain_two plain_one"
    expect "both of a circle of soft dependencies" "$circle" "plain_two plain_one" "plain_one plain_two"
    expect "soft dependencies in a circle, behind" 'softdep plain_one post: plain_two
softdep plain_two post: plain_one' plain_one "plain_one plain_two"
    # It is loaded behind the other one first, by its name.
    expect "soft dependencies in a circle, with options by alias" 'softdep plain_one post: plain_two
softdep plain_two pre: plain_one
alias second plain_two
options second number=2' second "plain_one plain_two"
    expect "a deny-listed soft dependency" 'blacklist plain_one
softdep plain_two pre: plain_one' plain_two "plain_one plain_two"
}

install_lines() {
    expect "an install line that runs modprobe" \
        'install plain_one /sbin/modprobe --ignore-install plain_one number=4 && /rig/mark done' plain_one \
        "plain_one; plain_one: is there, number 4; done"
    expect "an install line that runs modprobe of another one" \
        'install plain_one /sbin/modprobe plain_two && /sbin/modprobe --ignore-install plain_one' plain_one \
        "plain_two plain_one"
    expect "an install line that fails" 'install plain_one /rig/mark run && exit 3' plain_one \
        "nothing; run; Error running install command '/rig/mark run && exit 3' for module plain_one: retcode 3; plain_one: Invalid argument"
    expect "an install line that is killed" 'install plain_one /rig/mark run && kill -KILL $$' plain_one "nothing; run"
    expect "an install line for no module" 'install nosuchmodule /rig/mark run' nosuchmodule "nothing; run"
    expect "an install line of a soft dependency that fails" 'install plain_one /rig/mark run && exit 3
softdep plain_two pre: plain_one' plain_two \
        "plain_two; run; Error running install command '/rig/mark run && exit 3' for module plain_one: retcode 3"
    expect "an install line behind a soft dependency, once" 'softdep plain_two pre: plain_one
softdep plain_one post: plain_three
install plain_three /rig/mark run' plain_two "plain_one plain_two; run"
    expect "an install line that calls udevadm settle --timeout=2" \
        'install plain_one /rig/settle plain_one 2 --timeout=2' plain_one "plain_one; settle: status 1 after 2 or so s"
    # It waits for itself, as long as udevadm does it.
    expect "an install line that calls udevadm settle" 'install plain_one /rig/settle plain_one 120' plain_one \
        "plain_one; settle: status 1 after 120 or so s"

    prepare 'install plain_one /rig/hold plain_one' "$both"
    udevadm trigger --action=change /sys/class/mem/null
    wait_until [ -e /run/test/held ] || /rig/mark "the install line is not run"
    others_go_on
    touch /run/test/go
    end_event
    check "an install line that hangs, others go on" "plain_two plain_one"
}

# What a module has to do with others is tried by one that hangs for /dev/null, and then one for /dev/zero.
both='RUN{builtin}+="kmod load plain_one"
ACTION=="change", SUBSYSTEM=="mem", KERNEL=="zero", RUN{builtin}+="kmod load plain_two"'
others_go_on() {
    udevadm trigger --action=change /sys/class/mem/zero
    wait_until [ -d /sys/module/plain_two ] || /rig/mark "others do not go on"
}

options() {
    expect "an option with a wrong value" 'options plain_one number=many' plain_one \
        "nothing; plain_one: \`many' invalid for parameter \`number'; plain_one: Invalid argument"
    expect "an option that the module refuses" 'options plain_one number=-1' plain_one \
        "nothing; plain_one: is there, number -1; plain_one: Numerical result out of range"
    expect "an option that there is not" 'options plain_one nosuchoption=1' plain_one \
        "plain_one; plain_one: unknown parameter 'nosuchoption' ignored"
    expect "options of a module and of another one's alias" 'options plain_one number=1
alias second plain_two
options second number=2' "plain_one second" \
        "plain_one plain_two; plain_one: is there, number 1; plain_two: is there, number 2"
    expect "options of a module and of its alias" 'options plain_one number=1
alias first plain_one
options first number=2' first "plain_one; plain_one: is there, number 2"
    expect "options of a soft dependency" 'options plain_one number=1
softdep plain_two pre: plain_one' plain_two "plain_one plain_two; plain_one: is there, number 1"
    expect "an option on the kernel command line" '' slow_01 "slow_01; slow_01: ms=7"
    expect "wrong lines in modprobe.d" 'softdep
nonsense plain_one
options plain_one number=5' plain_one "plain_one; plain_one: is there, number 5"
}

failures() {
    expect "several modules of an alias, one of them fails" 'alias several plain_two
alias several fails
alias several plain_one' several "plain_two plain_one; fails: fails; fails: Input/output error"
    expect "a dependency that fails" '' needs_fails "nothing; fails: fails; needs_fails: Input/output error"
    expect "a dependency that fails, and what comes next" '' "needs_fails plain_one needs_fails" \
        "plain_one; fails: fails; needs_fails: Input/output error"
    expect "a deny-listed dependency that fails" 'blacklist fails' needs_fails \
        "nothing; fails: fails; needs_fails: Input/output error"
    expect "a deny-listed module" 'blacklist plain_one
alias first plain_one' "plain_one first" "nothing; plain_one: deny-listed"
    expect "a module that is deny-listed on the kernel command line" '' slow_00 "nothing; slow_00: deny-listed"
    expect "no such module" '' "nosuchmodule fs-nosuchfs" "nothing; fs-nosuchfs: not found; nosuchmodule: not found"
}

devices() {
    expect_device "two drivers of a device" contested "rival_one rival_two; rival_one contested.0: is driven"
    expect_device "firmware that is missing" wants_firmware "wants_firmware; \
wants_firmware wants_firmware.0: Direct firmware load for wants_firmware.bin failed with error -2; \
wants_firmware wants_firmware.0: firmware: failed to load wants_firmware.bin (-2); \
wants_firmware wants_firmware.0: has no firmware: -2; \
wants_firmware: probe of wants_firmware.0 failed with error -2"
}

files() {
    expect "a file in xz" '' plain_xz "plain_xz"
    expect "a file in zstd" '' plain_zst "plain_zst"
    spoil half
    expect "half a file" '' plain_spoilt "nothing; plain_spoilt: Exec format error"
    spoil empty
    expect "an empty file" '' plain_spoilt "nothing; plain_spoilt: Invalid argument"
    spoil noise
    expect "a file of noise" '' plain_spoilt "nothing; plain_spoilt: Exec format error"
    spoil missing
    expect "a file that is missing" '' plain_spoilt "nothing; plain_spoilt: No such file or directory"
    spoil whole
    expect "a file that is whole again" '' plain_spoilt "plain_spoilt"
}

spoil() {
    file=${spoilt_file=$(module_file plain_spoilt)}
    [ -e /run/whole.ko ] || cp "$file" /run/whole.ko
    size=$(stat -c %s /run/whole.ko)
    case $1 in
        half) head -c $((size / 2)) /run/whole.ko >"$file" ;;
        empty) : >"$file" ;;
        noise) head -c "$size" /dev/urandom >"$file" ;;
        missing) rm "$file" ;;
        whole) cp /run/whole.ko "$file" ;;
    esac
}

# The init of a module waits for modprobe, which waits for that init. In stock udevd the event's timeout ends it, by
# killing the worker. The queue kills no load (model rule 6): it says what it waits for, and lets others go on.
itself() {
    prepare '' "$(echo "$both" | sed s/plain_one/asks_itself/)"
    udevadm trigger --action=change /sys/class/mem/null
    wait_until [ -d /sys/module/asks_itself ] || /rig/mark "the load does not start"
    others_go_on
    answer=-512
    if [ "$mode" != no ]; then
        ! udevadm settle --timeout=30 2>/dev/null || /rig/mark "udevadm settle did not wait"
        udevadm control --ping || /rig/mark "udevd does not answer"
        grep -q '^Loader .* module asks_itself .* takes long, 1[0-9]s so far' $LOG || /rig/mark "the log does not tell"
        pids_of modprobe | xargs kill -TERM
        answer=15
    fi
    end_event
    check "a module that asks for itself" \
        "asks_itself plain_two; asks_itself: asks for itself; asks_itself: was answered $answer for itself"
}

refused() {
    expect "an unsigned module" '' plain_one "nothing; plain_one: Key was rejected by service"
    expect "an unsigned dependency" '' needs_fails "nothing; needs_fails: Key was rejected by service"
    expect "an unsigned soft dependency" 'softdep dummy pre: plain_one' dummy "dummy"
    expect "a module that the kernel refuses" '' brd "nothing; brd: Operation not permitted"
    expect "a dependency that the kernel refuses" '' macvtap "tap; macvtap: Operation not permitted"
}

# In the middle of a coldplug the kernel is told to load no more modules: the rest of it comes to nothing, soon.
loaded() { [ "$(wc -l </proc/modules)" -ge "$1" ]; }

disabled() {
    log_next
    {
        wait_until loaded 30 || failed "outcomes: modules_disabled=1 in a coldplug" "too few modules are loaded"
        echo 1 >/proc/sys/kernel/modules_disabled
    } &
    trigger
    wait $!
    before=$(cut -d . -f 1 /proc/uptime)
    judge "outcomes: modules_disabled=1 in a coldplug, module_queue=$mode" "$(
        udevadm settle --timeout=100 2>/dev/null || echo "udevadm settle failed"
        took=$(($(cut -d . -f 1 /proc/uptime) - before))
        [ $took -le 10 ] || echo "udevadm settle took $took s"
        errors | sed -n 's/: Operation not permitted$//p' >/run/refused
        [ "$(sort -u /run/refused | wc -l)" -ge 10 ] || echo "the log tells of too few: $(xargs </run/refused)"
        module_names | grep -xF -f /run/refused | sed 's/$/ is there/'
        udevadm control --ping || echo "udevd does not answer"
    )"
    judge "outcomes: modules_disabled=1, module_queue=$mode" "$(
        rule 'RUN{builtin}+="kmod load dummy"'
        udevadm trigger --action=change --settle /sys/class/mem/null
        errors | grep -qxF "dummy: Operation not permitted" || echo "the log does not tell"
        [ ! -d /sys/module/dummy ] || echo "the module is there"
    )"
    judge "outcomes: modules_disabled=1, udevd exits, module_queue=$mode" "$(
        udevadm control --exit
        wait_until no_udevd || echo "it does not"
    )"
}

# Never empty: to busybox's grep, no pattern in a file means all lines.
{ echo base; module_names; } >/run/base
case $part in
    cases)
        for mode in $(modes no yes wait); do
            udevd_restart "module_queue=$mode"
            asks
            soft_dependencies
            install_lines
            options
            failures
            devices
            files
            udevd_restart "module_queue=$mode" event_timeout=10
            itself
        done
        ;;
    refused)
        for mode in $(modes no yes wait); do
            udevd_restart "module_queue=$mode"
            refused
        done
        ;;
    disabled)
        # Those of the results disk cannot come later.
        for module in /rig/disk/*; do
            insmod "$module" 2>/dev/null || :
        done
        mode=$(sed -nE 's/.*udev.module_queue=([a-z]+).*/\1/p' /proc/cmdline)
        udevd_restart
        disabled
        ;;
esac
