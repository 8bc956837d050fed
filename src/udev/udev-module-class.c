/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <string.h>

#include "macro.h"
#include "string-table.h"
#include "string-util.h"

#include "udev-module-class.h"

static const char *const module_class_table[_MODULE_CLASS_MAX] = {
        [MODULE_CLASS_BUS]     = "bus",
        [MODULE_CLASS_STORAGE] = "storage",
        [MODULE_CLASS_INPUT]   = "input",
        [MODULE_CLASS_DISPLAY] = "display",
        [MODULE_CLASS_NETWORK] = "network",
        [MODULE_CLASS_OTHER]   = "other",
        [MODULE_CLASS_SOUND]   = "sound",
        [MODULE_CLASS_IDLE]    = "idle",
};

DEFINE_STRING_TABLE_LOOKUP(module_class, ModuleClass);

typedef struct ClassRule {
        const char *prefix;     /* how the MODALIAS begins */
        const char *code;       /* and what follows somewhere behind it; NULL: anything */
        ModuleClass class;
} ClassRule;

/* The first match counts. The codes are those of the buses' own specifications, as the kernel prints them in
 * MODALIAS: PCI class codes (bc base class, sc sub-class), USB interface classes (ic), virtio device numbers, SCSI
 * device types, ACPI and PNP ids. */
static const ClassRule class_rules[] = {
        /* A virtio device, whatever it is, needs virtio_pci first. */
        { "pci:v00001AF4", NULL,         MODULE_CLASS_BUS     },
        { "pci:",          "bc01",       MODULE_CLASS_STORAGE },
        { "pci:",          "bc02",       MODULE_CLASS_NETWORK },
        { "pci:",          "bc03",       MODULE_CLASS_DISPLAY },
        { "pci:",          "bc04sc01",   MODULE_CLASS_SOUND   },
        { "pci:",          "bc04sc03",   MODULE_CLASS_SOUND   },
        { "pci:",          "bc06",       MODULE_CLASS_BUS     },
        { "pci:",          "bc08sc05",   MODULE_CLASS_BUS     }, /* SD host */
        { "pci:",          "bc09",       MODULE_CLASS_INPUT   },
        { "pci:",          "bc0Csc00",   MODULE_CLASS_BUS     }, /* FireWire */
        { "pci:",          "bc0Csc03",   MODULE_CLASS_BUS     }, /* USB host */
        { "pci:",          "bc0Csc05",   MODULE_CLASS_BUS     }, /* SMBus */
        { "pci:",          "bc0D",       MODULE_CLASS_NETWORK },
        { "usb:",          "ic01",       MODULE_CLASS_SOUND   },
        { "usb:",          "ic02",       MODULE_CLASS_NETWORK },
        { "usb:",          "ic03",       MODULE_CLASS_INPUT   },
        { "usb:",          "ic08",       MODULE_CLASS_STORAGE },
        { "usb:",          "ic09",       MODULE_CLASS_BUS     }, /* hub */
        { "usb:",          "ic0A",       MODULE_CLASS_NETWORK },
        { "usb:",          "icE0",       MODULE_CLASS_NETWORK },
        { "virtio:",       "d00000001v", MODULE_CLASS_NETWORK },
        { "virtio:",       "d00000002v", MODULE_CLASS_STORAGE },
        { "virtio:",       "d00000004v", MODULE_CLASS_IDLE    }, /* random numbers */
        { "virtio:",       "d00000005v", MODULE_CLASS_IDLE    }, /* balloon */
        { "virtio:",       "d00000008v", MODULE_CLASS_STORAGE }, /* SCSI host */
        { "virtio:",       "d00000009v", MODULE_CLASS_STORAGE }, /* 9p */
        { "virtio:",       "d00000010v", MODULE_CLASS_DISPLAY },
        { "virtio:",       "d00000012v", MODULE_CLASS_INPUT   },
        { "virtio:",       "d00000014v", MODULE_CLASS_IDLE    }, /* crypto */
        { "virtio:",       "d00000019v", MODULE_CLASS_SOUND   },
        { "virtio:",       "d0000001Av", MODULE_CLASS_STORAGE }, /* file system */
        { "scsi:",         "t-0x00",     MODULE_CLASS_STORAGE },
        { "scsi:",         "t-0x05",     MODULE_CLASS_STORAGE },
        { "scsi:",         "t-0x14",     MODULE_CLASS_STORAGE }, /* zoned disk */
        { "mmc:",          NULL,         MODULE_CLASS_STORAGE },
        { "nvme:",         NULL,         MODULE_CLASS_STORAGE },
        { "hid:",          NULL,         MODULE_CLASS_INPUT   },
        { "input:",        NULL,         MODULE_CLASS_INPUT   },
        { "serio:",        NULL,         MODULE_CLASS_INPUT   },
        { "acpi:",         "PNP0303",    MODULE_CLASS_INPUT   }, /* PS/2 keyboard */
        { "acpi:",         "PNP0F03",    MODULE_CLASS_INPUT   }, /* PS/2 mouse */
        { "acpi:",         "PNP0F13",    MODULE_CLASS_INPUT   },
        { "acpi:",         "PNP0C50",    MODULE_CLASS_INPUT   }, /* HID over I2C */
        { "acpi:",         "LNXPWRBN",   MODULE_CLASS_INPUT   }, /* power button */
        { "acpi:",         "LNXSLPBN",   MODULE_CLASS_INPUT   }, /* sleep button */
        { "acpi:",         "PNP0C0C",    MODULE_CLASS_INPUT   },
        { "acpi:",         "PNP0C0D",    MODULE_CLASS_INPUT   }, /* lid */
        { "acpi:",         "PNP0C0E",    MODULE_CLASS_INPUT   },
        { "hdaudio:",      NULL,         MODULE_CLASS_SOUND   },
        { "snd",           NULL,         MODULE_CLASS_SOUND   },
        { "mdio:",         NULL,         MODULE_CLASS_NETWORK },
        { "platform:pcspkr", NULL,       MODULE_CLASS_IDLE    },
        { "cpu:",          NULL,         MODULE_CLASS_IDLE    },
        { "dmi:",          NULL,         MODULE_CLASS_IDLE    },
};

