/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Order of the event sources, which is what keeps `udevadm settle` honest (model rule 2). Smaller goes first; the
 * device monitor, the workers' results and their exits have SD_EVENT_PRIORITY_NORMAL:
 *
 *   requests   before the workers' results: a worker asks before it reports its event as done, so an event is never
 *              seen as done while its request is unread.
 *   results    after the device monitor: the kernel has sent the uevents of a probe before finit_module() returns,
 *              so when a result is read, no uevent of that load is unread. sd-event polls again before each dispatch.
 *   exits      after results: what a loader said before it left counts. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc-util.h"
#include "capability-util.h"
#include "cpu-set-util.h"
#include "device-util.h"
#include "errno-util.h"
#include "escape.h"
#include "event-util.h"
#include "fd-util.h"
#include "fileio.h"
#include "hashmap.h"
#include "io-util.h"
#include "limits-util.h"
#include "list.h"
#include "missing_ioprio.h"
#include "path-util.h"
#include "process-util.h"
#include "socket-util.h"
#include "string-util.h"
#include "virt.h"

#include "udev-module-client.h"
#include "udev-module-config.h"
#include "udev-module-dispatch.h"
#include "udev-module-loader.h"
#include "udev-module-message.h"
#include "udev-module-queue.h"

#define PRIORITY_REQUESTS (SD_EVENT_PRIORITY_NORMAL - 10)
#define PRIORITY_RESULTS  (SD_EVENT_PRIORITY_NORMAL + 10)
#define PRIORITY_EXITS    (SD_EVENT_PRIORITY_NORMAL + 20)

#define LOADERS_MIN 4U

/* The manager goes before its workers and loaders: what it has not read yet, nobody can work on. */
#define DISPATCH_NICE -11

/* With one CPU, workers get less of it for the rules of what does not lead to disks and keyboards: the kernel looks for
 * these in threads of nice level 0, and `udevadm trigger` has it, too. In the guest the last disk comes at 6.6 s then, and
 * else at 6.9 s. With two CPUs it is no gain: who waits for a lock that such a worker holds waits longer, settle takes 9.1
 * to 10.1 s, and 8.8 s without it. */
#define WORKER_NICE_OTHERS 5

/* Chosen, not measured: a loader needs room for the file of a driver and for the driver, of which large ones have some
 * MiB each. Those whose module is live (see MODULE_PROCESSES_PER_LOADER) need less: the driver is there, the file may
 * be still. */
#define LOADER_MEMORY_BYTES (32U * 1024U * 1024U)

/* As long as udevd keeps idle workers. */
#define LOADER_IDLE_USEC (3 * USEC_PER_SEC)

/* No process to be had: try again this much later. */
#define SPAWN_RETRY_USEC (200 * USEC_PER_MSEC)

/* A stop waits this long for what was asked for: a little less than systemd gives a service to stop
 * (DefaultTimeoutStopSec=90s), since after that it kills what is left of the service. */
#define STOP_USEC (80 * USEC_PER_SEC)

typedef struct Loader Loader;

struct ModuleDispatch {
        sd_event *event;
        ModuleQueueMode mode;
        unsigned n_loaders_max;
        usec_t warn_usec;
        int nice;                       /* the manager's own, to which the classes' are relative */
        bool may_nice;                  /* in both directions, that is, with CAP_SYS_NICE */
        unsigned n_cpus;

        ModuleQueue *queue;

        int request_fds[2];             /* SOCK_DGRAM: 0 is read here, 1 is what workers write to */
        sd_event_source *request_source;
        Hashmap *workers;               /* pids that may ask */

        LIST_HEAD(Loader, loaders);     /* who ended a load last comes first: its memory is warm */
        unsigned n_loaders;
        unsigned n_busy;                /* have a step */
        unsigned n_live;                /* of these, whose module is live */
        sd_event_source *idle_source;
        sd_event_source *retry_source;
        sd_event_source *watch_source;
        usec_t watch_usec;

        bool more_due;                  /* an event has become so in this pass */

        bool stopping;
        bool stopped;                   /* the stop took too long: wait for nothing any more */
        sd_event_source *stop_source;
};

