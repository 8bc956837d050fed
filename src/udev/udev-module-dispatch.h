/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The manager's side: the request socket, the answers, what is started when. This is what the hooks in udevd call, and
 * nothing here ever blocks (model rule 8). Each function takes NULL for "there is no queue" (it is off) and then
 * does nothing, so that a hook is one call. */

#include <stdbool.h>
#include <sys/types.h>

#include "sd-device.h"
#include "sd-event.h"

#include "macro.h"
#include "time-util.h"

#include "udev-module-config.h"
#include "udev-module-event.h"
#include "udev-module-record.h"

/* Loads that are at work at once: enough to keep the CPUs busy, few enough that the order counts. Measured in the
 * guest on one CPU, with 4, 8, 16 and 32 (and only live ones parked): settle does not differ, the last disk comes at
 * 6.2, 6.8, 7.0 and 7.1 s. */
#define MODULE_PLACES_MIN 4U
#define MODULE_PLACES_PER_CPU 2U

typedef struct ModuleDispatch ModuleDispatch;

/* Start as configured. Leaves NULL in *ret if the queue is off, or if it is on but cannot work here (a
 * container, no CAP_SYS_MODULE, no libkmod, no socket): that is logged, and udevd works as stock. Call it once,
 * before the first worker, in the process that runs the event loop. event is referenced. warn_usec: after how long
 * a load is named in the log. cgroup: that of the workers, or NULL if they have none; not copied. Goes on with what an
 * earlier udevd has left. The caller owns *ret. Returns 0, or negative errno with *ret = NULL. */
int module_dispatch_start(
                ModuleDispatch **ret,
                sd_event *event,
                const ModuleConfig *config,
                usec_t warn_usec,
                const char *cgroup);

/* Free what the manager holds. Loaders that are at work go on to the end of their load and leave then: no load is
 * ever killed. Returns NULL. */
ModuleDispatch *module_dispatch_free(ModuleDispatch *d);
DEFINE_TRIVIAL_CLEANUP_FUNC(ModuleDispatch *, module_dispatch_free);

/* In a new worker, right after fork(): drop what only the manager may hold, and keep what a worker needs to ask
 * (see udev-module-client.h). Returns NULL, for the worker's copy of the pointer. */
ModuleDispatch *module_dispatch_enter_worker(ModuleDispatch *d);

/* A worker was forked, was reaped: only workers may ask. */
void module_dispatch_add_worker(ModuleDispatch *d, pid_t pid);
void module_dispatch_remove_worker(ModuleDispatch *d, pid_t pid);

/* A uevent was received and is an event now: give it its place in the order. And what it tells of modules: one that
 * somebody else loaded makes kept failures void (model rule 3), one of ours is live. userdata is udevd's event. Returns 0,
 * or negative errno if there is no memory. */
int module_dispatch_note_uevent(ModuleDispatch *d, sd_device *dev, ModuleEvent *event, void *userdata);

/* The manager goes through its events to start some, and what becomes of them: see udev-module-event.h. */
void module_dispatch_begin_pass(ModuleDispatch *d);
void *module_dispatch_next_event(ModuleDispatch *d);

/* One pass: LIST_FOREACH(event, e, head) without a queue, and with one in its order. Then it keeps no place in the list:
 * what udevd frees meanwhile may be next to any place there (262 frees an event when the last that it has blocked
 * starts). */
#define MODULE_DISPATCH_FOREACH_EVENT(d, e, head)                               \
        for (typeof(*(head)) *_next = (d) ? NULL : (head), *e;                  \
             (e = (d) ? module_dispatch_next_event(d) : _next) &&               \
                     (_next = (d) ? NULL : e->event_next, true);)

void module_dispatch_block_event(ModuleDispatch *d, ModuleEvent *event, ModuleEvent *blocker);
void module_dispatch_start_event(ModuleDispatch *d, ModuleEvent *event);
void module_dispatch_requeue_event(ModuleDispatch *d, ModuleEvent *event);
void module_dispatch_remove_event(ModuleDispatch *d, ModuleEvent *event);

/* Where udevd reads its own configuration again: follow it, which may start a queue in *d. Workers that know the old
 * one must be on their way out. A queue that is switched off gets no new workers and finishes what it was asked for.
 * Returns > 0 if it was started, 0 if not, or negative errno with *d = NULL. */
int module_dispatch_configure(
                ModuleDispatch **d,
                sd_event *event,
                const ModuleConfig *config,
                usec_t warn_usec,
                const char *cgroup);

/* An event that is older than the queue: give it its place in the order, too. Returns 0, or negative errno if there is no
 * memory. */
int module_dispatch_adopt_event(ModuleDispatch *d, sd_device *dev, ModuleEvent *event, bool waits, void *userdata);

/* Free a queue that was switched off, when it has done so. Returns NULL then, and else d. */
ModuleDispatch *module_dispatch_release(ModuleDispatch *d);

/* libkmod's index and configuration were read again: loaders with the old ones leave (model rule 9). */
void module_dispatch_reload(ModuleDispatch *d);

/* udevd is to exit: finish what was asked for, in a bounded time, name what is left, which is the next udevd's. */
void module_dispatch_stop(ModuleDispatch *d);

/* A load is asked for, waiting or running, so udevd must not look settled (model rule 2). */
bool module_dispatch_is_busy(ModuleDispatch *d);

/* Loaders exist, so udevd must neither exit nor clean its cgroup. */
bool module_dispatch_has_loaders(ModuleDispatch *d);

/* What the queue is doing: its record, of which the loads that are not done are at work. NULL if there is no queue. */
const ModuleRecord *module_dispatch_get_record(ModuleDispatch *d);
