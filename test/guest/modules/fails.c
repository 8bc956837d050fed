/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A module whose init fails with EIO. The kernel's log tells of each attempt. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

/* What the modules that depend on it use. */
int fails_always(void);
int fails_always(void)
{
        return -EIO;
}
EXPORT_SYMBOL_GPL(fails_always);

static int __init fails_init(void)
{
        pr_info("fails\n");
        return fails_always();
}

module_init(fails_init);
MODULE_DESCRIPTION("Fails in its init");
MODULE_LICENSE("GPL");