struct Loader {
        ModuleDispatch *dispatch;
        pid_t pid;
        int fd;
        bool leave;                     /* has an old configuration: no further step */
        ModuleStep *step;               /* NULL: idle */
        bool live;                      /* its module is, and only the end of the load is waited for */
        bool goes_on;                   /* the load is more than that */
        ModuleClass class;              /* whose priorities it has */
        usec_t since_usec;              /* at work or idle since then */
        sd_event_source *result_source;
        sd_event_source *exit_source;
        sd_event_source *warn_source;
        LIST_FIELDS(Loader, loaders);
};

static void dispatch_start_steps(ModuleDispatch *d);
static void dispatch_watch_idle(ModuleDispatch *d);

static usec_t dispatch_now(ModuleDispatch *d) {
        usec_t t;

        assert_se(sd_event_now(d->event, CLOCK_MONOTONIC, &t) >= 0);
        return t;
}

static void loader_set_step(Loader *loader, ModuleStep *step) {
        ModuleDispatch *d = loader->dispatch;

        d->n_busy += !!step - !!loader->step;

        d->n_live -= loader->live;

        loader->step = step;
        loader->live = loader->goes_on = false;
}

/* Only forgets it: the process leaves by itself when its socket is closed, and never before its load is done. */
static Loader *loader_free(Loader *loader) {
        if (!loader)
                return NULL;

        if (loader->dispatch) {
                LIST_REMOVE(loaders, loader->dispatch->loaders, loader);
                loader->dispatch->n_loaders--;
                loader_set_step(loader, NULL);
        }

        /* Not disabled before: a worker that drops its copy must leave the manager's epoll alone. */
        sd_event_source_unref(loader->result_source);
        sd_event_source_unref(loader->exit_source);
        sd_event_source_unref(loader->warn_source);
        safe_close(loader->fd);

        return mfree(loader);
}

DEFINE_TRIVIAL_CLEANUP_FUNC(Loader *, loader_free);

static void loader_dismiss(Loader *loader) {
        assert(!loader->step);

        loader->leave = true;
        loader->result_source = sd_event_source_disable_unref(loader->result_source);
        loader->fd = safe_close(loader->fd);
}

static bool loader_is_idle(const Loader *loader) {
        return !loader->step && !loader->leave;
}

static void loader_set_class(Loader *loader, ModuleClass class) {
        if (loader->class == class)
                return;

        if (loader->dispatch->may_nice &&
            setpriority(PRIO_PROCESS, loader->pid, loader->dispatch->nice + module_class_nice(class)) < 0)
                log_debug_errno(errno, "Failed to set the nice level of loader ["PID_FMT"], ignoring: %m", loader->pid);
        if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, loader->pid,
                    ioprio_prio_value(IOPRIO_CLASS_BE, module_class_io_level(class))) < 0)
                log_debug_errno(errno, "Failed to set the I/O priority of loader ["PID_FMT"], ignoring: %m",
                                loader->pid);

        loader->class = class;
}

/* What a step is, for the log: who asked first. A MODALIAS may hold any bytes. The caller frees it; NULL if there is
 * no memory. */
static char *step_describe(const ModuleStep *step) {
        _cleanup_free_ char *alias = NULL;
        char *s;

        if (module_step_alias(step))
                alias = cescape(module_step_alias(step));

        if (asprintf(&s, "module %s (for %s, device %s, SEQNUM=%" PRIu64 ")",
                     module_step_name(step), alias ?: "another module",
                     strna(module_step_device(step)), module_step_seqnum(step)) < 0)
                return NULL;

        return s;
}

static int on_loader_warn(sd_event_source *s, uint64_t usec, void *userdata) {
        _cleanup_free_ char *what = NULL;
        Loader *loader = ASSERT_PTR(userdata);
        ModuleDispatch *d = loader->dispatch;
        usec_t takes_usec;

        if (!loader->step)
                return 0;

        takes_usec = dispatch_now(d) - loader->since_usec;
        what = step_describe(loader->step);
        log_warning("Loader ["PID_FMT"]: %s takes long, %s so far. It is waited for; others go on.",
                    loader->pid, strna(what), FORMAT_TIMESPAN(takes_usec, USEC_PER_SEC));

        /* And again when it takes twice as long. */
        (void) sd_event_source_set_time_relative(loader->warn_source, takes_usec);
        (void) sd_event_source_set_enabled(loader->warn_source, SD_EVENT_ONESHOT);
        return 1;
}

