/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Two tables, each in the order of what is looked at first. What a MODALIAS says counts, since it is about the device:
 * the class codes, types and capabilities that the specification of its bus knows. Where it says nothing, the
 * directories of the modules' files count: they tell what a driver is for, whatever it is called and whatever finds
 * its devices (devicetree, ACPI, i2c, ccw, vmbus, …). No rule names an id that a vendor has given to a device: what is
 * to be true for one machine only belongs into udev's rules, see rules.d/79-module-queue.rules. */

#include <linux/input-event-codes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "hexdecoct.h"
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

/* How much of a list in a MODALIAS is looked at: 32 types of events with two digits each, or some ACPI ids. */
#define LIST_BYTES_MAX 96U

/* How a MODALIAS begins. The fields of most have a fixed width, so that each stands where it must, and digits that look
 * like a field are none: a question mark stands for one hexadecimal digit. An asterisk stands for any number of ids,
 * each of which ends with a colon. */
static const struct {
        const char *pattern;
        ModuleClass class;
} modalias_rules[] = {
#define PCI "pci:v????????d????????sv????????sd????????"
        /* A virtio device, whatever it is, needs virtio_pci first. Numbers of the virtio specification. */
        { "pci:v00001AF4d000010",    MODULE_CLASS_BUS     },
        { PCI "bc01",                MODULE_CLASS_STORAGE },
        { PCI "bc02",                MODULE_CLASS_NETWORK },
        { PCI "bc03",                MODULE_CLASS_DISPLAY },
        { PCI "bc04sc01",            MODULE_CLASS_SOUND   },
        { PCI "bc04sc03",            MODULE_CLASS_SOUND   },
        { PCI "bc06sc01",            MODULE_CLASS_OTHER   }, /* ISA: what is behind it works without a driver for it */
        { PCI "bc08sc05",            MODULE_CLASS_BUS     }, /* SD host */
        { PCI "bc09",                MODULE_CLASS_INPUT   },
        { PCI "bc0Csc00",            MODULE_CLASS_BUS     }, /* FireWire */
        { PCI "bc0Csc03",            MODULE_CLASS_BUS     }, /* USB */
        { PCI "bc0Csc04",            MODULE_CLASS_STORAGE }, /* Fibre Channel */
        { PCI "bc0Csc05",            MODULE_CLASS_BUS     }, /* SMBus: touchpads */
        { PCI "bc0Csc06",            MODULE_CLASS_NETWORK }, /* InfiniBand */
        { PCI "bc0Csc0A",            MODULE_CLASS_BUS     }, /* I3C */
        { PCI "bc0D",                MODULE_CLASS_NETWORK }, /* wireless */
#undef PCI

#define USB "usb:v????p????d????dc??dsc??dp??"
        { USB "ic01",                MODULE_CLASS_SOUND   },
        { USB "ic03",                MODULE_CLASS_INPUT   },
        { USB "ic08",                MODULE_CLASS_STORAGE },
        { USB "icE0",                MODULE_CLASS_NETWORK }, /* Bluetooth */
#undef USB

        { "virtio:d00000001v",       MODULE_CLASS_NETWORK },
        { "virtio:d00000002v",       MODULE_CLASS_STORAGE },
        { "virtio:d00000004v",       MODULE_CLASS_IDLE    }, /* random numbers */
        { "virtio:d00000005v",       MODULE_CLASS_IDLE    }, /* balloon */
        { "virtio:d00000008v",       MODULE_CLASS_STORAGE }, /* SCSI host */
        { "virtio:d00000009v",       MODULE_CLASS_STORAGE }, /* 9p */
        { "virtio:d00000010v",       MODULE_CLASS_DISPLAY },
        { "virtio:d00000012v",       MODULE_CLASS_INPUT   },
        { "virtio:d00000014v",       MODULE_CLASS_IDLE    }, /* crypto */
        { "virtio:d00000019v",       MODULE_CLASS_SOUND   },
        { "virtio:d0000001Av",       MODULE_CLASS_STORAGE }, /* file system */
        { "virtio:d0000001Bv",       MODULE_CLASS_STORAGE }, /* persistent memory */
        { "virtio:d00000022v",       MODULE_CLASS_BUS     }, /* I2C host */

        { "scsi:t-0x00",             MODULE_CLASS_STORAGE }, /* disk */
        { "scsi:t-0x04",             MODULE_CLASS_STORAGE }, /* write once */
        { "scsi:t-0x05",             MODULE_CLASS_STORAGE }, /* CD, DVD */
        { "scsi:t-0x07",             MODULE_CLASS_STORAGE }, /* optical */
        { "scsi:t-0x0e",             MODULE_CLASS_STORAGE }, /* simplified disk */
        { "scsi:t-0x14",             MODULE_CLASS_STORAGE }, /* zoned disk */
        { "scsi:",                   MODULE_CLASS_OTHER   }, /* tapes, enclosures, … */

        { "xen:vbd",                 MODULE_CLASS_STORAGE },
        { "xen:vkbd",                MODULE_CLASS_INPUT   },
        { "xen:pci",                 MODULE_CLASS_BUS     },

        { "acpi:*PNP03??:",          MODULE_CLASS_INPUT   }, /* keyboards */
        { "acpi:*PNP0F??:",          MODULE_CLASS_INPUT   }, /* mice */
        { "acpi:*PNP0C50:",          MODULE_CLASS_INPUT   }, /* HID over I2C */

        { "hid:",                    MODULE_CLASS_INPUT   },
        { "serio:",                  MODULE_CLASS_INPUT   },

        { "cpu:",                    MODULE_CLASS_IDLE    },
        { "dmi:",                    MODULE_CLASS_IDLE    },
};

