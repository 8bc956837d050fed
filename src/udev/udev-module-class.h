/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What a module is good for, best class first: a start order in the queue, and the CPU and I/O priority of
 * the loader (model rule 5). The numbers are compared and stored in messages and in the journal: keep them in this
 * order. */

#include <errno.h>
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
        _MODULE_CLASS_INVALID = -EINVAL,
} ModuleClass;

/* Classes up to this one lead to what a boot waits for, disks and keyboards. */
#define MODULE_CLASS_URGENT_LAST MODULE_CLASS_INPUT

/* The name of a class as in ENV{MODULE_QUEUE_CLASS}; static. */
const char *module_class_to_string(ModuleClass class);

/* The reverse; _MODULE_CLASS_INVALID for NULL and for unknown names. */
ModuleClass module_class_from_string(const char *s);

/* The class of what a device with this MODALIAS leads to. It may be NULL and hold any bytes: that of a USB device is
 * chosen by who built it. No more than its first 128 bytes are looked at, nothing is allocated.
 * _MODULE_CLASS_INVALID: it says nothing. */
ModuleClass module_class_from_modalias(const char *modalias);

/* The class of a module by the directory in which its file lies, …/kernel/drivers/usb/host/xhci-hcd.ko say: "other"
 * if that is no directory that says something, _MODULE_CLASS_INVALID for a module from elsewhere and for NULL. */
ModuleClass module_class_from_path(const char *path);

/* The class of a load, from the MODALIAS of the device that it is for, or NULL, and from the best one of its modules by
 * their directories. Always valid. */
ModuleClass module_class_decide(const char *modalias, ModuleClass directory);

/* The better one; _MODULE_CLASS_INVALID is worse than all. */
ModuleClass module_class_best(ModuleClass a, ModuleClass b);

/* CPU priority (nice, −20 … 19) and I/O priority (best-effort level, 0 … 7) of a loader at work for a class. */
int module_class_nice(ModuleClass class);
int module_class_io_level(ModuleClass class);