static void dispatch_answer(const ModuleAnswer *answer) {
        union sigval value = { .sival_int = (int) (answer->id << 1 | answer->load_yourself) };

        /* The pid is that of a child that was not reaped yet, see module_dispatch_remove_worker(). If the kernel
         * cannot queue the value, the signal comes without it: the worker knows what to do. */
        if (sigqueue(answer->waiter, SIGUSR1, value) < 0)
                log_warning_errno(errno, "Failed to answer worker ["PID_FMT"], it waits until its timeout: %m",
                                  answer->waiter);
}

static void dispatch_send_answers(ModuleDispatch *d) {
        ModuleAnswer answer;

        while (module_queue_pop_answer(d->queue, &answer))
                dispatch_answer(&answer);
}

static int on_loader_result(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Loader *loader = ASSERT_PTR(userdata);
        ModuleDispatch *d = loader->dispatch;
        ModuleLoaderResult result;
        ModuleStep *step;
        ssize_t n;

        n = recv(fd, &result, sizeof(result), MSG_DONTWAIT);
        if (n < 0 && ERRNO_IS_TRANSIENT(errno))
                return 0;
        if (n != sizeof(result) || !loader->step) {
                /* Its end is closed: it has died, on_loader_exit() sees to it. */
                loader->result_source = sd_event_source_disable_unref(loader->result_source);
                return 0;
        }

        if (result == MODULE_LOADER_GOES_ON) {
                loader->goes_on = true;
                return 1;
        }

        step = loader->step;
        loader_set_step(loader, NULL);
        loader->since_usec = dispatch_now(d);
        (void) sd_event_source_set_enabled(loader->warn_source, SD_EVENT_OFF);

        if (DEBUG_LOGGING) {
                _cleanup_free_ char *what = step_describe(step);

                if (result < 0)
                        log_debug_errno(result, "Loader ["PID_FMT"]: %s failed: %m", loader->pid, strna(what));
                else
                        log_debug("Loader ["PID_FMT"]: %s is done.", loader->pid, strna(what));
        }

        module_queue_done(d->queue, step, result, dispatch_now(d));

        if (loader->leave)
                loader_dismiss(loader);
        else {
                LIST_REMOVE(loaders, d->loaders, loader);
                LIST_PREPEND(loaders, d->loaders, loader);
        }

        dispatch_start_steps(d);
        return 1;
}

static int on_loader_exit(sd_event_source *s, const siginfo_t *si, void *userdata) {
        Loader *loader = ASSERT_PTR(userdata);
        ModuleDispatch *d = loader->dispatch;
        const char *how = si->si_code == CLD_EXITED ? "exit status" : "signal";
        ModuleStep *step = loader->step;

        if (step) {
                _cleanup_free_ char *what = step_describe(step);

                if (module_queue_died(d->queue, step, dispatch_now(d)))
                        log_warning("Loader ["PID_FMT"] died (%s %i) at %s. It is tried once more.",
                                    loader->pid, how, si->si_status, strna(what));
                else
                        log_error("Loader ["PID_FMT"] died (%s %i) at %s. It is not tried again; "
                                  "events that wait for it load it by themselves.",
                                  loader->pid, how, si->si_status, strna(what));
        } else if (!loader->leave)
                log_warning("Loader ["PID_FMT"] died (%s %i) while idle. Another one is started when there is work.",
                            loader->pid, how, si->si_status);

        loader_free(loader);
        dispatch_start_steps(d);
        return 1;
}

