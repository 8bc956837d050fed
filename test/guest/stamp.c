/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stamp FILE NAME: append a line to FILE: name, seconds since boot, the system's CPU counters (user nice system
 * idle iowait irq softirq, in 1/100 s) and the number of processes forked so far; separated by tabs. */

#include <stdio.h>
#include <string.h>
#include <time.h>

int main(int argc, char *argv[]) {
        unsigned long long cpu[7] = {}, forks = 0;
        struct timespec now;
        char line[65536];
        FILE *f;

        if (argc != 3) {
                fprintf(stderr, "stamp: usage: stamp FILE NAME\n");
                return 2;
        }

        clock_gettime(CLOCK_MONOTONIC, &now);

        f = fopen("/proc/stat", "re");
        if (!f) {
                perror("stamp: /proc/stat");
                return 1;
        }
        while (fgets(line, sizeof line, f)) {
                if (strncmp(line, "cpu ", 4) == 0)
                        sscanf(line + 4, "%llu %llu %llu %llu %llu %llu %llu",
                               cpu, cpu + 1, cpu + 2, cpu + 3, cpu + 4, cpu + 5, cpu + 6);
                else if (sscanf(line, "processes %llu", &forks) == 1)
                        break;
        }
        fclose(f);

        f = fopen(argv[1], "ae");
        if (!f) {
                perror("stamp: cannot append");
                return 1;
        }
        fprintf(f, "%s\t%lld.%06ld", argv[2], (long long) now.tv_sec, now.tv_nsec / 1000);
        for (size_t i = 0; i < sizeof cpu / sizeof *cpu; i++)
                fprintf(f, "\t%llu", cpu[i]);
        fprintf(f, "\t%llu\n", forks);
        return fclose(f) == 0 ? 0 : 1;
}
