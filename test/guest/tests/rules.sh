# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# ENV{MODULE_QUEUE_CLASS} in udev rules: what a rule says is the class of the request, ours can be overridden, and a
# wrong value changes nothing.

. /rig/guest.sh

ours=/usr/lib/udev/rules.d/79-module-queue.rules

# Devices as they come know no class but by what they are.
trigger
settle
judge "rules: no device of this machine gets a class by rule" "$(grep -l MODULE_QUEUE_CLASS /run/udev/data/* || :)"

# What udevd says about a file of rules: complaints NAME
complaints() { udevadm test --action=add /sys/class/mem/null 2>&1 | grep -F "/$1:" || :; }

mkdir -p /run/udev/rules.d
judge "rules: ours can be read" "$(complaints 79-module-queue.rules)"
sed 's/^# \(SUBSYSTEM\)/\1/' $ours >/run/udev/rules.d/79-examples.rules
judge "rules: the examples can be read" "$(
    [ "$(grep -c '^SUBSYSTEM' /run/udev/rules.d/79-examples.rules)" -ge 5 ] || echo "they are not found in $ours"
    complaints 79-examples.rules
)"
sed -i 's/ENV{MODULE_QUEUE_CLASS}/ENV{/' /run/udev/rules.d/79-examples.rules
judge "rules: noticed: examples that are wrong" "$([ -n "$(complaints 79-examples.rules)" ] || echo "no complaint")"
rm /run/udev/rules.d/79-examples.rules

# In the foreground, since the kernel's log would not take so many messages.
udevd_stop
wait_until no_udevd
echo module_queue=yes >/etc/udev/udev.conf
SYSTEMD_LOG_TARGET=console SYSTEMD_LOG_LEVEL=debug /usr/lib/systemd/systemd-udevd 2>>/run/udevd.log &
wait_until udevadm control --ping 2>/dev/null || failed "rules" "udevd does not start"

# The class of the request for a module: class_with MODULE, of an event "add" of mem/null
class_with() {
    udevadm control --reload
    rmmod "$1" 2>/dev/null || :
    : >/run/udevd.log
    udevadm trigger --action=add /sys/class/mem/null
    udevadm settle --timeout=60 2>/dev/null
    [ -d "/sys/module/$1" ] || echo "$1 is not loaded"
    sed -n 's/^null: Asking for [0-9]* module loads of class \([a-z]*\)\.$/\1/p' /run/udevd.log
}

# expect CASE CLASS MODULE
expect() {
    found=$(class_with "$3" | xargs)
    if [ "$found" = "$2" ]; then
        ok "rules: $1: $2"
    else
        failed "rules: $1" "'$found' instead of '$2'"
    fi
}

# rule FILE [TEXT]: for mem/null; without a text there is no such file.
rule() {
    rm -f "/etc/udev/rules.d/$1"
    [ $# -eq 1 ] || echo "ACTION==\"add\", SUBSYSTEM==\"mem\", KERNEL==\"null\", $2" >"/etc/udev/rules.d/$1"
}

class='ENV{MODULE_QUEUE_CLASS}'

rule 00-test.rules 'RUN{builtin}+="kmod load dummy"'
expect "none" network dummy
rule 50-test.rules "$class=\"idle\""
expect "one" idle dummy
rule 79-z-local.rules "$class=\"storage\""
expect "a later one" storage dummy
rule 99-test.rules "$class=\"sound\""
expect "one behind 80-drivers.rules" sound dummy
rule 99-test.rules "$class=\"\""
expect "one that takes it back" network dummy
for bad in fast Storage storage,input 0 " storage"; do
    rule 99-test.rules "$class=\"$bad\""
    expect "a wrong value '$bad'" network dummy
    judge "rules: a wrong value '$bad' is named in the log" \
        "$(grep -qF "null: Unknown MODULE_QUEUE_CLASS=$bad, ignoring it." /run/udevd.log || echo "it is not")"
done
rule 50-test.rules
rule 79-z-local.rules
rule 99-test.rules

# Ours, for what has the MODALIAS that it names.
rule 00-test.rules 'ENV{MODALIAS}="platform:gpio-keys"'
expect "ours" other gpio_keys
rule 79-z-local.rules "$class=\"display\""
expect "the administrator's behind ours" display gpio_keys
rule 79-z-local.rules
rule 79-module-queue.rules "$class=\"network\""
expect "the administrator's instead of ours" network gpio_keys
: >/etc/udev/rules.d/79-module-queue.rules
expect "an empty file instead of ours" input gpio_keys