/* How the path of a module's file goes on behind kernel/. */
static const struct {
        const char *directory;
        ModuleClass class;
} directory_rules[] = {
        { "arch/",                                         MODULE_CLASS_IDLE    },
        { "crypto/",                                       MODULE_CLASS_IDLE    },
        { "drivers/acpi/nfit/",                            MODULE_CLASS_BUS     }, /* memory that keeps what is in it */
        { "drivers/ata/",                                  MODULE_CLASS_STORAGE },
        { "drivers/block/",                                MODULE_CLASS_STORAGE },
        { "drivers/bluetooth/",                            MODULE_CLASS_NETWORK },
        { "drivers/bus/mhi/",                              MODULE_CLASS_NETWORK }, /* modems */
        { "drivers/bus/",                                  MODULE_CLASS_BUS     },
        { "drivers/char/hw_random/",                       MODULE_CLASS_IDLE    },
        { "drivers/cpufreq/",                              MODULE_CLASS_IDLE    },
        { "drivers/crypto/",                               MODULE_CLASS_IDLE    },
        { "drivers/edac/",                                 MODULE_CLASS_IDLE    },
        { "drivers/firewire/",                             MODULE_CLASS_BUS     },
        { "drivers/gpu/",                                  MODULE_CLASS_DISPLAY },
        { "drivers/hid/amd-sfh-hid/",                      MODULE_CLASS_OTHER   }, /* sensors */
        { "drivers/hid/intel-ish-hid/",                    MODULE_CLASS_OTHER   }, /* sensors */
        { "drivers/hid/",                                  MODULE_CLASS_INPUT   },
        { "drivers/hv/hv_vmbus",                           MODULE_CLASS_BUS     },
        { "drivers/hwmon/",                                MODULE_CLASS_IDLE    },
        { "drivers/i2c/",                                  MODULE_CLASS_BUS     },
        { "drivers/i3c/",                                  MODULE_CLASS_BUS     },
        { "drivers/infiniband/",                           MODULE_CLASS_NETWORK },
        { "drivers/input/",                                MODULE_CLASS_INPUT   },
        { "drivers/memstick/host/",                        MODULE_CLASS_BUS     },
        { "drivers/memstick/",                             MODULE_CLASS_STORAGE },
        { "drivers/message/fusion/",                       MODULE_CLASS_STORAGE },
        { "drivers/mfd/",                                  MODULE_CLASS_BUS     },
        { "drivers/misc/cardreader/",                      MODULE_CLASS_BUS     },
        { "drivers/misc/cb710/",                           MODULE_CLASS_BUS     }, /* card reader */
        { "drivers/misc/eeprom/",                          MODULE_CLASS_IDLE    },
        { "drivers/misc/tifm_",                            MODULE_CLASS_BUS     }, /* card reader */
        { "drivers/mmc/host/",                             MODULE_CLASS_BUS     },
        { "drivers/mmc/",                                  MODULE_CLASS_STORAGE },
        { "drivers/mtd/",                                  MODULE_CLASS_STORAGE },
        { "drivers/net/",                                  MODULE_CLASS_NETWORK },
        { "drivers/nvdimm/",                               MODULE_CLASS_STORAGE },
        { "drivers/nvme/host/",                            MODULE_CLASS_STORAGE },
        { "drivers/pci/controller/",                       MODULE_CLASS_BUS     },
        { "drivers/pcmcia/",                               MODULE_CLASS_BUS     },
        { "drivers/platform/chrome/cros_ec_i2c",           MODULE_CLASS_BUS     }, /* a keyboard is behind it */
        { "drivers/platform/chrome/cros_ec_spi",           MODULE_CLASS_BUS     }, /* the same */
        { "drivers/platform/surface/aggregator/",          MODULE_CLASS_BUS     }, /* the same */
        { "drivers/platform/surface/surface_aggregator_",  MODULE_CLASS_BUS     }, /* the same */
        { "drivers/s390/block/",                           MODULE_CLASS_STORAGE },
        { "drivers/s390/cio/",                             MODULE_CLASS_BUS     },
        { "drivers/s390/crypto/",                          MODULE_CLASS_IDLE    },
        { "drivers/s390/net/",                             MODULE_CLASS_NETWORK },
        { "drivers/s390/scsi/",                            MODULE_CLASS_STORAGE },
        { "drivers/scsi/",                                 MODULE_CLASS_STORAGE },
        { "drivers/soundwire/",                            MODULE_CLASS_SOUND   },
        { "drivers/spi/",                                  MODULE_CLASS_BUS     },
        { "drivers/spmi/",                                 MODULE_CLASS_BUS     },
        { "drivers/staging/rts5208/",                      MODULE_CLASS_STORAGE }, /* card reader */
        { "drivers/thunderbolt/",                          MODULE_CLASS_BUS     },
        { "drivers/ufs/",                                  MODULE_CLASS_STORAGE },
        { "drivers/usb/cdns3/",                            MODULE_CLASS_BUS     },
        { "drivers/usb/chipidea/",                         MODULE_CLASS_BUS     },
        { "drivers/usb/dwc2/",                             MODULE_CLASS_BUS     },
        { "drivers/usb/dwc3/",                             MODULE_CLASS_BUS     },
        { "drivers/usb/host/",                             MODULE_CLASS_BUS     },
        { "drivers/usb/isp1760/",                          MODULE_CLASS_BUS     },
        { "drivers/usb/misc/onboard_usb_",                 MODULE_CLASS_BUS     }, /* a hub that needs power */
        { "drivers/usb/mtu3/",                             MODULE_CLASS_BUS     },
        { "drivers/usb/musb/",                             MODULE_CLASS_BUS     },
        { "drivers/usb/storage/",                          MODULE_CLASS_STORAGE },
        { "drivers/video/",                                MODULE_CLASS_DISPLAY },
        { "drivers/virt/vboxguest/",                       MODULE_CLASS_INPUT   }, /* the host's pointer */
        { "drivers/virtio/virtio_mmio",                    MODULE_CLASS_BUS     },
        { "drivers/virtio/virtio_pci",                     MODULE_CLASS_BUS     },
        { "net/",                                          MODULE_CLASS_NETWORK },
        { "sound/",                                        MODULE_CLASS_SOUND   },

        /* What hosts on boards need: their probe is deferred until it is there. */
        { "drivers/clk/",                                  MODULE_CLASS_BUS     },
        { "drivers/firmware/arm_sc",                       MODULE_CLASS_BUS     }, /* clocks, power */
        { "drivers/gpio/",                                 MODULE_CLASS_BUS     },
        { "drivers/interconnect/",                         MODULE_CLASS_BUS     },
        { "drivers/iommu/",                                MODULE_CLASS_BUS     },
        { "drivers/irqchip/",                              MODULE_CLASS_BUS     },
        { "drivers/mailbox/",                              MODULE_CLASS_BUS     },
        { "drivers/phy/",                                  MODULE_CLASS_BUS     },
        { "drivers/pinctrl/",                              MODULE_CLASS_BUS     },
        { "drivers/pmdomain/",                             MODULE_CLASS_BUS     },
        { "drivers/regulator/",                            MODULE_CLASS_BUS     },
        { "drivers/reset/",                                MODULE_CLASS_BUS     },
        { "drivers/rpmsg/",                                MODULE_CLASS_BUS     },
        { "drivers/soc/",                                  MODULE_CLASS_BUS     },
        { "drivers/usb/phy/",                              MODULE_CLASS_BUS     },
};

