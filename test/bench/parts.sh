# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The queue without one of its parts, to see what each brings: variants without-PART. Sourced after tools/common.sh.

# A part: its name, and the file and the expression of sed that take it away.
parts() {
    cat <<'END'
sharing           udev-module-queue.c     s/hashmap_new(&string_hash_ops)/hashmap_new(NULL)/
failures          udev-module-queue.c     s/now >= usec_add(q->kept->failed_at, MODULE_QUEUE_FAILURE_USEC)/true/
class-order       udev-module-queue.c     s/step->class \* MODULE_QUEUE_AGE_USEC/0/
lanes             udev-module-queue.c     s/reserve = q->n_places \/ 4;/reserve = 0;/
loader-priority   udev-module-class.c     s/return table\[class\];/return 0;/
event-order       udev-module-event.c     s/module_event_is_urgent(dev) ? now : usec_add/true ? now : usec_add/
manager-priority  udev-module-dispatch.c  s/^#define DISPATCH_NICE .*/#define DISPATCH_NICE 0/
worker-priority   udev-module-dispatch.c  s/^#define WORKER_NICE_OTHERS .*/#define WORKER_NICE_OTHERS 0/
live-by-uevent    udev-module-pool.c      s/if (loader_note_live(loader))$/if (false)/
live-goes-on      udev-module-queue.c     s/ || r->waiter == 0);/);/
live-is-free      udev-module-pool.h      s/MODULE_PROCESSES_PER_LOADER 4U/MODULE_PROCESSES_PER_LOADER 1U/
END
}

# without_part TREE PART FILE: build systemd's udevadm of TREE without the part, as FILE. While this runs, the source in TREE
# is another one; tools/build makes it good again.
without_part() {
    local tree=$1 part=$2 udevadm=$3 file expression

    read -r _ file expression < <(parts | grep "^$part ")
    sed -i "$expression" "$tree/source/src/udev/$file"
    ! cmp -s "$TOP/src/udev/$file" "$tree/source/src/udev/$file" || fail "$part: nothing in $file matches $expression"
    run_logged "$BUILD/bench/parts.log" ninja -C "$tree/build" udevadm || fail "udevd without $part cannot be built"
    install -D "$tree/build/udevadm" "$udevadm"
    cp "$TOP/src/udev/$file" "$tree/source/src/udev/$file"
}
