/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc-util.h"
#include "errno-util.h"
#include "escape.h"
#include "fd-util.h"
#include "fileio.h"
#include "log.h"
#include "path-util.h"
#include "proc-cmdline.h"
#include "sort-util.h"
#include "stat-util.h"
#include "string-util.h"
#include "strv.h"
#include "time-util.h"

#include "udev-module-chain.h"
#include "udev-module-config.h"
#include "udev-module-file.h"
#include "udev-module-json.h"
#include "udev-module-plot.h"
#include "udev-module-recorder.h"
#include "udev-module-statistics.h"
#include "udevadm-module-queue.h"

static enum {
        FORMAT_TEXT,
        FORMAT_JSON_SHORT,
        FORMAT_JSON_PRETTY,
} arg_format = FORMAT_TEXT;

static const char *arg_root = NULL;

/* The records that are asked for, the initramfs' first: no more than these are kept. */
typedef struct Records {
        ModuleRecord **records;
        size_t n;
} Records;

static void records_done(Records *records) {
        for (size_t i = 0; i < records->n; i++)
                module_record_free(records->records[i]);
        free(records->records);
}

static ModuleJson json_new(void) {
        return (ModuleJson) { .f = stdout, .pretty = arg_format == FORMAT_JSON_PRETTY };
}

static const char *part_name(const ModuleRecord *record) {
        return record->initrd ? "initramfs" : "system";
}

/* A name for the terminal: in a record from elsewhere it may hold any bytes. The caller frees it; NULL if there is no
 * memory. */
static char *name_escape(const char *name) {
        return cescape(strempty(name));
}

static double seconds(usec_t from, usec_t to) {
        return to > from ? (double) (to - from) / USEC_PER_SEC : 0;
}

/* Whatever the file is, no more than a record may have is read of it. *ret_line is where it makes no sense, 0 if its text
 * was not looked at. Nothing is said here. */
