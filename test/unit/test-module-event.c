/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <glib.h>

#include "device-private.h"
#include "strv.h"

#include "udev-module-event.h"

#define NOW (5 * USEC_PER_SEC)

static sd_device *device(const char *action, const char *subsystem, const char *modalias) {
        _cleanup_strv_free_ char **properties = NULL;
        sd_device *dev;

        properties = strv_new("DEVPATH=/devices/test", "SEQNUM=1");
        g_assert_nonnull(properties);
        g_assert_cmpint(strv_extendf(&properties, "ACTION=%s", action), >=, 0);
        g_assert_cmpint(strv_extendf(&properties, "SUBSYSTEM=%s", subsystem), >=, 0);
        if (modalias)
                g_assert_cmpint(strv_extendf(&properties, "MODALIAS=%s", modalias), >=, 0);
        g_assert_cmpint(device_new_from_strv(&dev, properties), >=, 0);

        return dev;
}

static void test_urgent(void) {
        static const struct {
                const char *action, *subsystem, *modalias;
                bool urgent;
        } cases[] = {
                { "add",    "block",  NULL,                                                       true  },
                { "change", "block",  NULL,                                                       true  },
                { "add",    "input",  "input:b0003v046Dp4024e0111-e0,1,2",                        true  },
                { "add",    "pci",    "pci:v00008086d0000A182sv00001849sd0000A182bc01sc06i01",    true  },
                { "add",    "pci",    "pci:v00008086d0000A12Fsv00001849sd0000A12Fbc0Csc03i30",    true  },
                { "add",    "usb",    "usb:v046DpC31Cd6402dc00dsc00dp00ic03isc01ip01in00",        true  },
                { "add",    "pci",    "pci:v00008086d000015B8sv00001849sd000015B8bc02sc00i00",    false },
                { "add",    "usb",    "usb:v08BBp2902d0100dc00dsc00dp00ic01isc02ip00in01",        false },
                { "add",    "tty",    NULL,                                                       false },
                { "add",    "usb",    "",                                                         false },
                { "add",    "usb",    "\xff",                                                     false },

                /* Loads nothing. */
                { "bind",   "pci",    "pci:v00008086d0000A182sv00001849sd0000A182bc01sc06i01",    false },
                { "remove", "usb",    "usb:v046DpC31Cd6402dc00dsc00dp00ic03isc01ip01in00",        false },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                _cleanup_(sd_device_unrefp) sd_device *dev = NULL;
                ModuleEvent event;

                dev = device(cases[i].action, cases[i].subsystem, cases[i].modalias);
                g_assert_cmpint(module_event_is_urgent(dev), ==, cases[i].urgent);

                module_event_init(&event, dev, NOW);
                g_assert_cmpuint(event.due, ==, cases[i].urgent ? 0 : NOW + MODULE_EVENT_AGE_USEC);
                g_assert_false(event.blocked);
        }
}

/* What an event waits for is as urgent as the event. */
static void test_inheritance(void) {
        _cleanup_(sd_device_unrefp) sd_device *disk = NULL, *tty = NULL;
        ModuleEvent parent, child;

        disk = device("add", "block", NULL);
        tty = device("add", "tty", NULL);

        module_event_init(&parent, tty, NOW);
        module_event_init(&child, disk, NOW + 1);
        g_assert_true(module_event_block(&child, &parent));
        g_assert_true(child.blocked);
        g_assert_false(parent.blocked);
        g_assert_cmpuint(parent.due, ==, 0);
        g_assert_false(module_event_block(&child, &parent));

        /* And never less than it was. */
        module_event_init(&parent, disk, NOW);
        module_event_init(&child, tty, NOW + 1);
        g_assert_false(module_event_block(&child, &parent));
        g_assert_cmpuint(parent.due, ==, 0);
        g_assert_cmpuint(child.due, ==, NOW + 1 + MODULE_EVENT_AGE_USEC);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/module-event/urgent", test_urgent);
        g_test_add_func("/module-event/inheritance", test_inheritance);

        return g_test_run();
}
