/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>

#include "alloc-util.h"
#include "env-file.h"
#include "log.h"
#include "parse-util.h"
#include "proc-cmdline.h"
#include "string-util.h"

#include "udev-module-config.h"

#define UDEV_CONF "/etc/udev/udev.conf"

/* The compiled-in default is stock udevd; a distribution that wants another one changes udev.conf. */
static ModuleConfig config = {
        .mode = MODULE_QUEUE_NO,
};

const ModuleConfig *module_config(void) {
        return &config;
}

static void set_mode(const char *where, const char *value) {
        int r;

        if (streq(value, "wait")) {
                config.mode = MODULE_QUEUE_WAIT;
                return;
        }

        r = parse_boolean(value);
        if (r < 0) {
                log_warning_errno(r, "%s: module_queue takes no, yes or wait, not '%s'; ignoring it.", where, value);
                return;
        }

        config.mode = r ? MODULE_QUEUE_YES : MODULE_QUEUE_NO;
}

static void set_loaders(const char *where, const char *value) {
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

        config.loaders = n;
}

void module_config_read_file(void) {
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
                set_mode(UDEV_CONF, mode);
        if (loaders)
                set_loaders(UDEV_CONF, loaders);
}

bool module_config_read_cmdline(const char *key, const char *value) {
        void (*set)(const char *where, const char *value);

        if (proc_cmdline_key_streq(key, "udev.module_queue"))
                set = set_mode;
        else if (proc_cmdline_key_streq(key, "udev.module_queue_loaders"))
                set = set_loaders;
        else
                return false;

        if (!proc_cmdline_value_missing(key, value))
                set("kernel command line", value);

        return true;
}
