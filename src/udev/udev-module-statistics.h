/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The figures of a record's coldplug. Pure; all times are usec. */

#include <stddef.h>

#include "udev-module-record.h"

typedef struct ModuleDistribution {
        size_t n;
        usec_t sum, mean, median, max;
        usec_t mode;                    /* the millisecond with the most values in it, the first of several */
        usec_t deviation;               /* standard deviation, of these values and not of an estimate for others */
} ModuleDistribution;

/* Sorts the values. Of none all is 0. */
ModuleDistribution module_distribution(usec_t *values, size_t n);

typedef struct ModuleStatistics {
        usec_t begin, end;              /* of the coldplug, see module_record_coldplug() */
        size_t n_events, n_triggered, n_loads, n_failed, n_requests; /* those that ended in it */
        usec_t trigger;                 /* from the first to the last triggered `add` that udevd has received */
        usec_t processing;              /* when one event at least was at a worker */
        usec_t loading;                 /* when one module at least was being loaded */
        ModuleDistribution completion;  /* of events: from the uevent to the end of its processing */
        ModuleDistribution queued;      /* of events: from there to a worker */
        ModuleDistribution processed;   /* of events: from there to the end */
        ModuleDistribution waits;       /* of loads: from the request to the start */
        ModuleDistribution holds;       /* of loads: from the start to the end */
        const ModuleRecordLoad *longest_wait, *longest_hold; /* in the record; NULL if there is no load */
} ModuleStatistics;

/* Returns 0 or -ENOMEM. */
int module_statistics(const ModuleRecord *record, ModuleStatistics *ret);
