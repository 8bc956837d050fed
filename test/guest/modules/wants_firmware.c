/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A driver of the platform devices of its own name that needs firmware which nobody has: its probe fails, the module is
 * there. */

#include <linux/firmware.h>
#include <linux/module.h>
#include <linux/platform_device.h>

static int wants_firmware_probe(struct platform_device *device)
{
        const struct firmware *firmware;
        int r;

        r = request_firmware(&firmware, KBUILD_MODNAME ".bin", &device->dev);
        if (r < 0) {
                dev_err(&device->dev, "has no firmware: %d\n", r);
                return r;
        }

        release_firmware(firmware);
        return 0;
}

static struct platform_driver wants_firmware_driver = {
        .probe = wants_firmware_probe,
        .driver.name = KBUILD_MODNAME,
};

module_platform_driver(wants_firmware_driver);
MODULE_ALIAS("platform:" KBUILD_MODNAME);
MODULE_DESCRIPTION("Needs firmware that is missing");
MODULE_LICENSE("GPL");