static int loader_spawn(ModuleDispatch *d, Loader **ret) {
        _cleanup_(loader_freep) Loader *loader = NULL;
        _cleanup_close_pair_ int fds[2] = { -EBADF, -EBADF };
        int r;

        loader = new(Loader, 1);
        if (!loader)
                return -ENOMEM;

        *loader = (Loader) {
                .fd = -EBADF,
                .class = _MODULE_CLASS_INVALID,
        };

        if (socketpair(AF_UNIX, SOCK_SEQPACKET|SOCK_CLOEXEC, 0, fds) < 0)
                return -errno;

        /* Everything that can fail comes before the fork, but for the exit source, which needs the pid. */
        r = sd_event_add_io(d->event, &loader->result_source, fds[0], EPOLLIN, on_loader_result, loader);
        if (r < 0)
                return r;

        r = sd_event_source_set_priority(loader->result_source, PRIORITY_RESULTS);
        if (r < 0)
                return r;

        r = sd_event_add_time_relative(d->event, &loader->warn_source, CLOCK_MONOTONIC, d->warn_usec, USEC_PER_SEC,
                                       on_loader_warn, loader);
        if (r < 0)
                return r;

        r = sd_event_source_set_enabled(loader->warn_source, SD_EVENT_OFF);
        if (r < 0)
                return r;

        r = safe_fork("(udev-loader)", 0, &loader->pid);
        if (r < 0)
                return r;
        if (r == 0) {
                r = module_loader_main(fds[1]);
                log_close();
                _exit(r);
        }

        loader->fd = TAKE_FD(fds[0]);

        /* On failure the socket is closed, and the new process leaves at once. */
        r = sd_event_add_child(d->event, &loader->exit_source, loader->pid, WEXITED, on_loader_exit, loader);
        if (r < 0)
                return r;

        r = sd_event_source_set_priority(loader->exit_source, PRIORITY_EXITS);
        if (r < 0)
                return r;

        loader->dispatch = d;
        LIST_PREPEND(loaders, d->loaders, loader);
        d->n_loaders++;

        *ret = TAKE_PTR(loader);
        return 0;
}

static int loader_send(Loader *loader, const char *name, const char *alias) {
        static char buffer[MODULE_MESSAGE_MAX];
        size_t size;
        int r;

        r = module_message_build_order(&(ModuleRequestStep) { name, alias }, buffer, &size);
        if (r < 0)
                return r;

        return RET_NERRNO(send(loader->fd, buffer, size, MSG_NOSIGNAL|MSG_DONTWAIT));
}

static int loader_start(Loader *loader, ModuleStep *step) {
        ModuleDispatch *d = loader->dispatch;
        int r;

        loader_set_class(loader, module_step_class(step));

        r = loader_send(loader, module_step_name(step), module_step_alias(step));
        if (r < 0) {
                loader_dismiss(loader);
                return r;
        }

        loader_set_step(loader, step);
        loader->since_usec = dispatch_now(d);

        /* Look soon, also if it was to be later for others. */
        if (d->watch_usec > MODULE_WATCH_USEC) {
                d->watch_usec = MODULE_WATCH_USEC;
                (void) event_source_disable(d->watch_source);
        }

        (void) sd_event_source_set_time_relative(loader->warn_source, d->warn_usec);
        (void) sd_event_source_set_enabled(loader->warn_source, SD_EVENT_ONESHOT);
        return 0;
}

static int on_retry(sd_event_source *s, uint64_t usec, void *userdata) {
        dispatch_start_steps(ASSERT_PTR(userdata));
        return 1;
}

static int on_idle(sd_event_source *s, uint64_t usec, void *userdata) {
        ModuleDispatch *d = ASSERT_PTR(userdata);
        usec_t now_usec = dispatch_now(d);
        bool some_stay = false;

        LIST_FOREACH(loaders, loader, d->loaders) {
                if (!loader_is_idle(loader))
                        continue;

                if (now_usec >= usec_add(loader->since_usec, LOADER_IDLE_USEC))
                        loader_dismiss(loader);
                else
                        some_stay = true;
        }

        if (some_stay)
                dispatch_watch_idle(d);
        return 1;
}

static void dispatch_watch_idle(ModuleDispatch *d) {
        (void) event_reset_time_relative(d->event, &d->idle_source, CLOCK_MONOTONIC, LOADER_IDLE_USEC, USEC_PER_SEC,
                                         on_idle, d, 0, "module-loaders-idle", false);
}

static bool module_is_live(const char *name) {
        _cleanup_free_ char *path = NULL, *state = NULL;

        if (!filename_is_valid(name))
                return false;

        path = path_join("/sys/module", name, "initstate");
        return path && read_one_line_file(path, &state) >= 0 && streq(state, "live");
}

/* The state follows the name, which is in brackets and may hold any character: proc(5). */
static bool process_sleeps(pid_t pid) {
        _cleanup_free_ char *line = NULL;
        const char *p;

        if (read_one_line_file(procfs_file_alloca(pid, "stat"), &line) < 0)
                return false;

        p = strrchr(line, ')');
        return p && startswith(p, ") ") && !startswith(p, ") R");
}

