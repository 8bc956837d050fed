# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What udevd's processes are like while the system starts: a line in $OUT/processes for each that was seen, whenever it
# was: name, nice level, I/O priority, cgroup below the service's. And which calls of theirs end with EPERM.

# shellcheck source=test/guest/lib.sh
. /rig/lib.sh

service=/sys/fs/cgroup/system.slice/systemd-udevd.service
mkdir -p "$OUT"
mount -t tracefs tracefs "$TRACING" 2>/dev/null
echo 'ret == -1' >"$TRACING/events/raw_syscalls/sys_exit/filter"
echo 1 >"$TRACING/events/raw_syscalls/sys_exit/enable"
# One that is refused for sure, to see that it is noticed.
ln -d "$OUT" "$OUT/refused" 2>/dev/null
systemd-notify --ready

while [ ! -e /run/watch-end ]; do
    for group in "$service" "$service"/*/; do
        while read -r pid; do
            # It may be gone.
            read -r stat <"/proc/$pid/stat" || continue
            io=$(ionice -p "$pid") || continue
            name=${stat#*(}
            # shellcheck disable=SC2206
            fields=(${stat##*) })
            group=${group%/}
            printf '%s\t%s\t%s\t%s\n' "${name%)*}" "${fields[16]}" "$io" "${group#"$service"}"
        done <"$group/cgroup.procs"
    done 2>/dev/null
    sleep 0.1
done >"$OUT/processes"
cp "$TRACING/trace" "$OUT/eperm"
