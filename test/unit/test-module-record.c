/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "udev-module-record.h"

static ModuleRecord *record_new(void) {
        ModuleRecord *r = module_record_new();

        g_assert_nonnull(r);
        r->initrd = true;
        r->n_loaders_max = 64;
        r->udevd = 123;
        r->written = 7000000;
        r->n_waiting = 2;
        return r;
}

static void add_rows(ModuleRecord *r) {
        g_assert_cmpint(module_record_add_event(r, &(ModuleRecordEvent) {
                .seqnum = 1000, .device = "/devices/pci0000:00/0000:00:1f.2", .action = "add", .subsystem = "pci",
                .triggered = true, .received = 1, .started = 2, .processed = 30,
        }), ==, 0);
        g_assert_cmpint(module_record_add_request(r, &(ModuleRecordRequest) {
                .seqnum = 1000, .modules = "libata ahci", .asked = 3,
        }), ==, 0);
        /* A MODALIAS may hold any bytes. */
        g_assert_cmpint(module_record_add_load(r, &(ModuleRecordLoad) {
                .module = "libata", .alias = "dmi:bvn\t x\\y\n\"\377\001", .device = "/devices/pci0000:00/0000:00:1f.2",
                .seqnum = 1000, .class = MODULE_CLASS_STORAGE, .preload = true, .n_requests = 2, .loader = 77,
                .error = -ENOENT, .asked = 3, .started = 4, .live = 5, .done = 6,
        }), ==, 0);
        g_assert_cmpint(module_record_add_load(r, &(ModuleRecordLoad) {
                .module = "ahci", .class = MODULE_CLASS_IDLE, .started = 7,
        }), ==, 1);
}

static char *build(const ModuleRecord *r, size_t *ret_size) {
        char *text = NULL;

        g_assert_cmpint(module_record_build(r, false, &text, ret_size), ==, 0);
        g_assert_cmpuint(strlen(text), ==, *ret_size);
        return text;
}

static int parse(const char *text, size_t size, ModuleRecord **ret, size_t *ret_line) {
        /* So that the sanitizer sees who reads behind it. */
        g_autofree char *copy = g_memdup2(text, size);

        return module_record_parse(copy, size, ret, ret_line);
}

static void test_modes(void) {
        for (ModuleRecordMode mode = 0; mode < _MODULE_RECORD_MODE_MAX; mode++) {
                ModuleRecord *r = record_new(), *again = NULL;
                g_autofree char *text = NULL;
                size_t size, line;

                r->mode = mode;
                text = build(r, &size);
                g_assert_cmpint(parse(text, size, &again, &line), ==, 0);
                g_assert_cmpint(again->mode, ==, mode);

                module_record_free(r);
                module_record_free(again);
        }
}

static void test_round_trip(void) {
        ModuleRecord *r = record_new(), *again = NULL;
        g_autofree char *text = NULL, *second = NULL;
        size_t size, size_second, line;
        const ModuleRecordLoad *l;
        const ModuleRecordEvent *e;

        add_rows(r);
        r->n_events_dropped = 5;
        text = build(r, &size);

        g_assert_cmpint(parse(text, size, &again, &line), ==, 0);
        g_assert_true(again->initrd);
        g_assert_cmpint(again->mode, ==, MODULE_RECORD_YES);
        g_assert_cmpuint(again->n_loaders_max, ==, 64);
        g_assert_cmpuint(again->udevd, ==, 123);
        g_assert_cmpuint(again->written, ==, 7000000);
        g_assert_cmpuint(again->n_waiting, ==, 2);
        g_assert_cmpuint(again->n_loads_dropped, ==, 0);
        g_assert_cmpuint(again->n_events_dropped, ==, 5);

        g_assert_cmpuint(again->n_loads, ==, 2);
        l = again->loads;
        g_assert_cmpstr(l->module, ==, "libata");
        g_assert_cmpstr(l->alias, ==, "dmi:bvn\t x\\y\n\"\377\001");
        g_assert_cmpstr(l->device, ==, "/devices/pci0000:00/0000:00:1f.2");
        g_assert_cmpuint(l->seqnum, ==, 1000);
        g_assert_cmpint(l->class, ==, MODULE_CLASS_STORAGE);
        g_assert_true(l->preload);
        g_assert_cmpuint(l->n_requests, ==, 2);
        g_assert_cmpuint(l->loader, ==, 77);
        g_assert_cmpint(l->error, ==, -ENOENT);
        g_assert_cmpuint(l->asked, ==, 3);
        g_assert_cmpuint(l->started, ==, 4);
        g_assert_cmpuint(l->live, ==, 5);
        g_assert_cmpuint(l->done, ==, 6);
        g_assert_null(l[1].alias);
        g_assert_null(l[1].device);

        g_assert_cmpuint(again->n_requests, ==, 1);
        g_assert_cmpstr(again->requests[0].modules, ==, "libata ahci");
        g_assert_cmpuint(again->requests[0].seqnum, ==, 1000);
        g_assert_cmpuint(again->requests[0].asked, ==, 3);

        g_assert_cmpuint(again->n_events, ==, 1);
        e = again->events;
        g_assert_cmpuint(e->seqnum, ==, 1000);
        g_assert_cmpstr(e->action, ==, "add");
        g_assert_cmpstr(e->subsystem, ==, "pci");
        g_assert_null(e->devtype);
        g_assert_true(e->triggered);
        g_assert_cmpuint(e->received, ==, 1);
        g_assert_cmpuint(e->started, ==, 2);
        g_assert_cmpuint(e->processed, ==, 30);
        g_assert_cmpstr(e->device, ==, l->device);

        second = build(again, &size_second);
        g_assert_cmpstr(text, ==, second);

        module_record_free(r);
        module_record_free(again);
}

