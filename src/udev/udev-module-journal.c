/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The file is a line that says what it is, and records: a 32 bit number, and so many bytes, which are a request as in
 * udev-module-message.h, all of whose steps are asked for (pre-loads are found anew). Each is appended with one
 * write(), so whatever happens, no more than the last one is cut off. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc-util.h"
#include "fd-util.h"
#include "log.h"
#include "set.h"
#include "string-util.h"

#include "udev-module-file.h"
#include "udev-module-journal.h"
#include "udev-module-message.h"

/* The number is to be raised when requests or classes change: the next udevd may be a newer one. */
#define MAGIC "udev module queue "
#define HEADER MAGIC "1\n"
#define HEADER_SIZE (sizeof(HEADER) - 1)

struct ModuleJournal {
        char *path;
        int fd;                 /* for appending; < 0 if there is no file of ours */
        size_t size;            /* of the file */
        Set *noted;             /* the steps in it, see step_key() */
        bool incomplete;        /* nothing more is written until it is cleared */
        bool warned;            /* since the last write that went well */
};

/* The alias belongs to it: other options may come with another one. No name has a slash. */
static char *step_key(const ModuleRequestStep *step) {
        return strjoin(step->name, "/", step->alias);
}

static bool journal_has(const ModuleJournal *j, const ModuleRequest *request) {
        for (size_t i = 0; i < request->n_steps; i++) {
                _cleanup_free_ char *key = step_key(request->steps + i);

                if (!key || !set_contains(j->noted, key))
                        return false;
        }

        return true;
}

static void journal_note(ModuleJournal *j, const ModuleRequest *request) {
        for (size_t i = 0; i < request->n_steps; i++) {
                _cleanup_free_ char *key = step_key(request->steps + i);

                /* Without memory it will be written again if it is asked for again. */
                if (key)
                        (void) set_put_strdup(&j->noted, key);
        }
}

int module_journal_new(ModuleJournal **ret, const char *path) {
        _cleanup_(module_journal_freep) ModuleJournal *j = NULL;

        assert(ret);
        assert(path);

        j = new(ModuleJournal, 1);
        if (!j)
                return -ENOMEM;

        *j = (ModuleJournal) {
                .path = strdup(path),
                .fd = -EBADF,
        };
        if (!j->path)
                return -ENOMEM;

        *ret = TAKE_PTR(j);
        return 0;
}

ModuleJournal *module_journal_free(ModuleJournal *j) {
        if (!j)
                return NULL;

        safe_close(j->fd);
        set_free(j->noted);
        free(j->path);

        return mfree(j);
}

int module_journal_parse(
                const void *bytes,
                size_t size,
                ModuleJournalHandler handler,
                void *userdata,
                size_t *ret) {

        const char *p = bytes;

        assert(bytes);
        assert(handler);
        assert(ret);

        *ret = 0;

        if (memcmp(p, HEADER, MIN(size, HEADER_SIZE)) != 0)
                return size >= strlen(MAGIC) && memcmp(p, MAGIC, strlen(MAGIC)) == 0 ? -EPROTONOSUPPORT : -EBADMSG;
        if (size == 0)
                return 0;
        if (size < HEADER_SIZE)
                return -ENODATA;

        for (size_t at = HEADER_SIZE;;) {
                ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX];
                ModuleRequest request;
                uint32_t n;

                *ret = at;

                if (at == size)
                        return 0;
                if (size - at < sizeof(n))
                        return -ENODATA;

                memcpy(&n, p + at, sizeof(n));
                at += sizeof(n);
                if (n > MODULE_MESSAGE_MAX)
                        return -EBADMSG;
                if (size - at < n)
                        return -ENODATA;

                if (module_message_parse_request(p + at, n, 0, steps, &request) < 0)
                        return -EBADMSG;
                for (size_t i = 0; i < request.n_steps; i++)
                        if (!steps[i].alias)
                                return -EBADMSG;
                at += n;

                handler(&request, userdata);
        }
}

static void journal_remove(ModuleJournal *j) {
        j->fd = safe_close(j->fd);
        j->size = 0;

        if (unlink(j->path) < 0 && errno != ENOENT)
                log_warning_errno(errno, "Failed to remove %s, ignoring: %m", j->path);
}

typedef struct Reading {
        ModuleJournal *journal;
        ModuleJournalHandler handler;
        void *userdata;
        unsigned n;
} Reading;

static void on_record(const ModuleRequest *request, void *userdata) {
        Reading *reading = userdata;

        journal_note(reading->journal, request);
        reading->handler(request, reading->userdata);
        reading->n++;
}