/* finit_module() returns when all asynchronous probes in the system have ended, also those of other modules: one slow
 * disk controller holds every load. What builds on the module needs not wait for that, and in stock does not either:
 * there it finds the module live. */
static bool loader_note_live(Loader *loader) {
        ModuleDispatch *d = loader->dispatch;

        /* Strictly serial means to the end. And what it has sent comes first: it may say that it goes on. */
        if (loader->live || loader->goes_on || d->n_loaders_max == 1 ||
            fd_wait_for_event(loader->fd, POLLIN, 0) != 0 ||
            !module_is_live(module_step_name(loader->step)))
                return false;

        loader->live = true;
        d->n_live++;
        module_queue_live(d->queue, loader->step);
        return true;
}

/* Look at what loads are doing that take longer: a driver may sleep in its probe, then others can use the CPU. And a
 * module may be live while its uevent is still unread, or was lost. */
static int on_watch(sd_event_source *s, uint64_t usec, void *userdata) {
        ModuleDispatch *d = ASSERT_PTR(userdata);
        usec_t now_usec = dispatch_now(d);

        LIST_FOREACH(loaders, loader, d->loaders) {
                if (!loader->step || loader->live || now_usec < usec_add(loader->since_usec, MODULE_WATCH_USEC))
                        continue;

                if (!loader_note_live(loader))
                        module_queue_park(d->queue, loader->step, process_sleeps(loader->pid));
        }

        d->watch_usec = MIN(2 * d->watch_usec, MODULE_WATCH_USEC_MAX);
        dispatch_start_steps(d);
        return 1;
}

static void dispatch_watch(ModuleDispatch *d) {
        if (d->n_loaders_max == 1) /* strictly serial */
                return;

        LIST_FOREACH(loaders, loader, d->loaders)
                if (loader->step && !loader->live) {
                        (void) event_reset_time_relative(d->event, &d->watch_source, CLOCK_MONOTONIC,
                                                         d->watch_usec, USEC_PER_MSEC,
                                                         on_watch, d, 0, "module-loaders-watch", false);
                        return;
                }
}

/* The loader for a step: an idle one, or a new one. */
static int dispatch_get_loader(ModuleDispatch *d, Loader **ret) {
        LIST_FOREACH(loaders, loader, d->loaders)
                if (loader_is_idle(loader)) {
                        *ret = loader;
                        return 0;
                }

        return loader_spawn(d, ret);
}

/* Whose module is live takes no place, but is a process. */
static unsigned dispatch_n_free(ModuleDispatch *d) {
        return MIN(LESS_BY(d->n_loaders_max, d->n_busy - d->n_live),
                   LESS_BY(d->n_loaders_max * MODULE_PROCESSES_PER_LOADER, d->n_busy));
}

static ModuleStep *dispatch_next_step(ModuleDispatch *d) {
        if (d->retry_source && sd_event_source_get_enabled(d->retry_source, NULL) > 0)
                return NULL;

        return module_queue_next(d->queue, dispatch_n_free(d), dispatch_now(d));
}

/* Start what may start, answer who waits. To be called after every change of the queue. */
static void dispatch_start_steps(ModuleDispatch *d) {
        ModuleStep *step;
        int r;

        while ((step = dispatch_next_step(d))) {
                Loader *loader = NULL;

                r = dispatch_get_loader(d, &loader);
                if (r >= 0)
                        r = loader_start(loader, step);
                if (r < 0) {
                        module_queue_put_back(d->queue, step);
                        log_warning_errno(r, "Failed to start a module loader, %u modules wait, trying again in %s: %m",
                                          module_queue_n_waiting(d->queue),
                                          FORMAT_TIMESPAN(SPAWN_RETRY_USEC, USEC_PER_MSEC));
                        (void) event_reset_time_relative(d->event, &d->retry_source, CLOCK_MONOTONIC,
                                                         SPAWN_RETRY_USEC, USEC_PER_MSEC,
                                                         on_retry, d, 0, "module-loader-retry", true);
                        break;
                }
        }

        /* Whoever has come to want it may be of a better class than who started it. */
        LIST_FOREACH(loaders, l, d->loaders)
                if (l->step)
                        loader_set_class(l, module_step_class(l->step));

        dispatch_send_answers(d);
        dispatch_watch(d);

        if (d->stopping && module_queue_is_empty(d->queue)) {
                LIST_FOREACH(loaders, l, d->loaders)
                        if (loader_is_idle(l))
                                loader_dismiss(l);
        } else if (d->n_loaders > d->n_busy)
                dispatch_watch_idle(d);
}