static void test_only_busy(void) {
        ModuleRecord *r = record_new(), *again = NULL;
        char *text = NULL;
        size_t size, line;

        add_rows(r);
        g_assert_cmpint(module_record_build(r, true, &text, &size), ==, 0);
        g_assert_cmpint(parse(text, size, &again, &line), ==, 0);
        g_assert_cmpuint(again->n_loads, ==, 1);
        g_assert_cmpstr(again->loads[0].module, ==, "ahci");
        g_assert_cmpuint(again->n_requests + again->n_events, ==, 0);
        g_assert_cmpuint(again->n_waiting, ==, 2);

        free(text);
        module_record_free(r);
        module_record_free(again);
}

static void test_cut_off(void) {
        ModuleRecord *r = record_new(), *again = NULL;
        g_autofree char *text = NULL;
        size_t size, line;

        add_rows(r);
        text = build(r, &size);
        for (size_t n = 0; n < size; n++)
                g_assert_cmpint(parse(text, n, &again, &line), ==, -ENODATA);
        g_assert_cmpuint(line, ==, 8);

        module_record_free(r);
}

/* An error, at that line. */
static void check(const char *text, int error, size_t line) {
        ModuleRecord *r = NULL;
        size_t at = 0;

        g_assert_cmpint(parse(text, strlen(text), &r, &at), ==, error);
        g_assert_cmpuint(at, ==, line);
        module_record_free(r);
}

#define HEAD "udev module record 1\nudevd\tsystem\tyes\t64\t1\t2\t3\ndropped\t0\t0\t0\n"

static void test_versions(void) {
        check("udev module record 2\nnew\tthings\n", -EPROTONOSUPPORT, 1);
        check("udev module record 10\n", -EPROTONOSUPPORT, 1);
        check("udev module record \n", -EPROTONOSUPPORT, 1);
        check("<?xml version=\"1.0\"?>\n", -EBADMSG, 1);
        check("u dev", -EBADMSG, 1);
        check("", -ENODATA, 1);
}

