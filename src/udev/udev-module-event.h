/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* In what order the manager starts events, with the queue on (model rule 5): first those that lead to disks and
 * keyboards, among them first come, first served; the others when no worker is needed for these, or when
 * MODULE_EVENT_AGE_USEC older than these, so that nobody waits for ever. That one event blocks another is decided by
 * udevd as ever; what is remembered here is that it was decided, so that nobody looks at the blocked one again before the
 * other is gone.
 *
 * udevd looks for events to start after each message, and there may be many thousands: whatever is done for one takes
 * no more than the logarithm of their number. */

#include <stdbool.h>
#include <stdint.h>

#include "sd-device.h"

#include "list.h"
#include "prioq.h"
#include "time-util.h"

/* How long an event lets others go first. More than a coldplug of the guest's rich machine takes, as for modules. */
#define MODULE_EVENT_AGE_USEC (10 * USEC_PER_SEC)

typedef struct ModuleEvent ModuleEvent;

typedef enum ModuleEventState {
        MODULE_EVENT_WAITING,
        MODULE_EVENT_SEEN,              /* handed out in this pass */
        MODULE_EVENT_BLOCKED,           /* by an event that is still there */
        MODULE_EVENT_STARTED,
} ModuleEventState;

/* Part of udevd's Event. */
struct ModuleEvent {
        void *event;                    /* udevd's */
        uint64_t seqnum;
        usec_t due;                     /* CLOCK_MONOTONIC: what came later than this does not go before it */
        ModuleEventState state;
        uint32_t row;                   /* in the record; the dispatch's */
        unsigned idx;
        ModuleEvent *blocker;
        LIST_HEAD(ModuleEvent, blocked); /* by this one */
        LIST_FIELDS(ModuleEvent, list); /* of those seen in this pass, or blocked by the same */
};

/* All events, those that wait in front. */
typedef struct ModuleEventOrder {
        Prioq *events;
        LIST_HEAD(ModuleEvent, seen);
} ModuleEventOrder;

/* Whether the event of a device leads to a disk or to an input device, or is one's own: by subsystem and MODALIAS. What
 * only the module's directory tells (of many `of:`, `acpi:`, `i2c:` devices), and what rules say in MODULE_QUEUE_CLASS,
 * is not known before the event is handled: it orders loads, not events. */
bool module_event_is_urgent(sd_device *dev);

/* Frees nothing of the events' own. */
void module_event_order_done(ModuleEventOrder *order);

bool module_event_order_is_empty(const ModuleEventOrder *order);

/* An event was received now, is freed. The first fails only for want of memory; then the other is allowed still. */
int module_event_add(ModuleEventOrder *order, ModuleEvent *event, sd_device *dev, usec_t now, void *userdata);
void module_event_remove(ModuleEventOrder *order, ModuleEvent *event);

/* One pass through the events that may be started: each of them once, as udevd's; NULL at the end. Who is neither
 * blocked nor started then comes again in the next pass. */
void module_event_begin_pass(ModuleEventOrder *order);
void *module_event_next(ModuleEventOrder *order);

/* udevd has found that one event has to wait for the end of the other. That one, and what that one waits for, is as
 * urgent now as the one. */
void module_event_block(ModuleEventOrder *order, ModuleEvent *event, ModuleEvent *blocker);

/* A worker has got it; it has to be handled once more. */
void module_event_start(ModuleEventOrder *order, ModuleEvent *event);
void module_event_requeue(ModuleEventOrder *order, ModuleEvent *event);
