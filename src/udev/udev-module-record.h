/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* What was loaded, when and for whom, and the events meanwhile: rows that only ever grow, and the text that they are
 * kept in. Pure: no file descriptor and no clock; who calls it brings the times, usec of CLOCK_MONOTONIC, 0 for what
 * has not happened (yet). Bounded: what is too much is dropped and counted, so the first, a coldplug, stays.
 *
 * The rows are the record's, and so are their strings: those that are handed in are copied. NULL and "" are the same
 * and come back as NULL. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "macro.h"
#include "time-util.h"

#include "udev-module-class.h"

/* The most that is kept. A coldplug of the guest's rich machine has 156 loads, 125 requests, 2,085 events and 163 KiB
 * of strings; one of a machine with 224 CPUs 4,375 requests. */
#define MODULE_RECORD_LOADS_MAX 4096U
#define MODULE_RECORD_REQUESTS_MAX 8192U
#define MODULE_RECORD_EVENTS_MAX 16384U

/* Bytes of all strings. In the text each may become four. */
#define MODULE_RECORD_STRINGS_MAX (3U * 1024U * 1024U)

/* The most bytes that the text may have: that, and up to 160 for the rest of each line. */
#define MODULE_RECORD_TEXT_MAX (17U * 1024U * 1024U)

/* The row that was dropped. Functions that change a row take it, and do nothing then. */
#define MODULE_RECORD_DROPPED UINT32_MAX

/* One attempt to load a module. */
typedef struct ModuleRecordLoad {
        const char *module;
        const char *alias;              /* MODALIAS or name that was looked up by who asked first */
        const char *device;             /* DEVPATH of who asked first, and its SEQNUM */
        uint64_t seqnum;
        ModuleClass class;              /* the best that it had */
        bool preload;                   /* it had to come first, nobody asked for the module itself */
        uint32_t n_requests;            /* that needed it and shared this attempt */
        uint32_t loader;                /* pid */
        int error;                      /* 0 or negative errno; -EOWNERDEAD: the loader died, -ECANCELED: its udevd has
                                         * stopped and not waited for it */
        usec_t asked;                   /* needed since then; what must come before it may have been waited for */
        usec_t started;
        usec_t live;                    /* then seen live, and only waiting for the probes of others; mostly 0 */
        usec_t done;
} ModuleRecordLoad;

/* What one event needed: the modules of the request in libkmod's order, with blanks between. */
typedef struct ModuleRecordRequest {
        uint64_t seqnum;
        const char *modules;
        usec_t asked;
} ModuleRecordRequest;

typedef struct ModuleRecordEvent {
        uint64_t seqnum;
        const char *device;             /* DEVPATH */
        const char *action;
        const char *subsystem;
        const char *devtype;
        bool triggered;                 /* by who wrote to the device's uevent file, and not by the kernel itself */
        usec_t received;                /* udevd has read it from the kernel */
        usec_t started;                 /* a worker has got it; the last time, if it had to be handled again */
        usec_t processed;
} ModuleRecordEvent;

typedef enum ModuleRecordMode {
        MODULE_RECORD_YES,              /* module_queue= */
        MODULE_RECORD_WAIT,
        MODULE_RECORD_OFF,              /* it was switched off, and finishes what it was asked for */
        _MODULE_RECORD_MODE_MAX,
} ModuleRecordMode;

typedef struct ModuleRecordChunk ModuleRecordChunk;

typedef struct ModuleRecord {
        bool initrd;                    /* of the initramfs, or else of the system */
        ModuleRecordMode mode;
        uint32_t n_loaders_max;
        uint32_t udevd;                 /* pid of the one that wrote it */
        usec_t written;
        uint32_t n_waiting;             /* modules that wait for a loader, at that time */

        ModuleRecordLoad *loads;        /* in the order of their start */
        ModuleRecordRequest *requests;
        ModuleRecordEvent *events;      /* as they were received */
        size_t n_loads, n_requests, n_events;

        uint64_t n_loads_dropped, n_requests_dropped, n_events_dropped;

        ModuleRecordChunk *chunks;      /* of strings */
        char *chunk_at;                 /* the rest of the first chunk */
        size_t chunk_left;
        size_t strings_size;            /* see MODULE_RECORD_STRINGS_MAX */
} ModuleRecord;

ModuleRecord *module_record_new(void);
ModuleRecord *module_record_free(ModuleRecord *record);
DEFINE_TRIVIAL_CLEANUP_FUNC(ModuleRecord *, module_record_free);

/* Append a row; returns its number, or MODULE_RECORD_DROPPED if there is no room or no memory: that is counted. */
uint32_t module_record_add_load(ModuleRecord *record, const ModuleRecordLoad *load);
uint32_t module_record_add_request(ModuleRecord *record, const ModuleRecordRequest *request);
uint32_t module_record_add_event(ModuleRecord *record, const ModuleRecordEvent *event);

/* The row of that number, NULL for MODULE_RECORD_DROPPED. Good until a row is added; its strings are not to be
 * changed. */
ModuleRecordLoad *module_record_get_load(ModuleRecord *record, uint32_t row);
ModuleRecordEvent *module_record_get_event(ModuleRecord *record, uint32_t row);

/* The record as text; only_busy: of the rows only the loads that are not done. The caller frees it. Returns 0 or
 * -ENOMEM. */
int module_record_build(const ModuleRecord *record, bool only_busy, char **ret, size_t *ret_size);

/* The reverse. Returns 0, -EPROTONOSUPPORT if it is of another version, -ENODATA if its end is missing, -EBADMSG if it
 * makes no sense, -EFBIG if it has more than any record may have, -ENOMEM. ret_line: the line at which that was found,
 * from 1 on. */
int module_record_parse(const void *bytes, size_t size, ModuleRecord **ret, size_t *ret_line);
