/* SPDX-License-Identifier: GPL-2.0-or-later */
/* memmon FILE: record what memory udevd's processes take, every 50 ms until SIGTERM.
 *
 * It prints the pid of the recording process and returns at once. A line of FILE: seconds since boot, the number of
 * processes, the sums of their RSS and PSS, and the PSS of the one with the lowest pid, which is the manager; in KiB,
 * separated by tabs. */

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "background.h"

#define INTERVAL_NSEC 50000000L

typedef struct Sample {
        unsigned n;
        unsigned long rss, pss, manager;
} Sample;

/* Processes may go at any time, then there is nothing to read. */
static FILE *process_open(const char *pid, const char *name) {
        char path[64];

        snprintf(path, sizeof path, "/proc/%.20s/%s", pid, name);
        return fopen(path, "re");
}

/* The manager, workers and loaders; not udevadm. */
static int process_is_udevd(const char *pid) {
        char comm[32] = "";
        FILE *f;

        f = process_open(pid, "comm");
        if (!f)
                return 0;
        if (!fgets(comm, sizeof comm, f))
                comm[0] = 0;
        fclose(f);

        return strncmp(comm, "systemd-udevd", 13) == 0 || strncmp(comm, "(udev-", 6) == 0;
}

static void sample_add(Sample *sample, const char *pid) {
        unsigned long rss = 0, pss = 0;
        char line[256];
        FILE *f;

        f = process_open(pid, "smaps_rollup");
        if (!f)
                return;
        while (fgets(line, sizeof line, f))
                if (sscanf(line, "Rss: %lu", &rss) != 1)
                        sscanf(line, "Pss: %lu", &pss);
        fclose(f);

        sample->n += rss > 0;
        sample->rss += rss;
        sample->pss += pss;
        if (sample->manager == 0)
                sample->manager = pss;
}

static void sample_take(Sample *sample) {
        struct dirent *entry;
        DIR *proc;

        proc = opendir("/proc");
        if (!proc)
                return;
        /* In the order of their pids. */
        while ((entry = readdir(proc)))
                if (isdigit((unsigned char) entry->d_name[0]) && process_is_udevd(entry->d_name))
                        sample_add(sample, entry->d_name);
        closedir(proc);
}

int main(int argc, char *argv[]) {
        int forked;
        FILE *f;

        if (argc != 2) {
                fprintf(stderr, "memmon: usage: memmon FILE\n");
                return 2;
        }

        f = fopen(argv[1], "we");
        if (!f) {
                perror("memmon: cannot write the record");
                return 1;
        }

        forked = go_to_background("memmon");
        if (forked != 0)
                return forked < 0;

        if (setpriority(PRIO_PROCESS, 0, -20) < 0)
                perror("memmon: samples may be rare");

        while (!stopped) {
                struct timespec now, interval = { .tv_nsec = INTERVAL_NSEC };
                Sample sample = {};

                clock_gettime(CLOCK_MONOTONIC, &now);
                sample_take(&sample);
                fprintf(f, "%lld.%06ld\t%u\t%lu\t%lu\t%lu\n", (long long) now.tv_sec, now.tv_nsec / 1000,
                        sample.n, sample.rss, sample.pss, sample.manager);
                nanosleep(&interval, NULL);
        }

        return fclose(f) == 0 ? 0 : 1;
}
