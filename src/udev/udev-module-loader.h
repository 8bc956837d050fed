/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The loader process: libkmod, one module at a time, until the manager closes its end of the socket. */

#include <limits.h>

struct kmod_ctx;

/* The kmod context of the builtin; owned by it, NULL if there is none. A hook defines this in the builtin's file. */
struct kmod_ctx *module_loader_context(void);

/* What a loader sends back for each order: as kmod_module_probe_insert_module() returns it. Before that, if the load
 * does more than to insert the module (an install line, soft dependencies `post:`): MODULE_LOADER_GOES_ON. Then others
 * must wait for its end and not only until the module is live, or they would insert what it is about to, or come before
 * what is part of it. */
typedef int ModuleLoaderResult;
#define MODULE_LOADER_GOES_ON INT_MAX

/* In a new process, forked from the manager, fd being its end of a SOCK_SEQPACKET pair; closes everything else but
 * standard input and output. Returns the exit status: 0 when the manager has closed its end. */
int module_loader_main(int fd);
