/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "udev-module-chain.h"

#define HBA "/devices/pci0000:00/0000:00:1f.2"
#define SCSI HBA "/ata1/host0/target0:0:0/0:0:0:0"
#define DISK SCSI "/block/sda"

static uint32_t add_event(
                ModuleRecord *r,
                uint64_t seqnum,
                const char *device,
                const char *subsystem,
                const char *devtype,
                bool triggered,
                usec_t received,
                usec_t started,
                usec_t processed) {

        return module_record_add_event(r, &(ModuleRecordEvent) {
                .seqnum = seqnum, .device = device, .action = "add", .subsystem = subsystem, .devtype = devtype,
                .triggered = triggered, .received = received, .started = started, .processed = processed,
        });
}

static void add_request(ModuleRecord *r, uint64_t seqnum, usec_t asked, const char *modules) {
        module_record_add_request(r, &(ModuleRecordRequest) { .seqnum = seqnum, .asked = asked, .modules = modules });
}

static uint32_t add_load(
                ModuleRecord *r,
                uint64_t seqnum,
                const char *module,
                bool preload,
                usec_t asked,
                usec_t started,
                usec_t live,
                usec_t done) {

        return module_record_add_load(r, &(ModuleRecordLoad) {
                .seqnum = seqnum, .module = module, .preload = preload, .class = MODULE_CLASS_STORAGE,
                .asked = asked, .started = started, .live = live, .done = done,
        });
}

/* A disk behind a controller, each with its driver. */
static ModuleRecord *disk_new(void) {
        ModuleRecord *r = module_record_new();

        add_event(r, 10, HBA, "pci", NULL, true, 100, 150, 230);
        add_request(r, 10, 200, "libata libahci ahci");
        add_load(r, 10, "libata", true, 200, 210, 0, 250);
        add_load(r, 10, "libahci", true, 200, 260, 280, 900);
        add_load(r, 10, "ahci", false, 200, 290, 0, 400);
        add_event(r, 11, SCSI, "scsi", "scsi_device", false, 500, 510, 560);
        add_request(r, 11, 550, "sd_mod");
        add_load(r, 11, "sd_mod", false, 550, 570, 0, 700);
        add_event(r, 12, DISK, "block", "disk", false, 650, 660, 800);
        return r;
}

/* A chain in words. */
static char *describe(const ModuleChain *chain) {
        static const char* const kinds[] = { "queued", "rules", "waiting", "loading", "kernel" };
        GString *s = g_string_new(NULL);

        for (size_t i = 0; i < chain->n_links; i++) {
                const ModuleChainLink *l = chain->links + i;

                if (i > 0)
                        g_assert_cmpuint(l->from, ==, l[-1].to);
                g_assert_cmpuint(l->from, <, l->to);
                g_string_append_printf(s, "%s%s %s %u-%u", i > 0 ? ", " : "", kinds[l->kind],
                                       l->event ? module_record_device_name(l->event->device) : l->load->module,
                                       (unsigned) l->from, (unsigned) l->to);
        }

        return g_string_free(s, FALSE);
}

static void check(const ModuleRecord *r, const ModuleRecordEvent *event, const ModuleRecordLoad *load,
                  const char *expected) {
        g_autofree char *s = NULL;
        ModuleChain chain;

        g_assert_cmpint(module_chain_build(r, event, load, &chain), ==, 0);
        s = describe(&chain);
        g_assert_cmpstr(s, ==, expected);
        module_chain_done(&chain);
}

#define CHAIN_OF_DISK                                                                                   \
        "queued 0000:00:1f.2 100-150, rules 0000:00:1f.2 150-200, waiting libata 200-210, "            \
        "loading libata 210-250, waiting libahci 250-260, loading libahci 260-280, "                    \
        "waiting ahci 280-290, loading ahci 290-400, kernel 0:0:0:0 400-500, queued 0:0:0:0 500-510, " \
        "rules 0:0:0:0 510-550, waiting sd_mod 550-570, loading sd_mod 570-650, "                       \
        "queued sda 650-660, rules sda 660-800"

