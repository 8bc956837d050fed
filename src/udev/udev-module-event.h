/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* In what order the manager starts events, with the queue on (model rule 5): first those that lead to disks and
 * keyboards, among them first come, first served; the others when no worker is needed for these, or after
 * MODULE_EVENT_AGE_USEC, so that nobody waits for ever. That one event blocks another is decided by udevd as ever;
 * what is remembered here is only that it was decided. */

#include <stdbool.h>

#include "sd-device.h"

#include "time-util.h"

/* How long an event lets others go first. More than a coldplug of the guest's rich machine takes, as for modules. */
#define MODULE_EVENT_AGE_USEC (10 * USEC_PER_SEC)

/* Part of udevd's Event. All zeros: nothing is known, and nothing changes the order. */
typedef struct ModuleEvent {
        usec_t due;     /* CLOCK_MONOTONIC: when it has waited long enough; 0 if it does not let others go first */
        bool blocked;   /* by an event that is still there */
} ModuleEvent;

/* Whether the event of a device leads to a disk or to an input device, or is one's own: by subsystem and MODALIAS. What
 * only the module's directory tells (of many `of:`, `acpi:`, `i2c:` devices), and what rules say in MODULE_QUEUE_CLASS,
 * is not known before the event is handled: it orders loads, not events. */
bool module_event_is_urgent(sd_device *dev);

/* For an event that was received now. */
void module_event_init(ModuleEvent *event, sd_device *dev, usec_t now);

/* udevd has found that one event has to wait for the end of the other, which is now as urgent as the one. Returns
 * whether it was not before. */
bool module_event_block(ModuleEvent *event, ModuleEvent *blocker);
