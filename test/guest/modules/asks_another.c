/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A module whose init has the kernel load another one, as those do that look for a driver by its name. The kernel runs
 * modprobe for that, and the init waits for it.
 *
 *   another=NAME  which one (plain_one) */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kmod.h>
#include <linux/module.h>

static char *another = "plain_one";
module_param(another, charp, 0444);
MODULE_PARM_DESC(another, "the module that its init asks for");

static int __init asks_another_init(void)
{
        pr_info("asks for %s\n", another);
        /* Positive: modprobe has failed. */
        pr_info("was answered %d for %s\n", request_module("%s", another), another);
        return 0;
}

static void __exit asks_another_exit(void)
{
}

module_init(asks_another_init);
module_exit(asks_another_exit);
MODULE_DESCRIPTION("Has the kernel load another module");
MODULE_LICENSE("GPL");
