/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Order of the event sources, which is what keeps `udevadm settle` honest (model rule 2). Smaller goes first; the
 * device monitor, the workers' results and their exits have SD_EVENT_PRIORITY_NORMAL, or in 262 a little less, requests
 * come before those:
 *
 *   results    after the device monitor: the kernel has sent the uevents of a probe before finit_module() returns,
 *              so when a result is read, no uevent of that load is unread. sd-event polls again before each dispatch.
 *   exits      after results: what a loader said before it left counts. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc-util.h"
#include "errno-util.h"
#include "escape.h"
#include "event-util.h"
#include "fd-util.h"
#include "fileio.h"
#include "io-util.h"
#include "ioprio-util.h"
#include "list.h"
#include "log.h"
#include "path-util.h"
#include "process-util.h"
#include "string-util.h"

#include "udev-module-compat.h"
#include "udev-module-loader.h"
#include "udev-module-message.h"
#include "udev-module-pool.h"

#define PRIORITY_RESULTS (SD_EVENT_PRIORITY_NORMAL + 10)
#define PRIORITY_EXITS   (SD_EVENT_PRIORITY_NORMAL + 20)

/* As long as udevd keeps idle workers. */
#define LOADER_IDLE_USEC (3 * USEC_PER_SEC)

/* File descriptors that loaders leave to the manager: when it finds none for a connection of `udevadm control`, it never
 * accepts one again. It has some open for a moment to read the database, or to write a file. Chosen, not measured. */
#define FDS_LEFT 8

typedef struct Loader Loader;

struct ModulePool {
        sd_event *event;
        ModuleQueue *queue;             /* the dispatch's */
        ModuleRecord *record;           /* the dispatch's, too */
        ModulePoolSettings settings;
        void (*changed)(void *userdata);
        void *userdata;

        LIST_HEAD(Loader, loaders);     /* who ended a load last comes first: its memory is warm */
        unsigned n_loaders;
        unsigned n_busy;                /* have a step */
        unsigned n_live;                /* of these, whose module is live */
        sd_event_source *idle_source;
        sd_event_source *watch_source;
        usec_t watch_usec;
};

struct Loader {
        ModulePool *pool;
        pid_t pid;
        int fd;
        bool leave;                     /* has an old configuration: no further step */
        ModuleStep *step;               /* NULL: idle */
        uint32_t row;                   /* of the step in the record */
        bool live;                      /* its module is, and only the end of the load is waited for */
        bool goes_on;                   /* the load is more than that */
        ModuleClass class;              /* whose priorities it has */
        usec_t since_usec;              /* at work or idle since then */
        sd_event_source *result_source;
        sd_event_source *exit_source;
        sd_event_source *warn_source;
        LIST_FIELDS(Loader, loaders);
};

static void pool_watch_idle(ModulePool *pool);

static usec_t pool_now(ModulePool *pool) {
        usec_t t;

        assert_se(sd_event_now(pool->event, CLOCK_MONOTONIC, &t) >= 0);
        return t;
}

static void pool_changed(ModulePool *pool) {
        pool->changed(pool->userdata);
}

static void loader_set_step(Loader *loader, ModuleStep *step) {
        ModulePool *pool = loader->pool;

        pool->n_busy += !!step - !!loader->step;

        pool->n_live -= loader->live;

        loader->step = step;
        loader->live = loader->goes_on = false;
}

