/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>

#include "alloc-util.h"
#include "env-file.h"
#include "log.h"
#include "parse-util.h"
#include "proc-cmdline.h"
#include "string-util.h"

#include "udev-module-config.h"

static void set_mode(ModuleQueueMode *mode, const char *where, const char *value) {
        int r;

        if (streq(value, "wait")) {
                *mode = MODULE_QUEUE_WAIT;
                return;
        }

        r = parse_boolean(value);
        if (r < 0) {
                log_warning_errno(r, "%s: module_queue takes no, yes or wait, not '%s'; ignoring it.", where, value);
                return;
        }

        *mode = r ? MODULE_QUEUE_YES : MODULE_QUEUE_NO;
}

static void set_loaders(unsigned *loaders, const char *where, const char *value) {
        unsigned n;
        int r;

        r = safe_atou(value, &n);
        if (r >= 0 && (n == 0 || n > MODULE_QUEUE_LOADERS_MAX))
                r = -ERANGE;
        if (r < 0) {
                log_warning_errno(r, "%s: module_queue_loaders takes a number from 1 to %u, not '%s'; ignoring it.",
                                  where, MODULE_QUEUE_LOADERS_MAX, value);
                return;
        }

        *loaders = n;
}

int config_parse_module_queue(CONFIG_PARSER_ARGUMENTS) {
        set_mode(data, filename, rvalue);
        return 0;
}

int config_parse_module_queue_loaders(CONFIG_PARSER_ARGUMENTS) {
        set_loaders(data, filename, rvalue);
        return 0;
}

#define UDEV_CONF "/etc/udev/udev.conf"

void module_config_read_file(ModuleConfig *config) {
        _cleanup_free_ char *mode = NULL, *loaders = NULL;
        int r;

        r = parse_env_file(NULL, UDEV_CONF,
                           "module_queue", &mode,
                           "module_queue_loaders", &loaders);
        if (r == -ENOENT)
                return;
        if (r < 0) {
                log_warning_errno(r, "Failed to read module_queue= from " UDEV_CONF ", ignoring the file: %m");
                return;
        }

        if (mode)
                set_mode(&config->mode, UDEV_CONF, mode);
        if (loaders)
                set_loaders(&config->loaders, UDEV_CONF, loaders);
}

bool module_config_read_cmdline(ModuleConfig *config, const char *key, const char *value) {
        bool mode = proc_cmdline_key_streq(key, "udev.module_queue");

        if (!mode && !proc_cmdline_key_streq(key, "udev.module_queue_loaders"))
                return false;

        if (proc_cmdline_value_missing(key, value))
                return true;

        if (mode)
                set_mode(&config->mode, "kernel command line", value);
        else
                set_loaders(&config->loaders, "kernel command line", value);
        return true;
}
