/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The coldplug of a record as a picture (SVG 1.1): what the last disk, the last input device and the end waited for,
 * in words; below, on the same time axis, when disks and input devices came, how many uevents waited for a worker,
 * and each load. */

#include <stdio.h>

#include "udev-module-record.h"

/* Returns 0, -ENODATA if nothing is in the record, -ENOMEM; errors of the stream are its own. */
int module_plot(FILE *f, const ModuleRecord *record);
