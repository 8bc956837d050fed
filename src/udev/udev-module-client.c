/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A request is one look-up: a MODALIAS, or a name that was given to `kmod load`. It is held until the next entry of
 * the RUN list, or the end of the list: only then is it known whether the worker has to wait for it (model rule 1).
 * Nothing but the walk through the RUN list happens in between, so that nothing is lost with a worker that crashes in
 * the next look-up, over a broken index say. */

#if HAVE_KMOD

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alloc-util.h"
#include "device-util.h"
#include "errno-util.h"
#include "format-util.h"
#include "signal-util.h"
#include "string-util.h"
#include "strv.h"

#include "udev-module-class.h"
#include "udev-module-client.h"
#include "udev-module-compat.h"
#include "udev-module-event.h"
#include "udev-module-loader.h"
#include "udev-module-message.h"
#include "udev-module-plan.h"

typedef struct Client {
        int fd;
        ModuleQueueMode mode;
        int nice;                       /* udevd's own */
        int nice_others;                /* added to it for the rules of others; 0: it never changes */
        int nice_now;                   /* added to it now */
        uint32_t last_id;
        bool in_run;                    /* between the first entry of a RUN list and its end */

        ModulePlan plan;                /* looked up, and not asked for yet */
} Client;

static Client client = {
        .fd = -EBADF,
};

static void client_set_nice(int relative) {
        /* Most events are of the same kind as the one before. */
        if (relative == client.nice_now)
                return;

        if (setpriority(PRIO_PROCESS, 0, client.nice + relative) < 0)
                log_debug_errno(errno, "Failed to set the nice level of this worker, ignoring: %m");
        client.nice_now = relative;
}

void module_client_init(int request_fd, ModuleQueueMode mode, int nice, int nice_others) {
        assert(client.fd < 0);
        assert(request_fd >= 0);

        client.fd = request_fd;
        client.mode = mode;
        client.nice = nice;
        client.nice_others = nice_others;

        /* It was forked with the manager's, whatever that was. */
        client.nice_now = INT_MAX;
        client_set_nice(0);

        /* See client_wait_for_answer(); an answer that comes late must not end the worker. */
        assert_se(block_signal(MODULE_ANSWER_SIGNAL) >= 0);
}

bool module_client_is_active(void) {
        return client.fd >= 0;
}

/* Returns true if the manager has done it, false if the worker has to. */
static bool client_wait_for_answer(sd_device *dev) {
        sigset_t mask;

        assert_se(sigemptyset(&mask) >= 0);
        assert_se(sigaddset(&mask, MODULE_ANSWER_SIGNAL) >= 0);
        assert_se(sigaddset(&mask, SIGTERM) >= 0);

        for (;;) {
                siginfo_t info;

                if (sigwaitinfo(&mask, &info) < 0) {
                        if (errno == EINTR)
                                continue;

                        log_device_warning_errno(dev, errno, "Failed to wait for module loads, loading here: %m");
                        return false;
                }

                if (info.si_signo == SIGTERM) {
                        /* The manager wants this worker to leave, or is dead. Both are for the event loop, after
                         * the event: keep the signal for it. */
                        (void) raise(SIGTERM);
                        log_device_debug(dev, "Told to leave while waiting for module loads, loading here.");
                        return false;
                }

                /* The kernel had no memory to queue the value: an answer, not known which. */
                if (info.si_code == SI_USER && info.si_pid == 0)
                        return false;

                if (info.si_code != SI_QUEUE || info.si_pid != getppid()) {
                        log_device_debug(dev, "Ignoring an answer from process "PID_FMT".", info.si_pid);
                        continue;
                }

                if ((uint32_t) info.si_value.sival_int >> 1 == client.last_id)
                        return !(info.si_value.sival_int & 1);

                log_device_debug(dev, "Ignoring an answer to an earlier request.");
        }
}

static ModuleClass device_class(sd_device *dev) {
        const char *value = NULL, *modalias = NULL;

        if (sd_device_get_property_value(dev, "MODULE_QUEUE_CLASS", &value) >= 0) {
                ModuleClass class = module_class_from_string(value);

                if (class >= 0)
                        return class;

                log_device_warning(dev, "Unknown MODULE_QUEUE_CLASS=%s, ignoring it.", value);
        }

        (void) sd_device_get_property_value(dev, "MODALIAS", &modalias);
        return module_class_decide(modalias, client.plan.class);
}

