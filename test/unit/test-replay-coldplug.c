/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The simulation of test/bench: what must come out by hand, and what must hold for any machine. */

#include <glib.h>
#include <math.h>
#include <stdlib.h>

#include "alloc-util.h"
#include "macro.h"

#include "replay-coldplug.h"
#include "replay-cpu.h"

#define LOAD_USEC 10000.0
#define PROBE_USEC 50000.0
#define ABOUT_USEC 1.0

static void assert_about(double a, double b) {
        g_assert_cmpfloat_with_epsilon(a, b, ABOUT_USEC);
}

/* Two modules, the second of which needs the first. */
static size_t first_loads[] = { 0 }, second_loads[] = { 0, 1 };
static const ColdplugStep first_steps[] = { { 0, true } }, second_steps[] = { { 0, false }, { 1, true } };

static void simulate(const ColdplugMachine *machine, unsigned n_cpus, ColdplugResult results[_COLDPLUG_ORDER_MAX]) {
        for (ColdplugOrder o = 0; o < _COLDPLUG_ORDER_MAX; o++) {
                g_assert_cmpint(coldplug_run(machine, o, n_cpus, results + o), ==, 0);

                for (size_t i = 0; i < machine->n_modules; i++)
                        g_assert_true(results[o].loaded[i]);
                g_assert_cmpuint(results[o].n_loaded, ==, machine->n_modules);
                g_assert_cmpuint(results[o].n_inserts, ==, machine->n_modules + results[o].n_wasted);
                g_assert_cmpfloat(results[o].settle_usec * n_cpus, >=, results[o].cpu_usec - ABOUT_USEC);
                results[o].loaded = mfree(results[o].loaded);
        }

        g_assert_cmpuint(results[COLDPLUG_QUEUE].n_wasted, ==, 0);
        g_assert_cmpuint(results[COLDPLUG_QUEUE].n_attempts, ==, machine->n_modules);
        g_assert_cmpfloat(results[COLDPLUG_QUEUE].cpu_usec, <=, results[COLDPLUG_STOCK].cpu_usec + ABOUT_USEC);
}

/* One device and one module: there is nothing to share and nothing to order. */
static void test_one(void) {
        ColdplugModule module = { "a", first_loads, 1, LOAD_USEC, PROBE_USEC, 0 };
        ColdplugDevice device = {
                .devpath = "/devices/a",
                .modalias = "a:",
                .parent = COLDPLUG_NONE,
                .steps = first_steps,
                .n_steps = 1,
                .leads_to = { [COLDPLUG_STORAGE] = true },
        };
        ColdplugMachine machine = { &module, 1, &device, 1, false };
        ColdplugResult r[_COLDPLUG_ORDER_MAX];

        simulate(&machine, COLDPLUG_NODES_PER_DEVICE, r);

        for (ColdplugOrder o = 0; o < _COLDPLUG_ORDER_MAX; o++) {
                assert_about(r[o].loads_usec, COLDPLUG_EVENT_CPU_USEC + LOAD_USEC + PROBE_USEC);
                assert_about(r[o].settle_usec, r[o].loads_usec + COLDPLUG_EVENT_CPU_USEC);
                assert_about(r[o].goal_usec[COLDPLUG_STORAGE], r[o].settle_usec);
                assert_about(r[o].cpu_usec, (1 + COLDPLUG_NODES_PER_DEVICE) * COLDPLUG_EVENT_CPU_USEC + LOAD_USEC);
                g_assert_cmpuint(r[o].n_requests, ==, 1);
        }
}