/* Only forgets it: the process leaves by itself when its socket is closed, and never before its load is done. */
static Loader *loader_free(Loader *loader) {
        if (!loader)
                return NULL;

        if (loader->pool) {
                LIST_REMOVE(loaders, loader->pool->loaders, loader);
                loader->pool->n_loaders--;
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

/* It leaves then, if it is not dead already. */
static void loader_close(Loader *loader) {
        loader->result_source = sd_event_source_disable_unref(loader->result_source);
        loader->fd = safe_close(loader->fd);
}

static void loader_dismiss(Loader *loader) {
        assert(!loader->step);

        loader->leave = true;
        loader_close(loader);
}

static bool loader_is_idle(const Loader *loader) {
        return !loader->step && loader->fd >= 0;
}

static void loader_set_class(Loader *loader, ModuleClass class) {
        if (loader->class == class)
                return;

        if (loader->pool->settings.may_nice &&
            setpriority(PRIO_PROCESS, loader->pid, loader->pool->settings.nice + module_class_nice(class)) < 0)
                log_debug_errno(errno, "Failed to set the nice level of loader ["PID_FMT"], ignoring: %m", loader->pid);
        if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, loader->pid,
                    ioprio_prio_value(IOPRIO_CLASS_BE, module_class_io_level(class))) < 0)
                log_debug_errno(errno, "Failed to set the I/O priority of loader ["PID_FMT"], ignoring: %m",
                                loader->pid);

        loader->class = class;
}

static void loader_record_start(Loader *loader) {
        ModuleStep *step = loader->step;

        loader->row = module_record_add_load(loader->pool->record, &(ModuleRecordLoad) {
                .module = module_step_name(step),
                .alias = module_step_first_alias(step),
                .device = module_step_device(step),
                .seqnum = module_step_seqnum(step),
                .class = module_step_class(step),
                .preload = !module_step_alias(step),
                .n_requests = module_step_n_shared(step),
                .loader = loader->pid,
                .asked = module_step_asked(step),
                .started = loader->since_usec,
        });
}

/* Whoever has come to want it. Returns the load's row, NULL if there was no room for it. */
static ModuleRecordLoad *loader_record_requests(Loader *loader) {
        ModuleRecordLoad *row = module_record_get_load(loader->pool->record, loader->row);

        if (row) {
                row->class = MIN(row->class, module_step_class(loader->step));
                row->n_requests = module_step_n_shared(loader->step);
        }

        return row;
}

/* Before the queue hears of it: then the step may be gone. */
static void loader_record_end(Loader *loader, int error) {
        ModuleRecordLoad *row = loader_record_requests(loader);

        if (!row)
                return;

        row->done = pool_now(loader->pool);
        row->error = MIN(error, 0);
}

/* What a step is, for the log: who asked first. A MODALIAS may hold any bytes. The caller frees it; NULL if there is
 * no memory. */
static char *step_describe(const ModuleStep *step) {
        _cleanup_free_ char *alias = NULL;
        char *s;

        if (!module_step_device(step))
                return strjoin("module ", module_step_name(step), " (nobody waits for it any more)");

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
        ModulePool *pool = loader->pool;
        usec_t takes_usec;

        if (!loader->step)
                return 0;

        takes_usec = pool_now(pool) - loader->since_usec;
        what = step_describe(loader->step);
        log_warning("Loader ["PID_FMT"]: %s takes long, %s so far. It is waited for; others go on.",
                    loader->pid, strna(what), FORMAT_TIMESPAN(takes_usec, USEC_PER_SEC));

        /* And again when it takes twice as long. */
        (void) sd_event_source_set_time_relative(loader->warn_source, takes_usec);
        (void) sd_event_source_set_enabled(loader->warn_source, SD_EVENT_ONESHOT);
        return 1;
}

static int on_loader_result(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Loader *loader = ASSERT_PTR(userdata);
        ModulePool *pool = loader->pool;
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

        loader_record_end(loader, result);
        step = loader->step;
        loader_set_step(loader, NULL);
        loader->since_usec = pool_now(pool);
        (void) sd_event_source_set_enabled(loader->warn_source, SD_EVENT_OFF);

        if (DEBUG_LOGGING) {
                _cleanup_free_ char *what = step_describe(step);

                if (result < 0)
                        log_debug_errno(result, "Loader ["PID_FMT"]: %s failed: %m", loader->pid, strna(what));
                else
                        log_debug("Loader ["PID_FMT"]: %s is done.", loader->pid, strna(what));
        }

        module_queue_done(pool->queue, step, result, pool_now(pool));

        if (loader->leave)
                loader_dismiss(loader);
        else {
                LIST_REMOVE(loaders, pool->loaders, loader);
                LIST_PREPEND(loaders, pool->loaders, loader);
        }

        pool_changed(pool);
        return 1;
}

