/* SPDX-License-Identifier: GPL-2.0-or-later */

#if HAVE_KMOD

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "fd-util.h"
#include "log.h"
#include "process-util.h"
#include "string-util.h"

#include "udev-module-compat.h"
#include "udev-module-loader.h"
#include "udev-module-message.h"
#include "udev-module-plan.h"

static void send_result(int fd, ModuleLoaderResult result) {
        /* The manager may be gone, and have left more orders behind. */
        if (send(fd, &result, sizeof(result), MSG_NOSIGNAL) < 0)
                log_debug_errno(errno, "Loader: cannot send a result, ignoring: %m");
}

/* For a module that was asked for this is the call that stock makes, with its flags, on what the same look-up
 * yields, so that options, deny list, soft dependencies, install line and error are libkmod's (model rule 4). A
 * pre-load is a dependency's load, to which libkmod does not apply the deny list. */
static int load(struct kmod_ctx *ctx, const ModuleRequestStep *step, int fd) {
        _cleanup_(module_list_unrefp) struct kmod_list *list = NULL;
        const char *alias = step->alias ?: step->name;
        unsigned flags = step->alias ? KMOD_PROBE_APPLY_BLACKLIST : 0;
        struct kmod_list *i;
        int r;

        r = kmod_module_new_from_lookup(ctx, alias, &list);
        if (r < 0)
                return log_debug_errno(r, "Cannot look up '%s' for module %s: %m", alias, step->name);

        kmod_list_foreach(i, list) {
                _cleanup_(module_unrefp) struct kmod_module *module = kmod_module_get_module(i);

                if (!streq_ptr(kmod_module_get_name(module), step->name))
                        continue;

                if (IN_SET(kmod_module_get_initstate(module), KMOD_MODULE_BUILTIN, KMOD_MODULE_LIVE)) {
                        log_debug("Module %s is loaded already.", step->name);
                        return 0;
                }

                if (module_plan_goes_on(module, flags))
                        send_result(fd, MODULE_LOADER_GOES_ON);

                r = kmod_module_probe_insert_module(module, flags, NULL, NULL, NULL, NULL);
                if (r == KMOD_PROBE_APPLY_BLACKLIST)
                        log_debug("Module %s is deny-listed.", step->name);
                else if (r < 0)
                        log_debug_errno(r, "Module %s cannot be loaded%s: %m",
                                        step->name, step->alias ? "" : " ahead of what needs it");
                else
                        log_debug("Module %s is loaded.", step->name);
                return r;
        }

        /* The index is another one by now, or modprobe.d gives the name to another module. */
        return log_debug_errno(SYNTHETIC_ERRNO(ENOENT), "'%s' no longer leads to module %s.", alias, step->name);
}

int module_loader_main(int fd) {
        static char buffer[MODULE_MESSAGE_MAX];
        struct kmod_ctx *ctx;
        int r;

        /* Nothing of the manager's may stay open here: not its sockets, and not the other loaders' ends, whose
         * closing tells them to leave. */
        log_close();
        log_set_open_when_needed(true);
        r = close_all_fds(&fd, 1);
        if (r < 0) {
                log_error_errno(r, "Loader: failed to close the manager's file descriptors, leaving: %m");
                return EXIT_FAILURE;
        }

        /* All capabilities stay. A driver's init and probe run with those of this process, and whatever they ask for
         * has always been there. Install lines would get all of them back, as what root executes does, but not if the
         * service has NoNewPrivileges=. And who may insert modules can do anything. */

        (void) unsetenv("NOTIFY_SOCKET");

        /* Only the manager is protected, as with workers. */
        r = set_oom_score_adjust(0);
        if (r < 0)
                log_debug_errno(r, "Failed to reset OOM score, ignoring: %m");

        ctx = module_loader_context();
        if (!ctx) {
                log_error("Loader: libkmod had no context when it was last reloaded, leaving.");
                return EXIT_FAILURE;
        }

        for (;;) {
                ModuleRequestStep step;
                ModuleLoaderResult result;
                ssize_t n;

                n = recv(fd, buffer, sizeof(buffer), 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        log_error_errno(errno, "Loader: failed to receive an order, leaving: %m");
                        return EXIT_FAILURE;
                }
                if (n == 0) /* the manager has no more for us */
                        return EXIT_SUCCESS;

                result = module_message_parse_order(buffer, n, &step);
                if (result < 0)
                        log_error_errno(result, "Loader: cannot read an order, ignoring it: %m");
                else
                        result = load(ctx, &step, fd);

                send_result(fd, result);
        }
}

#else

#include <stdlib.h>

#include "udev-module-loader.h"

struct kmod_ctx *module_loader_context(void) {
        return NULL;
}

int module_loader_main(int fd) {
        return EXIT_FAILURE;
}

#endif
