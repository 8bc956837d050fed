/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The worker's side: find out what a MODALIAS needs, ask the manager for it, wait only where the model says so
 * (rule 1). State of the process: in the manager, and with the queue off, it is never active. */

#include <stdbool.h>

#include "sd-device.h"

#include "udev-module-config.h"

struct kmod_ctx;

/* Called by module_dispatch_enter_worker(). Takes ownership of request_fd, the socket to the manager. nice: udevd's own
 * level, and the worker's, to which nice_others is added for the rules of what does not lead to disks and keyboards; if
 * that is 0, the level never changes. */
void module_client_init(int request_fd, ModuleQueueMode mode, int nice, int nice_others);

/* Whether this process asks the manager, instead of loading by itself. */
bool module_client_is_active(void);

/* The builtin `kmod load` of a worker: modules is what was given, or empty for the device's MODALIAS. Loads by
 * itself, the stock way, whatever cannot be asked for. Returns 0 or negative errno as the stock builtin does. */
int module_client_load(struct kmod_ctx *ctx, sd_device *dev, char **modules);

/* Before the rules of an event: what does not lead to disks and keyboards gets less of the CPU (model rule 5). */
void module_client_begin_event(sd_device *dev);

/* Before each entry of the RUN list, which may need what those before it have asked for, and after the whole list. */
void module_client_before_run(sd_device *dev);
void module_client_after_run(sd_device *dev);
