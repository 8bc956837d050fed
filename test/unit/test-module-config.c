/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <glib.h>

#include "udev-module-config.h"

static void test_mode(void) {
        ModuleConfig config = {};
        static const struct {
                const char *value;
                ModuleQueueMode mode;
        } cases[] = {
                { "yes",  MODULE_QUEUE_YES  },
                { "no",   MODULE_QUEUE_NO   },
                { "wait", MODULE_QUEUE_WAIT },
                { "1",    MODULE_QUEUE_YES  },
                { "off",  MODULE_QUEUE_NO   },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                g_assert_true(module_config_read_cmdline(&config, "udev.module_queue", cases[i].value));
                g_assert_cmpint(config.mode, ==, cases[i].mode);
        }

        /* As everywhere on the kernel command line, "-" is as good as "_". */
        g_assert_true(module_config_read_cmdline(&config, "udev.module-queue", "wait"));
        g_assert_cmpint(config.mode, ==, MODULE_QUEUE_WAIT);
}

static void test_loaders(void) {
        ModuleConfig config = {};

        g_assert_true(module_config_read_cmdline(&config, "udev.module_queue_loaders", "1"));
        g_assert_cmpuint(config.loaders, ==, 1);
        g_assert_true(module_config_read_cmdline(&config, "udev.module_queue_loaders", "256"));
        g_assert_cmpuint(config.loaders, ==, 256);
}

/* A bad value changes nothing. */
static void test_bad_value(void) {
        ModuleConfig config = {};
        static const char *const bad_modes[] = { "", "maybe", "WAIT", "wait ", "2", "yes\xff" };
        static const char *const bad_loaders[] = { "", "0", "-1", "257", "many", "1.5", "99999999999999999999", " 4 x" };

        module_config_read_cmdline(&config, "udev.module_queue", "yes");
        for (size_t i = 0; i < G_N_ELEMENTS(bad_modes); i++) {
                g_assert_true(module_config_read_cmdline(&config, "udev.module_queue", bad_modes[i]));
                g_assert_cmpint(config.mode, ==, MODULE_QUEUE_YES);
        }
        g_assert_true(module_config_read_cmdline(&config, "udev.module_queue", NULL));
        g_assert_cmpint(config.mode, ==, MODULE_QUEUE_YES);

        module_config_read_cmdline(&config, "udev.module_queue_loaders", "7");
        for (size_t i = 0; i < G_N_ELEMENTS(bad_loaders); i++) {
                g_assert_true(module_config_read_cmdline(&config, "udev.module_queue_loaders", bad_loaders[i]));
                g_assert_cmpuint(config.loaders, ==, 7);
        }
        g_assert_true(module_config_read_cmdline(&config, "udev.module_queue_loaders", NULL));
        g_assert_cmpuint(config.loaders, ==, 7);
}

static void test_not_ours(void) {
        ModuleConfig config = {};

        g_assert_false(module_config_read_cmdline(&config, "udev.children_max", "4"));
        g_assert_false(module_config_read_cmdline(&config, "module_queue", "yes"));
        g_assert_false(module_config_read_cmdline(&config, "udev.module_queue_loader", "4"));
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/module-config/mode", test_mode);
        g_test_add_func("/module-config/loaders", test_loaders);
        g_test_add_func("/module-config/bad-value", test_bad_value);
        g_test_add_func("/module-config/not-ours", test_not_ours);

        return g_test_run();
}
