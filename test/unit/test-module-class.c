/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "udev-module-class.h"

/* So many bytes of a MODALIAS are looked at, says the header. */
#define MODALIAS_BYTES_MAX 128U

#define K "/lib/modules/6.1.0/kernel/"
#define HID_MODULE K "drivers/hid/hid-generic.ko"

/* What a load is for, by the MODALIAS of its device and the file of its module, or NULL. */
static const struct {
        const char *name, *modalias, *path;
        ModuleClass class;
} cases[] = {
        /* PCI: class codes */
        { "pci-ahci",             "pci:v00008086d0000A182sv00001849sd0000A182bc01sc06i01",
          NULL, MODULE_CLASS_STORAGE },
        { "pci-nvme",             "pci:v0000144Dd0000A808sv0000144Dsd0000A801bc01sc08i02",
          NULL, MODULE_CLASS_STORAGE },
        { "pci-fibre-channel",    "pci:v000010DFd0000E200sv00001014sd000003F1bc0Csc04i00",
          NULL, MODULE_CLASS_STORAGE },
        { "pci-usb-host",         "pci:v00008086d0000A12Fsv00001849sd0000A12Fbc0Csc03i30",
          NULL, MODULE_CLASS_BUS },
        { "pci-vboxguest",        "pci:v000080EEd0000CAFEsv00000000sd00000000bc08sc80i00",
          K "drivers/virt/vboxguest/vboxguest.ko", MODULE_CLASS_INPUT },
        { "pci-usb4",             "pci:v00001022d00001120sv0000F111sd0000000Dbc0Csc03i40",
          NULL, MODULE_CLASS_BUS },
        { "pci-smbus",            "pci:v00008086d0000A123sv00001849sd0000A123bc0Csc05i00",
          NULL, MODULE_CLASS_BUS },
        { "pci-sd-host",          "pci:v00001180d0000E822sv000017AAsd000021FBbc08sc05i01",
          NULL, MODULE_CLASS_BUS },
        { "pci-isa-bridge",       "pci:v00008086d00002918sv00001AF4sd00001100bc06sc01i00",
          K "drivers/mfd/lpc_ich.ko", MODULE_CLASS_OTHER },
        { "pci-ethernet",         "pci:v00008086d000015B8sv00001849sd000015B8bc02sc00i00",
          NULL, MODULE_CLASS_NETWORK },
        { "pci-graphics",         "pci:v000010DEd00001C82sv00001462sd00008C96bc03sc00i00",
          NULL, MODULE_CLASS_DISPLAY },
        { "pci-sound",            "pci:v00008086d0000A170sv00001849sd00003897bc04sc03i00",
          NULL, MODULE_CLASS_SOUND },
        { "pci-communication",    "pci:v00008086d0000A13Asv00001849sd0000A13Abc07sc80i00",
          NULL, MODULE_CLASS_OTHER },
        { "pci-card-reader",      "pci:v000010ECd00005209sv00001028sd000005A7bcFFsc00i00",
          K "drivers/misc/cardreader/rtsx_pci.ko", MODULE_CLASS_BUS },
        { "pci-serial-hosts",     "pci:v00008086d0000A368sv00001028sd00000919bc0Csc80i00",
          K "drivers/mfd/intel-lpss-pci.ko", MODULE_CLASS_BUS },
        { "pci-virtio-modern",    "pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00",
          NULL, MODULE_CLASS_BUS },
        { "pci-virtio-legacy",    "pci:v00001AF4d00001001sv00001AF4sd00000002bc01sc00i00",
          NULL, MODULE_CLASS_BUS },
        { "pci-virtio-subsystem", "pci:v00008086d0000100Esv00001AF4sd00001100bc02sc00i00",
          NULL, MODULE_CLASS_NETWORK },

        /* Digits that look like a class code are none. */
        { "pci-code-in-device",    "pci:v00008086d0000bc01sv00001849sd0000A13Abc07sc80i00",
          NULL, MODULE_CLASS_OTHER },
        { "pci-code-in-subsystem", "pci:v0000BC0Cd00000C03sv0000bc03sd0000bc0Cbc02sc03i00",
          NULL, MODULE_CLASS_NETWORK },
        { "pci-code-too-late",     "pci:v00008086d0000A13Asv00001849sd0000A13AbcFFsc00i00bc01",
          NULL, MODULE_CLASS_OTHER },
        { "pci-short-fields",      "pci:v8086dA182sv1849sdA182bc01sc06i01", NULL, MODULE_CLASS_OTHER },
        { "usb-code-in-ids",       "usb:vic03pic08dic03dc00dsc00dp00icFFisc01ip01in00", NULL, MODULE_CLASS_OTHER },
        { "usb-device-is-hid",     "usb:v046DpC31Cd6402dc03dsc00dp00icFFisc01ip01in00", NULL, MODULE_CLASS_OTHER },
        { "virtio-code-in-vendor", "virtio:d00000001v00000002v", NULL, MODULE_CLASS_NETWORK },
        { "scsi-type-longer",      "scsi:t-0x0d-0x00", NULL, MODULE_CLASS_OTHER },
        { "acpi-id-in-id",         "acpi:XPNP0303:", NULL, MODULE_CLASS_OTHER },
        { "acpi-id-longer",        "acpi:PNP0C500:", NULL, MODULE_CLASS_OTHER },
        { "acpi-id-cut-off",       "acpi:PNP0C50", NULL, MODULE_CLASS_OTHER },

        /* USB: interface classes */
        { "usb-keyboard",         "usb:v046DpC31Cd6402dc00dsc00dp00ic03isc01ip01in00",
          NULL, MODULE_CLASS_INPUT },
        { "usb-stick",            "usb:v0781p5567d0126dc00dsc00dp00ic08isc06ip50in00",
          NULL, MODULE_CLASS_STORAGE },
        { "usb-bluetooth",        "usb:v8087p0A2Bd0010dcE0dsc01dp01icE0isc01ip01in00",
          NULL, MODULE_CLASS_NETWORK },
        { "usb-sound",            "usb:v0D8Cp0014d0100dc00dsc00dp00ic01isc01ip00in00",
          NULL, MODULE_CLASS_SOUND },
        { "usb-vendor-network",   "usb:v0BDAp8156d3104dc00dsc00dp00icFFiscFFip00in00",
          K "drivers/net/usb/r8152.ko", MODULE_CLASS_NETWORK },
        { "usb-vendor-cards",     "usb:v0BDAp0129d3960dcFFdscFFdpFFicFFisc06ip50in00",
          K "drivers/misc/cardreader/rtsx_usb.ko", MODULE_CLASS_BUS },

        /* virtio: device numbers */
        { "virtio-block",         "virtio:d00000002v00001AF4", NULL, MODULE_CLASS_STORAGE },
        { "virtio-scsi",          "virtio:d00000008v00001AF4", NULL, MODULE_CLASS_STORAGE },
        { "virtio-input",         "virtio:d00000012v00001AF4", NULL, MODULE_CLASS_INPUT   },
        { "virtio-gpu",           "virtio:d00000010v00001AF4", NULL, MODULE_CLASS_DISPLAY },
        { "virtio-rng",           "virtio:d00000004v00001AF4", NULL, MODULE_CLASS_IDLE    },

        /* SCSI: device types */
        { "scsi-disk",            "scsi:t-0x00", NULL, MODULE_CLASS_STORAGE },
        { "scsi-cd",              "scsi:t-0x05", NULL, MODULE_CLASS_STORAGE },
        { "scsi-enclosure",       "scsi:t-0x0d", K "drivers/scsi/ses.ko", MODULE_CLASS_OTHER },

        /* ACPI: ids, one of several */
        { "acpi-keyboard",        "acpi:PNP0303:PNP030B:", NULL, MODULE_CLASS_INPUT },
        { "acpi-keyboard-second", "acpi:LEN0071:PNP0303:", NULL, MODULE_CLASS_INPUT },
        { "acpi-mouse",           "acpi:PNP0F13:", NULL, MODULE_CLASS_INPUT },
        { "acpi-hid-over-i2c",    "acpi:DLL0725:PNP0C50:", NULL, MODULE_CLASS_INPUT },
        { "acpi-sd-host",         "acpi:80860F14:PNP0D40:",
          K "drivers/mmc/host/sdhci-acpi.ko", MODULE_CLASS_BUS },
        { "acpi-processor",       "acpi:LNXCPU:",
          K "drivers/cpufreq/acpi-cpufreq.ko", MODULE_CLASS_IDLE },
        { "acpi-vmbus",           "acpi:VMBUS:VMBUS:", K "drivers/hv/hv_vmbus.ko", MODULE_CLASS_BUS },

        /* Input devices: types of events */
        { "input-keyboard",       "input:b0011v0001p0001eAB41-e0,1,4,11,14,k71,72,73,ram4,l0,1,2,sfw",
          NULL, MODULE_CLASS_BUS },
        { "input-no-lamps",       "input:b0018v18D1p5044e0001-e0,1,4,14,k71,72,73,ram4,lsfw",
          NULL, MODULE_CLASS_BUS },
        { "input-mouse",          "input:b0003v046DpC03Ee0110-e0,1,2,4,k110,111,112,r0,1,8,am4,lsfw",
          NULL, MODULE_CLASS_BUS },
        { "input-touchscreen",    "input:b0018v04F3p2234e0100-e0,1,3,k14A,ra0,1,2F,35,36,39,mlsfw",
          NULL, MODULE_CLASS_BUS },
        { "input-power-button",   "input:b0019v0000p0001e0000-e0,1,k74,ramlsfw",
          K "drivers/input/evdev.ko", MODULE_CLASS_OTHER },
        { "input-jack",           "input:b0000v0000p0000e0000-e0,5,kramlsfw2,",
          K "drivers/input/evdev.ko", MODULE_CLASS_OTHER },
        { "input-accelerometer",  "input:b0019v0000p0000e0000-e0,3,kra0,1,2,mlsfw",
          K "drivers/input/evdev.ko", MODULE_CLASS_OTHER },
        { "input-code-in-keys",   "input:b0019v0000p0001e0000-e0,1,k2,3,14,ra0,1,mlsfw",
          NULL, MODULE_CLASS_OTHER },
        { "input-large-type",     "input:b0019v0000p0001e0000-e0,1,FFFFFFFF00000002,22,k74,ramlsfw",
          NULL, MODULE_CLASS_OTHER },
        { "input-no-types",       "input:b0019v0000p0001e0000-e", NULL, MODULE_CLASS_OTHER },

        /* All of the bus */
        { "hid",                  "hid:b0003g0001v0000046Dp0000C31C", NULL, MODULE_CLASS_INPUT },
        { "serio",                "serio:ty01pr00id00ex00", NULL, MODULE_CLASS_INPUT },
        { "xen-disk",             "xen:vbd", NULL, MODULE_CLASS_STORAGE },
        { "xen-keyboard",         "xen:vkbd", NULL, MODULE_CLASS_INPUT },
        { "cpu",                  "cpu:type:x86,ven0000fam0006mod005E:feature:,0000,0001",
          NULL, MODULE_CLASS_IDLE },
        { "dmi",                  "dmi:bvnAmericanMegatrendsInc.:bvrP7.30:",
          K "drivers/mfd/lpc_ich.ko", MODULE_CLASS_IDLE },

        /* Buses whose devices are known by their drivers */
        { "mmc",                  "mmc:block", K "drivers/mmc/core/mmc_block.ko", MODULE_CLASS_STORAGE },
        { "sdio-wireless",        "sdio:c00v02D0dA9A6",
          K "drivers/net/wireless/broadcom/brcm80211/brcmfmac/brcmfmac.ko", MODULE_CLASS_NETWORK },
        { "memstick",             NULL, K "drivers/memstick/core/ms_block.ko", MODULE_CLASS_STORAGE },
        { "of-sd-host",           "of:NmmcT(null)Cbrcm,bcm2835-sdhost",
          K "drivers/mmc/host/bcm2835.ko", MODULE_CLASS_BUS },
        { "of-usb-phy",           "of:NusbphyT(null)Cusb-nop-xceiv",
          K "drivers/usb/phy/phy-generic.ko", MODULE_CLASS_BUS },
        { "platform-usb-host",    "platform:ehci-omap", K "drivers/usb/host/ehci-omap.ko", MODULE_CLASS_BUS },
        { "i2c-touchpad",         "i2c:ELAN0000", K "drivers/input/mouse/elan_i2c.ko", MODULE_CLASS_INPUT },
        { "i2c-eeprom",           "i2c:spd", K "drivers/misc/eeprom/at24.ko", MODULE_CLASS_IDLE },
        { "spi-flash",            "spi:spi-nor", K "drivers/mtd/spi-nor/spi-nor.ko", MODULE_CLASS_STORAGE },
        { "ccw-disk",             "ccw:t3990mE9dt3390dm0C",
          K "drivers/s390/block/dasd_eckd_mod.ko", MODULE_CLASS_STORAGE },
        { "ccw-network",          "ccw:t1731m01dt1732dm01", K "drivers/s390/net/qeth.ko", MODULE_CLASS_NETWORK },
        { "ap",                   "ap:t0A", K "drivers/s390/crypto/zcrypt_cex4.ko", MODULE_CLASS_IDLE },
        { "vio-scsi",             "vio:TvscsiSIBM,v-scsi",
          K "drivers/scsi/ibmvscsi/ibmvscsi.ko", MODULE_CLASS_STORAGE },
        { "vmbus-disk",           "vmbus:d96361baa104294db60572e2ffb1dc7f",
          K "drivers/scsi/hv_storvsc.ko", MODULE_CLASS_STORAGE },
        { "fsl-mc",               "fsl-mc:v00001957ddpni",
          K "drivers/net/ethernet/freescale/dpaa2/fsl-dpaa2-eth.ko", MODULE_CLASS_NETWORK },
        { "nd",                   "nd:t5", K "drivers/nvdimm/nd_pmem.ko", MODULE_CLASS_STORAGE },
        { "wmi",                  "wmi:05901221-D566-11D1-B2F0-00A0C9062910",
          K "drivers/platform/x86/wmi-bmof.ko", MODULE_CLASS_OTHER },

        /* What says nothing, and anything else */
        { "nothing",              NULL, NULL, MODULE_CLASS_OTHER },
        { "empty",                "", "", MODULE_CLASS_OTHER },
        { "no-device",            NULL, HID_MODULE, MODULE_CLASS_INPUT },
        { "bus-alone",            "pci:", NULL, MODULE_CLASS_OTHER },
        { "any-bytes",            "usb:\xff\xfe \"'\n", HID_MODULE, MODULE_CLASS_INPUT },
        { "other-case",           "PCI:v00008086d0000A182sv00001849sd0000A182bc01sc06i01",
          NULL, MODULE_CLASS_OTHER },
        { "modalias-first",       "usb:v046DpC31Cd6402dc00dsc00dp00ic08isc01ip01in00",
          HID_MODULE, MODULE_CLASS_STORAGE },
};