static int file_read(const char *path, ModuleRecord **ret, size_t *ret_line) {
        _cleanup_free_ void *bytes = NULL;
        _cleanup_close_ int fd = -EBADF;
        struct stat st;
        size_t size;
        int r;

        *ret_line = 0;

        fd = open(path, O_RDONLY|O_NONBLOCK|O_NOCTTY|O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (stat_verify_regular(&st) < 0)
                return -EBADFD;

        r = module_file_read(fd, MODULE_RECORD_TEXT_MAX + 1U, &bytes, &size);
        if (r < 0)
                return r;

        return module_record_parse(bytes, size, ret, ret_line);
}

/* -ENOENT is for the caller to tell of, the others are said here. */
static int record_read(const char *path, ModuleRecord **ret) {
        size_t line;
        int r;

        r = file_read(path, ret, &line);
        switch (r) {
        case -ENOENT:
                return r;
        case -EBADFD:
                return log_error_errno(r, "%s is no regular file.", path);
        case -EPROTONOSUPPORT:
                return log_error_errno(r, "%s is a record of another version of systemd-udevd, which this udevadm "
                                       "cannot read.", path);
        case -ENODATA:
                return log_error_errno(r, "%s is cut off in line %zu: the end of the record is missing.", path, line);
        case -EBADMSG:
                return log_error_errno(r, "%s is no record of the module queue, or damaged: line %zu makes no sense.",
                                       path, line);
        case -EFBIG:
                return log_error_errno(r, "%s is larger than a record of the module queue can be.", path);
        default:
                return r < 0 ? log_error_errno(r, "Failed to read %s: %m", path) : 0;
        }
}

static int parse_cmdline(const char *key, const char *value, void *data) {
        (void) module_config_read_cmdline(data, key, value);
        return 0;
}

/* Why there is no queue, as far as anybody but udevd can tell. */
static const char *off_reason(void) {
        ModuleConfig file = {}, cmdline = {};
        ModuleQueueMode mode;
        int r;

        if (access("/run/udev/control", F_OK) < 0)
                return "systemd-udevd does not run";

        module_config_read_file(&file);

        r = proc_cmdline_parse(parse_cmdline, &cmdline, PROC_CMDLINE_STRIP_RD_PREFIX);
        if (r < 0)
                log_warning_errno(r, "Failed to read the kernel command line, ignoring: %m");

        mode = cmdline.mode != MODULE_QUEUE_UNSET ? cmdline.mode : file.mode;
        if (mode == MODULE_QUEUE_UNSET)
                return "module_queue= is not set in /etc/udev/udev.conf, nor udev.module_queue= on the kernel command line";
        if (mode != MODULE_QUEUE_NO)
                return "it is switched on, but systemd-udevd has not been started since, reads a later file that "
                        "switches it off, or cannot load modules here; its log says which";
        return cmdline.mode == MODULE_QUEUE_NO ? "udev.module_queue=no is on the kernel command line" :
                "module_queue=no is in udev.conf";
}

static int records_add(Records *records, const char *path) {
        _cleanup_(module_record_freep) ModuleRecord *record = NULL;
        int r;

        r = record_read(path, &record);
        if (r < 0)
                return r;

        if (!GREEDY_REALLOC(records->records, records->n + 1))
                return log_oom();

        records->records[records->n++] = TAKE_PTR(record);
        return 0;
}

/* The files, or if there are none of udevd's those that there are and can be read. */
static int records_read(char **files, Records *ret) {
        _cleanup_(records_done) Records records = {};
        int r, error = 0;

        STRV_FOREACH(file, files) {
                r = records_add(&records, *file);
                if (r == -ENOENT)
                        return log_error_errno(r, "%s does not exist.", *file);
                if (r < 0)
                        return r;
        }

        if (strv_isempty(files)) {
                static const char *const paths[] = { MODULE_RECORD_PATH_INITRD, MODULE_RECORD_PATH_SYSTEM };

                for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                        _cleanup_free_ char *path = path_join(arg_root, paths[i]);

                        if (!path)
                                return log_oom();

                        r = records_add(&records, path);
                        if (r < 0 && r != -ENOENT)
                                error = r;
                }
        }

        if (records.n == 0) {
                if (error < 0)
                        return error;
                if (arg_root)
                        return log_error_errno(SYNTHETIC_ERRNO(ENOENT), "There is no record of the module queue in %s.",
                                               arg_root);
                if (access(MODULE_STATUS_PATH, F_OK) >= 0)
                        return log_error_errno(SYNTHETIC_ERRNO(ENOENT), "There is no record of the module queue yet, "
                                               "it is written when all events are handled.");
                return log_error_errno(SYNTHETIC_ERRNO(ENOENT),
                                       "There is no record of the module queue. It is off: %s.", off_reason());
        }

        *ret = records;
        records = (Records) {};
        return 0;
}

static void print_heading(const Records *records, size_t i) {
        const ModuleRecord *r = records->records[i];

        if (i > 0)
                putchar('\n');
        printf("%s:\n", r->initrd ? "Initramfs" : "System");
        if (r->n_loads_dropped + r->n_requests_dropped + r->n_events_dropped > 0)
                printf("There was no room for %" PRIu64 " loads, %" PRIu64 " requests and %" PRIu64 " events that "
                       "came later.\n",
                       r->n_loads_dropped, r->n_requests_dropped, r->n_events_dropped);
}

/* Each of the records, in the format that is asked for. */
static int show_records(char **files, int (*show)(ModuleJson *json, const ModuleRecord *record)) {
        _cleanup_(records_done) Records records = {};
        ModuleJson json = json_new();
        int r;

        r = records_read(files, &records);
        if (r < 0)
                return r;

        if (arg_format != FORMAT_TEXT)
                module_json_begin(&json, NULL, '[');

        for (size_t i = 0; i < records.n; i++) {
                if (arg_format == FORMAT_TEXT)
                        print_heading(&records, i);
                r = show(&json, records.records[i]);
                if (r < 0)
                        return r;
        }

        if (arg_format != FORMAT_TEXT)
                module_json_end(&json, ']');
        return 0;
}

/* Of a load. */
static const char *result_string(const ModuleRecordLoad *load) {
        if (load->done == 0)
                return "loading";
        if (load->error == 0)
                return "ok";
        if (load->error == -ECANCELED)
                return "not waited for";
        return load->error == -EOWNERDEAD ? "loader died" : STRERROR(load->error);
}

