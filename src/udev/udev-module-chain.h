/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What something waited for, read backwards from its end in a record: its event waited for a worker, before that its
 * device was to be found by a driver, that had to be loaded, after the modules that it builds on, because of the
 * event of the device above, and so on up to what was triggered. Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "udev-module-record.h"

typedef enum ModuleChainKind {
        MODULE_CHAIN_QUEUED,            /* an event waits for a worker, or for that of another device */
        MODULE_CHAIN_RULES,             /* a worker applies the rules */
        MODULE_CHAIN_WAITING,           /* a module waits for a loader */
        MODULE_CHAIN_LOADING,           /* a module is loaded: its driver looks for devices */
        MODULE_CHAIN_KERNEL,            /* the driver's load has ended, and it finds the device later */
        _MODULE_CHAIN_KIND_MAX,
} ModuleChainKind;

/* A part of the time, directly behind the part before it. */
typedef struct ModuleChainLink {
        ModuleChainKind kind;
        usec_t from, to;
        const ModuleRecordEvent *event; /* of these one, for KERNEL both; in the record */
        const ModuleRecordLoad *load;
} ModuleChainLink;

typedef struct ModuleChain {
        ModuleChainLink *links;         /* oldest first */
        size_t n_links;
} ModuleChain;

void module_chain_done(ModuleChain *chain);

/* When the record's coldplug has begun (udevd has received the first uevent) and ended: after what was triggered
 * there was nothing to do for MODULE_COLDPLUG_GAP_USEC, or it is the end of the record. 0 and 0 if the record has no
 * event. */
#define MODULE_COLDPLUG_GAP_USEC (5 * USEC_PER_SEC)
int module_record_coldplug(const ModuleRecord *record, usec_t *ret_begin, usec_t *ret_end);

/* Whether it is that of a new disk, or of a new input device; not loop, ram, zram, CD and floppy devices. */
bool module_record_event_is_disk(const ModuleRecordEvent *event);
bool module_record_event_is_input(const ModuleRecordEvent *event);

/* The event with is() that ended last, up to `until`; NULL if there is none. */
const ModuleRecordEvent *module_record_last_event(
                const ModuleRecord *record,
                bool (*is)(const ModuleRecordEvent *event),
                usec_t until);

/* What ended last of all, up to `until`: an event or a load, the other is NULL; both if there is none. */
void module_record_last(
                const ModuleRecord *record,
                usec_t until,
                const ModuleRecordEvent **ret_event,
                const ModuleRecordLoad **ret_load);

/* What the end of an event, or of a load (the other is NULL), waited for. The caller calls module_chain_done().
 * Returns 0 or -ENOMEM. */
int module_chain_build(
                const ModuleRecord *record,
                const ModuleRecordEvent *event,
                const ModuleRecordLoad *load,
                ModuleChain *ret);

/* Of a device's path, the last part. */
const char *module_record_device_name(const char *device);
