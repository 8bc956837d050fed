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
#define N_TIMES 9U

/* For each request. */
typedef struct Cost {
        double add_usec, load_usec, sum_usec, bytes;
} Cost;

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

static int measure(unsigned n_requests, Cost *ret) {
        _cleanup_(module_queue_freep) ModuleQueue *q = NULL;
        ModuleStep *loading[N_LOADERS];
        usec_t t, add_usec, load_usec;
        unsigned n_loading = 0, n_attempts = 0;
        size_t bytes;
        int r;

        bytes = bytes_in_use();

        r = module_queue_new(&q, N_LOADERS);
        if (r < 0)
                return r;

        t = now(CLOCK_PROCESS_CPUTIME_ID);
        for (unsigned i = 0; i < n_requests; i++) {
                r = add_one(q, i, i);
                if (r < 0)
                        return r;
        }
        add_usec = now(CLOCK_PROCESS_CPUTIME_ID) - t;
        bytes = bytes_in_use() - bytes;

        t = now(CLOCK_PROCESS_CPUTIME_ID);
        while (!module_queue_is_empty(q)) {
                usec_t when = n_requests + n_attempts;

                for (ModuleStep *step; (step = module_queue_next(q, N_LOADERS - n_loading, when));)
                        loading[n_loading++] = step;

                /* One of them ends, one in ten with a failure. */
                n_attempts++;
                r = random_in(n_loading);
                module_queue_done(q, loading[r], n_attempts % 10 == 0 ? -ENODEV : 0, when);
                while (module_queue_pop_answer(q, &(ModuleAnswer) {}))
                        ;
                loading[r] = loading[--n_loading];
        }
        load_usec = now(CLOCK_PROCESS_CPUTIME_ID) - t;

        *ret = (Cost) {
                .add_usec = (double) add_usec / n_requests,
                .load_usec = (double) load_usec / n_requests,
                .sum_usec = (double) (add_usec + load_usec) / n_requests,
                .bytes = (double) bytes / n_requests,
        };
        return 0;
}

static int cost_compare(const void *a, const void *b) {
        const Cost *x = a, *y = b;

        return CMP(x->sum_usec, y->sum_usec);
}

/* Several times, of which the one in the middle counts. */
static int measure_and_print(unsigned n_requests) {
        Cost costs[N_TIMES];
        const Cost *middle = costs + N_TIMES / 2;

        for (unsigned i = 0; i < N_TIMES; i++) {
                int r;

                r = measure(n_requests, costs + i);
                if (r < 0)
                        return r;
        }
        qsort(costs, N_TIMES, sizeof(Cost), cost_compare);

        printf("%8u %8.2f %8.2f %8.2f (%.2f to %.2f) %8.0f\n", n_requests,
               middle->add_usec, middle->load_usec, middle->sum_usec, costs[0].sum_usec, costs[N_TIMES - 1].sum_usec, middle->bytes);
        return 0;
}

int main(void) {
        static const unsigned sizes[] = { 100, 300, 1000, 3000, 10000, 30000, 100000 };

        printf("%u modules, 1 to %u steps a request, %u loaders; usec of CPU and bytes for each request, the\n"
               "median of %u times by the sum, and of that the least and the most\n",
               N_MODULES, N_DEPENDENCIES_MAX + 1, N_LOADERS, N_TIMES);
        printf("%8s %8s %8s %8s %14s %8s\n", "requests", "add", "load", "sum", "", "bytes");
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++)
                if (measure_and_print(sizes[i]) < 0) {
                        fprintf(stderr, "bench-module-queue: no memory for %u requests\n", sizes[i]);
                        return EXIT_FAILURE;
                }

        return EXIT_SUCCESS;
}
