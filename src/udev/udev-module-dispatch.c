/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alloc-util.h"
#include "capability-util.h"
#include "cpu-set-util.h"
#include "device-util.h"
#include "errno-util.h"
#include "event-util.h"
#include "fd-util.h"
#include "fs-util.h"
#include "hashmap.h"
#include "io-util.h"
#include "limits-util.h"
#include "process-util.h"
#include "socket-util.h"
#include "virt.h"

#include "udev-module-client.h"
#include "udev-module-compat.h"
#include "udev-module-config.h"
#include "udev-module-dispatch.h"
#include "udev-module-journal.h"
#include "udev-module-loader.h"
#include "udev-module-message.h"
#include "udev-module-pool.h"
#include "udev-module-queue.h"
#include "udev-module-recorder.h"

/* Before the workers' results, which have SD_EVENT_PRIORITY_NORMAL, or in 262 a little less: a worker asks before it
 * reports its event as done, so an event is never seen as done while its request is unread (model rule 2; the pool has
 * its own part in that). */
#define PRIORITY_REQUESTS (SD_EVENT_PRIORITY_NORMAL - 10)

#define LOADERS_MIN 4U

/* The manager goes before its workers and loaders: what it has not read yet, nobody can work on. So it does in the
 * coldplug that comes when udevd has started, and later from a request on until all events are handled. Where nothing is
 * to be loaded it does not: each message would get the CPU for it at once, where many are read together otherwise, and
 * the events would take 3 % more of the CPU. Without it from the start on, the first disk comes at 2.1 to 2.3 s in the
 * guest, and else at 1.8 to 2.0 s. */
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

/* No process to be had: try again this much later. The loads at work may end by then, and make room; when no other has
 * started for so long, they may hang, and nobody waits for them. Both chosen, not measured. */
#define SPAWN_RETRY_USEC (200 * USEC_PER_MSEC)
#define SPAWN_PATIENCE_USEC USEC_PER_SEC

/* A stop waits this long for what was asked for: a little less than systemd gives a service to stop
 * (DefaultTimeoutStopSec=90s), since after that it kills what is left of the service. */
#define STOP_USEC (80 * USEC_PER_SEC)

struct ModuleDispatch {
        sd_event *event;
        ModuleQueueMode mode;           /* MODULE_QUEUE_NO: switched off by a reload, and not done yet */
        unsigned n_loaders_max;
        int nice;                       /* the manager's own, to which the classes' are relative */
        bool may_nice;                  /* in both directions, that is, with CAP_SYS_NICE */
        bool goes_first;                /* has DISPATCH_NICE now */
        unsigned n_cpus;

        ModuleQueue *queue;
        ModulePool *pool;
        ModuleJournal *journal;
        ModuleRecorder *recorder;

        int request_fds[2];             /* SOCK_DGRAM: 0 is read here, 1 is what workers write to */
        sd_event_source *request_source;
        Hashmap *workers;               /* pids that may ask */

        sd_event_source *retry_source;  /* no process was to be had */
        usec_t retrying_usec;           /* since when, as the log says already; 0: there was one the last time */
        bool sent_away;                 /* who waits loads by himself since then, and the log says that, too */

        ModuleEventOrder events;

        bool stopping;
        bool stopped;                   /* the stop took too long: wait for nothing any more */
        sd_event_source *stop_source;
};

static usec_t dispatch_now(ModuleDispatch *d) {
        usec_t t;

        assert_se(sd_event_now(d->event, CLOCK_MONOTONIC, &t) >= 0);
        return t;
}

static void dispatch_answer(const ModuleAnswer *answer) {
        union sigval value = { .sival_int = (int) (answer->id << 1 | answer->load_yourself) };

        /* The pid is that of a child that was not reaped yet, see module_dispatch_remove_worker(). If the kernel
         * cannot queue the value, the signal comes without it: the worker knows what to do. */
        if (sigqueue(answer->waiter, MODULE_ANSWER_SIGNAL, value) < 0)
                log_warning_errno(errno, "Failed to answer worker ["PID_FMT"], it waits until its timeout: %m",
                                  answer->waiter);
}

static void dispatch_send_answers(ModuleDispatch *d) {
        ModuleAnswer answer;

        while (module_queue_pop_answer(d->queue, &answer))
                dispatch_answer(&answer);
}

/* There may be no process for a loader because those who wait for one are so many. */
static void dispatch_send_away(ModuleDispatch *d) {
        ModuleAnswer answer;

        while (module_queue_pop_waiter(d->queue, &answer))
                dispatch_answer(&answer);
}

static void dispatch_start_steps(void *userdata);