static bool pattern_matches(const char *pattern, const char *s) {
        for (; *pattern && *pattern != '*'; pattern++, s++)
                if (*pattern == '?' ? unhexchar(*s) < 0 : *s != *pattern)
                        return false;

        if (*pattern == 0)
                return true;

        for (size_t i = 0; i < LIST_BYTES_MAX && s[i] != 0; i++)
                if ((i == 0 || s[i - 1] == ':') && pattern_matches(pattern + 1, s + i))
                        return true;

        return false;
}

/* input:b0003v046DpC31Ce0110-e0,1,4,11,14,k…: behind "-e" stand the types of the events that the device may send, as
 * hexadecimal numbers, see linux/input-event-codes.h. They tell keyboards and pointers from jacks, lids and buttons. */
static ModuleClass class_of_input(const char *types) {
        uint32_t set = 0;
        unsigned type = 0;

        for (size_t i = 0; i < LIST_BYTES_MAX; i++) {
                int digit = unhexchar(types[i]);

                if (digit >= 0) {
                        /* What is too large stays too large. */
                        if (type < EV_CNT)
                                type = type << 4 | digit;
                } else if (types[i] == ',') {
                        if (type < EV_CNT)
                                set |= UINT32_C(1) << type;
                        type = 0;
                } else
                        break;
        }

        /* Keyboards repeat their keys or have lamps, pointers move. The modules that make a node of one are the last
         * thing to come and have nothing to look for, so they go before the hosts of others. */
        return FLAGS_SET(set, 1U << EV_KEY) && (set & (1U << EV_REP | 1U << EV_LED | 1U << EV_REL | 1U << EV_ABS)) ?
                MODULE_CLASS_BUS : MODULE_CLASS_OTHER;
}

