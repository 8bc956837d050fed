/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "alloc-util.h"
#include "event-util.h"
#include "fd-util.h"
#include "fileio.h"
#include "log.h"

#include "udev-module-file.h"
#include "udev-module-recorder.h"

struct ModuleRecorder {
        sd_event *event;
        sd_event_source *timer;
        const char *record_path, *status_path;
        ModuleRecord *record;
        bool busy;
        bool loading;
        bool status_busy;               /* so says the status */

        uint64_t n_written;             /* rows in the file, see recorder_n_rows() */
        uint64_t n_dropped_written;     /* as it says there */
        usec_t next_usec;               /* not written again before */
        bool record_failed, status_failed; /* to be written, the last time: the log says it already */
};

static usec_t recorder_now(ModuleRecorder *r) {
        usec_t t;

        assert_se(sd_event_now(r->event, CLOCK_MONOTONIC, &t) >= 0);
        return t;
}

static uint64_t recorder_n_dropped(const ModuleRecorder *r) {
        return r->record->n_loads_dropped + r->record->n_requests_dropped + r->record->n_events_dropped;
}

/* That some were dropped counts as one: a record that is full is not written again for each event, for ever. How many
 * it was is right again after the next row that there is room for, and in the end. */
static uint64_t recorder_n_rows(const ModuleRecorder *r) {
        return r->record->n_loads + r->record->n_requests + r->record->n_events + (recorder_n_dropped(r) > 0);
}

static void recorder_write(ModuleRecorder *r, const char *path, bool only_busy, bool *failed, size_t *ret_size) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        int k;

        r->record->written = recorder_now(r);

        k = module_record_build(r->record, only_busy, &text, &size);
        if (k >= 0)
                k = write_string_file(path, text, WRITE_STRING_FILE_CREATE|WRITE_STRING_FILE_ATOMIC);
        if (k < 0)
                log_full_errno(*failed ? LOG_DEBUG : LOG_WARNING, k,
                               "Failed to write %s, `udevadm module-queue` does not know of what was loaded last: %m",
                               path);
        *failed = k < 0;

        if (ret_size)
                *ret_size = size;
}

static void recorder_write_status(ModuleRecorder *r) {
        recorder_write(r, r->status_path, /* only_busy= */ true, &r->status_failed, NULL);
        r->status_busy = r->busy;
}

static void recorder_write_record(ModuleRecorder *r) {
        size_t size;

        recorder_write(r, r->record_path, /* only_busy= */ false, &r->record_failed, &size);
        r->n_written = recorder_n_rows(r);
        r->n_dropped_written = recorder_n_dropped(r);
        r->next_usec = usec_add(r->record->written,
                                (1 + size / MODULE_RECORD_WRITE_SIZE) * MODULE_RECORD_WRITE_USEC);
}

static void recorder_set_timer(ModuleRecorder *r, usec_t usec);

static void recorder_be_idle(ModuleRecorder *r) {
        /* Now, also if the record has nothing new or its time has not come. */
        if (r->status_busy)
                recorder_write_status(r);

        if (recorder_n_rows(r) == r->n_written)
                return recorder_set_timer(r, USEC_INFINITY);

        if (recorder_now(r) < r->next_usec)
                return recorder_set_timer(r, r->next_usec);

        recorder_write_record(r);
        recorder_set_timer(r, USEC_INFINITY);
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        ModuleRecorder *r = ASSERT_PTR(userdata);

        if (r->loading) {
                recorder_write_status(r);
                recorder_set_timer(r, usec_add(recorder_now(r), MODULE_STATUS_USEC));
        } else if (!r->busy)
                recorder_be_idle(r);
        else if (r->status_busy)
                recorder_write_status(r);

        return 1;
}

static void recorder_set_timer(ModuleRecorder *r, usec_t usec) {
        int k;

        if (usec == USEC_INFINITY) {
                (void) event_source_disable(r->timer);
                return;
        }

        k = event_reset_time(r->event, &r->timer, CLOCK_MONOTONIC, usec, USEC_PER_SEC / 4, on_timer, r,
                             SD_EVENT_PRIORITY_IDLE, "module-recorder", true);
        if (k < 0)
                log_debug_errno(k, "Failed to set the timer of the module queue's record, ignoring: %m");
}