static void test_case(gconstpointer data) {
        size_t i = GPOINTER_TO_SIZE(data);
        ModuleClass class = module_class_decide(cases[i].modalias, module_class_from_path(cases[i].path));

        g_assert_cmpstr(module_class_to_string(class), ==, module_class_to_string(cases[i].class));
}

/* Files of modules, wherever a distribution or an administrator puts them. */
static const struct {
        const char *name, *path;
        ModuleClass class;
} paths[] = {
        { "merged-usr",        "/usr/lib/modules/6.1.0/kernel/drivers/ata/ahci.ko", MODULE_CLASS_STORAGE },
        { "compressed",        "/lib/modules/6.12.9/kernel/drivers/nvme/host/nvme.ko.xz", MODULE_CLASS_STORAGE },
        { "another-root",      "/srv/kernel/lib/modules/6.1.0/kernel/drivers/ata/ahci.ko",
          MODULE_CLASS_STORAGE },
        { "subdirectory",      K "drivers/scsi/megaraid/megaraid_sas.ko", MODULE_CLASS_STORAGE },
        { "update",            "/lib/modules/6.1.0/updates/kernel/drivers/ata/ahci.ko", MODULE_CLASS_STORAGE },
        { "file-name",         K "drivers/virtio/virtio_pci.ko", MODULE_CLASS_BUS },
        { "file-beside-it",    K "drivers/virtio/virtio_balloon.ko", MODULE_CLASS_OTHER },
        { "name-goes-on",      K "drivers/atahualpa/x.ko", MODULE_CLASS_OTHER },
        { "directory-inside",  K "drivers/staging/drivers/ata/x.ko", MODULE_CLASS_OTHER },
        { "unknown-directory", K "drivers/w1/masters/ds2490.ko", MODULE_CLASS_OTHER },
        { "sensors",           K "drivers/hid/intel-ish-hid/intel-ish-ipc.ko", MODULE_CLASS_OTHER },
        { "dkms",              "/lib/modules/6.1.0/updates/dkms/nvidia.ko", _MODULE_CLASS_INVALID },
        { "extra",             "/lib/modules/6.1.0/extra/drivers/ata/x.ko", _MODULE_CLASS_INVALID },
        { "release-alone",     "/lib/modules/6.1.0/kernel", _MODULE_CLASS_INVALID },
        { "relative",          "kernel/drivers/ata/ahci.ko", _MODULE_CLASS_INVALID },
        { "directory-alone",   K "", MODULE_CLASS_OTHER },
        { "empty",             "", _MODULE_CLASS_INVALID },
        { "null",              NULL, _MODULE_CLASS_INVALID },
};