static void test_nonsense(void) {
        check(HEAD "end\t3\n", 0, 4);
        check(HEAD "end\t4\n", -EBADMSG, 4);
        check(HEAD "end\t3\t\n", -EBADMSG, 4);
        check(HEAD "end\n", -EBADMSG, 4);
        check(HEAD "end\t3\nend\t3\n", -EBADMSG, 4);
        check(HEAD "\nend\t3\n", -EBADMSG, 4);
        check(HEAD "thing\t3\n", -EBADMSG, 4);
        check(HEAD HEAD, -EBADMSG, 4);
        check("udev module record 1\nend\t1\n", -EBADMSG, 2);
        check("udev module record 1\nudevd\troot\tyes\t64\t1\t2\t3\n", -EBADMSG, 2);
        check("udev module record 1\nudevd\tsystem\tmaybe\t64\t1\t2\t3\n", -EBADMSG, 2);

        check(HEAD "request\t1\t2\tahci\nend\t4\n", 0, 5);
        check(HEAD "request\t1\t2\nend\t4\n", -EBADMSG, 4);
        check(HEAD "request\t1\t2\tahci\tmore\n", -EBADMSG, 4);
        check(HEAD "request\t\t2\tahci\n", -EBADMSG, 4);
        check(HEAD "request\t-1\t2\tahci\n", -EBADMSG, 4);
        check(HEAD "request\t 1\t2\tahci\n", -EBADMSG, 4);
        check(HEAD "request\t01\t2\tahci\n", -EBADMSG, 4);
        check(HEAD "request\t0x1\t2\tahci\n", -EBADMSG, 4);
        check(HEAD "request\t18446744073709551615\t2\tahci\nend\t4\n", 0, 5);
        check(HEAD "request\t18446744073709551616\t2\tahci\n", -EBADMSG, 4);
        /* The time that means never. */
        check(HEAD "request\t1\t18446744073709551615\tahci\n", -EBADMSG, 4);
        check(HEAD "request\t1\t2\tah\\ci\n", -EBADMSG, 4);
        check(HEAD "request\t1\t2\tah\\000ci\n", -EBADMSG, 4);
        check(HEAD "request\t1\t2\tahci\\\n", -EBADMSG, 4);

        check(HEAD "event\t1\t/devices/x\tadd\tpci\t\t2\t0\t0\t0\n", -EBADMSG, 4);
        check(HEAD "load\tahci\tstorage\t\t\t1\t0\t1\t77\t0\t3\t4\t5\t6\nend\t4\n", 0, 5);
        check(HEAD "load\tahci\tfast\t\t\t1\t0\t1\t77\t0\t3\t4\t5\t6\n", -EBADMSG, 4);
        check(HEAD "load\t\tstorage\t\t\t1\t0\t1\t77\t0\t3\t4\t5\t6\n", -EBADMSG, 4);
        check(HEAD "load\tahci\tstorage\t\t\t1\t0\t1\t77\t4096\t3\t4\t5\t6\n", -EBADMSG, 4);
        check(HEAD "load\tahci\tstorage\t\t\t1\t0\t4294967296\t77\t0\t3\t4\t5\t6\n", -EBADMSG, 4);
        check(HEAD "load\ta\tstorage\t\t\t1\t0\t1\t77\t0\t3\t4\t5\t6\t7\t8\t9\t10\n", -EBADMSG, 4);
}

static void test_nul(void) {
        static const char text[] = HEAD "request\t1\t2\tah\0ci\nend\t4\n";
        ModuleRecord *r = NULL;
        size_t line;

        g_assert_cmpint(parse(text, sizeof(text) - 1, &r, &line), ==, -EBADMSG);
}

/* What is too much is dropped and counted, and what is there stays. */
static void test_bounds(void) {
        ModuleRecord *r = record_new(), *again = NULL;
        g_autofree char *text = NULL;
        size_t size, line;

        for (unsigned i = 0; i < MODULE_RECORD_LOADS_MAX; i++)
                g_assert_cmpuint(module_record_add_load(r, &(ModuleRecordLoad) { .module = "x", .done = i }), ==, i);
        for (unsigned i = 0; i < 3; i++)
                g_assert_cmpuint(module_record_add_load(r, &(ModuleRecordLoad) { .module = "x" }), ==,
                                 MODULE_RECORD_DROPPED);
        for (unsigned i = 0; i <= MODULE_RECORD_REQUESTS_MAX; i++)
                (void) module_record_add_request(r, &(ModuleRecordRequest) { .modules = "x" });
        for (unsigned i = 0; i <= MODULE_RECORD_EVENTS_MAX + 1; i++)
                (void) module_record_add_event(r, &(ModuleRecordEvent) { .device = "x" });

        g_assert_cmpuint(r->n_loads, ==, MODULE_RECORD_LOADS_MAX);
        g_assert_cmpuint(r->n_loads_dropped, ==, 3);
        g_assert_cmpuint(r->n_requests, ==, MODULE_RECORD_REQUESTS_MAX);
        g_assert_cmpuint(r->n_requests_dropped, ==, 1);
        g_assert_cmpuint(r->n_events, ==, MODULE_RECORD_EVENTS_MAX);
        g_assert_cmpuint(r->n_events_dropped, ==, 2);

        g_assert_null(module_record_get_load(r, MODULE_RECORD_DROPPED));
        g_assert_null(module_record_get_event(r, MODULE_RECORD_DROPPED));
        g_assert_cmpuint(module_record_get_load(r, 7)->done, ==, 7);

        /* It can be read again. */
        text = build(r, &size);
        g_assert_cmpint(parse(text, size, &again, &line), ==, 0);
        g_assert_cmpuint(again->n_loads, ==, MODULE_RECORD_LOADS_MAX);

        module_record_free(r);
        module_record_free(again);
}

