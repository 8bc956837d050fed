/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What was asked for and may not be loaded yet, in a file, so that the next udevd can go on with it when this one is
 * killed, crashes, or stops before all is loaded (model rule 9). The file is there as long as the queue is not empty.
 * Nothing here blocks, and no failure is more than one line in the log: udevd works without it.
 *
 * It holds at least what is not loaded: also what has been loaded, or has failed, since the queue was empty last. The
 * next udevd asks for that once more. What is loaded is found to be so, but what somebody has removed meanwhile comes
 * back, and what has failed is tried again.
 *
 * Lost with udevd are, as always, uevents that no worker has handled; and requests that the manager has not read from
 * its socket yet, of events that have ended without it: it reads these before all else. */

#include <stdbool.h>
#include <stddef.h>

#include "macro.h"

#include "udev-module-queue.h"

#define MODULE_JOURNAL_PATH "/run/udev/module-queue"

/* The most that the file may hold. A coldplug of a large machine writes some 100 KiB. */
#define MODULE_JOURNAL_MAX (1024U * 1024U)

typedef struct ModuleJournal ModuleJournal;

/* The strings are good until it returns. */
typedef void (*ModuleJournalHandler)(const ModuleRequest *request, void *userdata);

/* Does not look at the file. path is copied. Returns 0 or -ENOMEM. */
int module_journal_new(ModuleJournal **ret, const char *path);

/* Leaves the file as it is. Returns NULL. */
ModuleJournal *module_journal_free(ModuleJournal *j);
DEFINE_TRIVIAL_CLEANUP_FUNC(ModuleJournal *, module_journal_free);

/* What the last udevd has left: calls handler for each request, in the order in which they were asked for, and counts
 * them. To be called before anything is added. What cannot be read is named in the log, and then removed. */
unsigned module_journal_read(ModuleJournal *j, ModuleJournalHandler handler, void *userdata);

/* Add what the request asks for, unless it is all there already. Who waits for it is not noted: he is gone with this
 * udevd. */
void module_journal_add(ModuleJournal *j, const ModuleRequest *request);

/* Whether all that was added since it was empty is there: it may be full, or could not be written. */
bool module_journal_is_complete(const ModuleJournal *j);

/* Nothing is left to do: remove the file. */
void module_journal_clear(ModuleJournal *j);

/* The content of such a file: calls handler for each request up to the first that cannot be read. ret: the bytes up to
 * there. Returns 0 if that is all, -ENODATA if the rest is cut off, -EBADMSG if it makes no sense, -EPROTONOSUPPORT if
 * it is a file of another version. */
int module_journal_parse(
                const void *bytes,
                size_t size,
                ModuleJournalHandler handler,
                void *userdata,
                size_t *ret);