static void test_path(gconstpointer data) {
        size_t i = GPOINTER_TO_SIZE(data);

        g_assert_cmpstr(module_class_to_string(module_class_from_path(paths[i].path)),
                        ==, module_class_to_string(paths[i].class));
}

/* Memory that ends where the process would crash; the caller puts what is to be read at its end. */
static char *guarded_end(void) {
        static char *end = NULL;
        size_t page = sysconf(_SC_PAGESIZE);

        if (!end) {
                char *p = mmap(NULL, 2 * page, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);

                g_assert_true(p != MAP_FAILED);
                g_assert_cmpint(mprotect(p + page, page, PROT_NONE), ==, 0);
                end = p + page;
        }

        return end;
}

static void assert_some_class(const char *modalias) {
        ModuleClass class = module_class_decide(modalias, _MODULE_CLASS_INVALID);

        g_assert_cmpint(class, >=, 0);
        g_assert_cmpint(class, <, _MODULE_CLASS_MAX);
}

/* Cut off anywhere, nothing behind the end is read. */
static void test_bounds_end(void) {
        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                size_t size = cases[i].modalias ? strlen(cases[i].modalias) : 0;

                for (size_t n = 0; n <= size; n++) {
                        char *s = guarded_end() - n - 1;

                        memcpy(s, cases[i].modalias ?: "", n);
                        s[n] = 0;
                        assert_some_class(s);
                }
        }
}

