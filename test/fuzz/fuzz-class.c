/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The class of any string, as a MODALIAS (that of a USB device is chosen by who built it), as the path of a module, as
 * the name of a class. */

#include <string.h>

#include "alloc-util.h"
#include "macro.h"
#include "string-util.h"

#include "fuzz.h"
#include "udev-module-class.h"

/* How much of a MODALIAS counts: udev-module-class.h. */
#define MODALIAS_BYTES 128U

static bool class_is_valid(ModuleClass class) {
        return class >= 0 && class < _MODULE_CLASS_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *s = memdup_suffix0(data, size), *cut = NULL;
        ModuleClass modalias, path, name, class;

        assert_se(s);

        modalias = module_class_from_modalias(s);
        path = module_class_from_path(s);
        name = module_class_from_string(s);

        assert_se(modalias == _MODULE_CLASS_INVALID || class_is_valid(modalias));
        assert_se(path == _MODULE_CLASS_INVALID || class_is_valid(path));
        assert_se(name == _MODULE_CLASS_INVALID || streq(module_class_to_string(name), s));

        class = module_class_decide(s, path);
        assert_se(class_is_valid(class));
        assert_se(class == modalias || modalias == _MODULE_CLASS_INVALID);
        (void) module_class_nice(class);
        (void) module_class_io_level(class);

        cut = strndup(s, MODALIAS_BYTES);
        assert_se(cut);
        assert_se(module_class_from_modalias(cut) == modalias);
        return 0;
}

void fuzz_seeds(void (*seed)(const void *data, size_t size)) {
        static const char *const seeds[] = {
                "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01",
                "usb:v046DpC31Cd6400dc00dsc00dp00ic03isc01ip01in00",
                "acpi:PNP0303:PNP030B:",
                "of:NmmcT(null)Cbrcm,bcm2835-mmcCsimple-bus",
                "input:b0003v046DpC31Ce0110-e0,1,4,11,14,k71,72,ram4,l0,1,2,sfw",
                "virtio:d00000002v00001AF4",
                "hid:b0003g0001v0000046Dp0000C31C",
                "x86cpu:type:x86,ven0000fam0006mod009E:feature:,0000,0001",
                "/usr/lib/modules/6.1.0/kernel/drivers/usb/host/xhci-hcd.ko.xz",
                "/kernel/kernel/net/mac80211/mac80211.ko",
                "storage",
                "idle",
        };

        for (size_t i = 0; i < ELEMENTSOF(seeds); i++)
                seed(seeds[i], strlen(seeds[i]));
}