static int on_loader_exit(sd_event_source *s, const siginfo_t *si, void *userdata) {
        Loader *loader = ASSERT_PTR(userdata);
        ModulePool *pool = loader->pool;
        const char *how = si->si_code == CLD_EXITED ? "exit status" : "signal";
        ModuleStep *step = loader->step;

        if (step) {
                _cleanup_free_ char *what = step_describe(step);

                loader_record_end(loader, -EOWNERDEAD);
                if (module_queue_died(pool->queue, step, pool_now(pool)))
                        log_warning("Loader ["PID_FMT"] died (%s %i) at %s. It is tried once more.",
                                    loader->pid, how, si->si_status, strna(what));
                else if (loader->live)
                        log_warning("Loader ["PID_FMT"] died (%s %i) at %s. It is live, but may have failed to probe "
                                    "a device; the kernel's log says so then.",
                                    loader->pid, how, si->si_status, strna(what));
                else
                        log_error("Loader ["PID_FMT"] died (%s %i) at %s. It is not tried again; "
                                  "events that wait for it load it by themselves.",
                                  loader->pid, how, si->si_status, strna(what));
        } else if (!loader->leave)
                log_warning("Loader ["PID_FMT"] died (%s %i) while idle. Another one is started when there is work.",
                            loader->pid, how, si->si_status);

        loader_free(loader);
        pool_changed(pool);
        return 1;
}

static int loader_spawn(ModulePool *pool, Loader **ret) {
        _cleanup_(loader_freep) Loader *loader = NULL;
        _cleanup_close_pair_ int fds[2] = { -EBADF, -EBADF };
        struct rlimit limit;
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

        /* They are the lowest that are free. */
        if (getrlimit(RLIMIT_NOFILE, &limit) >= 0 && MAX(fds[0], fds[1]) + (rlim_t) FDS_LEFT >= limit.rlim_cur)
                return -EMFILE;

        /* Everything that can fail comes before the fork, but for the exit source, which needs the pid. */
        r = sd_event_add_io(pool->event, &loader->result_source, fds[0], EPOLLIN, on_loader_result, loader);
        if (r < 0)
                return r;

        r = sd_event_source_set_priority(loader->result_source, PRIORITY_RESULTS);
        if (r < 0)
                return r;

        r = sd_event_add_time_relative(pool->event, &loader->warn_source, CLOCK_MONOTONIC,
                                       pool->settings.warn_usec, USEC_PER_SEC, on_loader_warn, loader);
        if (r < 0)
                return r;

        r = sd_event_source_set_enabled(loader->warn_source, SD_EVENT_OFF);
        if (r < 0)
                return r;

        r = fork_process("(udev-loader)", &loader->pid);
        if (r < 0)
                return r;
        if (r == 0) {
                /* What an install line leaves behind is cleaned up there. */
                if (pool->settings.cgroup) {
                        r = enter_cgroup(pool->settings.cgroup);
                        if (r < 0)
                                log_warning_errno(r, "Failed to move a loader into cgroup %s, ignoring: %m",
                                                  pool->settings.cgroup);
                }

                r = module_loader_main(fds[1]);
                log_close();
                _exit(r);
        }

        loader->fd = TAKE_FD(fds[0]);

        /* On failure the socket is closed, and the new process leaves at once. */
        r = sd_event_add_child(pool->event, &loader->exit_source, loader->pid, WEXITED, on_loader_exit, loader);
        if (r < 0)
                return r;

        r = sd_event_source_set_priority(loader->exit_source, PRIORITY_EXITS);
        if (r < 0)
                return r;

        loader->pool = pool;
        LIST_PREPEND(loaders, pool->loaders, loader);
        pool->n_loaders++;

        *ret = TAKE_PTR(loader);
        return 0;
}

