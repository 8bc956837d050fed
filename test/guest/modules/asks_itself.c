/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A module whose init has the kernel load that same module. The modprobe that the kernel runs for it waits until this
 * init has ended, which waits for that modprobe: only a signal to either ends it. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kmod.h>
#include <linux/module.h>

static int __init asks_itself_init(void)
{
        pr_info("asks for itself\n");
        pr_info("was answered %d for itself\n", request_module(KBUILD_MODNAME));
        return 0;
}

static void __exit asks_itself_exit(void)
{
}

module_init(asks_itself_init);
module_exit(asks_itself_exit);
MODULE_DESCRIPTION("Has the kernel load itself");
MODULE_LICENSE("GPL");
