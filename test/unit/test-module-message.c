/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "udev-module-message.h"

static char buffer[MODULE_MESSAGE_MAX];

static void assert_same_step(const ModuleRequestStep *a, const ModuleRequestStep *b) {
        g_assert_cmpstr(a->name, ==, b->name);
        g_assert_cmpstr(a->alias, ==, b->alias);
}

static const ModuleRequestStep usual_steps[] = {
        { "scsi_mod" },
        { "libata" },
        { "ahci",    "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01" },
        { "intel_x", "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01" },
        { "other",   "another alias" },
};

static const ModuleRequest usual = {
        .seqnum = UINT64_C(1) << 40,
        .device = "/devices/pci0000:00/0000:00:1f.2",
        .class = MODULE_CLASS_STORAGE,
        .waiter = 1,
        .id = 4711,
        .steps = usual_steps,
        .n_steps = G_N_ELEMENTS(usual_steps),
};

/* In a buffer of just that size, so that a sanitizer sees who reads behind its end. */
static int parse(const void *bytes, size_t size, pid_t sender, ModuleRequestStep *steps, ModuleRequest *ret) {
        g_autofree char *copy = g_memdup2(bytes, size);

        return module_message_parse_request(copy ?: "", size, sender, steps, ret);
}

static void test_request(void) {
        ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX];
        ModuleRequest r;
        size_t size;

        g_assert_cmpint(module_message_build_request(&usual, buffer, &size), ==, 0);
        g_assert_cmpint(module_message_parse_request(buffer, size, 815, steps, &r), ==, 0);

        g_assert_cmpuint(r.seqnum, ==, usual.seqnum);
        g_assert_cmpstr(r.device, ==, usual.device);
        g_assert_cmpint(r.class, ==, usual.class);
        g_assert_cmpint(r.waiter, ==, 815);
        g_assert_cmpuint(r.id, ==, usual.id);
        g_assert_cmpuint(r.n_steps, ==, usual.n_steps);
        for (size_t i = 0; i < r.n_steps; i++)
                assert_same_step(r.steps + i, usual_steps + i);
}

static void test_nobody_waits(void) {
        ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX];
        ModuleRequest r = usual;
        size_t size;

        r.waiter = 0;
        r.device = NULL;
        g_assert_cmpint(module_message_build_request(&r, buffer, &size), ==, 0);
        g_assert_cmpint(module_message_parse_request(buffer, size, 815, steps, &r), ==, 0);
        g_assert_cmpint(r.waiter, ==, 0);
        g_assert_null(r.device);
}

/* A MODALIAS is what a device's maker wrote: 4 KiB of blanks, quotes, newlines and bytes over 127. */
static void test_any_bytes(void) {
        g_autofree char *alias = g_malloc(4097);
        ModuleRequestStep step = { "m", alias }, steps[MODULE_REQUEST_STEPS_MAX];
        ModuleRequest r = usual;
        size_t size;

        for (size_t i = 0; i < 4096; i++)
                alias[i] = i % 255 + 1;
        alias[4096] = 0;

        r.steps = &step;
        r.n_steps = 1;
        g_assert_cmpint(module_message_build_request(&r, buffer, &size), ==, 0);
        g_assert_cmpint(module_message_parse_request(buffer, size, 1, steps, &r), ==, 0);
        assert_same_step(r.steps, &step);
}

static void test_no_request(void) {
        ModuleRequest r;
        size_t size;

        r = usual;
        r.n_steps = 0;
        g_assert_cmpint(module_message_build_request(&r, buffer, &size), ==, -EINVAL);

        r = usual;
        r.class = _MODULE_CLASS_MAX;
        g_assert_cmpint(module_message_build_request(&r, buffer, &size), ==, -EINVAL);

        r = usual;
        r.class = _MODULE_CLASS_INVALID;
        g_assert_cmpint(module_message_build_request(&r, buffer, &size), ==, -EINVAL);

        r = usual;
        r.steps = &(ModuleRequestStep) { "", "alias" };
        r.n_steps = 1;
        g_assert_cmpint(module_message_build_request(&r, buffer, &size), ==, -EINVAL);
}

