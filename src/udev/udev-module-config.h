/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The switches: module_queue= and module_queue_loaders= in udev.conf, udev.module_queue= and
 * udev.module_queue_loaders= (with and without rd.) on the kernel command line, which wins. A bad value is named in
 * a warning and changes nothing. */

#include <stdbool.h>

typedef enum ModuleQueueMode {
        MODULE_QUEUE_NO,        /* stock udevd */
        MODULE_QUEUE_YES,
        MODULE_QUEUE_WAIT,      /* every event waits for its loads, as in stock */
} ModuleQueueMode;

/* The most loaders that module_queue_loaders= may ask for. */
#define MODULE_QUEUE_LOADERS_MAX 256U

typedef struct ModuleConfig {
        ModuleQueueMode mode;
        unsigned loaders;       /* 0: not set, the dispatch chooses */
} ModuleConfig;

/* Of this process; static. */
const ModuleConfig *module_config(void);

/* Read /etc/udev/udev.conf; a missing file is fine. */
void module_config_read_file(void);

/* An item of the kernel command line, key without rd.; value may be NULL. True if it was one of ours, good or bad. */
bool module_config_read_cmdline(const char *key, const char *value);
