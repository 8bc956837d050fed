/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The manager's side: the request socket, the loaders, the answers. This is what the hooks in udevd call, and
 * nothing here ever blocks (model rule 8). Each function takes NULL for "there is no queue" (it is off) and then
 * does nothing, so that a hook is one call. */

#include <stdbool.h>
#include <sys/types.h>

#include "sd-device.h"
#include "sd-event.h"

#include "macro.h"
#include "time-util.h"

#include "udev-module-event.h"

/* The pool's figures.
 *
 * Loads that are at work at once: enough to keep the CPUs busy, few enough that the order counts. Measured in the
 * guest on one CPU, with 4, 8, 16 and 32 (and only live ones parked): settle does not differ, the last disk comes at
 * 6.2, 6.8, 7.0 and 7.1 s. */
#define MODULE_PLACES_MIN 4U
#define MODULE_PLACES_PER_CPU 2U

/* Loaders, so loads that are at work or wait. One slow asynchronous probe holds all of them: with 32 the CPU idles
 * for 0.9 to 1.0 s in the guest, with 64 for 0.2 to 0.5 s. */
#define MODULE_LOADERS_MAX 64U

/* And so many times as many processes, if the modules of the others are live: those only wait for the end of all
 * asynchronous probes. */
#define MODULE_PROCESSES_PER_LOADER 4U

/* How often to look what loads are doing: so long after the last start (a quarter of the loads in the guest have ended
 * by then), and then twice as long after each look, up to the other. */
#define MODULE_WATCH_USEC (50 * USEC_PER_MSEC)
#define MODULE_WATCH_USEC_MAX USEC_PER_SEC

typedef struct ModuleDispatch ModuleDispatch;

/* Start as module_config() says. Leaves NULL in *ret if the queue is off, or if it is on but cannot work here (a
 * container, no CAP_SYS_MODULE, no libkmod, no socket): that is logged, and udevd works as stock. Call it once,
 * before the first worker, in the process that runs the event loop. event is referenced. warn_usec: after how long
 * a load is named in the log. The caller owns *ret. Returns 0, or negative errno with *ret = NULL. */
int module_dispatch_start(ModuleDispatch **ret, sd_event *event, usec_t warn_usec);

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
 * somebody else loaded makes kept failures void (model rule 3), one of ours is live. */
void module_dispatch_note_uevent(ModuleDispatch *d, sd_device *dev, ModuleEvent *event);

/* The manager goes through its events to start some: first through those that are due, which lets the others wait, once
 * more if others have become due by that, then through all. due is 0 for the first pass and what this returned for the
 * next one. Returns the time by which an event has to be due to be started in this pass, 0 if there is none. Without a
 * queue there is one pass for all. */
usec_t module_dispatch_next_pass(ModuleDispatch *d, usec_t due);

/* On the way it has found one event that has to wait for the other. */
void module_dispatch_block_event(ModuleDispatch *d, ModuleEvent *event, ModuleEvent *blocker);

/* libkmod's index and configuration were read again: loaders with the old ones leave (model rule 9). */
void module_dispatch_reload(ModuleDispatch *d);

/* udevd is to exit: finish what was asked for, in a bounded time, name what is left. */
void module_dispatch_stop(ModuleDispatch *d);

/* A load is asked for, waiting or running, so udevd must not look settled (model rule 2). */
bool module_dispatch_is_busy(ModuleDispatch *d);

/* Loaders exist, so udevd must neither exit nor clean its cgroup. */
bool module_dispatch_has_loaders(ModuleDispatch *d);