static int on_retry(sd_event_source *s, uint64_t usec, void *userdata) {
        dispatch_start_steps(userdata);
        return 1;
}

static ModuleStep *dispatch_next_step(ModuleDispatch *d) {
        if (d->retry_source && sd_event_source_get_enabled(d->retry_source, NULL) > 0)
                return NULL;

        return module_queue_next(d->queue, module_pool_n_free(d->pool), dispatch_now(d));
}

static void dispatch_go_first(ModuleDispatch *d, bool first) {
        if (!d->may_nice || first == d->goes_first)
                return;

        if (setpriority(PRIO_PROCESS, 0, d->nice + (first ? DISPATCH_NICE : 0)) < 0)
                log_debug_errno(errno, "Failed to set the nice level of udevd, ignoring: %m");
        d->goes_first = first;
}

/* To be called when an event or a load may have been the last. */
static void dispatch_update(ModuleDispatch *d) {
        bool queue_busy = !module_queue_is_empty(d->queue), events_busy = !module_event_order_is_empty(&d->events);

        dispatch_go_first(d, queue_busy || (d->goes_first && events_busy));
        module_recorder_update(d->recorder, queue_busy || events_busy, queue_busy, module_queue_n_waiting(d->queue));
}

/* There is no process for a loader, for this reason. Returns true if nobody may wait for one any longer. */
static bool dispatch_retry(ModuleDispatch *d, int error) {
        usec_t now_usec = dispatch_now(d);
        bool is_first = d->retrying_usec == 0, send_away;

        if (is_first)
                d->retrying_usec = now_usec;

        send_away = module_pool_is_empty(d->pool) || now_usec >= usec_add(d->retrying_usec, SPAWN_PATIENCE_USEC);

        log_full_errno(is_first || send_away > d->sent_away ? LOG_WARNING : LOG_DEBUG, error,
                       "Failed to start a module loader, %u modules wait%s, trying again every %s: %m",
                       module_queue_n_waiting(d->queue),
                       send_away ? ", events that wait for some load them by themselves" : "",
                       FORMAT_TIMESPAN(SPAWN_RETRY_USEC, USEC_PER_MSEC));
        d->sent_away = d->sent_away || send_away;

        (void) event_reset_time_relative(d->event, &d->retry_source, CLOCK_MONOTONIC, SPAWN_RETRY_USEC, USEC_PER_MSEC,
                                         on_retry, d, 0, "module-loader-retry", true);
        return send_away;
}

/* Start what may start, answer who waits. To be called after every change of the queue. */
static void dispatch_start_steps(void *userdata) {
        ModuleDispatch *d = ASSERT_PTR(userdata);
        bool no_loader = false;
        ModuleStep *step;
        int r;

        while ((step = dispatch_next_step(d))) {
                r = module_pool_load(d->pool, step);
                if (r < 0) {
                        module_queue_put_back(d->queue, step);
                        no_loader = dispatch_retry(d, r);
                        break;
                }

                d->retrying_usec = 0;
                d->sent_away = false;
        }

        /* What a stop gives up is not in the queue any more, and stays there for the next udevd. */
        if (!d->stopped && module_queue_is_empty(d->queue))
                module_journal_clear(d->journal);

        dispatch_send_answers(d);
        if (no_loader)
                dispatch_send_away(d);
        module_pool_update(d->pool, !d->stopping || !module_queue_is_empty(d->queue));
        dispatch_update(d);
}

static void dispatch_record_request(ModuleDispatch *d, const ModuleRequest *request) {
        static char modules[MODULE_MESSAGE_MAX]; /* they come from a message */
        char *p = modules;

        for (size_t i = 0; i < request->n_steps; i++) {
                if (i > 0)
                        *p++ = ' ';
                p = stpcpy(p, request->steps[i].name);
        }

        (void) module_record_add_request(module_recorder_get_record(d->recorder), &(ModuleRecordRequest) {
                .seqnum = request->seqnum,
                .modules = modules,
                .asked = dispatch_now(d),
        });
}

static void dispatch_take(ModuleDispatch *d, const ModuleRequest *request) {
        const char *outcome = "they are not loaded";
        int r;

        r = d->stopped ? -ESHUTDOWN : module_queue_add(d->queue, request, dispatch_now(d));
        /* What a kept failure has answered leaves nothing to do; thousands may come like that. */
        if (d->stopped || (r >= 0 && !module_queue_is_empty(d->queue)))
                module_journal_add(d->journal, request);
        if (r >= 0) {
                dispatch_record_request(d, request);
                return;
        }

        if (request->waiter > 0)
                outcome = "its worker loads them";
        else if (d->stopped && module_journal_is_complete(d->journal))
                outcome = "the next udevd whose queue is on loads them";

        log_error_errno(r, "Failed to queue the modules of device %s (SEQNUM=%" PRIu64 "), %s: %m",
                        strna(request->device), request->seqnum, outcome);
        if (request->waiter > 0)
                dispatch_answer(&(ModuleAnswer) {
                        .waiter = request->waiter,
                        .id = request->id,
                        .load_yourself = true,
                });
}

