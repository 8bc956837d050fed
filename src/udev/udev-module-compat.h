/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Where systemd 252, 257 and 262 have different names for what these files use: the one place where they look at the
 * version. (Where udevd itself differs, hooks.cocci has a rule for each.) */

#include <sys/types.h>

#include "cgroup-setup.h"
#include "module-util.h"
#include "process-util.h"
#include "signal-util.h"
#if PROJECT_VERSION < 254
#include "util.h" /* in_initrd() */
#else
#include "initrd-util.h"
#endif
#if PROJECT_VERSION >= 256
#include "pidref.h"
#endif

/* The list of signals used to end with -1. */
#if PROJECT_VERSION < 256
#define block_signal(signal) sigprocmask_many(SIG_BLOCK, NULL, signal, -1)
#else
#define block_signal(signal) sigprocmask_many(SIG_BLOCK, NULL, signal)
#endif

/* udevd has a Varlink server, and a hook for it. */
#define MODULE_HAVE_VARLINK (PROJECT_VERSION >= 262)

/* The arguments of what carries out a verb. */
#if PROJECT_VERSION < 260
#define VERB_ARGUMENTS int argc, char *argv[], void *userdata
#else
#define VERB_ARGUMENTS int argc, char *argv[], uintptr_t data, void *userdata
#endif

/* Fork a child that gets no signal when udevd dies. Returns as fork() does, or negative errno. */
static inline int fork_process(const char *name, pid_t *ret) {
#if PROJECT_VERSION < 256
        return safe_fork(name, 0, ret);
#else
        _cleanup_(pidref_done) PidRef pidref = PIDREF_NULL;
        int r;

        r = pidref_safe_fork(name, 0, &pidref);
        if (r > 0)
                *ret = pidref.pid;
        return r;
#endif
}

/* Where udevd has a cgroup for its workers: move into it. */
static inline int enter_cgroup(const char *path) {
#if PROJECT_VERSION < 258
        return -EOPNOTSUPP;
#else
        return cg_attach(path, 0);
#endif
}

#if HAVE_KMOD

/* libkmod is opened when it is needed, and its functions are pointers. */
#if PROJECT_VERSION >= 256
#undef kmod_list_foreach
#define kmod_list_foreach(i, list) sym_kmod_list_foreach(i, list)
#define kmod_module_get_initstate sym_kmod_module_get_initstate
#define kmod_module_get_module sym_kmod_module_get_module
#define kmod_module_get_name sym_kmod_module_get_name
#define kmod_module_get_path module_get_path
#define kmod_module_new_from_lookup sym_kmod_module_new_from_lookup
#define kmod_module_probe_insert_module sym_kmod_module_probe_insert_module
#define kmod_module_unref sym_kmod_module_unref
#define kmod_module_unref_list sym_kmod_module_unref_list

/* systemd itself has no use for this one. The library is there already. */
static inline const char *module_get_path(const struct kmod_module *module) {
        static const char *(*get_path)(const struct kmod_module *module);

        if (!get_path) {
                _cleanup_(dlclosep) void *library = dlopen("libkmod.so.2", RTLD_LAZY|RTLD_NOLOAD);

                if (library)
                        get_path = dlsym(library, "kmod_module_get_path");
        }

        return get_path ? get_path(module) : NULL;
}
#endif

/* For _cleanup_(); systemd's own have changed their names. */
static inline void module_unrefp(struct kmod_module **module) {
        if (*module)
                kmod_module_unref(*module);
}

static inline void module_list_unrefp(struct kmod_list **list) {
        if (*list)
                kmod_module_unref_list(*list);
}

#endif
