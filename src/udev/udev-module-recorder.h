/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* When the manager writes what is in its record, and where: the record when nothing is left to do, so that all of a
 * coldplug is there when `udevadm settle` returns, and nothing of it is held up, unless it was written just before (see
 * MODULE_RECORD_WRITE_USEC); and what is being loaded just now, each second while there is something to load, and when
 * there is nothing any more. Both files are replaced as a whole, and anybody may read them. No
 * failure is more than one line in the log.
 *
 * The next udevd goes on with the record of this one. That of the initramfs has another name, and outlives it in
 * /run. */

#include <stdbool.h>

#include "sd-event.h"

#include "macro.h"

#include "udev-module-record.h"

#define MODULE_RECORD_PATH_INITRD "/run/udev/module-queue.record-initrd"
#define MODULE_RECORD_PATH_SYSTEM "/run/udev/module-queue.record"
#define MODULE_STATUS_PATH "/run/udev/module-queue.status"

/* How often what is being loaded is written. */
#define MODULE_STATUS_USEC USEC_PER_SEC

/* A record that has grown is written again after so long for each 100 KiB of it at the earliest: writing these takes
 * some 0.2 ms, so that is less than 0.1 % of one CPU, however many events come and go. */
#define MODULE_RECORD_WRITE_USEC USEC_PER_SEC
#define MODULE_RECORD_WRITE_SIZE (100U * 1024U)

typedef struct ModuleRecorder ModuleRecorder;

/* Reads the record that there is. The paths are not copied, event is referenced. Returns 0 or -ENOMEM. */
int module_recorder_new(ModuleRecorder **ret, sd_event *event, const char *record_path, const char *status_path,
                        bool initrd);

/* Writes the record, removes the status. Returns NULL. */
ModuleRecorder *module_recorder_free(ModuleRecorder *recorder);
DEFINE_TRIVIAL_CLEANUP_FUNC(ModuleRecorder *, module_recorder_free);

/* In a new worker, instead: let go of what is the manager's. Returns NULL. */
ModuleRecorder *module_recorder_enter_worker(ModuleRecorder *recorder);

/* What to add rows to. */
ModuleRecord *module_recorder_get_record(ModuleRecorder *recorder);

/* As configured. */
void module_recorder_configure(ModuleRecorder *recorder, ModuleRecordMode mode, unsigned n_loaders_max);

/* To be called when an event or a load has come or gone. busy: there are some; loading: there are loads. n_waiting: modules
 * that wait for a loader. */
void module_recorder_update(ModuleRecorder *recorder, bool busy, bool loading, unsigned n_waiting);
