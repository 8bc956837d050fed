/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <math.h>
#include <stdbool.h>

#include "macro.h"

#include "replay-cpu.h"

/* Far below what a simulation can tell apart, and far above the error of adding up shares. */
#define NOTHING_USEC 1e-3

void cpus_start(Cpus *cpus, CpuTask *task, double usec) {
        assert(cpus);
        assert(task);
        assert(!task->runs);

        task->usec = usec;
        task->runs = usec > NOTHING_USEC;
        if (task->runs)
                LIST_PREPEND(tasks, cpus->tasks, task);
}

void cpus_set_nice(CpuTask *task, int nice) {
        assert(task);

        /* So is the kernel's table of weights made: 1024 for nice 0, and a factor of 1.25 for each level. */
        task->weight = 1024 / pow(1.25, nice);
}

/* Who would get more than one CPU by weight gets one, and the others share the rest. */
static void cpus_share(Cpus *cpus) {
        double n_left = cpus->n_cpus, weight_left = 0;
        bool changed;

        LIST_FOREACH(tasks, task, cpus->tasks) {
                task->share = 0;
                weight_left += task->weight;
        }

        do {
                changed = false;
                LIST_FOREACH(tasks, task, cpus->tasks)
                        if (task->share < 1 && task->weight * n_left >= weight_left) {
                                task->share = 1;
                                n_left--;
                                weight_left -= task->weight;
                                changed = true;
                        }
        } while (changed);

        LIST_FOREACH(tasks, task, cpus->tasks)
                if (task->share < 1)
                        task->share = task->weight * n_left / weight_left;
}

double cpus_next(Cpus *cpus) {
        double next = INFINITY;

        assert(cpus);

        cpus_share(cpus);
        LIST_FOREACH(tasks, task, cpus->tasks)
                next = fmin(next, task->usec / task->share);

        return next;
}

void cpus_run(Cpus *cpus, double usec) {
        assert(cpus);

        LIST_FOREACH(tasks, task, cpus->tasks) {
                double got = usec * task->share;

                cpus->used_usec += got;
                task->usec -= got;
                if (task->usec <= NOTHING_USEC) {
                        task->runs = false;
                        LIST_REMOVE(tasks, cpus->tasks, task);
                }
        }
}
