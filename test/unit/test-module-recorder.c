/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "udev-module-recorder.h"

static char *dir, *record_path, *status_path;
static sd_event *event;

static void setup(void) {
        dir = g_dir_make_tmp("test-module-recorder-XXXXXX", NULL);
        g_assert_nonnull(dir);
        record_path = g_build_filename(dir, "record", NULL);
        status_path = g_build_filename(dir, "status", NULL);
        g_assert_cmpint(sd_event_new(&event), >=, 0);
}

static void teardown(void) {
        g_unlink(record_path);
        g_assert_cmpint(g_rmdir(dir), ==, 0);
        sd_event_unref(event);
        g_free(record_path);
        g_free(status_path);
        g_free(dir);
}

static ModuleRecorder *recorder_new(void) {
        ModuleRecorder *r = NULL;

        g_assert_cmpint(module_recorder_new(&r, event, record_path, status_path, false), ==, 0);
        module_recorder_configure(r, MODULE_RECORD_YES, 4);
        return r;
}

static ModuleRecord *read_record(const char *path) {
        g_autofree char *text = NULL;
        ModuleRecord *r = NULL;
        size_t size, line;
        struct stat st;

        g_assert_true(g_file_get_contents(path, &text, &size, NULL));
        g_assert_cmpint(module_record_parse(text, size, &r, &line), ==, 0);

        /* For everybody, and nothing else is left there. */
        g_assert_cmpint(stat(path, &st), ==, 0);
        g_assert_cmpuint(st.st_mode & 0777, ==, 0644);
        return r;
}

static uint64_t n_events(const char *path) {
        ModuleRecord *r = read_record(path);
        uint64_t n = r->n_events;

        module_record_free(r);
        return n;
}

static void add(ModuleRecorder *r) {
        module_record_add_event(module_recorder_get_record(r),
                                &(ModuleRecordEvent) { .seqnum = 1, .received = 1, .processed = 2 });
}

/* The record is written when nothing is left to do, and not before. */
static void test_idle(void) {
        ModuleRecorder *r;

        setup();
        r = recorder_new();
        g_assert_false(g_file_test(record_path, G_FILE_TEST_EXISTS));
        g_assert_cmpuint(n_events(status_path), ==, 0);

        add(r);
        module_recorder_update(r, true, true, 1);
        add(r);
        module_recorder_update(r, true, true, 1);
        g_assert_false(g_file_test(record_path, G_FILE_TEST_EXISTS));
        module_recorder_update(r, false, false, 0);
        g_assert_cmpuint(n_events(record_path), ==, 2);

        /* Not again at once. */
        add(r);
        module_recorder_update(r, true, true, 0);
        module_recorder_update(r, false, false, 0);
        g_assert_cmpuint(n_events(record_path), ==, 2);
        for (unsigned i = 0; i < 100 && n_events(record_path) < 3; i++)
                g_assert_cmpint(sd_event_run(event, 50 * USEC_PER_MSEC), >=, 0);
        g_assert_cmpuint(n_events(record_path), ==, 3);

        /* But in the end. */
        add(r);
        module_recorder_free(r);
        g_assert_cmpuint(n_events(record_path), ==, 4);
        g_assert_false(g_file_test(status_path, G_FILE_TEST_EXISTS));
        teardown();
}

static uint64_t n_loads_dropped(const char *path) {
        ModuleRecord *r = read_record(path);
        uint64_t n = r->n_loads_dropped;

        module_record_free(r);
        return n;
}

static void run_for(usec_t usec) {
        usec_t end = now(CLOCK_MONOTONIC) + usec;

        while (now(CLOCK_MONOTONIC) < end)
                g_assert_cmpint(sd_event_run(event, 50 * USEC_PER_MSEC), >=, 0);
}

/* A record that is full is not written again and again. */
static void test_full(void) {
        ModuleRecorder *r;
        struct stat before, after;

        setup();
        r = recorder_new();
        module_recorder_update(r, true, true, 0);
        for (unsigned i = 0; i < MODULE_RECORD_LOADS_MAX + 3; i++)
                module_record_add_load(module_recorder_get_record(r),
                                       &(ModuleRecordLoad) { .module = "x", .started = 1, .done = 1 });
        module_recorder_update(r, false, false, 0);
        g_assert_cmpuint(n_loads_dropped(record_path), ==, 3);
        g_assert_cmpint(stat(record_path, &before), ==, 0);
        g_assert_cmpint(before.st_size, <, 3 * MODULE_RECORD_WRITE_SIZE);

        for (unsigned i = 0; i < 5; i++) {
                module_record_add_load(module_recorder_get_record(r), &(ModuleRecordLoad) { .module = "x" });
                module_recorder_update(r, true, true, 0);
                module_recorder_update(r, false, false, 0);
                run_for(USEC_PER_SEC);
        }
        g_assert_cmpint(stat(record_path, &after), ==, 0);
        g_assert_cmpuint(before.st_ino, ==, after.st_ino);
        g_assert_cmpuint(n_loads_dropped(record_path), ==, 3);

        /* What there is room for is written, and with it how many were dropped; so in the end. */
        add(r);
        module_recorder_update(r, true, true, 0);
        module_recorder_update(r, false, false, 0);
        g_assert_cmpuint(n_loads_dropped(record_path), ==, 8);
        module_record_add_load(module_recorder_get_record(r), &(ModuleRecordLoad) { .module = "x" });
        module_recorder_free(r);
        g_assert_cmpuint(n_loads_dropped(record_path), ==, 9);
        teardown();
}