/* Two devices that need the same. */
static void test_shared(void) {
        ColdplugModule module = { "a", first_loads, 1, LOAD_USEC, PROBE_USEC, 0 };
        ColdplugDevice devices[2] = {
                { "/devices/a", "a:", COLDPLUG_NONE, first_steps, 1 },
                { "/devices/b", "b:", COLDPLUG_NONE, first_steps, 1 },
        };
        ColdplugMachine machine = { &module, 1, devices, 2, false };
        ColdplugResult r[_COLDPLUG_ORDER_MAX];

        simulate(&machine, 8, r);
        g_assert_cmpuint(r[COLDPLUG_STOCK].n_wasted, ==, 1);
        assert_about(r[COLDPLUG_STOCK].cpu_usec, r[COLDPLUG_QUEUE].cpu_usec + LOAD_USEC * COLDPLUG_WASTED_SHARE);

        /* From 6.5 on the kernel lets the second one wait for the first. */
        machine.kernel_shares = true;
        simulate(&machine, 8, r);
        g_assert_cmpuint(r[COLDPLUG_STOCK].n_wasted, ==, 1);
        assert_about(r[COLDPLUG_STOCK].cpu_usec, r[COLDPLUG_QUEUE].cpu_usec);
        assert_about(r[COLDPLUG_STOCK].settle_usec, r[COLDPLUG_QUEUE].settle_usec);
}

/* A device is there when its ancestor's modules have bound, and not before. */
static void test_late(void) {
        ColdplugModule modules[2] = {
                { "a", first_loads, 1, LOAD_USEC, PROBE_USEC, 0 },
                { "b", second_loads, 2, LOAD_USEC, 0, 0 },
        };
        ColdplugDevice devices[3] = {
                { "/devices/a", "a:", COLDPLUG_NONE, first_steps, 1 },
                { "/devices/a/x", "x:", 0, NULL, 0 },
                { "/devices/a/x/b", "b:", 1, second_steps, 2 },
        };
        ColdplugMachine machine = { modules, 2, devices, 3, false };
        ColdplugResult r[_COLDPLUG_ORDER_MAX];

        simulate(&machine, 64, r);
        for (ColdplugOrder o = 0; o < _COLDPLUG_ORDER_MAX; o++)
                /* The events: a, x, b, and b's nodes. */
                assert_about(r[o].settle_usec, 4 * COLDPLUG_EVENT_CPU_USEC + 2 * LOAD_USEC + PROBE_USEC);
}

/* An asynchronous probe lets the module be live, and holds all loads. */
static void test_asynchronous(void) {
        ColdplugModule modules[2] = {
                { "a", first_loads, 1, LOAD_USEC, 0, 10 * PROBE_USEC },
                { "b", second_loads, 2, LOAD_USEC, 0, 0 },
        };
        ColdplugDevice devices[2] = {
                { "/devices/a", "a:", COLDPLUG_NONE, first_steps, 1 },
                { "/devices/b", "b:", COLDPLUG_NONE, second_steps, 2, .leads_to = { [COLDPLUG_INPUT] = true } },
        };
        ColdplugMachine machine = { modules, 2, devices, 2, false };
        ColdplugResult r[_COLDPLUG_ORDER_MAX];
        double end_usec = COLDPLUG_EVENT_CPU_USEC + LOAD_USEC + 10 * PROBE_USEC;

        simulate(&machine, 8, r);
        assert_about(r[COLDPLUG_STOCK].loads_usec, end_usec);
        assert_about(r[COLDPLUG_QUEUE].loads_usec, end_usec);

        /* b's event, and so its nodes' ones, wait for a's probe only in stock. */
        g_assert_cmpfloat(r[COLDPLUG_STOCK].goal_usec[COLDPLUG_INPUT], >, end_usec);
        g_assert_cmpfloat(r[COLDPLUG_QUEUE].goal_usec[COLDPLUG_INPUT], <, end_usec / 2);
}