static void json_load(ModuleJson *json, const ModuleRecord *record, const ModuleRecordLoad *l) {
        module_json_begin(json, NULL, '{');
        module_json_string(json, "part", part_name(record));
        module_json_string(json, "module", l->module);
        module_json_string(json, "class", module_class_to_string(l->class));
        module_json_string(json, "modalias", l->alias);
        module_json_string(json, "device", l->device);
        module_json_number(json, "seqnum", l->seqnum);
        module_json_boolean(json, "preload", l->preload);
        module_json_number(json, "requests", l->n_requests);
        module_json_number(json, "loader", l->loader);
        module_json_number(json, "errno", -l->error);
        module_json_number(json, "asked_usec", l->asked);
        module_json_number(json, "started_usec", l->started);
        module_json_number(json, "live_usec", l->live);
        module_json_number(json, "done_usec", l->done);
        module_json_end(json, '}');
}

static int loads_compare_hold(const ModuleRecordLoad * const *a, const ModuleRecordLoad * const *b) {
        const ModuleRecordLoad *x = *a, *y = *b;

        return -CMP(seconds(x->started, x->done), seconds(y->started, y->done)) ?: CMP(x->started, y->started);
}

/* All loads, slowest first or as they were started. */
static int show_loads(
                ModuleJson *json,
                const ModuleRecord *record,
                bool by_hold,
                void (*print)(const ModuleRecordLoad *load, usec_t begin)) {

        _cleanup_free_ const ModuleRecordLoad **loads = NULL;
        usec_t begin, end;

        if (module_record_coldplug(record, &begin, &end) < 0)
                return log_oom();

        loads = new(const ModuleRecordLoad*, record->n_loads + 1);
        if (!loads)
                return log_oom();

        for (size_t i = 0; i < record->n_loads; i++)
                loads[i] = record->loads + i;
        if (by_hold)
                typesafe_qsort(loads, record->n_loads, loads_compare_hold);

        if (arg_format == FORMAT_TEXT)
                print(NULL, begin);
        for (size_t i = 0; i < record->n_loads; i++)
                if (arg_format == FORMAT_TEXT)
                        print(loads[i], begin);
                else
                        json_load(json, record, loads[i]);
        return 0;
}

static void print_list_line(const ModuleRecordLoad *l, usec_t begin) {
        _cleanup_free_ char *module = NULL, *device = NULL;

        if (!l) {
                printf("%10s %8s %8s %-8s %8s %-24s %-16s %s\n",
                       "STARTED", "WAITED", "TOOK", "CLASS", "REQUESTS", "MODULE", "RESULT", "DEVICE");
                return;
        }

        module = name_escape(l->module);
        device = name_escape(l->device);
        printf("%9.3fs %7.3fs %7.3fs %-8s %8" PRIu32 " %-24s %-16s %s\n",
               seconds(begin, l->started), seconds(l->asked, l->started), seconds(l->started, l->done),
               module_class_to_string(l->class), l->n_requests, strna(module), result_string(l), strna(device));
}

static int show_list(ModuleJson *json, const ModuleRecord *record) {
        return show_loads(json, record, /* by_hold= */ false, print_list_line);
}

static int verb_list(char **files) {
        return show_records(files, show_list);
}

static void print_blame_line(const ModuleRecordLoad *l, usec_t begin) {
        _cleanup_free_ char *module = NULL;

        if (!l)
                return;

        module = name_escape(l->module);
        printf("%9.3fs %s", seconds(l->started, l->done), strna(module));
        if (l->error < 0)
                printf(": %s", result_string(l));
        if (l->live > 0)
                printf(", of that %.3fs only for the probes of others to end",
                       seconds(l->live, l->done));
        putchar('\n');
}

static int show_blame(ModuleJson *json, const ModuleRecord *record) {
        return show_loads(json, record, /* by_hold= */ true, print_blame_line);
}

static int verb_blame(char **files) {
        return show_records(files, show_blame);
}