ModuleClass module_class_from_modalias(const char *modalias) {
        /* In two parts: "??-" is a trigraph. */
        static const char input[] = "input:b????v????p????e????" "-e";

        if (!modalias)
                return _MODULE_CLASS_INVALID;

        if (pattern_matches(input, modalias))
                return class_of_input(modalias + strlen(input));

        for (size_t i = 0; i < ELEMENTSOF(modalias_rules); i++)
                if (pattern_matches(modalias_rules[i].pattern, modalias))
                        return modalias_rules[i].class;

        return _MODULE_CLASS_INVALID;
}

ModuleClass module_class_from_path(const char *path) {
        const char *p = NULL;

        /* The last one, whatever the directories above are called. */
        for (const char *q = path; q && (q = strstr(q, "/kernel/")); q++)
                p = q;
        if (!p)
                return _MODULE_CLASS_INVALID;

        for (size_t i = 0; i < ELEMENTSOF(directory_rules); i++)
                if (startswith(p + strlen("/kernel/"), directory_rules[i].directory))
                        return directory_rules[i].class;

        return MODULE_CLASS_OTHER;
}

ModuleClass module_class_decide(const char *modalias, ModuleClass directory) {
        ModuleClass class = module_class_from_modalias(modalias);

        if (class < 0)
                class = directory;

        return class < 0 ? MODULE_CLASS_OTHER : class;
}

ModuleClass module_class_best(ModuleClass a, ModuleClass b) {
        /* As unsigned, what is invalid is the largest. */
        return (unsigned) a < (unsigned) b ? a : b;
}

/* Bus and storage go before the workers (nice 0), since what they find is what everybody waits for; storage at −15 and
 * input at −10 made no difference in the guest. The others are little below: a loader holds locks of the kernel that
 * all loads need. With 5 to 15 the first disk comes at 1.8 to 3.2 s, with 2 to 6 at 1.6 to 2.2 s; with 0 for all of
 * them the last one at 6.9 s instead of 6.6. */
int module_class_nice(ModuleClass class) {
        static const int table[_MODULE_CLASS_MAX] = {
                [MODULE_CLASS_BUS]     = -10,
                [MODULE_CLASS_STORAGE] = -10,
                [MODULE_CLASS_INPUT]   = -5,
                [MODULE_CLASS_DISPLAY] = 0,
                [MODULE_CLASS_NETWORK] = 2,
                [MODULE_CLASS_OTHER]   = 2,
                [MODULE_CLASS_SOUND]   = 4,
                [MODULE_CLASS_IDLE]    = 6,
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