/* However long it is, no more is read than the header says: here is no end at all. */
static void test_bounds_long(void) {
        static const char *const beginnings[] = {
                "input:b0003v046DpC31Ce0110-e",
                "input:b0003v046DpC31Ce0110-e0,1,",
                "acpi:",
                "acpi:PNP030",
                "acpi:X:",
                "of:N",
                "pci:v00008086d0000A182sv00001849sd0000A182bc07",
        };
        static const char fillings[] = "0A,:PN\xff";

        for (size_t i = 0; i < G_N_ELEMENTS(beginnings); i++)
                for (const char *c = fillings; *c; c++) {
                        char *s = guarded_end() - MODALIAS_BYTES_MAX;

                        memset(s, *c, MODALIAS_BYTES_MAX);
                        memcpy(s, beginnings[i], strlen(beginnings[i]));
                        assert_some_class(s);
                }
}

/* Random bytes in place of some, a terminating one included. */
static void test_bounds_random(void) {
        for (unsigned n = 0; n < 100000; n++) {
                const char *modalias = cases[g_test_rand_int_range(0, G_N_ELEMENTS(cases))].modalias ?: "";
                size_t size = strlen(modalias) + 1;
                char *s = memcpy(guarded_end() - size, modalias, size);

                for (int k = g_test_rand_int_range(0, 4); k > 0 && size > 1; k--)
                        s[g_test_rand_int_range(0, size - 1)] = g_test_rand_int_range(0, 256);
                assert_some_class(s);
        }
}

