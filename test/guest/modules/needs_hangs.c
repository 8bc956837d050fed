/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A module that depends on hangs. */

#include <linux/module.h>

int hangs_no_longer(void);

static int __init needs_hangs_init(void)
{
        pr_info(KBUILD_MODNAME ": init\n");
        return hangs_no_longer();
}

static void __exit needs_hangs_exit(void)
{
}

module_init(needs_hangs_init);
module_exit(needs_hangs_exit);
MODULE_ALIAS("platform:needs_hangs");
MODULE_DESCRIPTION("Depends on hangs");
MODULE_LICENSE("GPL");
