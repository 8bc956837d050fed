/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What a look-up needs: the modules that are not there yet, in libkmod's order (model rule 4). Only looks, at the
 * index, the configuration and /sys/module; loads nothing. */

#include <stdbool.h>
#include <stddef.h>

#include "udev-module-class.h"
#include "udev-module-queue.h"

struct kmod_ctx;

typedef struct ModulePlan {
        char *alias;                    /* what was looked up: a MODALIAS or a name; NULL: nothing */
        ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX]; /* the names and the aliases are the plan's */
        size_t n_steps;                 /* 0 if nothing is to be loaded */
        ModuleClass class;              /* the best one of the modules that are to be loaded, by their directories;
                                         * _MODULE_CLASS_INVALID if these say nothing */
        bool strict;                    /* an install line or a soft dependency `post:` comes between two modules that
                                         * are asked for: that the first one is live does not mean that it is the
                                         * other one's turn */
} ModulePlan;

/* Fill a plan that is all zeros or cleared. What is not found, and what is live, built in or denied, is no step and no
 * error. -E2BIG if there are more than MODULE_REQUEST_STEPS_MAX steps, -ENOMEM; then it is cleared. Not thread-safe,
 * as libkmod is not. */
int module_plan_resolve(ModulePlan *plan, struct kmod_ctx *ctx, const char *alias);

void module_plan_clear(ModulePlan *plan);