static int on_request(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        static char buffer[MODULE_MESSAGE_MAX];
        ModuleDispatch *d = ASSERT_PTR(userdata);

        for (;;) {
                ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX];
                CMSG_BUFFER_TYPE(CMSG_SPACE(sizeof(struct ucred))) control;
                struct iovec iov = { .iov_base = buffer, .iov_len = sizeof(buffer) };
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
                                ucred = CMSG_FIND_DATA(&mh, SOL_SOCKET, SCM_CREDENTIALS, struct ucred);
                                log_warning("Ignoring a module request from process "PID_FMT" with more ancillary "
                                            "data than it may have.", ucred ? ucred->pid : 0);
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

                dispatch_take(d, &request);
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

static unsigned dispatch_n_places(const ModuleDispatch *d) {
        return MIN(d->n_loaders_max, MAX(MODULE_PLACES_MIN, d->n_cpus * MODULE_PLACES_PER_CPU));
}

static void dispatch_record_mode(ModuleDispatch *d) {
        module_recorder_configure(d->recorder,
                                  d->mode == MODULE_QUEUE_NO ? MODULE_RECORD_OFF :
                                  d->mode == MODULE_QUEUE_WAIT ? MODULE_RECORD_WAIT : MODULE_RECORD_YES,
                                  d->n_loaders_max);
}

static int dispatch_open(ModuleDispatch *d, usec_t warn_usec, const char *cgroup) {
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

        r = module_queue_new(&d->queue, dispatch_n_places(d));
        if (r < 0)
                return r;

        r = module_journal_new(&d->journal, MODULE_JOURNAL_PATH);
        if (r < 0)
                return r;

        r = module_recorder_new(&d->recorder, d->event,
                                in_initrd() ? MODULE_RECORD_PATH_INITRD : MODULE_RECORD_PATH_SYSTEM,
                                MODULE_STATUS_PATH, in_initrd());
        if (r < 0)
                return r;

        dispatch_record_mode(d);

        return module_pool_new(&d->pool, d->event, d->queue, module_recorder_get_record(d->recorder),
                               &(ModulePoolSettings) {
                                       .n_loaders_max = d->n_loaders_max,
                                       .warn_usec = MAX(warn_usec, USEC_PER_SEC),
                                       .nice = d->nice,
                                       .may_nice = d->may_nice,
                                       .cgroup = cgroup,
                               },
                               dispatch_start_steps, d);
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

static void on_left(const ModuleRequest *request, void *userdata) {
        ModuleDispatch *d = ASSERT_PTR(userdata);
        int r;

        r = module_queue_add(d->queue, request, dispatch_now(d));
        if (r < 0) {
                log_error_errno(r, "Failed to queue the modules of device %s (SEQNUM=%" PRIu64 ") again, "
                                "they are not loaded: %m", strna(request->device), request->seqnum);
                return;
        }

        dispatch_record_request(d, request);
}

/* Go on where the last udevd has been killed, or has given up. */
static void dispatch_go_on(ModuleDispatch *d) {
        unsigned n;
        int r;

        n = module_journal_read(d->journal, on_left, d);
        if (n == 0)
                return;

        log_info("The udevd before this one has left %u requests for modules, going on with them.", n);

        /* No event does it, and `udevadm settle` must wait (model rule 2). */
        r = touch("/run/udev/queue");
        if (r < 0)
                log_warning_errno(r, "Failed to touch /run/udev/queue, ignoring: %m");

        dispatch_start_steps(d);
}

static void dispatch_announce(ModuleDispatch *d) {
        if (d->mode != MODULE_QUEUE_NO)
                log_info("The module queue is on, with %u loaders at most%s.", d->n_loaders_max,
                         d->mode == MODULE_QUEUE_WAIT ? ", events wait" : "");
        else
                log_info("The module queue is off, once what it was asked for is loaded.");

        /* Without it, whatever has got less of the CPU once would never get more again. */
        if (!d->may_nice)
                log_notice("CAP_SYS_NICE is missing: modules and events are started in order of class, but all get the "
                           "same share of the CPU.");
}

static bool config_is_on(const ModuleConfig *config) {
        return IN_SET(config->mode, MODULE_QUEUE_YES, MODULE_QUEUE_WAIT);
}

int module_dispatch_start(
                ModuleDispatch **ret,
                sd_event *event,
                const ModuleConfig *config,
                usec_t warn_usec,
                const char *cgroup) {

        _cleanup_(module_dispatch_freep) ModuleDispatch *d = NULL;
        const char *obstacle;
        int r;

        assert(ret);
        assert(event);
        assert(config);

        *ret = NULL;

        if (!config_is_on(config))
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
                .nice = getpriority(PRIO_PROCESS, 0),
                .may_nice = have_effective_cap(CAP_SYS_NICE) > 0,
                .n_cpus = cpus_number(),
                .request_fds = { -EBADF, -EBADF },
        };

        r = dispatch_open(d, warn_usec, cgroup);
        if (r < 0)
                return log_error_errno(r, "Failed to set up the module queue, it stays off, "
                                       "workers load modules by themselves: %m");

        dispatch_announce(d);
        dispatch_go_first(d, true);
        dispatch_go_on(d);

        *ret = TAKE_PTR(d);
        return 0;
}

ModuleDispatch *module_dispatch_free(ModuleDispatch *d) {
        if (!d)
                return NULL;

        /* Neither udevd without a queue goes first, nor a worker that knows of none. */
        dispatch_go_first(d, false);

        module_pool_free(d->pool);
        module_journal_free(d->journal);
        module_recorder_free(d->recorder);

        /* Not disabled before: a worker that drops its copy must leave the manager's epoll alone. */
        sd_event_source_unref(d->request_source);
        sd_event_source_unref(d->retry_source);
        sd_event_source_unref(d->stop_source);
        safe_close_pair(d->request_fds);
        hashmap_free(d->workers);
        module_queue_free(d->queue);
        module_event_order_done(&d->events);
        sd_event_unref(d->event);

        return mfree(d);
}

ModuleDispatch *module_dispatch_enter_worker(ModuleDispatch *d) {
        if (!d)
                return NULL;

        if (d->mode != MODULE_QUEUE_NO)
                module_client_init(TAKE_FD(d->request_fds[1]), d->mode, d->nice,
                                   d->may_nice && d->n_cpus == 1 ? WORKER_NICE_OTHERS : 0);
        d->recorder = module_recorder_enter_worker(d->recorder);
        return module_dispatch_free(d);
}

void module_dispatch_add_worker(ModuleDispatch *d, pid_t pid) {
        int r;

        if (!d || d->mode == MODULE_QUEUE_NO)
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

static uint32_t dispatch_record_event(ModuleDispatch *d, sd_device *dev) {
        ModuleRecordEvent row = { .received = dispatch_now(d) };
        const char *uuid;

        /* What is not there stays NULL. */
        (void) sd_device_get_seqnum(dev, &row.seqnum);
        (void) sd_device_get_devpath(dev, &row.device);
        (void) sd_device_get_property_value(dev, "ACTION", &row.action);
        (void) sd_device_get_subsystem(dev, &row.subsystem);
        (void) sd_device_get_devtype(dev, &row.devtype);
        /* "0" if he who has triggered it has given none, since Linux 4.13. */
        row.triggered = sd_device_get_property_value(dev, "SYNTH_UUID", &uuid) >= 0;

        return module_record_add_event(module_recorder_get_record(d->recorder), &row);
}

static int dispatch_add_event(ModuleDispatch *d, sd_device *dev, ModuleEvent *event, void *userdata) {
        int r;

        r = module_event_add(&d->events, event, dev, dispatch_now(d), userdata);
        if (r < 0) {
                event->row = MODULE_RECORD_DROPPED;
                return r;
        }

        event->row = dispatch_record_event(d, dev);
        dispatch_update(d);
        return r;
}

int module_dispatch_note_uevent(ModuleDispatch *d, sd_device *dev, ModuleEvent *event, void *userdata) {
        const char *subsystem, *name;

        if (!d)
                return 0;

        /* Linux sends the `add` uevent of a module when its init has ended well (since 5.0; before that, when it
         * began, so look). */
        if (sd_device_get_subsystem(dev, &subsystem) >= 0 && streq(subsystem, "module") &&
            sd_device_get_sysname(dev, &name) >= 0) {
                module_queue_forget_failures(d->queue);
                module_pool_note_module(d->pool, name);
        }

        return dispatch_add_event(d, dev, event, userdata);
}

void module_dispatch_begin_pass(ModuleDispatch *d) {
        if (d)
                module_event_begin_pass(&d->events);
}

void *module_dispatch_next_event(ModuleDispatch *d) {
        return d ? module_event_next(&d->events) : NULL;
}

void module_dispatch_block_event(ModuleDispatch *d, ModuleEvent *event, ModuleEvent *blocker) {
        if (d)
                module_event_block(&d->events, event, blocker);
}

void module_dispatch_start_event(ModuleDispatch *d, ModuleEvent *event) {
        ModuleRecordEvent *row;

        if (!d)
                return;

        row = module_record_get_event(module_recorder_get_record(d->recorder), event->row);
        if (row)
                row->started = dispatch_now(d);

        module_event_start(&d->events, event);
}

void module_dispatch_requeue_event(ModuleDispatch *d, ModuleEvent *event) {
        if (d)
                module_event_requeue(&d->events, event);
}

void module_dispatch_remove_event(ModuleDispatch *d, ModuleEvent *event) {
        ModuleRecordEvent *row;

        if (!d)
                return;

        row = module_record_get_event(module_recorder_get_record(d->recorder), event->row);
        if (row && event->state == MODULE_EVENT_STARTED)
                row->processed = dispatch_now(d);

        module_event_remove(&d->events, event);
        dispatch_update(d);
}

int module_dispatch_configure(
                ModuleDispatch **d,
                sd_event *event,
                const ModuleConfig *config,
                usec_t warn_usec,
                const char *cgroup) {

        ModuleQueueMode mode = config_is_on(config) ? config->mode : MODULE_QUEUE_NO;
        unsigned n_loaders_max;
        int r;

        assert(d);

        if (!*d) {
                r = module_dispatch_start(d, event, config, warn_usec, cgroup);
                return r < 0 ? r : !!*d;
        }

        n_loaders_max = loaders_max(config);
        if ((*d)->mode == mode && (*d)->n_loaders_max == n_loaders_max)
                return 0;

        (*d)->mode = mode;
        (*d)->n_loaders_max = n_loaders_max;
        dispatch_record_mode(*d);
        module_queue_set_places((*d)->queue, dispatch_n_places(*d));
        module_pool_set_loaders_max((*d)->pool, n_loaders_max);

        dispatch_announce(*d);
        dispatch_start_steps(*d);
        return 0;
}

int module_dispatch_adopt_event(ModuleDispatch *d, sd_device *dev, ModuleEvent *event, bool waits, void *userdata) {
        int r;

        if (!d)
                return 0;

        r = dispatch_add_event(d, dev, event, userdata);
        if (r >= 0 && !waits)
                module_dispatch_start_event(d, event);

        return r;
}

ModuleDispatch *module_dispatch_release(ModuleDispatch *d) {
        if (!d || d->mode != MODULE_QUEUE_NO || !hashmap_isempty(d->workers) || !module_queue_is_empty(d->queue) ||
            !module_pool_is_empty(d->pool))
                return d;

        log_debug("The module queue has done what it was asked for, and ends.");
        return module_dispatch_free(d);
}

void module_dispatch_reload(ModuleDispatch *d) {
        if (!d)
                return;

        module_queue_forget_failures(d->queue);

        module_pool_renew(d->pool);
}

static void log_not_waiting(const char *what, pid_t pid) {
        log_warning("Not waiting longer for %s; loader ["PID_FMT"] goes on, unless it is ended with the service.",
                    what, pid);
}

static void log_waiting(const char *what, pid_t pid) {
        log_info("Waiting for %s.", what);
}

static void on_given_up(const char *name, void *userdata) {
        ModuleDispatch *d = ASSERT_PTR(userdata);

        if (module_journal_is_complete(d->journal))
                log_warning("Module %s was asked for and is not loaded yet, and udevd stops. The next udevd "
                            "whose queue is on loads it.", name);
        else
                log_error("Module %s was asked for and is not loaded, since udevd stops. It is lost if it is not in "
                          MODULE_JOURNAL_PATH", which is not complete.", name);
}

static int on_stop_timeout(sd_event_source *s, uint64_t usec, void *userdata) {
        ModuleDispatch *d = ASSERT_PTR(userdata);

        module_pool_foreach_load(d->pool, log_not_waiting);
        (void) module_queue_give_up(d->queue, on_given_up, d);
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
                module_pool_foreach_load(d->pool, log_waiting);
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
        return d && !d->stopped && !module_pool_is_empty(d->pool);
}

const ModuleRecord *module_dispatch_get_record(ModuleDispatch *d) {
        return d && !d->stopped ? module_recorder_get_record(d->recorder) : NULL;
}
