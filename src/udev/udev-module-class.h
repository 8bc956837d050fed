/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What a module is good for, best class first: a start order in the queue, and the CPU and I/O priority of
 * the loader (model rule 5). The numbers are compared and stored in messages: keep them in this order. */

#include <stdbool.h>

typedef enum ModuleClass {
        MODULE_CLASS_BUS,     /* leads to other devices: USB, virtio, I2C, SPI and MMC hosts, … */
        MODULE_CLASS_STORAGE,
        MODULE_CLASS_INPUT,
        MODULE_CLASS_DISPLAY,
        MODULE_CLASS_NETWORK,
        MODULE_CLASS_OTHER,
        MODULE_CLASS_SOUND,
        MODULE_CLASS_IDLE,    /* nobody looks at the screen for it: cpu, dmi, random numbers, … */
        _MODULE_CLASS_MAX,
        _MODULE_CLASS_INVALID = -1,
} ModuleClass;

/* The name of a class as in ENV{MODULE_QUEUE_CLASS}; static. */
const char *module_class_to_string(ModuleClass class);

/* The reverse; _MODULE_CLASS_INVALID for NULL and for unknown names. */
ModuleClass module_class_from_string(const char *s);

/* The class of what a device with this MODALIAS needs. Both strings may be NULL, and hold any bytes: a
 * MODALIAS of a USB device is chosen by who built it. _MODULE_CLASS_INVALID: they say nothing. */
ModuleClass module_class_from_modalias(const char *modalias, const char *subsystem);

/* The class of a module by the directory in which its file lies, …/kernel/drivers/usb/host/xhci-hcd.ko say.
 * _MODULE_CLASS_INVALID if that says nothing, and for NULL. */
ModuleClass module_class_from_path(const char *path);

/* The better one; _MODULE_CLASS_INVALID is worse than all. */
ModuleClass module_class_best(ModuleClass a, ModuleClass b);

/* CPU priority (nice, −20 … 19) and I/O priority (best-effort level, 0 … 7) of a loader at work for a class. */
int module_class_nice(ModuleClass class);
int module_class_io_level(ModuleClass class);
