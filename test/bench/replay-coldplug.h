/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A simulated coldplug: the events of a machine's devices, udevd's workers, the loads that they lead to, and the time
 * that all of that takes on a number of CPUs. It is a check of what is asked for, shared and loaded in which order,
 * with the requests of real machines and the real core of the queue (udev-module-queue.h). It is no measurement: all
 * times are made up, and say only how two orders compare under the same assumptions.
 *
 * The model, which is the same for both orders but where it says so:
 *
 *   - Each device is one `add` event. There at the start are those with no ancestor that needs a module; the others
 *     appear when all modules of their next ancestor that needs any have bound to it. That gives second-level buses
 *     their late place.
 *   - Behind each device come COLDPLUG_NODES_PER_DEVICE without MODALIAS (disk, partition, input node, …). They are
 *     its children, and appear when its own modules have bound.
 *   - Events start in the order in which devices appear (at the start: that of the machine's file), as soon as no
 *     event of an ancestor is left, in one of 2 × CPUs + 16 workers (systemd 252's own limit, with memory enough).
 *   - The rules of an event take COLDPLUG_EVENT_CPU_USEC of CPU time. Stock's worker then loads all modules of the
 *     event, in libkmod's order, and the event ends after that. With the queue it hands over what is not live yet and
 *     the event ends; loaders load, in the queue's order and with its nice levels, as udev-module-pool.c does it.
 *   - A load reads and checks the file, which is CPU time; if the module is there by then the load has been in vain,
 *     and ends when the module is live (EEXIST; from Linux 6.5 on it waits for the load that was first instead, and
 *     reads nothing). Then the module is linked and starts, which is CPU time too, and its init sleeps until its
 *     device answers. Then it is live. Some probe asynchronously when they are live. A load ends when no asynchronous
 *     probe is left in the whole system, as in the kernel.
 *
 * What it leaves out: loads that fail; drivers that probe several devices one after the other, or that defer;
 * firmware; modules that the kernel asks for by itself; devices whose parent by devpath is not what they wait for
 * (those that a platform driver makes under /devices/virtual say); properties that rules set (MODULE_QUEUE_CLASS);
 * what the manager, the messages and the forks cost. */

#include <stdbool.h>
#include <stddef.h>

#include "time-util.h"

#include "udev-module-queue.h"

/* The guest of test/guest has some 1,200 events in a coldplug that takes 9.7 s of CPU time, of which rules are 44 %. */
#define COLDPLUG_EVENT_CPU_USEC 3600U

/* The dumps of test/bench/machines named 33,346 devices, 7,501 of them with a MODALIAS. */
#define COLDPLUG_NODES_PER_DEVICE 3U

/* The part of a load's CPU time that is spent by the time that the kernel finds the module there. Chosen: in the guest
 * 100 wasted loads of unsigned modules cost less than can be measured, but signatures are part of it as well. */
#define COLDPLUG_WASTED_SHARE 0.2

/* No order can help such a module. */
#define COLDPLUG_LONG_USEC (10 * USEC_PER_SEC)

#define COLDPLUG_NONE SIZE_MAX

typedef struct ColdplugModule {
        const char *name;
        size_t *loads;                  /* what libkmod loads for it, in its order, itself included: indices */
        size_t n_loads;
        double cpu_usec;                /* of its load, all in all */
        double probe_usec;              /* then its init sleeps so long */
        double async_usec;              /* and then, when it is live, an asynchronous probe does; 0: there is none */
} ColdplugModule;

typedef enum ColdplugGoal {
        COLDPLUG_STORAGE,
        COLDPLUG_INPUT,
        _COLDPLUG_GOAL_MAX,
} ColdplugGoal;

/* A module of a request, and whether it is asked for or must come first. */
typedef struct ColdplugStep {
        size_t module;
        bool asked;
} ColdplugStep;

typedef struct ColdplugDevice {
        const char *devpath;
        const char *modalias;
        size_t parent;                  /* the next ancestor among the devices, which comes before; COLDPLUG_NONE */
        const ColdplugStep *steps;      /* what its look-up yields when nothing is loaded; may be shared */
        size_t n_steps;
        ModuleClass class;
        bool leads_to[_COLDPLUG_GOAL_MAX];
} ColdplugDevice;

typedef struct ColdplugMachine {
        ColdplugModule *modules;
        size_t n_modules;
        ColdplugDevice *devices;
        size_t n_devices;
        bool kernel_shares;             /* Linux 6.5 or later */
} ColdplugMachine;

typedef struct ColdplugResult {
        bool *loaded;                   /* by index of the module */
        size_t n_loaded;
        size_t n_requests;              /* events that had something to load */
        size_t n_attempts;              /* steps that the queue has started; 0 for stock */
        size_t n_inserts;               /* finit_module() calls */
        size_t n_wasted;                /* of these, those in vain */
        double cpu_usec;
        double goal_usec[_COLDPLUG_GOAL_MAX]; /* when the last device that leads there was done, with its nodes; 0: none */
        double loads_usec;              /* when the last load ended */
        double short_loads_usec;        /* the same, without modules that take COLDPLUG_LONG_USEC by themselves */
        double settle_usec;             /* when nothing was left */
} ColdplugResult;

typedef enum ColdplugOrder {
        COLDPLUG_STOCK,
        COLDPLUG_QUEUE,
        _COLDPLUG_ORDER_MAX,
} ColdplugOrder;

/* -ENOMEM; -EDEADLK if the simulation stands still with something left, which is an error in it or in the queue. The
 * caller owns ret->loaded. */
int coldplug_run(const ColdplugMachine *machine, ColdplugOrder order, unsigned n_cpus, ColdplugResult *ret);
