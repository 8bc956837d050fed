/* SPDX-License-Identifier: GPL-2.0-or-later */
/* disturb SEED WHAT: until SIGTERM, do at random times something to udevd, and say to stdout and to the kernel's log
 * what. WHAT is
 *   loaders   kill a loader, or stop one for a while; let udevd read its configuration again, also a changed one
 *   workers   that, and kill a worker
 *   udevd     all that, and kill udevd, once: /rig/restart does it */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define LOADER "(udev-loader)"
#define WORKER "(udev-worker)"

/* A coldplug takes 1 to 3 s, a load some 10 to 300 ms: in a run some loads are met, few of them twice. */
#define PAUSE_USEC_MAX 200000
#define STOP_USEC_MAX 200000

static volatile sig_atomic_t ended;

static void on_term(int sig) {
        (void) sig;
        ended = 1;
}

/* From 0 to below n. */
static unsigned chance(unsigned n) {
        return random() % n;
}

static void note(const char *what, pid_t pid) {
        char line[128];
        int fd, n;

        n = snprintf(line, sizeof line, "%s %d\n", what, (int) pid);
        if (write(STDOUT_FILENO, line, n) < 0)
                perror("disturb: stdout");

        n = snprintf(line, sizeof line, "disturb: %s %d\n", what, (int) pid);
        fd = open("/dev/kmsg", O_WRONLY|O_CLOEXEC);
        if (fd < 0 || write(fd, line, n) < 0)
                perror("disturb: /dev/kmsg");
        if (fd >= 0)
                close(fd);
}

static int has_name(const char *pid, const char *name) {
        char path[64], comm[32] = "";
        FILE *f;

        snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
        f = fopen(path, "re");
        if (!f)
                return 0;
        if (fgets(comm, sizeof comm, f))
                comm[strcspn(comm, "\n")] = 0;
        fclose(f);

        return strcmp(comm, name) == 0;
}

/* One of the processes with this name, or 0. */
static pid_t pick(const char *name) {
        unsigned n = 0;
        pid_t pid = 0;
        DIR *d;

        d = opendir("/proc");
        if (!d) {
                perror("disturb: /proc");
                return 0;
        }
        for (struct dirent *e; (e = readdir(d));)
                if (isdigit((unsigned char) e->d_name[0]) && has_name(e->d_name, name) && chance(++n) == 0)
                        pid = atoi(e->d_name);
        closedir(d);

        return pid;
}

static void kill_one(const char *what, const char *name) {
        pid_t pid;

        pid = pick(name);
        if (pid > 0 && kill(pid, SIGKILL) == 0)
                note(what, pid);
}

static void stop_one(void) {
        pid_t pid;

        pid = pick(LOADER);
        if (pid <= 0 || kill(pid, SIGSTOP) < 0)
                return;

        note("stop-loader", pid);
        usleep(chance(STOP_USEC_MAX));
        kill(pid, SIGCONT);
}

static void run(const char *what, const char *command) {
        int status;

        note(what, 0);
        status = system(command);
        if (status != 0)
                fprintf(stderr, "disturb: %s: wait status %#x\n", command, status);
}

static void disturb_loaders(void) {
        unsigned n = chance(12);

        if (n < 8)
                kill_one("kill-loader", LOADER);
        else if (n < 10)
                stop_one();
        else if (n < 11)
                run("reload", "udevadm control --reload");
        else
                run("change-configuration",
                    "echo \"# $(date +%s%N)\" >/etc/modprobe.d/changed.conf && udevadm control --reload");
}

int main(int argc, char *argv[]) {
        const struct sigaction term = { .sa_handler = on_term };
        int workers, udevd;
        unsigned restart;

        if (argc != 3) {
                fprintf(stderr, "disturb: usage: disturb SEED WHAT\n");
                return 2;
        }

        srandom(strtoul(argv[1], NULL, 10));
        udevd = strcmp(argv[2], "udevd") == 0;
        workers = udevd || strcmp(argv[2], "workers") == 0;
        sigaction(SIGTERM, &term, NULL);

        /* Not later than most coldplugs end. */
        restart = udevd ? 1 + chance(12) : 0;

        while (!ended) {
                usleep(chance(PAUSE_USEC_MAX));
                if (restart > 0 && --restart == 0)
                        run("restart", chance(2) ? "/rig/restart all" : "/rig/restart");
                else if (workers && chance(2))
                        kill_one("kill-worker", WORKER);
                else
                        disturb_loaders();
        }

        return 0;
}
