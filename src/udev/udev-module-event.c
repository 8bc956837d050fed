/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "macro.h"
#include "strv.h"

#include "udev-module-class.h"
#include "udev-module-event.h"

bool module_event_is_urgent(sd_device *dev) {
        const char *subsystem = NULL, *modalias = NULL;
        sd_device_action_t action;

        assert(dev);

        (void) sd_device_get_subsystem(dev, &subsystem);
        if (STRPTR_IN_SET(subsystem, "block", "input"))
                return true;

        /* Only `add` loads modules. */
        if (sd_device_get_action(dev, &action) < 0 || action != SD_DEVICE_ADD ||
            sd_device_get_property_value(dev, "MODALIAS", &modalias) < 0)
                return false;

        return module_class_decide(modalias, _MODULE_CLASS_INVALID) <= MODULE_CLASS_URGENT_LAST;
}

void module_event_init(ModuleEvent *event, sd_device *dev, usec_t now) {
        assert(event);

        *event = (ModuleEvent) {
                .due = module_event_is_urgent(dev) ? 0 : usec_add(now, MODULE_EVENT_AGE_USEC),
        };
}

bool module_event_block(ModuleEvent *event, ModuleEvent *blocker) {
        assert(event);
        assert(blocker);

        event->blocked = true;

        if (blocker->due <= event->due)
                return false;

        blocker->due = event->due;
        return true;
}