static int on_request(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        static char buffer[MODULE_MESSAGE_MAX];
        ModuleDispatch *d = ASSERT_PTR(userdata);

        for (;;) {
                ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX];
                CMSG_BUFFER_TYPE(CMSG_SPACE(sizeof(struct ucred))) control;
                struct iovec iov = IOVEC_MAKE(buffer, sizeof(buffer));
                struct msghdr mh = {
                        .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof(control),
                };
                struct ucred *ucred;
                ModuleRequest request;
                ssize_t n;
                int r;

                n = recvmsg_safe(fd, &mh, MSG_DONTWAIT|MSG_TRUNC);
                if (n < 0) {
                        if (n == -EINTR)
                                continue;
                        if (n == -EAGAIN)
                                break;
                        if (n == -EXFULL) {
                                log_warning("Ignoring a module request with more ancillary data than it may have.");
                                continue;
                        }

                        /* An error returned from here would switch the source off. */
                        log_error_errno(n, "Failed to receive a module request, ignoring: %m");
                        break;
                }

                cmsg_close_all(&mh);

                ucred = CMSG_FIND_DATA(&mh, SOL_SOCKET, SCM_CREDENTIALS, struct ucred);
                if (!ucred || !hashmap_contains(d->workers, PID_TO_PTR(ucred->pid))) {
                        log_warning("Ignoring a module request from process "PID_FMT", which is no worker.",
                                    ucred ? ucred->pid : 0);
                        continue;
                }

                if ((size_t) n > sizeof(buffer))
                        r = -EMSGSIZE;
                else
                        r = module_message_parse_request(buffer, n, ucred->pid, steps, &request);
                if (r < 0) {
                        log_error_errno(r, "Ignoring a module request of %zi bytes from worker ["PID_FMT"] "
                                        "that cannot be read: %m", n, ucred->pid);
                        continue;
                }

                r = d->stopped ? -ESHUTDOWN : module_queue_add(d->queue, &request, dispatch_now(d));
                if (r < 0) {
                        log_error_errno(r, "Failed to queue the modules of device %s (SEQNUM=%" PRIu64 "), %s: %m",
                                        strna(request.device), request.seqnum,
                                        request.waiter > 0 ? "its worker loads them" : "they are not loaded");
                        if (request.waiter > 0)
                                dispatch_answer(&(ModuleAnswer) {
                                        .waiter = request.waiter,
                                        .id = request.id,
                                        .load_yourself = true,
                                });
                }
        }

        dispatch_start_steps(d);
        return 1;
}

static unsigned cpus_number(void) {
        int r;

        r = cpus_in_affinity_mask();
        if (r < 0) {
                log_warning_errno(r, "Failed to determine the number of CPUs, assuming one: %m");
                return 1;
        }

        return r;
}

static int dispatch_open(ModuleDispatch *d) {
        int r;

        if (socketpair(AF_UNIX, SOCK_DGRAM|SOCK_CLOEXEC, 0, d->request_fds) < 0)
                return -errno;

        r = setsockopt_int(d->request_fds[0], SOL_SOCKET, SO_PASSCRED, true);
        if (r < 0)
                return r;

        r = sd_event_add_io(d->event, &d->request_source, d->request_fds[0], EPOLLIN, on_request, d);
        if (r < 0)
                return r;

        r = sd_event_source_set_priority(d->request_source, PRIORITY_REQUESTS);
        if (r < 0)
                return r;

        (void) sd_event_source_set_description(d->request_source, "module-requests");

        return module_queue_new(&d->queue, MIN(d->n_loaders_max,
                                               MAX(MODULE_PLACES_MIN, d->n_cpus * MODULE_PLACES_PER_CPU)));
}

static unsigned loaders_max(const ModuleConfig *config) {
        if (config->loaders > 0)
                return config->loaders;

        return CLAMP(physical_memory() / LOADER_MEMORY_BYTES, LOADERS_MIN, MODULE_LOADERS_MAX);
}

