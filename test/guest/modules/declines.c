/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A module whose init finds that this machine has nothing for it, as those of many `cpu:` aliases do: it answers
 * ENODEV, and nothing of it stays, so that the next one who asks tries again. The kernel's log tells of each attempt.
 *
 *   ms=N  that takes so long, in milliseconds (0) */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched.h>

static unsigned int ms;
module_param(ms, uint, 0444);
MODULE_PARM_DESC(ms, "how long its init sleeps, in milliseconds");

static int __init declines_init(void)
{
        pr_info("attempt in %s [%d]\n", current->comm, current->pid);
        if (ms > 0)
                msleep(ms);
        return -ENODEV;
}

module_init(declines_init);
MODULE_ALIAS("platform:declines");
MODULE_ALIAS("platform:declines_too");
MODULE_DESCRIPTION("Answers ENODEV");
MODULE_LICENSE("GPL");
