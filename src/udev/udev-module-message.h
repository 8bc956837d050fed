/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The bytes that go from a worker to the manager (a request) and from the manager to a loader (an order). One
 * datagram each; both ends are the same program, so numbers are as the CPU has them. Only the journal may bring a
 * request of another one: a change of the format is one of udev-module-journal.c, too. What comes in is not trusted: the
 * parsers accept what the builders make and nothing else, and point into the buffer instead of copying. */

#include <stddef.h>
#include <stdint.h>

#include "udev-module-queue.h"

/* The longest message, bytes: room for all the steps that a request may have, with names of 56 bytes, the most that
 * Linux has (MODULE_NAME_LEN), and an alias of PATH_MAX, the most that libkmod looks up. A worker loads by itself what
 * does not fit. */
#define MODULE_MESSAGE_MAX (64U * 1024U)

/* The manager answers a worker that waits by a signal with a value. SIGUSR1 is what udevd's own answers come with, since
 * it has some. */
#define MODULE_ANSWER_SIGNAL SIGUSR2

/* Put the request into buffer (of MODULE_MESSAGE_MAX bytes). Its `waiter` only says whether somebody waits (not 0):
 * who it is, is what the kernel says of the sender. ret_size: bytes used. Returns 0, -EMSGSIZE or -E2BIG if it is
 * too long, -EINVAL if it is no request. */
int module_message_build_request(const ModuleRequest *request, void *buffer, size_t *ret_size);

/* The reverse. steps has room for MODULE_REQUEST_STEPS_MAX; ret points to it and into buffer. sender becomes the
 * waiter, if somebody waits. Returns 0, -EBADMSG if it is cut off, has something behind its end or makes no sense,
 * -E2BIG for too many steps. */
int module_message_parse_request(
                const void *buffer,
                size_t size,
                pid_t sender,
                ModuleRequestStep *steps,
                ModuleRequest *ret);

/* The same for an order: load this one module. */
int module_message_build_order(const ModuleRequestStep *step, void *buffer, size_t *ret_size);
int module_message_parse_order(const void *buffer, size_t size, ModuleRequestStep *ret);
