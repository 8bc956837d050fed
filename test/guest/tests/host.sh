# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the host's side of the tests in the guest share. The caller is a test: its name is the file's, its files are
# in build/check/NAME/. With --sanitize it runs with the udevd of tools/build --sanitize, its files are in
# build/check/NAME-sanitize/, and what the sanitizers report is a case of each boot. With --systemd 257 (or 262) it runs
# with the udevd of that version, and its files are in build/check/NAME-257/.

# shellcheck source=tools/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../../tools/common.sh"
# shellcheck source=test/guest/tests/cases.sh
. "$TOP/test/guest/tests/cases.sh"
# shellcheck source=test/guest/root.sh
. "$TOP/test/guest/root.sh"

TESTS=$TOP/test/guest/tests
TEST=$ME                    # the file's name; ME is the one in the cases
CHECK=$BUILD/check/$TEST
SYSTEMD=252
TREE=$BUILD/systemd-$SYSTEMD
# What a boot costs: the host clears the memory that the guest touches first; the kernel tests its ciphers; five levels of
# page tables are to be walked.
run=("$TOP/test/guest/run" --profile small --memory 1024 --modules "$BUILD/guest/kernel/default/modules-small.cpio"
     --append "cryptomgr.notests no5lvl")

sanitize=no
case ${1-} in
    '') ;;
    --sanitize)
        sanitize=yes
        ME="$TEST sanitized"
        CHECK=$BUILD/check/$TEST-sanitize
        # Not as udevadm, too: what starts takes ten times as long.
        run+=(--udevd "$BUILD/systemd-252-sanitize/build/udevadm" --timeout 1200)
        # The kernel hands these to init as its environment. A file for each process that has something to report; $OUT
        # comes out of the guest.
        report=log_path=/run/out/sanitizer:print_stacktrace=1
        run+=(--append "ASAN_OPTIONS=$report:abort_on_error=1:strict_string_checks=1:quarantine_size_mb=16")
        run+=(--append "UBSAN_OPTIONS=$report")
        ;;
    --systemd)
        SYSTEMD=${2-}
        TREE=$BUILD/systemd-$SYSTEMD
        [ -x "$TREE/build/udevadm" ] || fail "--systemd $SYSTEMD: there is no $TREE/build/udevadm (tools/build makes it)"
        ME="$TEST $SYSTEMD"
        CHECK=$BUILD/check/$TEST-$SYSTEMD
        run+=(--udevadm "$TREE/build/udevadm")
        ;;
    --help)
        sed -n '3,/^$/s/^# \?//p' "$0"
        printf '\nOptions: --sanitize, --systemd 257 or 262, and for some --smp or others that the file has.\n'
        exit
        ;;
    *) fail_usage "unknown option: $1" ;;
esac
OVERLAY=$CHECK/overlay

# An empty overlay for the guest's root, with what the tests' scripts source.
overlay_start() {
    rm -rf "$OVERLAY"
    mkdir -p "$OVERLAY/rig"
    cp "$TESTS/cases.sh" "$TESTS/guest.sh" "$OVERLAY/rig/"
    # What is tested must not want more of it than libkmod does. There may be no udevadm with sanitizers.
    [ -z "$(objdump -T "$TREE/build/udevadm" "$TREE-sanitize/build/udevadm" 2>/dev/null | grep 'OPENSSL_' || :)" ] ||
        fail "udevadm in $TREE or $TREE-sanitize is linked with libcrypto"
    install -D "$BUILD/guest/no-crypto/libcrypto.so.3" "$OVERLAY/usr/lib/x86_64-linux-gnu/libcrypto.so.3"
}

# A program of the host into the overlay, with its libraries: overlay_program FILE
overlay_program() {
    install -D -m 755 "$1" "$OVERLAY$(root_path "$1")"
    root_libs "$OVERLAY" "$1"
}

# mutant NAME FILE EXPRESSION: udevadm with one of our sources changed by sed, /rig/mutants/NAME in the overlay. Compiled
# and linked by the commands of systemd's build, with one object of our own instead of the right one, or put before the
# archive that has that.
mutant() {
    local name=$1 source=$TOP/src/udev/$2 tree=$TREE/build changed=$CHECK/$1.c object=$CHECK/$1.o
    local file=$OVERLAY/rig/mutants/$1 command

    mkdir -p "$OVERLAY/rig/mutants"
    sed "$3" "$source" >"$changed"
    ! cmp -s "$source" "$changed" || fail "mutant $name: '$3' changes nothing in $source"
    command=$(ninja -C "$tree" -t commands udevadm | grep -E "^cc .* -c [^ ]*/$2\$")
    command=$(sed "s| -MD .*| -I../source/src/udev -o $object -c $changed|" <<<"$command")
    run_logged "$CHECK/mutant.log" sh -c "cd '$tree' && $command" || return 1
    command=$(ninja -C "$tree" -t commands udevadm | grep -E ' -o udevadm ')
    if [[ $command == *"_$2.o "* ]]; then
        command=$(sed "s| [^ ]*_$2\.o | $object |; s| -o udevadm | -o $file |" <<<"$command")
    else
        command=$(sed "s| -o udevadm | -o $file $object |" <<<"$command")
    fi
    run_logged "$CHECK/mutant.log" sh -c "cd '$tree' && $command" && strip "$file"
}

# Of a test that says nothing about memory: not_sanitized REASON
not_sanitized() {
    [ "$sanitize" = yes ] || return 0
    skipped "$ME" "$1"
    exit 0
}

# Boot the small machine; the result is that of run: guest_boot BOOT [option of run…]
guest_boot() {
    local out=$CHECK/$1 rc=0 reports
    shift

    "${run[@]}" --out "$out" "$@" >&2 || rc=$?
    if [ "$sanitize" = yes ] && [ "$rc" -le 1 ]; then
        reports=$(find "$out" -name 'sanitizer.*')
        # shellcheck disable=SC2086
        judge "$ME: no report in ${out##*/}" \
            "${reports:+see $(wc -w <<<$reports) files $out/sanitizer.*:$'\n'$(grep -hE 'ERROR:|runtime error:' $reports)}"
    fi
    return "$rc"
}

# The same with the test's script, whose cases are printed.
guest_run() {
    local out=$CHECK/$1 rc=0

    guest_boot "$@" --script "$TESTS/$TEST.sh" --overlay "$OVERLAY" || rc=$?
    sed -nE "/^(ok|FAILED|skipped) /{s/^([^ ]*) $TEST/\1 $ME/;p}" "$out/output" 2>/dev/null || true
    # Inside of "$( )" this ends what is to say what is wrong, and judge takes that for nothing.
    ! grep -s 'parameter not set$' "$out/output" >&2 || failed "$ME" "a variable is not set, see $out/output"
    case $rc in
        0) ;;
        1) failed "$ME" "the script in the guest ended early, see $out/output" ;;
        *) failed "$ME" "the guest could not be booted, see $out/console and $out/qemu.log" ;;
    esac
}
