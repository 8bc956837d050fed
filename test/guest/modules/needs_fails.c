/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A module that depends on one whose init fails, so that it never gets to its own. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

int fails_always(void);

static int __init needs_fails_init(void)
{
        pr_err("is there without what it needs\n");
        return fails_always();
}

module_init(needs_fails_init);
MODULE_DESCRIPTION("Depends on a module that fails");
MODULE_LICENSE("GPL");