static const char* const link_texts[_MODULE_CHAIN_KIND_MAX] = {
        [MODULE_CHAIN_QUEUED]  = "uevent waits for a worker:",
        [MODULE_CHAIN_RULES]   = "udev rules for",
        [MODULE_CHAIN_WAITING] = "waits for its turn: module",
        [MODULE_CHAIN_LOADING] = "loads: module",
        [MODULE_CHAIN_KERNEL]  = "kernel still looks for",
};

static const char* const link_names[_MODULE_CHAIN_KIND_MAX] = {
        [MODULE_CHAIN_QUEUED]  = "queued",
        [MODULE_CHAIN_RULES]   = "rules",
        [MODULE_CHAIN_WAITING] = "waiting",
        [MODULE_CHAIN_LOADING] = "loading",
        [MODULE_CHAIN_KERNEL]  = "kernel",
};

static char *link_name(const ModuleChainLink *link) {
        return name_escape(link->event ? module_record_device_name(link->event->device) : link->load->module);
}

static void print_chain(const char *what, const ModuleChain *chain, usec_t begin) {
        _cleanup_free_ char *last_name = NULL;
        const ModuleChainLink *last;

        if (chain->n_links == 0)
                return;

        last = chain->links + chain->n_links - 1;
        last_name = link_name(last);
        printf("%s: %s, after %.3fs. What it waited for:\n%10s %9s\n", what, strna(last_name),
               seconds(begin, last->to), "SINCE", "FOR");

        for (size_t i = 0; i < chain->n_links; i++) {
                const ModuleChainLink *l = chain->links + i;
                _cleanup_free_ char *name = link_name(l);

                printf("%9.3fs %8.3fs %s %s%s\n", seconds(begin, l->from), seconds(l->from, l->to), link_texts[l->kind],
                       strna(name),
                       l->load && l->load->preload && l->kind == MODULE_CHAIN_LOADING ? ", needed by the next" : "");
        }
}

static void json_chain(ModuleJson *json, const ModuleRecord *record, const char *what, const ModuleChain *chain) {
        module_json_begin(json, NULL, '{');
        module_json_string(json, "part", part_name(record));
        module_json_string(json, "target", what);
        module_json_begin(json, "links", '[');

        for (size_t i = 0; i < chain->n_links; i++) {
                const ModuleChainLink *l = chain->links + i;

                module_json_begin(json, NULL, '{');
                module_json_string(json, "kind", link_names[l->kind]);
                module_json_number(json, "from_usec", l->from);
                module_json_number(json, "to_usec", l->to);
                module_json_string(json, "device", l->event ? l->event->device : NULL);
                module_json_string(json, "module", l->load ? l->load->module : NULL);
                module_json_end(json, '}');
        }

        module_json_end(json, ']');
        module_json_end(json, '}');
}

static int show_chain(
                ModuleJson *json,
                const ModuleRecord *record,
                const char *what,
                const char *title,
                const ModuleRecordEvent *event,
                const ModuleRecordLoad *load,
                usec_t begin) {

        _cleanup_(module_chain_done) ModuleChain chain = {};

        if (!event && !load) {
                if (arg_format == FORMAT_TEXT)
                        printf("%s: there is none.\n", title);
                return 0;
        }

        if (module_chain_build(record, event, load, &chain) < 0)
                return log_oom();

        if (arg_format == FORMAT_TEXT)
                print_chain(title, &chain, begin);
        else
                json_chain(json, record, what, &chain);
        return 0;
}

static int show_chains(ModuleJson *json, const ModuleRecord *record) {
        const ModuleRecordEvent *event;
        const ModuleRecordLoad *load;
        usec_t begin, end;
        int r;

        if (module_record_coldplug(record, &begin, &end) < 0)
                return log_oom();

        event = module_record_last_event(record, module_record_event_is_disk, end);
        r = show_chain(json, record, "disk", "The last disk", event, NULL, begin);
        if (r < 0)
                return r;

        event = module_record_last_event(record, module_record_event_is_input, end);
        r = show_chain(json, record, "input", "The last input device", event, NULL, begin);
        if (r < 0)
                return r;

        module_record_last(record, end, &event, &load);
        return show_chain(json, record, "settle", "The last of all (udevadm settle)", event, load, begin);
}