static int client_send_request(sd_device *dev, bool wait) {
        static char buffer[MODULE_MESSAGE_MAX];
        ModuleRequest request;
        size_t size;
        int r;

        /* 31 bits: the lowest bit of an answer says whether to load here. */
        client.last_id = (client.last_id + 1) & INT32_MAX;

        request = (ModuleRequest) {
                .class = device_class(dev),
                .waiter = wait,
                .id = client.last_id,
                .steps = client.plan.steps,
                .n_steps = client.plan.n_steps,
        };
        (void) sd_device_get_seqnum(dev, &request.seqnum);
        (void) sd_device_get_devpath(dev, &request.device);

        log_device_debug(dev, "Asking for %zu module loads of class %s.",
                         request.n_steps, module_class_to_string(request.class));

        r = module_message_build_request(&request, buffer, &size);
        if (r < 0)
                return r;

        return RET_NERRNO(send(client.fd, buffer, size, MSG_NOSIGNAL));
}

static void client_flush(sd_device *dev, bool wait) {
        bool done;
        int r;

        if (client.plan.n_steps == 0)
                return module_plan_clear(&client.plan);

        r = client_send_request(dev, wait);
        if (r < 0)
                log_device_warning_errno(dev, r, "Failed to ask for %zu module loads, loading here: %m",
                                         client.plan.n_steps);

        done = r >= 0 && (!wait || client_wait_for_answer(dev));
        if (!done)
                (void) module_load_and_warn(module_loader_context(), client.plan.alias, /* verbose = */ false);

        module_plan_clear(&client.plan);
}

static void client_load(struct kmod_ctx *ctx, sd_device *dev, const char *alias) {
        int r;

        /* One after the other, as in stock. */
        client_flush(dev, /* wait = */ true);

        r = module_plan_resolve(&client.plan, ctx, alias);
        if (r < 0) {
                log_device_debug_errno(dev, r, "Cannot hold what '%s' needs, loading here: %m", alias);
                (void) module_load_and_warn(ctx, alias, /* verbose = */ false);
        }
}

int module_client_load(struct kmod_ctx *ctx, sd_device *dev, char **modules) {
        const char *modalias;
        int r;

        assert(ctx);
        assert(dev);
        assert(module_client_is_active());

        if (strv_isempty(modules)) {
                r = sd_device_get_property_value(dev, "MODALIAS", &modalias);
                if (r < 0)
                        return log_device_warning_errno(dev, r, "Failed to read property \"MODALIAS\": %m");

                client_load(ctx, dev, modalias);
        } else
                STRV_FOREACH(module, modules)
                        client_load(ctx, dev, *module);

        /* A rule that loads by IMPORT or PROGRAM goes on with the module there. */
        if (!client.in_run)
                client_flush(dev, /* wait = */ true);

        return 0;
}

void module_client_begin_event(sd_device *dev) {
        if (module_client_is_active() && client.nice_others != 0)
                client_set_nice(module_event_is_urgent(dev) ? 0 : client.nice_others);
}

void module_client_before_run(sd_device *dev) {
        if (!module_client_is_active())
                return;

        /* What RUN starts has the nice level that it has always had, for it may stay. Programs that are part of the
         * rules (PROGRAM, IMPORT) have that of the rules. */
        if (!client.in_run && client.nice_others != 0)
                client_set_nice(0);

        client.in_run = true;
        client_flush(dev, /* wait = */ true);
}

void module_client_after_run(sd_device *dev) {
        if (!module_client_is_active())
                return;

        client.in_run = false;

        /* `udevadm trigger --settle` waits for the event, and then expects the driver. */
        client_flush(dev, client.mode == MODULE_QUEUE_WAIT || sd_device_get_trigger_uuid(dev, NULL) >= 0);
}

#else

/* The dispatch does not start without libkmod, so nobody gets here. */

#include "udev-module-client.h"

void module_client_init(int request_fd, ModuleQueueMode mode, int nice, int nice_others) {
}

bool module_client_is_active(void) {
        return false;
}

void module_client_begin_event(sd_device *dev) {
}

void module_client_before_run(sd_device *dev) {
}

void module_client_after_run(sd_device *dev) {
}

#endif