ModuleClass module_class_from_modalias(const char *modalias, const char *subsystem) {
        if (streq_ptr(subsystem, "memstick") || streq_ptr(subsystem, "tifm"))
                return MODULE_CLASS_STORAGE;

        if (modalias)
                for (size_t i = 0; i < ELEMENTSOF(class_rules); i++) {
                        const ClassRule *rule = class_rules + i;
                        const char *rest = startswith(modalias, rule->prefix);

                        if (rest && (!rule->code || strstr(rest, rule->code)))
                                return rule->class;
                }

        return _MODULE_CLASS_INVALID;
}

/* The first match counts. */
static const struct {
        const char *directory;  /* under kernel/ */
        ModuleClass class;
} directory_rules[] = {
        { "drivers/usb/host/",     MODULE_CLASS_BUS     },
        { "drivers/ata/",          MODULE_CLASS_STORAGE },
        { "drivers/nvme/host/",    MODULE_CLASS_STORAGE },
        { "drivers/scsi/",         MODULE_CLASS_STORAGE },
        { "drivers/hid/",          MODULE_CLASS_INPUT   },
        { "drivers/input/",        MODULE_CLASS_INPUT   },
        { "drivers/net/",          MODULE_CLASS_NETWORK },
        { "sound/",                MODULE_CLASS_SOUND   },
};

ModuleClass module_class_from_path(const char *path) {
        const char *p;

        p = path ? strstr(path, "/kernel/") : NULL;
        if (p)
                for (size_t i = 0; i < ELEMENTSOF(directory_rules); i++)
                        if (startswith(p + strlen("/kernel/"), directory_rules[i].directory))
                                return directory_rules[i].class;

        return _MODULE_CLASS_INVALID;
}

ModuleClass module_class_best(ModuleClass a, ModuleClass b) {
        /* As unsigned, what is invalid is the largest. */
        return (unsigned) a < (unsigned) b ? a : b;
}

/* Bus and storage go before the workers (nice 0), since what they find is what everybody waits for. Storage at -15 and
 * input at -10 made no difference in the guest. */
int module_class_nice(ModuleClass class) {
        static const int table[_MODULE_CLASS_MAX] = {
                [MODULE_CLASS_BUS]     = -10,
                [MODULE_CLASS_STORAGE] = -10,
                [MODULE_CLASS_INPUT]   = -5,
                [MODULE_CLASS_DISPLAY] = 0,
                [MODULE_CLASS_NETWORK] = 5,
                [MODULE_CLASS_OTHER]   = 5,
                [MODULE_CLASS_SOUND]   = 10,
                [MODULE_CLASS_IDLE]    = 15,
        };

        assert(class >= 0 && class < _MODULE_CLASS_MAX);

        return table[class];
}

int module_class_io_level(ModuleClass class) {
        assert(class >= 0 && class < _MODULE_CLASS_MAX);

        /* 4 is what a process has that asks for nothing: from there down, one for each two classes. */
        return class <= MODULE_CLASS_STORAGE ? 0 :
               class <= MODULE_CLASS_DISPLAY ? 2 :
               class <= MODULE_CLASS_OTHER   ? 4 : 6;
}
