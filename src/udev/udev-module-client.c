/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What an event asks for is collected while its RUN list is walked, and sent as one request: when the list is
 * through, or before an entry that is not `kmod load`, since that may need what was asked for (model rule 1). */

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "alloc-util.h"
#include "device-util.h"
#include "errno-util.h"
#include "fd-util.h"
#include "module-util.h"
#include "signal-util.h"
#include "string-util.h"
#include "strv.h"
#include "udev-builtin.h"

#include "udev-module-class.h"
#include "udev-module-client.h"
#include "udev-module-loader.h"
#include "udev-module-message.h"

typedef struct Client {
        int fd;
        ModuleQueueMode mode;
        uint32_t last_id;
        bool in_run;                    /* between the first entry of a RUN list and its end */

        ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX]; /* asked for by the event, not sent yet; strings owned */
        size_t n_steps;
        bool overflow;                  /* the last look-up had more steps than there is room for */
} Client;

static Client client = {
        .fd = -EBADF,
};

void module_client_init(int request_fd, ModuleQueueMode mode) {
        assert(client.fd < 0);
        assert(request_fd >= 0);

        client.fd = request_fd;
        client.mode = mode;

        /* Answers come as SIGUSR1, see wait_for_answer(); one that comes late must not end the worker. */
        assert_se(sigprocmask_many(SIG_BLOCK, NULL, SIGUSR1, -1) >= 0);
}

bool module_client_is_active(void) {
        return client.fd >= 0;
}

static void drop_steps(size_t n_keep) {
        while (client.n_steps > n_keep) {
                ModuleRequestStep *step = client.steps + --client.n_steps;

                free((char *) step->name);
                free((char *) step->alias);
                *step = (ModuleRequestStep) {};
        }

        client.overflow = false;
}

/* The pre-load is there already, or its module is, for an earlier alias of the same event. */
static bool has_step(const char *name) {
        for (size_t i = 0; i < client.n_steps; i++)
                if (streq(client.steps[i].name, name))
                        return true;

        return false;
}

static void add_step(const char *name, const char *alias) {
        _cleanup_free_ char *n = NULL, *a = NULL;

        if (client.n_steps >= ELEMENTSOF(client.steps)) {
                client.overflow = true;
                return;
        }

        n = strdup(name);
        if (alias)
                a = strdup(alias);
        if (!n || (alias && !a)) {
                client.overflow = true;
                return;
        }

        client.steps[client.n_steps++] = (ModuleRequestStep) {
                .name = TAKE_PTR(n),
                .alias = TAKE_PTR(a),
        };
}

/* libkmod hands no user data to its callback, so this is where it puts the module that is being resolved. NULL: it
 * has been seen, and what comes behind it (soft dependencies `post:`) is part of its own load. */
static const char *resolving;

static void on_action(struct kmod_module *module, bool install, const char *options) {
        const char *name = kmod_module_get_name(module);

        if (!resolving)
                return;
        if (streq(name, resolving))
                resolving = NULL;
        else if (!has_step(name))
                add_step(name, NULL);
}

/* Collect the steps that the alias needs: in libkmod's order, without what is live, built in or denied. */
static int resolve(struct kmod_ctx *ctx, const char *alias) {
        _cleanup_(kmod_module_unref_listp) struct kmod_list *list = NULL;
        size_t n_before = client.n_steps;
        struct kmod_list *i;
        int r;

        r = kmod_module_new_from_lookup(ctx, alias, &list);
        if (r < 0)
                return log_debug_errno(r, "Cannot look up '%s': %m", alias);
        if (!list)
                return log_debug_errno(SYNTHETIC_ERRNO(ENOENT), "No module for '%s'.", alias);

        kmod_list_foreach(i, list) {
                _cleanup_(kmod_module_unrefp) struct kmod_module *module = kmod_module_get_module(i);
                const char *name = kmod_module_get_name(module);

                if (IN_SET(kmod_module_get_initstate(module), KMOD_MODULE_BUILTIN, KMOD_MODULE_LIVE)) {
                        log_debug("Module %s is there already.", name);
                        continue;
                }

                resolving = name;
                r = kmod_module_probe_insert_module(
                                module, KMOD_PROBE_APPLY_BLACKLIST|KMOD_PROBE_DRY_RUN, NULL, NULL, NULL, on_action);
                if (r == KMOD_PROBE_APPLY_BLACKLIST) {
                        log_debug("Module %s is deny-listed.", name);
                        continue;
                }

                /* A dry run that fails has told only a part of the plan, or none. Ask all the same: the load says
                 * what is wrong, in libkmod's terms. */
                add_step(name, alias);
        }

        if (client.overflow) {
                drop_steps(n_before);
                return -E2BIG;
        }

        return 0;
}

