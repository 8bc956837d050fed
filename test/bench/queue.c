/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What the queue costs the manager for each request, and how that grows: all requests are added at once, which is
 * worse than any coldplug, then loaded by simulated loaders that take no time. */

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "udev-module-queue.h"

#define N_MODULES 5000U
#define N_LOADERS 32U
#define N_DEPENDENCIES_MAX 4U

static uint64_t random_state = 1;

/* 0 … n − 1, the same in each run; Knuth's MMIX generator. */
static unsigned random_in(unsigned n) {
        random_state = random_state * 6364136223846793005U + 1442695040888963407U;
        return (random_state >> 33) % n;
}

static size_t bytes_in_use(void) {
        struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

static int add_one(ModuleQueue *q, uint64_t seqnum, usec_t when) {
        char names[N_DEPENDENCIES_MAX + 1][32], alias[96], device[96];
        ModuleRequestStep steps[N_DEPENDENCIES_MAX + 1] = {};
        /* Some modules are needed by many: half of the dependencies are of 50. */
        unsigned n = random_in(N_DEPENDENCIES_MAX + 1);

        for (unsigned i = 0; i <= n; i++) {
                (void) snprintf(names[i], sizeof(names[i]), "module_%u",
                                random_in(i < n && random_in(2) == 0 ? 50 : N_MODULES));
                steps[i].name = names[i];
        }
        (void) snprintf(alias, sizeof(alias), "pci:v00008086d%08Xsv00001AF4sd00001100bc02sc00i00", random_in(1000));
        (void) snprintf(device, sizeof(device), "/devices/pci0000:00/0000:00:1c.%u/0000:02:00.0", random_in(1000));
        steps[n].alias = alias;

        return module_queue_add(q, &(ModuleRequest) {
                .seqnum = seqnum,
                .device = device,
                .class = random_in(_MODULE_CLASS_MAX),
                .waiter = random_in(4) == 0 ? (pid_t) (1000 + random_in(100)) : 0,
                .id = seqnum,
                .steps = steps,
                .n_steps = n + 1,
        }, when);
}

static int measure(unsigned n_requests) {
        _cleanup_(module_queue_freep) ModuleQueue *q = NULL;
        ModuleStep *loading[N_LOADERS];
        usec_t t, add_usec, next_usec = 0, done_usec = 0;
        unsigned n_loading = 0, n_attempts = 0;
        size_t bytes;
        int r;

        bytes = bytes_in_use();

        r = module_queue_new(&q, N_LOADERS);
        if (r < 0)
                return r;

        t = now(CLOCK_MONOTONIC);
        for (unsigned i = 0; i < n_requests; i++) {
                r = add_one(q, i, i);
                if (r < 0)
                        return r;
        }
        add_usec = now(CLOCK_MONOTONIC) - t;
        bytes = bytes_in_use() - bytes;

        while (!module_queue_is_empty(q)) {
                usec_t when = n_requests + n_attempts;

                t = now(CLOCK_MONOTONIC);
                for (ModuleStep *step; (step = module_queue_next(q, N_LOADERS - n_loading, when));)
                        loading[n_loading++] = step;
                next_usec += now(CLOCK_MONOTONIC) - t;

                /* One of them ends, one in ten with a failure. */
                n_attempts++;
                r = random_in(n_loading);
                t = now(CLOCK_MONOTONIC);
                module_queue_done(q, loading[r], n_attempts % 10 == 0 ? -ENODEV : 0, when);
                while (module_queue_pop_answer(q, &(ModuleAnswer) {}))
                        ;
                done_usec += now(CLOCK_MONOTONIC) - t;
                loading[r] = loading[--n_loading];
        }

        printf("%8u %8u %8.2f %8.2f %8.2f %8.2f %8.0f\n", n_requests, n_attempts,
               (double) add_usec / n_requests, (double) next_usec / n_requests, (double) done_usec / n_requests,
               (double) (add_usec + next_usec + done_usec) / n_requests, (double) bytes / n_requests);
        return 0;
}

int main(void) {
        static const unsigned sizes[] = { 1000, 10000, 100000 };

        printf("%u modules, 1 to %u steps a request, %u loaders; usec and bytes for each request\n",
               N_MODULES, N_DEPENDENCIES_MAX + 1, N_LOADERS);
        printf("%8s %8s %8s %8s %8s %8s %8s\n", "requests", "attempts", "add", "next", "done", "sum", "bytes");
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++)
                if (measure(sizes[i]) < 0) {
                        fprintf(stderr, "bench-module-queue: no memory for %u requests\n", sizes[i]);
                        return EXIT_FAILURE;
                }

        return EXIT_SUCCESS;
}