static void test_names(void) {
        for (ModuleClass c = 0; c < _MODULE_CLASS_MAX; c++)
                g_assert_cmpint(module_class_from_string(module_class_to_string(c)), ==, c);

        g_assert_cmpint(module_class_from_string(NULL), ==, _MODULE_CLASS_INVALID);
        g_assert_cmpint(module_class_from_string(""), ==, _MODULE_CLASS_INVALID);
        g_assert_cmpint(module_class_from_string("Storage"), ==, _MODULE_CLASS_INVALID);
}

static void test_best(void) {
        g_assert_cmpint(module_class_best(MODULE_CLASS_INPUT, MODULE_CLASS_BUS), ==, MODULE_CLASS_BUS);
        g_assert_cmpint(module_class_best(MODULE_CLASS_IDLE, _MODULE_CLASS_INVALID), ==, MODULE_CLASS_IDLE);
        g_assert_cmpint(module_class_best(_MODULE_CLASS_INVALID, MODULE_CLASS_IDLE), ==, MODULE_CLASS_IDLE);
        g_assert_cmpint(module_class_best(_MODULE_CLASS_INVALID, _MODULE_CLASS_INVALID), ==, _MODULE_CLASS_INVALID);
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

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                g_autofree char *name = g_strdup_printf("/module-class/load/%s", cases[i].name);

                g_test_add_data_func(name, GSIZE_TO_POINTER(i), test_case);
        }
        for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
                g_autofree char *name = g_strdup_printf("/module-class/path/%s", paths[i].name);

                g_test_add_data_func(name, GSIZE_TO_POINTER(i), test_path);
        }
        g_test_add_func("/module-class/bounds/end", test_bounds_end);
        g_test_add_func("/module-class/bounds/long", test_bounds_long);
        g_test_add_func("/module-class/bounds/random", test_bounds_random);
        g_test_add_func("/module-class/names", test_names);
        g_test_add_func("/module-class/best", test_best);
        g_test_add_func("/module-class/priorities", test_priorities);

        return g_test_run();
}
