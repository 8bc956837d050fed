/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The loader processes: forked when there is work, one step at a time, their results and their ends, and a look at what
 * those are doing that take longer. A load is never signalled and never ended (model rule 6).
 *
 * It tells the queue what has come of a step (done, died, live, parked). Nothing here blocks. */

#include <stdbool.h>
#include <sys/types.h>

#include "sd-event.h"

#include "macro.h"
#include "time-util.h"

#include "udev-module-queue.h"
#include "udev-module-record.h"

/* Loaders, so loads that are at work or wait. One slow asynchronous probe holds all of them: with 32 the CPU idles
 * for 0.9 to 1.0 s in the guest, with 64 for 0.2 to 0.5 s. */
#define MODULE_LOADERS_MAX 64U

/* And so many times as many processes, if the modules of the others are live: those only wait for the end of all
 * asynchronous probes. */
#define MODULE_PROCESSES_PER_LOADER 4U

/* How often to look what loads are doing: so long after the last start (a quarter of the loads in the guest have ended
 * by then), and then twice as long after each look, up to the other. */
#define MODULE_WATCH_USEC (50 * USEC_PER_MSEC)
#define MODULE_WATCH_USEC_MAX USEC_PER_SEC

typedef struct ModulePool ModulePool;

typedef struct ModulePoolSettings {
        unsigned n_loaders_max;         /* > 0; 1: strictly serial */
        usec_t warn_usec;               /* after how long a load is named in the log */
        int nice;                       /* the manager's own, to which the classes' are relative */
        bool may_nice;                  /* in both directions, that is, with CAP_SYS_NICE */
        const char *cgroup;             /* that of the workers, or NULL if they have none; not copied */
} ModulePoolSettings;

/* event is referenced, the queue and the record have to live longer than the pool: each load gets a row in the record.
 * changed() is called after each change of the queue that comes from a loader. */
int module_pool_new(
                ModulePool **ret,
                sd_event *event,
                ModuleQueue *queue,
                ModuleRecord *record,
                const ModulePoolSettings *settings,
                void (*changed)(void *userdata),
                void *userdata);

/* Loaders that are at work go on to the end of their load and leave then. Returns NULL. */
ModulePool *module_pool_free(ModulePool *pool);
DEFINE_TRIVIAL_CLEANUP_FUNC(ModulePool *, module_pool_free);

/* > 0. Those that are at work already go on. */
void module_pool_set_loaders_max(ModulePool *pool, unsigned n_loaders_max);

/* How many loaders do nothing or may be forked. */
unsigned module_pool_n_free(ModulePool *pool);

/* Have a step loaded that is from module_queue_next(). On failure nothing has come of it, the step is the caller's. */
int module_pool_load(ModulePool *pool, ModuleStep *step);

/* After a change of the queue, when what may start has started: see to the priorities, and to who is idle. If no more
 * comes they leave at once. */
void module_pool_update(ModulePool *pool, bool more_comes);

/* A module may have become live. */
void module_pool_note_module(ModulePool *pool, const char *name);

/* libkmod's index and configuration were read again: who has the old ones leaves, after its load. */
void module_pool_renew(ModulePool *pool);

/* Call load() for each that is at work: a description for the log, and the loader. */
void module_pool_foreach_load(ModulePool *pool, void (*load)(const char *what, pid_t pid));

/* No loader exists. */
bool module_pool_is_empty(const ModulePool *pool);