/* Returns true if the manager has done it, false if the worker has to. */
static bool wait_for_answer(sd_device *dev) {
        sigset_t mask;

        assert_se(sigemptyset(&mask) >= 0);
        assert_se(sigaddset(&mask, SIGUSR1) >= 0);
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

                /* Without a value (the kernel had no memory to queue it): an answer, not known which. */
                if (info.si_code != SI_QUEUE)
                        return false;

                if ((uint32_t) info.si_value.sival_int >> 1 == client.last_id)
                        return !(info.si_value.sival_int & 1);

                log_device_debug(dev, "Ignoring an answer to an earlier request.");
        }
}

/* The stock way, for each alias of what was collected. */
static void load_here(struct kmod_ctx *ctx) {
        const char *last = NULL;

        for (size_t i = 0; i < client.n_steps; i++) {
                const char *alias = client.steps[i].alias;

                if (!alias || streq_ptr(alias, last))
                        continue;

                (void) module_load_and_warn(ctx, alias, /* verbose = */ false);
                last = alias;
        }
}

static ModuleClass device_class(sd_device *dev) {
        const char *value = NULL, *modalias = NULL, *subsystem = NULL;
        ModuleClass class;

        if (sd_device_get_property_value(dev, "MODULE_QUEUE_CLASS", &value) >= 0) {
                class = module_class_from_string(value);
                if (class >= 0)
                        return class;

                log_device_warning(dev, "Unknown MODULE_QUEUE_CLASS=%s, ignoring it.", value);
        }

        (void) sd_device_get_property_value(dev, "MODALIAS", &modalias);
        (void) sd_device_get_subsystem(dev, &subsystem);
        return module_class_from_modalias(modalias, subsystem);
}

static int send_request(sd_device *dev, bool wait) {
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
                .steps = client.steps,
                .n_steps = client.n_steps,
        };
        (void) sd_device_get_seqnum(dev, &request.seqnum);
        (void) sd_device_get_devpath(dev, &request.device);

        r = module_message_build_request(&request, buffer, &size);
        if (r < 0)
                return r;

        return RET_NERRNO(send(client.fd, buffer, size, MSG_NOSIGNAL));
}

static void flush(sd_device *dev, bool wait) {
        bool done;
        int r;

        if (client.n_steps == 0)
                return;

        r = send_request(dev, wait);
        if (r < 0)
                log_device_warning_errno(dev, r, "Failed to ask for %zu module loads, loading here: %m", client.n_steps);

        done = r >= 0 && (!wait || wait_for_answer(dev));
        if (!done)
                load_here(module_loader_context());

        drop_steps(0);
}

static int load(struct kmod_ctx *ctx, sd_device *dev, const char *alias) {
        int r;

        r = resolve(ctx, alias);
        if (r == -E2BIG) {
                log_device_debug(dev, "'%s' needs more loads than one request can hold, loading here.", alias);
                flush(dev, /* wait = */ true); /* keep the order */
                return module_load_and_warn(ctx, alias, /* verbose = */ false);
        }

        return r;
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

                (void) load(ctx, dev, modalias);
        } else
                STRV_FOREACH(module, modules)
                        (void) load(ctx, dev, *module);

        /* A rule that loads by IMPORT or PROGRAM goes on with the module there. */
        if (!client.in_run)
                flush(dev, /* wait = */ true);

        return 0;
}

void module_client_before_run(sd_device *dev, int builtin) {
        if (!module_client_is_active())
                return;

        client.in_run = true;

        if (builtin != UDEV_BUILTIN_KMOD)
                flush(dev, /* wait = */ true);
}

void module_client_after_run(sd_device *dev) {
        if (!module_client_is_active())
                return;

        client.in_run = false;

        /* `udevadm trigger --settle` waits for the event, and then expects the driver. */
        flush(dev, client.mode == MODULE_QUEUE_WAIT || sd_device_get_trigger_uuid(dev, NULL) >= 0);
}