static int loader_send(Loader *loader, ModuleStep *step) {
        static char buffer[MODULE_MESSAGE_MAX];
        size_t size;
        int r;

        r = module_message_build_order(&(ModuleRequestStep) { module_step_name(step), module_step_alias(step) },
                                       buffer, &size);
        if (r < 0)
                return r;

        return RET_NERRNO(send(loader->fd, buffer, size, MSG_NOSIGNAL|MSG_DONTWAIT));
}

static int loader_start(Loader *loader, ModuleStep *step) {
        ModulePool *pool = loader->pool;
        int r;

        loader_set_class(loader, module_step_class(step));

        r = loader_send(loader, step);
        if (r == -EPIPE)
                loader_close(loader);
        else if (r < 0)
                loader_dismiss(loader);
        if (r < 0)
                return r;

        loader_set_step(loader, step);
        loader->since_usec = pool_now(pool);
        loader_record_start(loader);

        /* Look soon, also if it was to be later for others. */
        if (pool->watch_usec > MODULE_WATCH_USEC) {
                pool->watch_usec = MODULE_WATCH_USEC;
                (void) event_source_disable(pool->watch_source);
        }

        (void) sd_event_source_set_time_relative(loader->warn_source, pool->settings.warn_usec);
        (void) sd_event_source_set_enabled(loader->warn_source, SD_EVENT_ONESHOT);
        return 0;
}

static int on_idle(sd_event_source *s, uint64_t usec, void *userdata) {
        ModulePool *pool = ASSERT_PTR(userdata);
        usec_t now_usec = pool_now(pool);
        bool some_stay = false;

        LIST_FOREACH(loaders, loader, pool->loaders) {
                if (!loader_is_idle(loader))
                        continue;

                if (now_usec >= usec_add(loader->since_usec, LOADER_IDLE_USEC))
                        loader_dismiss(loader);
                else
                        some_stay = true;
        }

        if (some_stay)
                pool_watch_idle(pool);
        return 1;
}

static void pool_watch_idle(ModulePool *pool) {
        (void) event_reset_time_relative(pool->event, &pool->idle_source, CLOCK_MONOTONIC,
                                         LOADER_IDLE_USEC, USEC_PER_SEC,
                                         on_idle, pool, 0, "module-loaders-idle", false);
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
        ModulePool *pool = loader->pool;
        ModuleRecordLoad *row;

        /* Strictly serial means to the end. And what it has sent comes first: it may say that it goes on. */
        if (loader->live || loader->goes_on || pool->settings.n_loaders_max == 1 ||
            fd_wait_for_event(loader->fd, POLLIN, 0) != 0 ||
            !module_is_live(module_step_name(loader->step)))
                return false;

        loader->live = true;
        pool->n_live++;
        row = module_record_get_load(pool->record, loader->row);
        if (row)
                row->live = pool_now(pool);
        module_queue_live(pool->queue, loader->step);
        return true;
}

/* Look at what loads are doing that take longer: a driver may sleep in its probe, then others can use the CPU. And a
 * module may be live while its uevent is still unread, or was lost. */
static int on_watch(sd_event_source *s, uint64_t usec, void *userdata) {
        ModulePool *pool = ASSERT_PTR(userdata);
        usec_t now_usec = pool_now(pool);

        LIST_FOREACH(loaders, loader, pool->loaders) {
                if (!loader->step || loader->live || now_usec < usec_add(loader->since_usec, MODULE_WATCH_USEC))
                        continue;

                if (!loader_note_live(loader))
                        module_queue_park(pool->queue, loader->step, process_sleeps(loader->pid));
        }

        pool->watch_usec = MIN(2 * pool->watch_usec, MODULE_WATCH_USEC_MAX);
        pool_changed(pool);
        return 1;
}

static void pool_watch(ModulePool *pool) {
        if (pool->settings.n_loaders_max == 1) /* strictly serial */
                return;

        LIST_FOREACH(loaders, loader, pool->loaders)
                if (loader->step && !loader->live) {
                        (void) event_reset_time_relative(pool->event, &pool->watch_source, CLOCK_MONOTONIC,
                                                         pool->watch_usec, USEC_PER_MSEC,
                                                         on_watch, pool, 0, "module-loaders-watch", false);
                        return;
                }
}

