/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Simulated CPUs, shared by tasks as the kernel's fair scheduler shares them in the long run: in proportion to the
 * tasks' weights, but no task has more than one CPU. Times are usec, as double: shares are fractions. */

#include "list.h"

typedef struct CpuTask CpuTask;

struct CpuTask {
        double usec;                    /* of CPU time that it needs still */
        double weight;
        double share;                   /* of a CPU, 0 … 1 */
        bool runs;
        LIST_FIELDS(CpuTask, tasks);
};

typedef struct Cpus {
        unsigned n_cpus;
        double used_usec;               /* by all tasks so far */
        LIST_HEAD(CpuTask, tasks);
} Cpus;

/* The task wants usec of CPU time, from now on. The caller owns it. */
void cpus_start(Cpus *cpus, CpuTask *task, double usec);

/* nice: −20 … 19, for tasks that run and for those that do not. */
void cpus_set_nice(CpuTask *task, int nice);

/* How long until the first task has had what it wants: INFINITY if there is none. */
double cpus_next(Cpus *cpus);

/* Let so much time pass, not more than cpus_next() said. Tasks that have had what they want run no longer. */
void cpus_run(Cpus *cpus, double usec);