static void recorder_read(ModuleRecorder *r, bool initrd) {
        _cleanup_(module_record_freep) ModuleRecord *record = NULL;
        _cleanup_free_ void *bytes = NULL;
        _cleanup_close_ int fd = -EBADF;
        size_t size, line = 0;
        struct stat st;
        int k;

        k = fd = module_file_open(r->record_path, O_RDONLY, MODULE_RECORD_TEXT_MAX, &st);
        if (k == -ENOENT)
                return;
        if (k >= 0)
                k = module_file_read(fd, st.st_size, &bytes, &size);
        if (k >= 0)
                k = module_record_parse(bytes, size, &record, &line);
        if (k >= 0 && record->initrd != initrd)
                k = -EBADMSG;
        if (k < 0) {
                log_warning_errno(k, "Failed to go on with %s of an earlier udevd (line %zu), starting a new one: %m",
                                  r->record_path, line);
                return;
        }

        /* What that one has stopped without waiting for. */
        for (size_t i = 0; i < record->n_loads; i++)
                if (record->loads[i].done == 0) {
                        record->loads[i].done = MAX(record->written, record->loads[i].started);
                        record->loads[i].error = -ECANCELED;
                }

        module_record_free(r->record);
        r->record = TAKE_PTR(record);
        r->n_written = recorder_n_rows(r);
        r->n_dropped_written = recorder_n_dropped(r);
}

int module_recorder_new(ModuleRecorder **ret, sd_event *event, const char *record_path, const char *status_path,
                        bool initrd) {
        _cleanup_(module_recorder_freep) ModuleRecorder *r = NULL;

        assert(ret);
        assert(event);
        assert(record_path);
        assert(status_path);

        r = new(ModuleRecorder, 1);
        if (!r)
                return -ENOMEM;

        *r = (ModuleRecorder) {
                .event = sd_event_ref(event),
                .record_path = record_path,
                .status_path = status_path,
                .record = module_record_new(),
        };
        if (!r->record)
                return -ENOMEM;

        recorder_read(r, initrd);
        r->record->initrd = initrd;
        r->record->udevd = getpid();

        *ret = TAKE_PTR(r);
        return 0;
}

ModuleRecorder *module_recorder_free(ModuleRecorder *r) {
        if (!r)
                return NULL;

        if (r->record && r->record->udevd > 0) {
                if (recorder_n_rows(r) != r->n_written || recorder_n_dropped(r) != r->n_dropped_written)
                        recorder_write_record(r);
                if (unlink(r->status_path) < 0 && errno != ENOENT)
                        log_warning_errno(errno, "Failed to remove %s, ignoring: %m", r->status_path);
        }

        sd_event_source_unref(r->timer);
        module_record_free(r->record);
        sd_event_unref(r->event);
        return mfree(r);
}

ModuleRecorder *module_recorder_enter_worker(ModuleRecorder *r) {
        static ModuleRecorder *left_alone = NULL;

        assert(!left_alone);

        if (!r)
                return NULL;

        /* Not disabled before: a worker that drops its copy must leave the manager's epoll alone. */
        r->timer = sd_event_source_unref(r->timer);
        r->event = sd_event_unref(r->event);

        /* To free thousands of rows would copy all the pages that they are in. */
        left_alone = r;
        return NULL;
}

ModuleRecord *module_recorder_get_record(ModuleRecorder *recorder) {
        assert(recorder);

        return recorder->record;
}

void module_recorder_configure(ModuleRecorder *recorder, ModuleRecordMode mode, unsigned n_loaders_max) {
        assert(recorder);

        recorder->record->mode = mode;
        recorder->record->n_loaders_max = n_loaders_max;
        recorder_write_status(recorder);
}

void module_recorder_update(ModuleRecorder *recorder, bool busy, bool loading, unsigned n_waiting) {
        bool was_busy, was_loading;

        assert(recorder);
        assert(busy || !loading);

        recorder->record->n_waiting = n_waiting;

        was_busy = recorder->busy;
        was_loading = recorder->loading;
        recorder->busy = busy;
        recorder->loading = loading;

        /* No timer for events that load nothing: the first workers would inherit it. */
        if (loading && !was_loading)
                recorder_set_timer(recorder, usec_add(recorder_now(recorder), MODULE_STATUS_USEC));
        else if (!busy && was_busy)
                recorder_be_idle(recorder);
}
