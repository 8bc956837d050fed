/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A driver of the platform devices of its own name that sleeps in probe. The kernel's log tells when.
 *
 *   ms=N        so long, in milliseconds (3000)
 *   killable=1  a fatal signal ends it
 *   async=1     the driver prefers to probe asynchronously */

#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

static unsigned int ms = 3000;
module_param(ms, uint, 0444);
MODULE_PARM_DESC(ms, "how long a probe sleeps, in milliseconds");

static bool killable;
module_param(killable, bool, 0444);
MODULE_PARM_DESC(killable, "a fatal signal ends the sleep");

static bool async;
module_param(async, bool, 0444);
MODULE_PARM_DESC(async, "probe asynchronously");

static int slow_probe(struct platform_device *device)
{
        /* Not msleep(), which takes up to an eighth longer. */
        ktime_t end = ktime_add_ms(ktime_get(), ms);

        dev_info(&device->dev, "probe sleeps, in %s [%d]\n", current->comm, current->pid);

        do {
                if (killable && fatal_signal_pending(current)) {
                        dev_info(&device->dev, "probe was killed\n");
                        return -EINTR;
                }
                set_current_state(killable ? TASK_KILLABLE : TASK_UNINTERRUPTIBLE);
        } while (schedule_hrtimeout(&end, HRTIMER_MODE_ABS) != 0);

        dev_info(&device->dev, "probe has slept\n");
        return 0;
}

static struct platform_driver slow_driver = {
        .probe = slow_probe,
        .driver.name = KBUILD_MODNAME,
};

static int __init slow_init(void)
{
        if (async)
                slow_driver.driver.probe_type = PROBE_PREFER_ASYNCHRONOUS;

        return platform_driver_register(&slow_driver);
}

static void __exit slow_exit(void)
{
        platform_driver_unregister(&slow_driver);
}

module_init(slow_init);
module_exit(slow_exit);
MODULE_ALIAS("platform:" KBUILD_MODNAME);
MODULE_DESCRIPTION("Sleeps in probe");
MODULE_LICENSE("GPL");
