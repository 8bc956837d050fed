/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A module that does nothing but say in the kernel's log that it is there.
 *
 *   number=N  and this (0); -1 is refused by its init with ERANGE */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

static int number;
module_param(number, int, 0444);
MODULE_PARM_DESC(number, "what it says");

static int __init plain_init(void)
{
        pr_info("is there, number %d\n", number);
        return number == -1 ? -ERANGE : 0;
}

static void __exit plain_exit(void)
{
}

module_init(plain_init);
module_exit(plain_exit);
MODULE_ALIAS("platform:" KBUILD_MODNAME);
MODULE_DESCRIPTION("Says that it is there");
MODULE_LICENSE("GPL");