static int verb_critical_chain(char **files) {
        return show_records(files, show_chains);
}

static int verb_plot(char **files) {
        _cleanup_(records_done) Records records = {};
        int r;

        if (arg_format != FORMAT_TEXT)
                return log_error_errno(SYNTHETIC_ERRNO(EINVAL), "A plot is SVG: --json= is for the other commands.");

        r = records_read(files, &records);
        if (r < 0)
                return r;

        /* One picture: that of the initramfs if there is no other, or if its file is named. */
        r = module_plot(stdout, records.records[records.n - 1]);
        if (r == -ENODATA)
                return log_error_errno(r, "The record is empty, there is nothing to plot.");
        return r < 0 ? log_error_errno(r, "Failed to plot the record: %m") : 0;
}

static void print_distribution(const char *what, const ModuleDistribution *d) {
        printf("  %-34s %8.2f %8.2f %8.0f %8.2f %8.2f\n", what,
               (double) d->mean / USEC_PER_MSEC, (double) d->median / USEC_PER_MSEC, (double) d->mode / USEC_PER_MSEC,
               (double) d->deviation / USEC_PER_MSEC, (double) d->max / USEC_PER_MSEC);
}

static void print_statistics(const ModuleStatistics *s) {
        printf("  %zu events (%zu triggered), %zu requests, %zu loads (%zu failed) in %.3fs\n"
               "  %.3fs from the first to the last triggered uevent\n"
               "  %.3fs with an event at a worker, %.3fs of workers' time in all\n"
               "  %.3fs with a module loading, %.3fs of loaders' time in all\n",
               s->n_events, s->n_triggered, s->n_requests, s->n_loads, s->n_failed, seconds(s->begin, s->end),
               seconds(0, s->trigger), seconds(0, s->processing), seconds(0, s->processed.sum),
               seconds(0, s->loading), seconds(0, s->holds.sum));
        printf("  %-34s %8s %8s %8s %8s %8s\n", "milliseconds", "MEAN", "MEDIAN", "MODE", "STDDEV", "MAXIMUM");
        print_distribution("kernel uevent to udev completion", &s->completion);
        print_distribution("  of it until a worker has it", &s->queued);
        print_distribution("  of it at the worker", &s->processed);
        print_distribution("wait of a load, asked to started", &s->waits);
        print_distribution("hold of a load, started to done", &s->holds);
        if (s->longest_wait) {
                _cleanup_free_ char *wait = name_escape(s->longest_wait->module);
                _cleanup_free_ char *hold = name_escape(s->longest_hold->module);

                printf("  longest wait: %s, longest hold: %s\n", strna(wait), strna(hold));
        }
}

static void json_distribution(ModuleJson *json, const char *name, const ModuleDistribution *d) {
        module_json_begin(json, name, '{');
        module_json_number(json, "n", d->n);
        module_json_number(json, "sum_usec", d->sum);
        module_json_number(json, "mean_usec", d->mean);
        module_json_number(json, "median_usec", d->median);
        module_json_number(json, "mode_usec", d->mode);
        module_json_number(json, "deviation_usec", d->deviation);
        module_json_number(json, "max_usec", d->max);
        module_json_end(json, '}');
}

static void json_statistics(ModuleJson *json, const ModuleRecord *record, const ModuleStatistics *s) {
        module_json_begin(json, NULL, '{');
        module_json_string(json, "part", part_name(record));
        module_json_number(json, "begin_usec", s->begin);
        module_json_number(json, "end_usec", s->end);
        module_json_number(json, "events", s->n_events);
        module_json_number(json, "triggered", s->n_triggered);
        module_json_number(json, "requests", s->n_requests);
        module_json_number(json, "loads", s->n_loads);
        module_json_number(json, "failed", s->n_failed);
        module_json_number(json, "dropped_loads", record->n_loads_dropped);
        module_json_number(json, "dropped_requests", record->n_requests_dropped);
        module_json_number(json, "dropped_events", record->n_events_dropped);
        module_json_number(json, "trigger_usec", s->trigger);
        module_json_number(json, "processing_usec", s->processing);
        module_json_number(json, "loading_usec", s->loading);
        json_distribution(json, "completion", &s->completion);
        json_distribution(json, "queued", &s->queued);
        json_distribution(json, "processed", &s->processed);
        json_distribution(json, "waits", &s->waits);
        json_distribution(json, "holds", &s->holds);
        module_json_string(json, "longest_wait", s->longest_wait ? s->longest_wait->module : NULL);
        module_json_string(json, "longest_hold", s->longest_hold ? s->longest_hold->module : NULL);
        module_json_end(json, '}');
}