/* Machines with random devices and modules. */
static void test_random(void) {
        for (unsigned n = 0; n < 300; n++) {
                g_autoptr(GRand) rand = g_rand_new_with_seed(n);
                size_t n_modules = g_rand_int_range(rand, 1, 30);
                size_t n_devices = n_modules + g_rand_int_range(rand, 0, 70);
                g_autofree ColdplugModule *modules = g_new0(ColdplugModule, n_modules);
                g_autofree ColdplugDevice *devices = g_new0(ColdplugDevice, n_devices);
                ColdplugMachine machine = { modules, n_modules, devices, n_devices, g_rand_boolean(rand) };
                g_autoptr(GPtrArray) memory = g_ptr_array_new_with_free_func(g_free);
                ColdplugResult r[_COLDPLUG_ORDER_MAX];

                for (size_t i = 0; i < n_modules; i++) {
                        size_t *loads = g_new(size_t, i + 1), n_loads = 0;
                        char *name = g_strdup_printf("m%zu", i);

                        g_ptr_array_add(memory, loads);
                        g_ptr_array_add(memory, name);

                        /* What must come first, with all that that needs. */
                        if (i > 0 && g_rand_boolean(rand)) {
                                const ColdplugModule *m = modules + g_rand_int_range(rand, 0, i);

                                for (; n_loads < m->n_loads; n_loads++)
                                        loads[n_loads] = m->loads[n_loads];
                        }
                        loads[n_loads++] = i;

                        modules[i] = (ColdplugModule) {
                                .name = name,
                                .loads = loads,
                                .n_loads = n_loads,
                                .cpu_usec = g_rand_double_range(rand, 1, 50000),
                                .probe_usec = g_rand_boolean(rand) ? 0 : g_rand_double_range(rand, 1, 500000),
                                .async_usec = g_rand_boolean(rand) ? 0 : g_rand_double_range(rand, 1, 500000),
                        };
                }

                /* Each module has a device, the others are anything. */
                for (size_t i = 0; i < n_devices; i++) {
                        size_t module = i < n_modules ? i : (size_t) g_rand_int_range(rand, 0, n_modules);
                        const ColdplugModule *m = modules + module;
                        ColdplugStep *steps;

                        steps = g_new(ColdplugStep, m->n_loads);
                        g_ptr_array_add(memory, steps);
                        for (size_t j = 0; j < m->n_loads; j++)
                                steps[j] = (ColdplugStep) { m->loads[j], j == m->n_loads - 1 };

                        devices[i] = (ColdplugDevice) {
                                .devpath = m->name,
                                .modalias = m->name,
                                .parent = i == 0 || g_rand_boolean(rand) ? COLDPLUG_NONE :
                                          (size_t) g_rand_int_range(rand, 0, i),
                                .steps = steps,
                                .n_steps = i < n_modules || g_rand_boolean(rand) ? m->n_loads : 0,
                                .class = g_rand_int_range(rand, 0, _MODULE_CLASS_MAX),
                        };
                }

                simulate(&machine, g_rand_int_range(rand, 1, 9), r);
        }
}

static void test_cpus(void) {
        Cpus cpus = { .n_cpus = 2 };
        CpuTask tasks[3] = {};

        cpus_set_nice(tasks + 0, -10);
        cpus_set_nice(tasks + 1, 0);
        cpus_set_nice(tasks + 2, 0);
        for (size_t i = 0; i < ELEMENTSOF(tasks); i++)
                cpus_start(&cpus, tasks + i, 1000);

        /* The first one has a CPU, and the others share the second one. */
        assert_about(cpus_next(&cpus), 1000);
        cpus_run(&cpus, 1000);
        g_assert_false(tasks[0].runs);
        assert_about(tasks[1].usec, 500);
        assert_about(tasks[2].usec, 500);
        assert_about(cpus.used_usec, 2000);

        assert_about(cpus_next(&cpus), 500);
        cpus_run(&cpus, 500);
        g_assert_true(isinf(cpus_next(&cpus)));

        /* Two on one: by weight. */
        cpus.n_cpus = 1;
        cpus_set_nice(tasks + 0, -1);
        cpus_start(&cpus, tasks + 0, 1250);
        cpus_start(&cpus, tasks + 1, 1000);
        assert_about(cpus_next(&cpus), 2250);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/coldplug/cpus", test_cpus);
        g_test_add_func("/coldplug/one", test_one);
        g_test_add_func("/coldplug/shared", test_shared);
        g_test_add_func("/coldplug/late", test_late);
        g_test_add_func("/coldplug/asynchronous", test_asynchronous);
        g_test_add_func("/coldplug/random", test_random);

        return g_test_run();
}
