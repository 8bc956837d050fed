/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The switches: module_queue= and module_queue_loaders= in udev.conf, udev.module_queue= and
 * udev.module_queue_loaders= (with and without rd.) on the kernel command line, which wins. A bad value is named in
 * a warning and changes nothing. Where they are kept is the daemon's business, which differs from version to version. */

#include <stdbool.h>

#include "conf-parser.h"

/* The compiled-in default is stock udevd; a distribution that wants another one changes udev.conf. */
typedef enum ModuleQueueMode {
        MODULE_QUEUE_UNSET,     /* the same as no */
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

static inline bool module_config_equal(const ModuleConfig *a, const ModuleConfig *b) {
        return a->mode == b->mode && a->loaders == b->loaders;
}

/* For mode and loaders, where udev.conf is read by a table of its keys. */
CONFIG_PARSER_PROTOTYPE(config_parse_module_queue);
CONFIG_PARSER_PROTOTYPE(config_parse_module_queue_loaders);

/* Where it is not: read /etc/udev/udev.conf; a missing file is fine. */
void module_config_read_file(ModuleConfig *config);

/* An item of the kernel command line, key without rd.; value may be NULL. True if it was one of ours, good or bad. */
bool module_config_read_cmdline(ModuleConfig *config, const char *key, const char *value);
