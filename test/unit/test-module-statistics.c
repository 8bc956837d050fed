/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <glib.h>

#include "udev-module-statistics.h"

static void test_distribution(void) {
        usec_t values[] = { 9000, 2000, 4000, 4000, 4999, 5000, 5000, 7000 };
        ModuleDistribution d = module_distribution(values, G_N_ELEMENTS(values));

        g_assert_cmpuint(d.n, ==, 8);
        g_assert_cmpuint(d.sum, ==, 40999);
        g_assert_cmpuint(d.mean, ==, 5124);
        g_assert_cmpuint(d.median, ==, 4999);
        g_assert_cmpuint(d.mode, ==, 4000);
        g_assert_cmpuint(d.max, ==, 9000);
        g_assert_cmpuint(d.deviation, ==, 1965);
}

static void test_distribution_small(void) {
        usec_t one[] = { 1234567 }, same[] = { 5, 5, 5 }, zero[] = { 0, 0 }, many[] = { 1, 2, 1000000 };
        ModuleDistribution d;

        d = module_distribution(NULL, 0);
        g_assert_cmpuint(d.n + d.sum + d.mean + d.median + d.mode + d.max + d.deviation, ==, 0);

        d = module_distribution(one, 1);
        g_assert_cmpuint(d.mean, ==, 1234567);
        g_assert_cmpuint(d.median, ==, 1234567);
        g_assert_cmpuint(d.mode, ==, 1234000);
        g_assert_cmpuint(d.deviation, ==, 0);

        d = module_distribution(same, 3);
        g_assert_cmpuint(d.deviation, ==, 0);
        g_assert_cmpuint(d.mean, ==, 5);

        d = module_distribution(zero, 2);
        g_assert_cmpuint(d.max, ==, 0);

        d = module_distribution(many, 3);
        g_assert_cmpuint(d.median, ==, 2);
        g_assert_cmpuint(d.deviation, ==, 471404);
}

static void test_record(void) {
        ModuleRecord *r = module_record_new();
        ModuleStatistics s;

        /* Two events at once, one later, one after the end of the coldplug, one that was not handled. */
        module_record_add_event(r, &(ModuleRecordEvent) { .action = "add", .triggered = true, .received = 1000000,
                                                          .started = 1100000, .processed = 1300000 });
        module_record_add_event(r, &(ModuleRecordEvent) { .action = "add", .triggered = true, .received = 1050000,
                                                          .started = 1200000, .processed = 1500000 });
        module_record_add_event(r, &(ModuleRecordEvent) { .received = 1600000, .started = 1600000,
                                                          .processed = 2000000 });
        module_record_add_event(r, &(ModuleRecordEvent) { .received = 1700000 });
        module_record_add_event(r, &(ModuleRecordEvent) { .received = 9000000, .started = 9000000,
                                                          .processed = 9500000 });
        module_record_add_request(r, &(ModuleRecordRequest) { .asked = 1200000, .modules = "a b" });
        module_record_add_load(r, &(ModuleRecordLoad) { .module = "a", .asked = 1200000, .started = 1200000,
                                                        .done = 1300000 });
        module_record_add_load(r, &(ModuleRecordLoad) { .module = "b", .asked = 1200000, .started = 1300000,
                                                        .done = 2500000, .error = -ENODEV });
        module_record_add_load(r, &(ModuleRecordLoad) { .module = "c", .asked = 9000000, .started = 9000000,
                                                        .done = 9500000 });

        g_assert_cmpint(module_statistics(r, &s), ==, 0);
        g_assert_cmpuint(s.begin, ==, 1000000);
        g_assert_cmpuint(s.end, ==, 2500000);
        g_assert_cmpuint(s.n_events, ==, 3);
        g_assert_cmpuint(s.n_triggered, ==, 2);
        g_assert_cmpuint(s.n_loads, ==, 2);
        g_assert_cmpuint(s.n_failed, ==, 1);
        g_assert_cmpuint(s.n_requests, ==, 1);
        g_assert_cmpuint(s.trigger, ==, 50000);
        g_assert_cmpuint(s.processing, ==, 800000);
        g_assert_cmpuint(s.processed.sum, ==, 900000);
        g_assert_cmpuint(s.loading, ==, 1300000);
        g_assert_cmpuint(s.completion.mean, ==, 383333);
        g_assert_cmpuint(s.completion.median, ==, 400000);
        g_assert_cmpuint(s.queued.max, ==, 150000);
        g_assert_cmpuint(s.waits.max, ==, 100000);
        g_assert_cmpuint(s.holds.mean, ==, 650000);
        g_assert_cmpstr(s.longest_hold->module, ==, "b");
        g_assert_cmpstr(s.longest_wait->module, ==, "b");

        module_record_free(r);
}

static void test_empty(void) {
        ModuleRecord *r = module_record_new();
        ModuleStatistics s;

        g_assert_cmpint(module_statistics(r, &s), ==, 0);
        g_assert_cmpuint(s.n_events + s.n_loads + s.trigger + s.end, ==, 0);
        g_assert_null(s.longest_wait);
        module_record_free(r);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/statistics/distribution", test_distribution);
        g_test_add_func("/statistics/distribution-small", test_distribution_small);
        g_test_add_func("/statistics/record", test_record);
        g_test_add_func("/statistics/empty", test_empty);

        return g_test_run();
}
