# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The boots of a scenario of coldplugs. Sourced after tools/common.sh and test/bench/parts.sh.
#
# A scenario is a file in scenarios/ that may set
#
#   machine=()          options of test/guest/run
#   modules_disk=yes    if these want a disk of modules
#   fixture=TEXT        what is added to the machine; empty: nothing
#   fixture_options=()  the options of test/guest/run that add it
#   fixture_sign=REGEX  what the kernel's log says of it
#   fixture_count=N     how many times when the boot ends; empty: at least once
#   variants=()         what to boot by turns
#
# and may define the functions scenario_variant, for variants of its own (as variant_read), and scenario_prepare, which
# makes what a boot of VARIANT needs, files in $out. The comment at its head is its help.

SCENARIOS=$TOP/test/bench/scenarios

# Read a scenario's settings, in a subshell: scenario_read NAME
# shellcheck disable=SC2034    # tools/bench looks at some of them
scenario_read() {
    scenario=$1
    machine=()
    modules_disk=no
    fixture=
    fixture_options=()
    fixture_sign=
    fixture_count=
    variants=(no yes)
    scenario_variant() { return 1; }
    scenario_prepare() { :; }

    # shellcheck source=/dev/null
    . "$SCENARIOS/$scenario"
}

# variant_read VARIANT: sets run to the options of test/guest/run that make it, and bare to whether it is without what
# the scenario adds. False if there is no such variant.
variant_read() {
    bare=no
    run=()
    scenario_variant "$1" && return
    case $1 in
        no | yes | wait) run=(--mode "$1") ;;
        no-bare | yes-bare | wait-bare)
            [ -n "$fixture" ] || return
            bare=yes
            run=(--mode "${1%-bare}")
            ;;
        without-deferral) run=(--mode wait) ;;
        without-*)
            parts | grep -q "^${1#without-} " || return
            run=(--mode yes --udevadm "$out/parts/${1#without-}/udevadm")
            ;;
        *) return 1 ;;
    esac
}

# Whether the machine had the fixture: boot_has_fixture DIR
boot_has_fixture() {
    local n

    n=$(grep -c "$fixture_sign" "$1/dmesg" || true)
    [ "$n" -eq "${fixture_count:-$((n > 0 ? n : 1))}" ] ||
        fail "the kernel's log tells of the fixture $n times instead of ${fixture_count:-at least once}"
}

# boot SCENARIO VARIANT DIR OPTION…: one boot, with what table.py wants to know of it. In a subshell.
boot() {
    local dir=$3

    scenario_read "$1"
    variant_read "$2"
    [ -z "$fixture" ] || [ "$bare" = yes ] || run+=("${fixture_options[@]}")
    scenario_prepare "$2"
    # What comes later wins.
    "$TOP/test/guest/run" --out "$dir" "${machine[@]}" "${@:4}" "${run[@]}" || exit
    printf '%s\t%s\n' scenario "$1" variant "$2" >>"$dir/result.tsv"
    [ ! -f "$dir/record" ] || "$udevadm" module-queue critical-chain --json=short "$dir/record" |
        "$TOP/test/bench/chain.py" >>"$dir/result.tsv" || fail "$dir/record cannot be read"
    if [ -n "$fixture" ] && [ "$bare" = no ]; then
        boot_has_fixture "$dir"
        printf 'fixture\t%s\n' "$fixture" >>"$dir/result.tsv"
    fi
}
