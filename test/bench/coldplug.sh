# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Coldplugs of the guest's rich machine, with and without the module queue by turns: what the scenarios share that
# boot it. A scenario is a program that sets, after it has sourced this,
#
#   fixture=TEXT        what is added to the machine; empty: nothing
#   fixture_options=()  the options of test/guest/run that add it
#   fixture_probes=N    how many of its probes must have begun when the boot ends
#   variants=()         what to boot by turns: a mode of the queue (no, yes, wait), or MODE-without: that mode without
#                       the fixture
#
# and calls "coldplug "$@"". The comment at its head is its help.

# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"

fixture=
fixture_options=()
fixture_probes=0
variants=(no yes)

usage() {
    sed -n '3,/^$/s/^# \?//p' "$0"
    cat <<END

  tools/bench $ME [--boots N] [--modes LIST] [option of test/guest/run…]

N boots of each mode (5), by turns; the boots of a round have the same seed. LIST: no, yes, wait, with commas
($(IFS=, && echo "${variants[*]}")).${fixture:+ MODE-without is a mode without
$fixture.}
Of use are --udevadm FILE, --smp N, --signed, --init-on-alloc, --kernel RELEASE, --append WORDS. The results of all
boots are kept in build/bench/$ME-TIME/, with one line each in boots.tsv.
END
}

# Whether the machine had the fixture: boot_has_fixture DIR
boot_has_fixture() {
    local n

    n=$(grep -c ': probe sleeps, in ' "$1/dmesg" || true)
    [ "$n" -eq "$fixture_probes" ] || {
        say "error: $n probes of the fixture have begun instead of $fixture_probes" >&2
        return 1
    }
}

# boot VARIANT DIR OPTION…: one boot, with what table.py wants to know of it.
boot() {
    local variant=$1 dir=$2
    shift 2

    if [ -z "$fixture" ] || [[ $variant = *-without ]]; then
        "$TOP/test/guest/run" --mode "${variant%-without}" --out "$dir" "$@" || return
    else
        "$TOP/test/guest/run" --mode "$variant" --out "$dir" "${fixture_options[@]}" "$@" || return
        boot_has_fixture "$dir" || return
        printf 'fixture\t%s\n' "$fixture" >>"$dir/result.tsv"
    fi
    printf 'variant\t%s\n' "$variant" >>"$dir/result.tsv"
}

coldplug() {
    local boots=5 options=() kernel=() out dir seed variant n=0 failed=0 rc done_boots=()
    local mode="(no|yes|wait)${fixture:+(-without)?}"

    while [ $# -gt 0 ]; do
        case "$1" in
            --boots)
                [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail_usage "--boots wants a number from 1 up"
                boots=$2
                ;;
            --modes)
                [[ ${2:-} =~ ^$mode(,$mode)*$ ]] || fail_usage "--modes wants modes with commas"
                IFS=, read -r -a variants <<<"$2"
                ;;
            --signed | --init-on-alloc) options+=("$1"); shift; continue ;;
            --udevadm | --smp | --kernel | --append | --timeout)
                [ $# -gt 1 ] || fail_usage "$1 wants a value"
                options+=("$1" "$2")
                [ "$1" != --kernel ] || kernel=("$1" "$2")
                ;;
            --help) usage; exit ;;
            *) fail_usage "unknown option: $1" ;;
        esac
        shift 2
    done

    "$TOP/test/guest/images"
    [ -z "$fixture" ] || "$TOP/test/guest/fixtures" "${kernel[@]}"
    out=$BUILD/bench/$ME-$(date +%Y%m%d-%H%M%S)
    mkdir -p "$out"

    for ((seed = 1; seed <= boots; seed++)); do
        for variant in "${variants[@]}"; do
            n=$((n + 1))
            say "boot $n of $((boots * ${#variants[@]})): module_queue=$variant"
            dir=$out/$(printf %02d "$seed")-$variant
            rc=0
            boot "$variant" "$dir" --seed "$seed" "${options[@]}" || rc=$?
            [ "$rc" -ne 2 ] || exit 2
            if [ "$rc" -eq 0 ]; then
                done_boots+=("$dir")
                awk -F '\t' '{ v[$1] = $2 } END { printf "    settle after %s s, last disk %s, last input %s (took %d s)\n",
                    v["settle"], v["last_disk"], v["last_input"], v["wall"] }' "$dir/result.tsv"
            else
                say "error: this boot failed and is not counted: $dir" >&2
                failed=$((failed + 1))
            fi
        done
    done

    [ "$failed" -eq 0 ] || say "error: $failed of $n boots failed" >&2
    [ ${#done_boots[@]} -gt 0 ] || exit 1
    "$TOP/test/bench/table.py" "$out/boots.tsv" "${done_boots[@]}"
    [ "$failed" -eq 0 ]
}
