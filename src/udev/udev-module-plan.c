/* SPDX-License-Identifier: GPL-2.0-or-later */

#if HAVE_KMOD

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "alloc-util.h"
#include "log.h"
#include "string-util.h"

#include "udev-module-compat.h"
#include "udev-module-plan.h"

/* libkmod hands no user data to its callback, so this is where it puts what it finds. */
static struct {
        ModulePlan *plan;               /* NULL: what comes next is no step of its own */
        const char *module;             /* the module that is asked for; NULL when it is behind us */
        bool more;                      /* to insert it is not all */
        int error;
} resolving;

/* And for a look at what the load of one step brings. */
static struct {
        const char *module;             /* NULL when it is behind us */
        bool others;                    /* something else than what the plan has in this place */
} looking;

void module_plan_clear(ModulePlan *plan) {
        assert(plan);

        while (plan->n_steps > 0)
                free((char *) plan->steps[--plan->n_steps].name);

        plan->alias = mfree(plan->alias);
}

/* It comes first for an earlier module of the same alias. */
static bool plan_has_step(const ModulePlan *plan, const char *name) {
        for (size_t i = 0; i < plan->n_steps; i++)
                if (streq(plan->steps[i].name, name))
                        return true;

        return false;
}

static int plan_add_step(ModulePlan *plan, const char *name, const char *alias) {
        char *n;

        if (plan->n_steps >= ELEMENTSOF(plan->steps))
                return -E2BIG;

        n = strdup(name);
        if (!n)
                return -ENOMEM;

        plan->steps[plan->n_steps++] = (ModuleRequestStep) {
                .name = n,
                .alias = alias,
        };
        return 0;
}

static void on_pre_load_action(struct kmod_module *module, bool install, const char *options) {
        const char *name = kmod_module_get_name(module);

        if (streq_ptr(name, looking.module))
                looking.module = NULL;
        else if (install || (looking.module && !plan_has_step(resolving.plan, name)))
                looking.others = true;
}

/* A pre-load is libkmod's own load of the module, with the soft dependencies that it has. If these lead in a circle,
 * libkmod takes them in another order when it begins with the module that is asked for. And an install line behind it
 * would be run here, and again. */
static bool plan_may_pre_load(struct kmod_module *module) {
        looking.module = kmod_module_get_name(module);
        looking.others = false;
        (void) kmod_module_probe_insert_module(module, KMOD_PROBE_DRY_RUN, NULL, NULL, NULL, on_pre_load_action);
        looking.module = NULL;

        return !looking.others;
}

static void on_action(struct kmod_module *module, bool install, const char *options) {
        const char *name = kmod_module_get_name(module);
        int r;

        if (!resolving.module) {
                resolving.more = true;
                return;
        }

        /* What comes behind the module (soft dependencies `post:`) is part of its own load. So is all from an install
         * line on: it must be run once, and libkmod runs it each time that it gets there. And all from a module on that
         * cannot be loaded ahead. */
        if (streq(name, resolving.module)) {
                resolving.more = install;
                resolving.module = NULL;
                resolving.plan = NULL;
        } else if (install)
                resolving.plan = NULL;
        else if (resolving.plan && !plan_has_step(resolving.plan, name)) {
                if (!plan_may_pre_load(module)) {
                        resolving.plan = NULL;
                        return;
                }

                r = plan_add_step(resolving.plan, name, NULL);
                if (r < 0)
                        resolving.error = r;
        }
}

static int dry_run(ModulePlan *plan, struct kmod_module *module, unsigned flags) {
        int r;

        resolving.plan = plan;
        resolving.module = kmod_module_get_name(module);
        resolving.more = false;
        resolving.error = 0;
        r = kmod_module_probe_insert_module(module, flags|KMOD_PROBE_DRY_RUN, NULL, NULL, NULL, on_action);
        resolving.plan = NULL;
        resolving.module = NULL;

        return r;
}

bool module_plan_goes_on(struct kmod_module *module, unsigned flags) {
        (void) dry_run(NULL, module, flags);
        return resolving.more;
}

static int plan_add_module(ModulePlan *plan, struct kmod_module *module) {
        const char *name = kmod_module_get_name(module);
        int r;

        if (IN_SET(kmod_module_get_initstate(module), KMOD_MODULE_BUILTIN, KMOD_MODULE_LIVE)) {
                log_debug("Module %s is there already.", name);
                return 0;
        }

        r = dry_run(plan, module, KMOD_PROBE_APPLY_BLACKLIST);
        if (resolving.error < 0)
                return resolving.error;
        if (r == KMOD_PROBE_APPLY_BLACKLIST) {
                log_debug("Module %s is deny-listed.", name);
                return 0;
        }

        plan->class = module_class_best(plan->class, module_class_from_path(kmod_module_get_path(module)));

        /* A dry run that fails has told only a part of the plan, or none. Ask all the same: the load says what is
         * wrong, in libkmod's terms. */
        return plan_add_step(plan, name, plan->alias);
}

int module_plan_resolve(ModulePlan *plan, struct kmod_ctx *ctx, const char *alias) {
        _cleanup_(module_list_unrefp) struct kmod_list *list = NULL;
        struct kmod_list *i;
        int r;

        assert(plan);
        assert(!plan->alias);
        assert(ctx);
        assert(alias);

        plan->class = _MODULE_CLASS_INVALID;

        r = kmod_module_new_from_lookup(ctx, alias, &list);
        if (r < 0) {
                log_debug_errno(r, "Cannot look up '%s': %m", alias);
                return 0;
        }
        if (!list) {
                log_debug("No module for '%s'.", alias);
                return 0;
        }

        plan->alias = strdup(alias);
        if (!plan->alias)
                return -ENOMEM;

        kmod_list_foreach(i, list) {
                _cleanup_(module_unrefp) struct kmod_module *module = kmod_module_get_module(i);

                r = plan_add_module(plan, module);
                if (r < 0) {
                        module_plan_clear(plan);
                        return r;
                }
        }

        return 0;
}

#endif