static void test_disk(void) {
        ModuleRecord *r = disk_new();

        check(r, r->events + 2, NULL, CHAIN_OF_DISK);
        module_record_free(r);
}

/* The driver was on its way already when this device's event asked for it. */
static void test_shared(void) {
        ModuleRecord *r = disk_new();

        add_event(r, 9, "/devices/pci0000:00/0000:00:1f.5", "pci", NULL, true, 90, 95, 290);
        add_request(r, 9, 280, "libata libahci ahci");
        add_event(r, 20, "/devices/pci0000:00/0000:00:1f.5/host1/1:0:0:0/block/sdb", "block", "disk", false, 390, 390,
                  420);
        check(r, r->events + 4, NULL,
              "queued 0000:00:1f.2 100-150, rules 0000:00:1f.2 150-200, waiting libata 200-210, "
              "loading libata 210-250, waiting libahci 250-260, loading libahci 260-280, "
              "waiting ahci 280-290, loading ahci 290-390, rules sdb 390-420");
        module_record_free(r);
}

static void test_load(void) {
        ModuleRecord *r = disk_new();

        check(r, NULL, r->loads + 1,
              "queued 0000:00:1f.2 100-150, rules 0000:00:1f.2 150-200, waiting libata 200-210, "
              "loading libata 210-250, waiting libahci 250-260, loading libahci 260-900");
        module_record_free(r);
}

/* What is not known ends the chain. */
static void test_parts_missing(void) {
        ModuleRecord *r = module_record_new();
        uint32_t load, event;

        event = add_event(r, 12, DISK, "block", "disk", false, 650, 660, 800);
        check(r, r->events + event, NULL, "queued sda 650-660, rules sda 660-800");

        load = add_load(r, 3, "dummy", false, 500, 510, 0, 600);
        check(r, NULL, r->loads + load, "waiting dummy 500-510, loading dummy 510-600");

        /* The event was dropped. */
        add_request(r, 3, 505, "dummy");
        check(r, NULL, r->loads + load, "waiting dummy 505-510, loading dummy 510-600");

        check(r, &(ModuleRecordEvent) {}, NULL, "");
        module_record_free(r);
}

/* Whatever the times are, it ends, and its parts are one behind the other. */
static void test_random(void) {
        static const char* const devices[] = { HBA, SCSI, DISK, "/devices/x", NULL };
        static const char* const modules[] = { "a", "a b", "b a", "c b a", "b", NULL };
        static const char* const names[] = { "a", "b", "c" };
        g_autoptr(GRand) rand = g_rand_new_with_seed(1);

#define RANDOM(n) ((unsigned) g_rand_int_range(rand, 0, n))
        for (unsigned round = 0; round < 2000; round++) {
                ModuleRecord *r = module_record_new();
                ModuleChain chain;
                usec_t begin, end;

                for (unsigned i = 0; i < 8; i++) {
                        add_event(r, RANDOM(6), devices[RANDOM(5)], "block", "disk", RANDOM(8) == 0, RANDOM(20),
                                  RANDOM(20), RANDOM(20));
                        add_request(r, RANDOM(6), RANDOM(20), modules[RANDOM(6)]);
                        add_load(r, RANDOM(6), names[RANDOM(3)], RANDOM(2), RANDOM(20), RANDOM(20), RANDOM(20),
                                 RANDOM(20));
                }

                for (unsigned i = 0; i < 8; i++) {
                        g_autofree char *s = NULL, *t = NULL;

                        g_assert_cmpint(module_chain_build(r, r->events + i, NULL, &chain), ==, 0);
                        s = describe(&chain);
                        module_chain_done(&chain);
                        g_assert_cmpint(module_chain_build(r, NULL, r->loads + i, &chain), ==, 0);
                        t = describe(&chain);
                        module_chain_done(&chain);
                }

                g_assert_cmpint(module_record_coldplug(r, &begin, &end), ==, 0);
                g_assert_cmpuint(begin, <=, end);
                module_record_free(r);
        }
}