static void wait_status(unsigned n_waiting) {
        bool found = false;

        for (unsigned i = 0; i < 100 && !found; i++) {
                ModuleRecord *status;

                g_assert_cmpint(sd_event_run(event, 50 * USEC_PER_MSEC), >=, 0);
                status = read_record(status_path);
                found = status->n_waiting == n_waiting;
                module_record_free(status);
        }
        g_assert_true(found);
}

/* The status does not go on to say what was, if there is nothing new to record. */
static void test_status_idle(void) {
        ModuleRecord *status;
        ModuleRecorder *r;

        setup();
        r = recorder_new();
        add(r);
        module_recorder_update(r, true, true, 0);
        module_recorder_update(r, false, false, 0);
        module_recorder_update(r, true, true, 3);
        wait_status(3);
        module_recorder_update(r, false, false, 0);
        status = read_record(status_path);
        g_assert_cmpuint(status->n_waiting, ==, 0);
        module_record_free(status);

        module_recorder_free(r);
        teardown();
}

static void test_status(void) {
        ModuleRecord *status = NULL;
        ModuleRecorder *r;

        setup();
        r = recorder_new();
        module_record_add_load(module_recorder_get_record(r), &(ModuleRecordLoad) { .module = "slow", .started = 1 });
        module_recorder_update(r, true, true, 5);
        for (unsigned i = 0; i < 100; i++) {
                g_assert_cmpint(sd_event_run(event, 50 * USEC_PER_MSEC), >=, 0);
                module_record_free(status);
                status = read_record(status_path);
                if (status->n_loads > 0)
                        break;
        }
        g_assert_cmpstr(status->loads[0].module, ==, "slow");
        g_assert_cmpuint(status->n_waiting, ==, 5);
        g_assert_cmpuint(status->udevd, ==, getpid());
        g_assert_false(g_file_test(record_path, G_FILE_TEST_EXISTS));
        module_record_free(status);

        module_recorder_free(r);
        teardown();
}

/* The next udevd goes on with it. */
static void test_restart(void) {
        ModuleRecorder *r;

        setup();
        r = recorder_new();
        add(r);
        module_record_add_load(module_recorder_get_record(r), &(ModuleRecordLoad) { .module = "slow", .started = 1 });
        module_recorder_free(r);
        r = recorder_new();
        g_assert_cmpuint(module_recorder_get_record(r)->n_events, ==, 1);
        g_assert_cmpint(module_recorder_get_record(r)->loads[0].error, ==, -ECANCELED);
        g_assert_cmpuint(module_recorder_get_record(r)->loads[0].done, >, 1);
        add(r);
        module_recorder_free(r);
        g_assert_cmpuint(n_events(record_path), ==, 2);
        teardown();
}

/* Unless it is none. */
static void test_damaged(void) {
        ModuleRecorder *r;

        setup();
        g_assert_true(g_file_set_contents(record_path, "udev module record 9\n", -1, NULL));
        r = recorder_new();
        g_assert_cmpuint(module_recorder_get_record(r)->n_events, ==, 0);
        add(r);
        module_recorder_free(r);
        g_assert_cmpuint(n_events(record_path), ==, 1);

        /* Neither followed nor waited for, and replaced. */
        g_unlink(record_path);
        g_assert_cmpint(mkfifo(record_path, 0600), ==, 0);
        r = recorder_new();
        add(r);
        module_recorder_free(r);
        g_assert_cmpuint(n_events(record_path), ==, 1);
        teardown();
}

/* A worker leaves the files alone. */
static void test_worker(void) {
        ModuleRecorder *r;

        setup();
        r = recorder_new();
        add(r);
        g_assert_null(module_recorder_enter_worker(r));
        g_assert_false(g_file_test(record_path, G_FILE_TEST_EXISTS));
        g_assert_true(g_file_test(status_path, G_FILE_TEST_EXISTS));
        g_unlink(status_path);
        teardown();
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/recorder/idle", test_idle);
        g_test_add_func("/recorder/full", test_full);
        g_test_add_func("/recorder/status", test_status);
        g_test_add_func("/recorder/status-idle", test_status_idle);
        g_test_add_func("/recorder/restart", test_restart);
        g_test_add_func("/recorder/damaged", test_damaged);
        g_test_add_func("/recorder/worker", test_worker);

        return g_test_run();
}