static int show_statistics(ModuleJson *json, const ModuleRecord *record) {
        ModuleStatistics s;

        if (module_statistics(record, &s) < 0)
                return log_oom();

        if (arg_format == FORMAT_TEXT)
                print_statistics(&s);
        else
                json_statistics(json, record, &s);
        return 0;
}

static int verb_statistics(char **files) {
        return show_records(files, show_statistics);
}

/* Also where /proc hides the processes of others. */
static bool process_exists(pid_t pid) {
        return kill(pid, 0) >= 0 || errno != ESRCH;
}

/* Returns > 0 and the status if there is a queue, 0 if there is none; with *ret if a udevd has left it, who was killed. */
static int status_read(ModuleRecord **ret) {
        int r;

        r = record_read(MODULE_STATUS_PATH, ret);
        if (r < 0)
                return r == -ENOENT ? 0 : r;

        return process_exists((*ret)->udevd);
}

static void print_status(const ModuleRecord *record) {
        unsigned of_class[_MODULE_CLASS_MAX] = {};
        const ModuleRecordLoad *longest = NULL;

        for (size_t i = 0; i < record->n_loads; i++) {
                const ModuleRecordLoad *l = record->loads + i;

                of_class[l->class]++;
                if (!longest || l->started < longest->started)
                        longest = l;
        }

        if (record->mode == MODULE_RECORD_OFF)
                puts("The module queue is switched off, and finishes what it was asked for.");
        else
                printf("The module queue is on%s, with %" PRIu32 " loaders at most.\n",
                       record->mode == MODULE_RECORD_WAIT ? " and events wait for their modules" : "",
                       record->n_loaders_max);
        printf("Waiting: %" PRIu32 "\n"
               "Loading: %zu", record->n_waiting, record->n_loads);
        for (ModuleClass c = 0; c < _MODULE_CLASS_MAX; c++)
                if (of_class[c] > 0)
                        printf(", %s %u", module_class_to_string(c), of_class[c]);
        putchar('\n');

        if (record->n_loads_dropped > 0)
                printf("The record is full, what is loading may not be in it.\n");

        if (longest) {
                _cleanup_free_ char *module = name_escape(longest->module);
                _cleanup_free_ char *device = name_escape(strna(longest->device));

                printf("Longest: %s, for %.1fs%s (device %s, SEQNUM=%" PRIu64 ", loader %" PRIu32 ")\n",
                       strna(module), seconds(longest->started, record->written),
                       longest->live > 0 ? ", live and waiting for the probes of others" : "",
                       strna(device), longest->seqnum, longest->loader);
        }
}

static void json_status(const ModuleRecord *record, const char *why) {
        ModuleJson json = json_new();

        module_json_begin(&json, NULL, '{');
        module_json_boolean(&json, "on", record && record->mode != MODULE_RECORD_OFF);
        module_json_string(&json, "reason", why);
        if (record) {
                module_json_boolean(&json, "wait", record->mode == MODULE_RECORD_WAIT);
                module_json_number(&json, "loaders_max", record->n_loaders_max);
                module_json_number(&json, "udevd", record->udevd);
                module_json_number(&json, "written_usec", record->written);
                module_json_number(&json, "waiting", record->n_waiting);
                module_json_begin(&json, "loading", '[');
                for (size_t i = 0; i < record->n_loads; i++)
                        json_load(&json, record, record->loads + i);
                module_json_end(&json, ']');
        }
        module_json_end(&json, '}');
}