/* What keeps the queue from working here, or NULL. */
static const char *dispatch_obstacle(void) {
        if (!module_loader_context())
                return "libkmod cannot be used";
        if (detect_container() > 0)
                return "a container loads no modules";
        if (have_effective_cap(CAP_SYS_MODULE) == 0)
                return "CAP_SYS_MODULE is missing";

        return NULL;
}

int module_dispatch_start(ModuleDispatch **ret, sd_event *event, usec_t warn_usec) {
        _cleanup_(module_dispatch_freep) ModuleDispatch *d = NULL;
        const ModuleConfig *config = module_config();
        const char *obstacle;
        int r;

        assert(ret);
        assert(event);

        *ret = NULL;

        if (config->mode == MODULE_QUEUE_NO)
                return 0;

        obstacle = dispatch_obstacle();
        if (obstacle) {
                log_notice("The module queue stays off: %s. Workers load modules by themselves.", obstacle);
                return 0;
        }

        d = new(ModuleDispatch, 1);
        if (!d)
                return log_oom();

        *d = (ModuleDispatch) {
                .event = sd_event_ref(event),
                .mode = config->mode,
                .n_loaders_max = loaders_max(config),
                .warn_usec = MAX(warn_usec, USEC_PER_SEC),
                .watch_usec = MODULE_WATCH_USEC,
                .nice = getpriority(PRIO_PROCESS, 0),
                .may_nice = have_effective_cap(CAP_SYS_NICE) > 0,
                .n_cpus = cpus_number(),
                .request_fds = { -EBADF, -EBADF },
        };

        r = dispatch_open(d);
        if (r < 0)
                return log_error_errno(r, "Failed to set up the module queue, it stays off, "
                                       "workers load modules by themselves: %m");

        log_info("The module queue is on, with %u loaders at most%s.", d->n_loaders_max,
                 d->mode == MODULE_QUEUE_WAIT ? ", events wait" : "");

        /* Without it, whatever has got less of the CPU once would never get more again. */
        if (!d->may_nice)
                log_notice("CAP_SYS_NICE is missing: modules and events are started in order of class, but all get the "
                           "same share of the CPU.");
        else if (setpriority(PRIO_PROCESS, 0, d->nice + DISPATCH_NICE) < 0)
                log_debug_errno(errno, "Failed to set the nice level of udevd, ignoring: %m");

        *ret = TAKE_PTR(d);
        return 0;
}

ModuleDispatch *module_dispatch_free(ModuleDispatch *d) {
        if (!d)
                return NULL;

        while (d->loaders)
                loader_free(d->loaders);

        /* Not disabled before, as for loaders. */
        sd_event_source_unref(d->request_source);
        sd_event_source_unref(d->idle_source);
        sd_event_source_unref(d->retry_source);
        sd_event_source_unref(d->watch_source);
        sd_event_source_unref(d->stop_source);
        safe_close_pair(d->request_fds);
        hashmap_free(d->workers);
        module_queue_free(d->queue);
        sd_event_unref(d->event);

        return mfree(d);
}

ModuleDispatch *module_dispatch_enter_worker(ModuleDispatch *d) {
        if (!d)
                return NULL;

        module_client_init(TAKE_FD(d->request_fds[1]), d->mode, d->nice,
                           d->may_nice && d->n_cpus == 1 ? WORKER_NICE_OTHERS : 0);
        return module_dispatch_free(d);
}

void module_dispatch_add_worker(ModuleDispatch *d, pid_t pid) {
        int r;

        if (!d)
                return;

        r = hashmap_ensure_put(&d->workers, NULL, PID_TO_PTR(pid), PID_TO_PTR(pid));
        if (r < 0)
                log_error_errno(r, "Failed to note worker ["PID_FMT"], its module requests will be ignored: %m", pid);
}

void module_dispatch_remove_worker(ModuleDispatch *d, pid_t pid) {
        if (!d)
                return;

        (void) hashmap_remove(d->workers, PID_TO_PTR(pid));
        module_queue_forget_waiter(d->queue, pid);
}

/* Linux sends the `add` uevent of a module when its init has ended well (since 5.0; before that, when it began, so
 * look). */
static void dispatch_note_module(ModuleDispatch *d, const char *name) {
        module_queue_forget_failures(d->queue);

        LIST_FOREACH(loaders, loader, d->loaders)
                if (loader->step && streq(module_step_name(loader->step), name)) {
                        if (loader_note_live(loader))
                                dispatch_start_steps(d);
                        break;
                }
}