unsigned module_journal_read(ModuleJournal *j, ModuleJournalHandler handler, void *userdata) {
        Reading reading = { .journal = j, .handler = handler, .userdata = userdata };
        _cleanup_free_ void *bytes = NULL;
        struct stat st;
        size_t n;
        int r;

        assert(j);
        assert(j->fd < 0);
        assert(handler);

        r = j->fd = module_file_open(j->path, O_RDWR|O_APPEND, MODULE_JOURNAL_MAX, &st);
        if (r == -ENOENT)
                return 0;
        if (r >= 0)
                r = module_file_read(j->fd, st.st_size, &bytes, &n);
        if (r < 0) {
                log_error_errno(r, "Failed to read %s, ignoring and removing it; if an earlier udevd has left modules "
                                "to load there, they are not loaded: %m", j->path);
                journal_remove(j);
                return 0;
        }

        r = module_journal_parse(bytes, n, on_record, &reading, &j->size);
        if (r == -EPROTONOSUPPORT)
                log_error_errno(r, "%s is of a udevd that writes it in another way, ignoring and removing it; "
                                "the modules that it has left there are not loaded.", j->path);
        else if (r < 0)
                log_error_errno(r, "%s is cut off or damaged at byte %zu of %zu: the rest is ignored, "
                                "the %u requests before it count: %m", j->path, j->size, n, reading.n);

        if (reading.n == 0)
                journal_remove(j);
        else if (r < 0 && ftruncate(j->fd, j->size) < 0) {
                /* What would be appended to it could not be read either. */
                log_warning_errno(errno, "Failed to cut off the end of %s, not writing to it: %m", j->path);
                j->incomplete = true;
        }

        return reading.n;
}

/* The first write makes the file. If somebody else has made it, it is none of ours. */
static int journal_write(ModuleJournal *j, const void *bytes, size_t size) {
        ssize_t n;

        if (j->fd < 0) {
                j->fd = open(j->path, O_WRONLY|O_APPEND|O_CREAT|O_EXCL|O_NOFOLLOW|O_NOCTTY|O_CLOEXEC, 0600);
                if (j->fd < 0)
                        return -errno;
        }

        n = write(j->fd, bytes, size);
        if (n < 0)
                return -errno;
        if ((size_t) n < size) {
                (void) ftruncate(j->fd, j->size);
                return -ENOSPC;
        }

        j->size += size;
        return 0;
}

static int journal_append(ModuleJournal *j, const ModuleRequest *request) {
        static char buffer[HEADER_SIZE + sizeof(uint32_t) + MODULE_MESSAGE_MAX];
        size_t size, at = 0;
        uint32_t n;
        int r;

        if (j->size == 0)
                at = (char*) mempcpy(buffer, HEADER, HEADER_SIZE) - buffer;

        r = module_message_build_request(request, buffer + at + sizeof(n), &size);
        if (r < 0)
                return r;

        n = size;
        memcpy(buffer + at, &n, sizeof(n));
        size += at + sizeof(n);

        if (j->size + size > MODULE_JOURNAL_MAX)
                return -EFBIG;

        return journal_write(j, buffer, size);
}

void module_journal_add(ModuleJournal *j, const ModuleRequest *request) {
        ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX];
        ModuleRequest asked;
        int r;

        assert(j);
        assert(request);
        assert(request->n_steps <= MODULE_REQUEST_STEPS_MAX);

        if (j->incomplete)
                return;

        asked = *request;
        asked.waiter = 0;
        asked.steps = steps;
        asked.n_steps = 0;
        for (size_t i = 0; i < request->n_steps; i++)
                if (request->steps[i].alias)
                        steps[asked.n_steps++] = request->steps[i];

        if (journal_has(j, &asked))
                return;

        r = journal_append(j, &asked);
        if (r < 0) {
                j->incomplete = true;

                if (!j->warned)
                        log_warning_errno(r, "Failed to note in %s which modules are asked for, until all of them are "
                                          "loaded. What is left is lost if udevd is killed by then, or stops: %m",
                                          j->path);
                j->warned = true;
                return;
        }

        j->warned = false;
        journal_note(j, &asked);
}

bool module_journal_is_complete(const ModuleJournal *j) {
        assert(j);

        return !j->incomplete;
}

void module_journal_clear(ModuleJournal *j) {
        assert(j);

        if (j->fd >= 0)
                journal_remove(j);

        j->noted = set_free(j->noted);
        j->incomplete = false;
}