static void pool_dismiss_idle(ModulePool *pool) {
        LIST_FOREACH(loaders, loader, pool->loaders)
                if (loader_is_idle(loader))
                        loader_dismiss(loader);
}

static Loader *pool_get_idle(ModulePool *pool) {
        LIST_FOREACH(loaders, loader, pool->loaders)
                if (loader_is_idle(loader))
                        return loader;

        return NULL;
}

int module_pool_new(
                ModulePool **ret,
                sd_event *event,
                ModuleQueue *queue,
                ModuleRecord *record,
                const ModulePoolSettings *settings,
                void (*changed)(void *userdata),
                void *userdata) {

        ModulePool *pool;

        assert(ret);
        assert(event);
        assert(queue);
        assert(record);
        assert(settings);
        assert(settings->n_loaders_max > 0);
        assert(changed);

        pool = new(ModulePool, 1);
        if (!pool)
                return -ENOMEM;

        *pool = (ModulePool) {
                .event = sd_event_ref(event),
                .queue = queue,
                .record = record,
                .settings = *settings,
                .changed = changed,
                .userdata = userdata,
                .watch_usec = MODULE_WATCH_USEC,
        };

        *ret = pool;
        return 0;
}

ModulePool *module_pool_free(ModulePool *pool) {
        if (!pool)
                return NULL;

        while (pool->loaders)
                loader_free(pool->loaders);

        /* Not disabled before, as for loaders. */
        sd_event_source_unref(pool->idle_source);
        sd_event_source_unref(pool->watch_source);
        sd_event_unref(pool->event);

        return mfree(pool);
}

void module_pool_set_loaders_max(ModulePool *pool, unsigned n_loaders_max) {
        assert(pool);
        assert(n_loaders_max > 0);

        pool->settings.n_loaders_max = n_loaders_max;
}

/* Whose module is live takes no place, but is a process. */
unsigned module_pool_n_free(ModulePool *pool) {
        return MIN(LESS_BY(pool->settings.n_loaders_max, pool->n_busy - pool->n_live),
                   LESS_BY(pool->settings.n_loaders_max * MODULE_PROCESSES_PER_LOADER, pool->n_busy));
}

int module_pool_load(ModulePool *pool, ModuleStep *step) {
        Loader *loader;
        int r;

        /* Of those that have died since, on_loader_exit() has not heard yet. */
        while ((loader = pool_get_idle(pool))) {
                r = loader_start(loader, step);
                if (r != -EPIPE)
                        return r;
        }

        r = loader_spawn(pool, &loader);
        if (r < 0)
                return r;

        return loader_start(loader, step);
}

void module_pool_update(ModulePool *pool, bool more_comes) {
        /* Whoever has come to want it may be of a better class than who started it. */
        LIST_FOREACH(loaders, loader, pool->loaders)
                if (loader->step) {
                        loader_set_class(loader, module_step_class(loader->step));
                        (void) loader_record_requests(loader);
                }

        pool_watch(pool);

        if (!more_comes)
                pool_dismiss_idle(pool);
        else if (pool->n_loaders > pool->n_busy)
                pool_watch_idle(pool);
}

void module_pool_note_module(ModulePool *pool, const char *name) {
        LIST_FOREACH(loaders, loader, pool->loaders)
                if (loader->step && streq(module_step_name(loader->step), name)) {
                        if (loader_note_live(loader))
                                pool_changed(pool);
                        break;
                }
}

void module_pool_renew(ModulePool *pool) {
        pool_dismiss_idle(pool);

        LIST_FOREACH(loaders, loader, pool->loaders)
                loader->leave = true;
}

void module_pool_foreach_load(ModulePool *pool, void (*load)(const char *what, pid_t pid)) {
        LIST_FOREACH(loaders, loader, pool->loaders)
                if (loader->step) {
                        _cleanup_free_ char *what = step_describe(loader->step);

                        load(strna(what), loader->pid);
                }
}

bool module_pool_is_empty(const ModulePool *pool) {
        return !pool->loaders;
}