void module_dispatch_note_uevent(ModuleDispatch *d, sd_device *dev, ModuleEvent *event) {
        const char *subsystem, *name;

        if (!d)
                return;

        module_event_init(event, dev, dispatch_now(d));

        if (sd_device_get_subsystem(dev, &subsystem) >= 0 && streq(subsystem, "module") &&
            sd_device_get_sysname(dev, &name) >= 0)
                dispatch_note_module(d, name);
}

usec_t module_dispatch_next_pass(ModuleDispatch *d, usec_t due) {
        if (due == USEC_INFINITY)
                return 0;

        if (d && (due == 0 || d->more_due)) {
                d->more_due = false;
                return dispatch_now(d);
        }

        return USEC_INFINITY;
}

void module_dispatch_block_event(ModuleDispatch *d, ModuleEvent *event, ModuleEvent *blocker) {
        if (d && module_event_block(event, blocker))
                d->more_due = true;
}

void module_dispatch_reload(ModuleDispatch *d) {
        if (!d)
                return;

        module_queue_forget_failures(d->queue);

        LIST_FOREACH(loaders, loader, d->loaders)
                if (loader_is_idle(loader))
                        loader_dismiss(loader);
                else
                        loader->leave = true;
}

static void dispatch_hand_over(const char *name, void *userdata) {
        Loader *loader = userdata;
        int r;

        /* The deny list was applied when it was asked for. */
        r = loader ? loader_send(loader, name, NULL) : -ECHILD;
        if (r < 0)
                log_error_errno(r, "Module %s was asked for and is not loaded, since udevd stops: %m", name);
        else
                log_warning("Module %s was asked for and is not loaded yet, and udevd stops. Loader ["PID_FMT"] loads "
                            "it, unless it is ended with the service.", name, loader->pid);
}

static int on_stop_timeout(sd_event_source *s, uint64_t usec, void *userdata) {
        ModuleDispatch *d = ASSERT_PTR(userdata);
        Loader *heir = NULL;

        LIST_FOREACH(loaders, loader, d->loaders)
                if (loader->step) {
                        _cleanup_free_ char *what = step_describe(loader->step);

                        log_warning("Not waiting longer for %s; loader ["PID_FMT"] goes on, unless it is ended with the "
                                    "service.", strna(what), loader->pid);
                }

        /* What is left goes to one more loader, which does it one by one, and leaves when it gets to the end of a
         * socket that nobody holds any more. */
        if (module_dispatch_is_busy(d) && loader_spawn(d, &heir) >= 0)
                /* It has inherited the manager's priority, and gets no step that would set its own. */
                loader_set_class(heir, MODULE_CLASS_OTHER);
        (void) module_queue_give_up(d->queue, dispatch_hand_over, heir);
        dispatch_send_answers(d);
        d->stopped = true;
        return 1;
}

void module_dispatch_stop(ModuleDispatch *d) {
        int r;

        if (!d || d->stopping)
                return;

        d->stopping = true;

        if (module_dispatch_is_busy(d)) {
                log_info("Waiting for %u modules that are loading and %u that are next, for %s at most.",
                         module_queue_n_loading(d->queue), module_queue_n_waiting(d->queue),
                         FORMAT_TIMESPAN(STOP_USEC, USEC_PER_SEC));
                LIST_FOREACH(loaders, loader, d->loaders)
                        if (loader->step) {
                                _cleanup_free_ char *what = step_describe(loader->step);

                                log_info("Waiting for %s.", strna(what));
                        }
        }

        /* Workers that are not done may still ask, so the limit is needed even if there is nothing to do now. */
        r = sd_event_add_time_relative(d->event, &d->stop_source, CLOCK_MONOTONIC, STOP_USEC, USEC_PER_SEC,
                                       on_stop_timeout, d);
        if (r < 0) {
                log_warning_errno(r, "Failed to limit the time to stop, not waiting for module loads: %m");
                (void) on_stop_timeout(NULL, 0, d);
                return;
        }

        dispatch_start_steps(d);
}

bool module_dispatch_is_busy(ModuleDispatch *d) {
        return d && !d->stopped && !module_queue_is_empty(d->queue);
}

bool module_dispatch_has_loaders(ModuleDispatch *d) {
        return d && !d->stopped && d->loaders;
}
