/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "udev-module-compat.h"

/* The verb: what the module queue is doing, and what it has recorded. argv[0] is the verb. Returns 0, or negative errno
 * after saying what is wrong. */
int module_queue_main(VERB_ARGUMENTS);

/* Whether there is a udevd with a queue, as far as /run/udev says: where nothing can be written there is none. Looks only
 * once: `udevadm trigger` asks for each device. */
bool module_queue_is_on(void);