static int verb_status(char **files) {
        _cleanup_(module_record_freep) ModuleRecord *record = NULL;
        const char *why = NULL;
        int r;

        if (!strv_isempty(files) || arg_root)
                return log_error_errno(SYNTHETIC_ERRNO(EINVAL), "The status is that of the running systemd-udevd: "
                                       "no file and no --root=, please.");

        r = status_read(&record);
        if (r < 0)
                return r;
        if (r == 0) {
                why = record ? "the systemd-udevd that had it was killed" : off_reason();
                record = module_record_free(record);
        }

        if (arg_format != FORMAT_TEXT)
                json_status(record, why);
        else if (record)
                print_status(record);
        else
                printf("The module queue is off: %s.\n", why);
        return 0;
}

static int help(void) {
        printf("%s module-queue [OPTIONS] [COMMAND] [FILE…]\n\n"
               "See what the queue of kernel modules is doing, and what it has done.\n\n"
               "  status            Whether it is on, what waits, what is being loaded (default)\n"
               "  list              All loads, as they were started\n"
               "  blame             All loads, slowest first\n"
               "  critical-chain    What the last disk, the last input device and the end waited for\n"
               "  plot              These chains and all loads over time, as a picture (SVG)\n"
               "  statistics        How long events and loads took\n\n"
               "  -h --help         Show this help\n"
               "  -V --version      Show package version\n"
               "     --json=short|pretty\n"
               "                    Print as JSON, but for plot\n"
               "     --root=DIR     Read the records below DIR/run\n\n"
               "All but status read FILE…, records from elsewhere, or else those in /run/udev.\n",
               program_invocation_short_name);
        return 0;
}

static int parse_argv(int argc, char *argv[]) {
        enum {
                ARG_JSON = 0x100,
                ARG_ROOT,
        };
        static const struct option options[] = {
                { "help",    no_argument,       NULL, 'h'      },
                { "version", no_argument,       NULL, 'V'      },
                { "json",    required_argument, NULL, ARG_JSON },
                { "root",    required_argument, NULL, ARG_ROOT },
                {}
        };
        int c;

        /* It has been used for udevadm's own options. */
        optind = 0;
        while ((c = getopt_long(argc, argv, "hV", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        return help();
                case 'V':
                        puts(STRINGIFY(PROJECT_VERSION));
                        return 0;
                case ARG_JSON:
                        if (streq(optarg, "short"))
                                arg_format = FORMAT_JSON_SHORT;
                        else if (streq(optarg, "pretty"))
                                arg_format = FORMAT_JSON_PRETTY;
                        else
                                return log_error_errno(SYNTHETIC_ERRNO(EINVAL),
                                                       "--json= takes short or pretty, not '%s'.", optarg);
                        break;
                case ARG_ROOT:
                        arg_root = optarg;
                        break;
                case '?':
                        return -EINVAL;
                default:
                        assert_not_reached();
                }

        return 1;
}

bool module_queue_is_on(void) {
        static int on = -1;

        if (on < 0) {
                _cleanup_(module_record_freep) ModuleRecord *status = NULL;
                size_t line;

                /* Nobody has asked for it: what cannot be read is no queue, whatever is wrong with it. */
                on = file_read(MODULE_STATUS_PATH, &status, &line) >= 0 &&
                        status->mode != MODULE_RECORD_OFF && process_exists(status->udevd);
        }

        return on;
}

int module_queue_main(VERB_ARGUMENTS) {
        static const struct {
                const char *name;
                int (*run)(char **files);
        } commands[] = {
                { "status",         verb_status         },
                { "list",           verb_list           },
                { "blame",          verb_blame          },
                { "critical-chain", verb_critical_chain },
                { "plot",           verb_plot           },
                { "statistics",     verb_statistics     },
        };
        const char *name;
        int r;

        r = parse_argv(argc, argv);
        if (r <= 0)
                return r;

        name = argv[optind] ?: "status";
        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                if (streq(name, commands[i].name)) {
                        r = commands[i].run(argv[optind] ? argv + optind + 1 : NULL);
                        if (r < 0)
                                return r;

                        r = fflush_and_check(stdout);
                        return r < 0 ? log_error_errno(r, "Failed to write all of the output: %m") : 0;
                }

        return log_error_errno(SYNTHETIC_ERRNO(EINVAL),
                               "There is no command '%s'; udevadm module-queue --help lists them.", name);
}
