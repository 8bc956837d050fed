/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One of several drivers of the platform devices "contested": that one gets a device which is there first. The kernel's
 * log tells which. */

#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/platform_device.h>

static int rival_probe(struct platform_device *device)
{
        dev_info(&device->dev, "is driven\n");
        return 0;
}

static const struct platform_device_id rival_ids[] = {
        { "contested" },
        {}
};
MODULE_DEVICE_TABLE(platform, rival_ids);

static struct platform_driver rival_driver = {
        .probe = rival_probe,
        .id_table = rival_ids,
        .driver.name = KBUILD_MODNAME,
};

module_platform_driver(rival_driver);
MODULE_DESCRIPTION("One of several drivers for a device");
MODULE_LICENSE("GPL");