static void test_too_long(void) {
        g_autofree ModuleRequestStep *steps = g_new0(ModuleRequestStep, 10000);
        g_autofree char *alias = g_strnfill(MODULE_MESSAGE_MAX, 'x');
        ModuleRequest r = usual;
        size_t size;

        for (size_t i = 0; i < 10000; i++)
                steps[i] = (ModuleRequestStep) { "m", "a" };
        r.steps = steps;
        r.n_steps = 10000;
        g_assert_cmpint(module_message_build_request(&r, buffer, &size), ==, -E2BIG);

        r.n_steps = MODULE_REQUEST_STEPS_MAX;
        g_assert_cmpint(module_message_build_request(&r, buffer, &size), ==, 0);

        steps[0].alias = alias;
        r.n_steps = 1;
        g_assert_cmpint(module_message_build_request(&r, buffer, &size), ==, -EMSGSIZE);
}

/* The count is a field of its own, so a message may claim what a builder never writes. */
static void test_claims_10000_steps(void) {
        ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX];
        uint16_t n = 10000, n_usual = usual.n_steps;
        ModuleRequest r;
        char *where;
        size_t size;

        g_assert_cmpint(module_message_build_request(&usual, buffer, &size), ==, 0);
        where = memmem(buffer, 16, &n_usual, sizeof(n_usual));
        g_assert_nonnull(where);
        memcpy(where, &n, sizeof(n));
        g_assert_cmpint(parse(buffer, size, 1, steps, &r), ==, -E2BIG);
}

static void test_cut_off(void) {
        ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX];
        ModuleRequest r;
        size_t size;

        g_assert_cmpint(module_message_build_request(&usual, buffer, &size), ==, 0);
        for (size_t n = 0; n < size; n++)
                g_assert_cmpint(parse(buffer, n, 1, steps, &r), ==, -EBADMSG);
        g_assert_cmpint(parse(buffer, size, 1, steps, &r), ==, 0);

        buffer[size] = 0;
        g_assert_cmpint(parse(buffer, size + 1, 1, steps, &r), ==, -EBADMSG);
}

/* Whatever is accepted is a request: it can be built again, and takes no more room. */
static void test_changed_bytes(void) {
        g_autofree char *again = g_malloc(MODULE_MESSAGE_MAX);
        ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX];
        size_t size, n_accepted = 0;

        g_assert_cmpint(module_message_build_request(&usual, buffer, &size), ==, 0);

        for (unsigned i = 0; i < 100000; i++) {
                g_autofree char *bytes = g_memdup2(buffer, size);
                size_t again_size;
                ModuleRequest r;
                int k;

                for (unsigned n = g_test_rand_int_range(1, 4); n > 0; n--)
                        bytes[g_test_rand_int_range(0, size)] = g_test_rand_int_range(0, 256);

                k = module_message_parse_request(bytes, size, 1, steps, &r);
                if (k < 0) {
                        g_assert_true(k == -EBADMSG || k == -E2BIG);
                        continue;
                }

                n_accepted++;
                for (size_t j = 0; j < r.n_steps; j++)
                        g_assert_cmpuint(strlen(r.steps[j].name), >, 0);
                g_assert_cmpint(module_message_build_request(&r, again, &again_size), ==, 0);
                g_assert_cmpuint(again_size, <=, size);
        }

        g_assert_cmpuint(n_accepted, >, 0);
}

static void test_order(void) {
        ModuleRequestStep step;
        size_t size;

        for (size_t i = 0; i < G_N_ELEMENTS(usual_steps); i++) {
                g_assert_cmpint(module_message_build_order(usual_steps + i, buffer, &size), ==, 0);
                g_assert_cmpint(module_message_parse_order(buffer, size, &step), ==, 0);
                assert_same_step(&step, usual_steps + i);

                for (size_t n = 0; n < size; n++) {
                        g_autofree char *cut = g_memdup2(buffer, n);

                        g_assert_cmpint(module_message_parse_order(cut ?: "", n, &step), ==, -EBADMSG);
                }

                buffer[size] = 0;
                g_assert_cmpint(module_message_parse_order(buffer, size + 1, &step), ==, -EBADMSG);
        }

        /* An alias that is that of the step before: there is none. */
        g_assert_cmpint(module_message_parse_order("sname", 6, &step), ==, -EBADMSG);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/module-message/request", test_request);
        g_test_add_func("/module-message/nobody-waits", test_nobody_waits);
        g_test_add_func("/module-message/any-bytes", test_any_bytes);
        g_test_add_func("/module-message/no-request", test_no_request);
        g_test_add_func("/module-message/too-long", test_too_long);
        g_test_add_func("/module-message/claims-10000-steps", test_claims_10000_steps);
        g_test_add_func("/module-message/cut-off", test_cut_off);
        g_test_add_func("/module-message/changed-bytes", test_changed_bytes);
        g_test_add_func("/module-message/order", test_order);

        return g_test_run();
}
