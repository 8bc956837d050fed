/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What the guest's recorders share: each prints the pid of a process that goes on in the background until SIGTERM. */

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t stopped = 0;

static void on_term(int signo) {
        (void) signo;
        stopped = 1;
}

/* Returns 0 in the process that goes on until `stopped`; > 0 in the one that is done, after it has printed the other's
 * pid; -1 if there is no process to be had, which it says as `name`. */
static int go_to_background(const char *name) {
        struct sigaction action = { .sa_handler = on_term };
        pid_t pid;

        pid = fork();
        if (pid < 0) {
                fprintf(stderr, "%s: cannot fork: %m\n", name);
                return -1;
        }
        if (pid > 0) {
                printf("%i\n", (int) pid);
                return 1;
        }

        setsid();
        close(STDOUT_FILENO);
        sigaction(SIGTERM, &action, NULL);
        return 0;
}
