/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What a look-up needs: the modules that are not there yet, in libkmod's order (model rule 4). Only looks, at the
 * index, the configuration and /sys/module; loads nothing. */

#include <stdbool.h>
#include <stddef.h>

#include "udev-module-class.h"
#include "udev-module-queue.h"

struct kmod_ctx;
struct kmod_module;

typedef struct ModulePlan {
        char *alias;                    /* what was looked up: a MODALIAS or a name; NULL: nothing */
        ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX]; /* the names and the aliases are the plan's */
        size_t n_steps;                 /* 0 if nothing is to be loaded */
        ModuleClass class;              /* the best one of the modules that are to be loaded, by their directories;
                                         * _MODULE_CLASS_INVALID if these say nothing */
} ModulePlan;

/* Fill a plan that is all zeros or cleared. What is not found, and what is live, built in or denied, is no step and no
 * error. -E2BIG if there are more than MODULE_REQUEST_STEPS_MAX steps, -ENOMEM; then it is cleared. Not thread-safe,
 * as libkmod is not. */
int module_plan_resolve(ModulePlan *plan, struct kmod_ctx *ctx, const char *alias);

/* Whether the load of a module does more than to insert it and what it depends on: it has an install line, or soft
 * dependencies behind it (`post:`). Then it is not over when the module is live. flags: as for
 * kmod_module_probe_insert_module(). */
bool module_plan_goes_on(struct kmod_module *module, unsigned flags);

void module_plan_clear(ModulePlan *plan);
