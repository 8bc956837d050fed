/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A module that sleeps in its init. The kernel's log tells when.
 *
 *   ms=N        so long, in milliseconds (30000)
 *   killable=1  a fatal signal ends it, and the load fails */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

static unsigned int ms = 30000;
module_param(ms, uint, 0444);
MODULE_PARM_DESC(ms, "how long its init sleeps, in milliseconds");

static bool killable;
module_param(killable, bool, 0444);
MODULE_PARM_DESC(killable, "a fatal signal ends the sleep");

/* What the modules that depend on it use. */
int hangs_no_longer(void);
int hangs_no_longer(void)
{
        return 0;
}
EXPORT_SYMBOL_GPL(hangs_no_longer);

static int __init hangs_init(void)
{
        ktime_t end = ktime_add_ms(ktime_get(), ms);

        pr_info("init sleeps, in %s [%d]\n", current->comm, current->pid);

        do {
                if (fatal_signal_pending(current)) {
                        pr_info("init has got a fatal signal\n");
                        if (killable)
                                return -EINTR;
                }
                set_current_state(killable ? TASK_KILLABLE : TASK_UNINTERRUPTIBLE);
        } while (schedule_hrtimeout(&end, HRTIMER_MODE_ABS) != 0);

        pr_info("init has slept%s\n", fatal_signal_pending(current) ? ", a fatal signal is pending" : "");
        return 0;
}

static void __exit hangs_exit(void)
{
}

module_init(hangs_init);
module_exit(hangs_exit);
MODULE_ALIAS("platform:hangs");
MODULE_DESCRIPTION("Sleeps in its init");
MODULE_LICENSE("GPL");