static void test_last(void) {
        ModuleRecord *r = disk_new();
        const ModuleRecordEvent *event;
        const ModuleRecordLoad *load;

        g_assert_true(module_record_last_event(r, module_record_event_is_disk, 1000) == r->events + 2);
        g_assert_null(module_record_last_event(r, module_record_event_is_disk, 799));
        g_assert_null(module_record_last_event(r, module_record_event_is_input, 1000));

        module_record_last(r, 1000, &event, &load);
        g_assert_null(event);
        g_assert_cmpstr(load->module, ==, "libahci");
        module_record_last(r, 899, &event, &load);
        g_assert_null(load);
        g_assert_true(event == r->events + 2);
        module_record_last(r, 1, &event, &load);
        g_assert_null(event);
        g_assert_null(load);

        module_record_free(r);
}

static void test_kinds(void) {
        static const struct {
                const char *device, *subsystem, *devtype;
                bool disk, input;
        } cases[] = {
                { "/devices/x/block/sda",            "block", "disk",      true,  false },
                { "/devices/x/block/sda/sda1",       "block", "partition", false, false },
                { "/devices/x/nvme/nvme0/nvme0n1",   "block", "disk",      true,  false },
                { "/devices/virtual/block/loop0",    "block", "disk",      false, false },
                { "/devices/virtual/block/loopback", "block", "disk",      true,  false },
                { "/devices/virtual/block/ram15",    "block", "disk",      false, false },
                { "/devices/virtual/block/zram0",    "block", "disk",      false, false },
                { "/devices/x/block/sr0",            "block", "disk",      false, false },
                { "/devices/x/block/fd0",            "block", "disk",      false, false },
                { "/devices/x/input/input3/event3",  "input", NULL,        false, true  },
                { "/devices/x/input/input3",         "input", NULL,        false, false },
                { "/devices/x/input/input3/mouse0",  "input", NULL,        false, false },
                { "/devices/x/event3",               "other", NULL,        false, false },
                { NULL,                              NULL,    NULL,        false, false },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                ModuleRecordEvent e = {
                        .action = "add", .device = cases[i].device,
                        .subsystem = cases[i].subsystem, .devtype = cases[i].devtype,
                };

                g_assert_cmpint(module_record_event_is_disk(&e), ==, cases[i].disk);
                g_assert_cmpint(module_record_event_is_input(&e), ==, cases[i].input);
                e.action = "change";
                g_assert_false(module_record_event_is_disk(&e) || module_record_event_is_input(&e));
        }
}

static void test_coldplug(void) {
        ModuleRecord *r = module_record_new();
        usec_t begin, end, s = USEC_PER_SEC;

        g_assert_cmpint(module_record_coldplug(r, &begin, &end), ==, 0);
        g_assert_cmpuint(begin + end, ==, 0);

        /* Before what is triggered there may be a pause, and what is triggered later belongs to no coldplug. */
        add_event(r, 1, "/devices/a", "x", NULL, false, 1 * s, 1 * s, 2 * s);
        add_event(r, 2, "/devices/b", "x", NULL, true, 20 * s, 20 * s, 21 * s);
        add_load(r, 2, "b", false, 21 * s, 22 * s, 0, 30 * s);
        add_event(r, 3, "/devices/c", "x", NULL, false, 34 * s, 35 * s, 36 * s);
        add_event(r, 4, "/devices/d", "x", NULL, true, 42 * s, 42 * s, 43 * s);
        g_assert_cmpint(module_record_coldplug(r, &begin, &end), ==, 0);
        g_assert_cmpuint(begin, ==, 1 * s);
        g_assert_cmpuint(end, ==, 36 * s);

        module_record_free(r);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/chain/disk", test_disk);
        g_test_add_func("/chain/shared", test_shared);
        g_test_add_func("/chain/load", test_load);
        g_test_add_func("/chain/parts-missing", test_parts_missing);
        g_test_add_func("/chain/random", test_random);
        g_test_add_func("/chain/last", test_last);
        g_test_add_func("/chain/kinds", test_kinds);
        g_test_add_func("/chain/coldplug", test_coldplug);

        return g_test_run();
}
