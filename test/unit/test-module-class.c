/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <glib.h>
#include <string.h>

#include "udev-module-class.h"

/* MODALIASes of real machines, and what they lead to. */
static const struct {
        const char *modalias, *subsystem;
        ModuleClass class;
} cases[] = {
        { "pci:v00001AF4d00001042sv00001AF4sd00001100bc01sc00i00", "pci", MODULE_CLASS_BUS },
        { "pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00", "pci", MODULE_CLASS_BUS },
        { "pci:v00008086d0000A182sv00001849sd0000A182bc01sc06i01", "pci", MODULE_CLASS_STORAGE },
        { "pci:v0000144Dd0000A808sv0000144Dsd0000A801bc01sc08i02", "pci", MODULE_CLASS_STORAGE },
        { "pci:v00008086d0000A12Fsv00001849sd0000A12Fbc0Csc03i30", "pci", MODULE_CLASS_BUS },
        { "pci:v00008086d0000A123sv00001849sd0000A123bc0Csc05i00", "pci", MODULE_CLASS_BUS },
        { "pci:v00008086d000015B8sv00001849sd000015B8bc02sc00i00", "pci", MODULE_CLASS_NETWORK },
        { "pci:v000010DEd00001C82sv00001462sd00008C96bc03sc00i00", "pci", MODULE_CLASS_DISPLAY },
        { "pci:v00008086d0000A170sv00001849sd00003897bc04sc03i00", "pci", MODULE_CLASS_SOUND },
        { "pci:v00008086d0000A13Asv00001849sd0000A13Abc07sc80i00", "pci", _MODULE_CLASS_INVALID },
        { "usb:v046DpC31Cd6402dc00dsc00dp00ic03isc01ip01in00",      "usb", MODULE_CLASS_INPUT },
        { "usb:v0781p5567d0126dc00dsc00dp00ic08isc06ip50in00",      "usb", MODULE_CLASS_STORAGE },
        { "usb:v1D6Bp0002d0601dc09dsc00dp01ic09isc00ip00in00",      "usb", MODULE_CLASS_BUS },
        { "usb:v8087p0A2Bd0010dcE0dsc01dp01icE0isc01ip01in00",      "usb", MODULE_CLASS_NETWORK },
        { "virtio:d00000002v00001AF4", "virtio", MODULE_CLASS_STORAGE },
        { "virtio:d00000012v00001AF4", "virtio", MODULE_CLASS_INPUT },
        { "virtio:d00000004v00001AF4", "virtio", MODULE_CLASS_IDLE },
        { "scsi:t-0x00", "scsi", MODULE_CLASS_STORAGE },
        { "scsi:t-0x0d", "scsi", _MODULE_CLASS_INVALID },
        { "hid:b0003g0001v0000046Dp0000C31C", "hid", MODULE_CLASS_INPUT },
        { "acpi:PNP0303:PNP030B:", "acpi", MODULE_CLASS_INPUT },
        { "acpi:LNXPWRBN:", "acpi", MODULE_CLASS_INPUT },
        { "acpi:PNP0C0D:", "acpi", MODULE_CLASS_INPUT },
        { "cpu:type:x86,ven0000fam0006mod005E:feature:,0000,0001", "cpu", MODULE_CLASS_IDLE },
        { "dmi:bvnAmericanMegatrendsInc.:bvrP7.30:", "dmi", MODULE_CLASS_IDLE },
        { "", "pci", _MODULE_CLASS_INVALID },
        { NULL, "memstick", MODULE_CLASS_STORAGE },
        { NULL, NULL, _MODULE_CLASS_INVALID },
        { "pci:", NULL, _MODULE_CLASS_INVALID },
        { "usb:\xff\xfe \"'\n", "usb", _MODULE_CLASS_INVALID },
};

static void test_modalias(void) {
        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
                g_assert_cmpstr(module_class_to_string(module_class_from_modalias(cases[i].modalias, cases[i].subsystem)),
                                ==, module_class_to_string(cases[i].class));
}

static void test_names(void) {
        for (ModuleClass c = 0; c < _MODULE_CLASS_MAX; c++)
                g_assert_cmpint(module_class_from_string(module_class_to_string(c)), ==, c);

        g_assert_cmpint(module_class_from_string(NULL), <, 0);
        g_assert_cmpint(module_class_from_string(""), <, 0);
        g_assert_cmpint(module_class_from_string("Storage"), <, 0);
}

/* A better class never gets less of the machine. */
static void test_priorities(void) {
        for (ModuleClass c = 0; c < _MODULE_CLASS_MAX; c++) {
                g_assert_cmpint(module_class_nice(c), >=, -20);
                g_assert_cmpint(module_class_nice(c), <=, 19);
                g_assert_cmpint(module_class_io_level(c), >=, 0);
                g_assert_cmpint(module_class_io_level(c), <=, 7);
                if (c > 0) {
                        g_assert_cmpint(module_class_nice(c - 1), <=, module_class_nice(c));
                        g_assert_cmpint(module_class_io_level(c - 1), <=, module_class_io_level(c));
                }
        }
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/module-class/modalias", test_modalias);
        g_test_add_func("/module-class/names", test_names);
        g_test_add_func("/module-class/priorities", test_priorities);

        return g_test_run();
}