/* However long the numbers are, and what is escaped. */
static void test_text_bound(void) {
        g_autofree char *text = NULL, *name = g_strnfill(2000, '\377');
        ModuleRecord *r = record_new(), *again = NULL;
        size_t size, line;

        for (unsigned i = 0; i < MODULE_RECORD_LOADS_MAX; i++)
                (void) module_record_add_load(r, &(ModuleRecordLoad) {
                        .module = "x", .seqnum = UINT64_MAX, .n_requests = UINT32_MAX, .loader = UINT32_MAX,
                        .asked = USEC_INFINITY - 1, .started = USEC_INFINITY - 1, .live = USEC_INFINITY - 1,
                        .done = USEC_INFINITY - 1,
                });
        for (unsigned i = 0; i < MODULE_RECORD_REQUESTS_MAX; i++)
                (void) module_record_add_request(r, &(ModuleRecordRequest) {
                        .modules = "x", .seqnum = UINT64_MAX, .asked = USEC_INFINITY - 1,
                });
        for (unsigned i = 0; i < MODULE_RECORD_EVENTS_MAX; i++)
                (void) module_record_add_event(r, &(ModuleRecordEvent) {
                        .seqnum = UINT64_MAX, .device = i % 2 ? name : "x", .received = USEC_INFINITY - 1,
                        .started = USEC_INFINITY - 1, .processed = USEC_INFINITY - 1,
                });
        g_assert_cmpuint(r->n_events_dropped, >, 0);

        text = build(r, &size);
        g_assert_cmpuint(size, <=, MODULE_RECORD_TEXT_MAX);
        g_assert_cmpint(parse(text, size, &again, &line), ==, 0);
        g_assert_cmpuint(again->n_events, ==, r->n_events);

        module_record_free(r);
        module_record_free(again);
}

static void test_strings_bound(void) {
        ModuleRecord *r = record_new(), *again = NULL;
        g_autofree char *text = NULL, *name = g_strnfill(64 * 1024, '\377');
        size_t size, line, n;

        for (n = 0;; n++) {
                memcpy(name, (char[]) { 'a' + n / 26, 'a' + n % 26 }, 2);
                if (module_record_add_event(r, &(ModuleRecordEvent) { .device = name }) == MODULE_RECORD_DROPPED)
                        break;
        }
        g_assert_cmpuint(n, ==, MODULE_RECORD_STRINGS_MAX / (64 * 1024 + 4));
        g_assert_cmpuint(r->n_events_dropped, ==, 1);
        /* Short ones still have room. */
        g_assert_cmpuint(module_record_add_event(r, &(ModuleRecordEvent) { .device = "x" }), ==, n);

        text = build(r, &size);
        g_assert_cmpuint(size, <, MODULE_RECORD_TEXT_MAX);
        g_assert_cmpint(parse(text, size, &again, &line), ==, 0);

        module_record_free(r);
        module_record_free(again);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/record/round-trip", test_round_trip);
        g_test_add_func("/record/modes", test_modes);
        g_test_add_func("/record/only-busy", test_only_busy);
        g_test_add_func("/record/cut-off", test_cut_off);
        g_test_add_func("/record/versions", test_versions);
        g_test_add_func("/record/nonsense", test_nonsense);
        g_test_add_func("/record/nul", test_nul);
        g_test_add_func("/record/bounds", test_bounds);
        g_test_add_func("/record/text-bound", test_text_bound);
        g_test_add_func("/record/strings-bound", test_strings_bound);

        return g_test_run();
}
