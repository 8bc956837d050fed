/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The text is lines of fields with tabs between them: what the line is, numbers as decimals, strings escaped as in C,
 * so that neither tabs nor ends of lines are in them. The first line says what it is, the last how many there are
 * before it: without that it is cut off.
 *
 *   udev module record 1
 *   udevd    initrd|system  yes|wait  loaders  pid  written  waiting
 *   dropped  loads  requests  events
 *   load     module  class  alias  device  SEQNUM  preload  requests  loader  errno  asked  started  live  done
 *   request  SEQNUM  asked  modules
 *   event    SEQNUM  device  action  subsystem  devtype  triggered  received  started  processed
 *   end      lines */

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "alloc-util.h"
#include "errno-list.h"
#include "escape.h"
#include "parse-util.h"
#include "string-util.h"

#include "udev-module-record.h"

/* The number is to be raised when lines or classes change. */
#define MAGIC "udev module record "
#define VERSION "1"

#define FIELDS_MAX 16U

/* Strings lie one behind the other: few allocations, and few pages that a worker's fork makes the manager copy. */
#define CHUNK_SIZE (64U * 1024U)

struct ModuleRecordChunk {
        ModuleRecordChunk *next;
        char bytes[];
};

ModuleRecord *module_record_new(void) {
        return new0(ModuleRecord, 1);
}

ModuleRecord *module_record_free(ModuleRecord *record) {
        ModuleRecordChunk *chunk;

        if (!record)
                return NULL;

        while ((chunk = record->chunks)) {
                record->chunks = chunk->next;
                free(chunk);
        }

        free(record->loads);
        free(record->requests);
        free(record->events);

        return mfree(record);
}

static int record_reserve(ModuleRecord *record, size_t size) {
        ModuleRecordChunk *chunk;

        if (size <= record->chunk_left)
                return 0;

        chunk = malloc(offsetof(ModuleRecordChunk, bytes) + MAX(size, CHUNK_SIZE));
        if (!chunk)
                return -ENOMEM;

        chunk->next = record->chunks;
        record->chunks = chunk;
        record->chunk_at = chunk->bytes;
        record->chunk_left = MAX(size, CHUNK_SIZE);
        return 0;
}

/* The record's own copies instead of a row's strings. */
static int record_keep(ModuleRecord *record, size_t n, const char **strings[n]) {
        size_t sizes[4], size = 0;
        int r;

        assert(n <= ELEMENTSOF(sizes));

        for (size_t i = 0; i < n; i++)
                size += sizes[i] = strlen(strempty(*strings[i])) + 1;
        if (size > MODULE_RECORD_STRINGS_MAX - record->strings_size)
                return -EFBIG;

        r = record_reserve(record, size);
        if (r < 0)
                return r;

        for (size_t i = 0; i < n; i++) {
                if (sizes[i] == 1) {
                        *strings[i] = NULL;
                        continue;
                }

                *strings[i] = memcpy(record->chunk_at, *strings[i], sizes[i]);
                record->chunk_at += sizes[i];
                record->chunk_left -= sizes[i];
        }

        record->strings_size += size;
        return 0;
}

uint32_t module_record_add_load(ModuleRecord *record, const ModuleRecordLoad *load) {
        ModuleRecordLoad row;

        assert(record);
        assert(load);

        row = *load;
        if (record->n_loads >= MODULE_RECORD_LOADS_MAX ||
            record_keep(record, 3, (const char **[]) { &row.module, &row.alias, &row.device }) < 0 ||
            !GREEDY_REALLOC(record->loads, record->n_loads + 1)) {
                record->n_loads_dropped++;
                return MODULE_RECORD_DROPPED;
        }

        record->loads[record->n_loads] = row;
        return record->n_loads++;
}

uint32_t module_record_add_request(ModuleRecord *record, const ModuleRecordRequest *request) {
        ModuleRecordRequest row;

        assert(record);
        assert(request);

        row = *request;
        if (record->n_requests >= MODULE_RECORD_REQUESTS_MAX ||
            record_keep(record, 1, (const char **[]) { &row.modules }) < 0 ||
            !GREEDY_REALLOC(record->requests, record->n_requests + 1)) {
                record->n_requests_dropped++;
                return MODULE_RECORD_DROPPED;
        }

        record->requests[record->n_requests] = row;
        return record->n_requests++;
}

uint32_t module_record_add_event(ModuleRecord *record, const ModuleRecordEvent *event) {
        ModuleRecordEvent row;

        assert(record);
        assert(event);

        row = *event;
        if (record->n_events >= MODULE_RECORD_EVENTS_MAX ||
            record_keep(record, 4, (const char **[]) { &row.device, &row.action, &row.subsystem, &row.devtype }) < 0 ||
            !GREEDY_REALLOC(record->events, record->n_events + 1)) {
                record->n_events_dropped++;
                return MODULE_RECORD_DROPPED;
        }

        record->events[record->n_events] = row;
        return record->n_events++;
}

ModuleRecordLoad *module_record_get_load(ModuleRecord *record, uint32_t row) {
        assert(record);

        return row == MODULE_RECORD_DROPPED ? NULL : record->loads + row;
}

ModuleRecordEvent *module_record_get_event(ModuleRecord *record, uint32_t row) {
        assert(record);

        return row == MODULE_RECORD_DROPPED ? NULL : record->events + row;
}

static const char* const mode_names[_MODULE_RECORD_MODE_MAX] = {
        [MODULE_RECORD_YES]  = "yes",
        [MODULE_RECORD_WAIT] = "wait",
        [MODULE_RECORD_OFF]  = "off",
};

/* The text while it is written. */
typedef struct Text {
        char *bytes;
        size_t size;
} Text;

/* Room for a line with so many bytes of strings. Its other fields, 12 at most, are less than the constant. */
static int text_reserve(Text *t, size_t strings) {
        return GREEDY_REALLOC(t->bytes, t->size + 4 * strings + 320) ? 0 : -ENOMEM;
}

static void text_add_word(Text *t, const char *s) {
        t->size = stpcpy(t->bytes + t->size, s) - t->bytes;
}

static void text_add_number(Text *t, uint64_t n) {
        char digits[DECIMAL_STR_MAX(uint64_t)], *p = digits + sizeof(digits);

        *--p = 0;
        do
                *--p = '0' + n % 10;
        while ((n /= 10) > 0);

        t->bytes[t->size++] = '\t';
        text_add_word(t, p);
}

static void text_add_string(Text *t, const char *s) {
        t->bytes[t->size++] = '\t';

        for (s = strempty(s); *s; s++)
                if (*s >= ' ' && *s <= '~' && !IN_SET(*s, '\\', '"', '\''))
                        t->bytes[t->size++] = *s;
                else
                        t->size += cescape_char(*s, t->bytes + t->size);
}

static size_t string_size(const char *s) {
        return s ? strlen(s) : 0;
}

static int write_head(Text *t, const ModuleRecord *record) {
        int r;

        r = text_reserve(t, 0);
        if (r < 0)
                return r;

        text_add_word(t, MAGIC VERSION "\nudevd\t");
        text_add_word(t, record->initrd ? "initrd\t" : "system\t");
        text_add_word(t, mode_names[record->mode]);
        text_add_number(t, record->n_loaders_max);
        text_add_number(t, record->udevd);
        text_add_number(t, record->written);
        text_add_number(t, record->n_waiting);
        text_add_word(t, "\ndropped");
        text_add_number(t, record->n_loads_dropped);
        text_add_number(t, record->n_requests_dropped);
        text_add_number(t, record->n_events_dropped);
        text_add_word(t, "\n");
        return 0;
}

static int write_load(Text *t, const ModuleRecordLoad *load) {
        int r;

        r = text_reserve(t, string_size(load->module) + string_size(load->alias) + string_size(load->device));
        if (r < 0)
                return r;

        text_add_word(t, "load");
        text_add_string(t, load->module);
        text_add_string(t, module_class_to_string(load->class));
        text_add_string(t, load->alias);
        text_add_string(t, load->device);
        text_add_number(t, load->seqnum);
        text_add_number(t, load->preload);
        text_add_number(t, load->n_requests);
        text_add_number(t, load->loader);
        text_add_number(t, -load->error);
        text_add_number(t, load->asked);
        text_add_number(t, load->started);
        text_add_number(t, load->live);
        text_add_number(t, load->done);
        text_add_word(t, "\n");
        return 0;
}

static int write_request(Text *t, const ModuleRecordRequest *request) {
        int r;

        r = text_reserve(t, string_size(request->modules));
        if (r < 0)
                return r;

        text_add_word(t, "request");
        text_add_number(t, request->seqnum);
        text_add_number(t, request->asked);
        text_add_string(t, request->modules);
        text_add_word(t, "\n");
        return 0;
}

static int write_event(Text *t, const ModuleRecordEvent *event) {
        int r;

        r = text_reserve(t, string_size(event->device) + string_size(event->action) +
                         string_size(event->subsystem) + string_size(event->devtype));
        if (r < 0)
                return r;

        text_add_word(t, "event");
        text_add_number(t, event->seqnum);
        text_add_string(t, event->device);
        text_add_string(t, event->action);
        text_add_string(t, event->subsystem);
        text_add_string(t, event->devtype);
        text_add_number(t, event->triggered);
        text_add_number(t, event->received);
        text_add_number(t, event->started);
        text_add_number(t, event->processed);
        text_add_word(t, "\n");
        return 0;
}

static int write_rows(Text *t, const ModuleRecord *record, bool only_busy, size_t *ret) {
        int r;

        *ret = 0;

        for (size_t i = 0; i < record->n_loads; i++) {
                if (only_busy && record->loads[i].done > 0)
                        continue;

                r = write_load(t, record->loads + i);
                if (r < 0)
                        return r;
                (*ret)++;
        }

        if (only_busy)
                return 0;

        for (size_t i = 0; i < record->n_requests; i++) {
                r = write_request(t, record->requests + i);
                if (r < 0)
                        return r;
        }

        for (size_t i = 0; i < record->n_events; i++) {
                r = write_event(t, record->events + i);
                if (r < 0)
                        return r;
        }

        *ret += record->n_requests + record->n_events;
        return 0;
}

static int write_end(Text *t, size_t n_lines) {
        int r;

        r = text_reserve(t, 0);
        if (r < 0)
                return r;

        text_add_word(t, "end");
        text_add_number(t, n_lines);
        text_add_word(t, "\n");
        return 0;
}

static void text_done(Text *t) {
        free(t->bytes);
}

int module_record_build(const ModuleRecord *record, bool only_busy, char **ret, size_t *ret_size) {
        _cleanup_(text_done) Text t = {};
        size_t n;
        int r;

        assert(record);
        assert(ret);
        assert(ret_size);

        r = write_head(&t, record);
        if (r < 0)
                return r;

        r = write_rows(&t, record, only_busy, &n);
        if (r < 0)
                return r;

        r = write_end(&t, n + 3);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(t.bytes);
        *ret_size = t.size;
        return 0;
}

/* The fields of a line that are not read yet; the first error stays. */
typedef struct Fields {
        char *fields[FIELDS_MAX];
        size_t n, at;
        char *strings[FIELDS_MAX];      /* without escapes */
        size_t n_strings;
        int error;
} Fields;

static void fields_done(Fields *f) {
        for (size_t i = 0; i < f->n_strings; i++)
                free(f->strings[i]);
}

static void fields_split(Fields *f, char *line) {
        while (f->n < FIELDS_MAX) {
                f->fields[f->n++] = line;
                line = strchr(line, '\t');
                if (!line)
                        return;
                *line++ = 0;
        }

        f->error = -EBADMSG;
}

static const char *fields_raw(Fields *f) {
        if (f->at >= f->n) {
                f->error = f->error ?: -EBADMSG;
                return "";
        }

        return f->fields[f->at++];
}

static const char *fields_string(Fields *f) {
        char *s;
        ssize_t l;

        l = cunescape(fields_raw(f), 0, &s);
        if (l < 0) {
                f->error = f->error ?: l == -ENOMEM ? -ENOMEM : -EBADMSG;
                return NULL;
        }

        return f->strings[f->n_strings++] = s;
}

static uint64_t fields_number(Fields *f, uint64_t max) {
        const char *s = fields_raw(f);
        uint64_t n = 0;

        /* No sign, no blank, no other base. */
        if (!in_charset(s, DIGITS) || (s[0] == '0' && s[1] != 0) || safe_atou64(s, &n) < 0 || n > max) {
                f->error = f->error ?: -EBADMSG;
                return 0;
        }

        return n;
}

/* Either of two words; true for the second. */
static bool fields_choice(Fields *f, const char *no, const char *yes) {
        const char *s = fields_raw(f);

        if (!streq(s, no) && !streq(s, yes))
                f->error = f->error ?: -EBADMSG;

        return streq(s, yes);
}

static ModuleRecordMode fields_mode(Fields *f) {
        const char *s = fields_raw(f);

        for (ModuleRecordMode mode = 0; mode < _MODULE_RECORD_MODE_MAX; mode++)
                if (streq(s, mode_names[mode]))
                        return mode;

        f->error = f->error ?: -EBADMSG;
        return 0;
}

static ModuleClass fields_class(Fields *f) {
        ModuleClass class = module_class_from_string(fields_raw(f));

        if (class < 0)
                f->error = f->error ?: -EBADMSG;

        return class;
}

static int parse_load(ModuleRecord *record, Fields *f) {
        ModuleRecordLoad load = {};

        load.module = fields_string(f);
        load.class = fields_class(f);
        load.alias = fields_string(f);
        load.device = fields_string(f);
        load.seqnum = fields_number(f, UINT64_MAX);
        load.preload = fields_number(f, 1);
        load.n_requests = fields_number(f, UINT32_MAX);
        load.loader = fields_number(f, UINT32_MAX);
        load.error = -(int) fields_number(f, ERRNO_MAX);
        load.asked = fields_number(f, USEC_INFINITY - 1);
        load.started = fields_number(f, USEC_INFINITY - 1);
        load.live = fields_number(f, USEC_INFINITY - 1);
        load.done = fields_number(f, USEC_INFINITY - 1);
        if (f->error < 0)
                return f->error;
        if (isempty(load.module))
                return -EBADMSG;

        return module_record_add_load(record, &load) == MODULE_RECORD_DROPPED ? -EFBIG : 0;
}

static int parse_request(ModuleRecord *record, Fields *f) {
        ModuleRecordRequest request = {};

        request.seqnum = fields_number(f, UINT64_MAX);
        request.asked = fields_number(f, USEC_INFINITY - 1);
        request.modules = fields_string(f);
        if (f->error < 0)
                return f->error;

        return module_record_add_request(record, &request) == MODULE_RECORD_DROPPED ? -EFBIG : 0;
}

static int parse_event(ModuleRecord *record, Fields *f) {
        ModuleRecordEvent event = {};

        event.seqnum = fields_number(f, UINT64_MAX);
        event.device = fields_string(f);
        event.action = fields_string(f);
        event.subsystem = fields_string(f);
        event.devtype = fields_string(f);
        event.triggered = fields_number(f, 1);
        event.received = fields_number(f, USEC_INFINITY - 1);
        event.started = fields_number(f, USEC_INFINITY - 1);
        event.processed = fields_number(f, USEC_INFINITY - 1);
        if (f->error < 0)
                return f->error;

        return module_record_add_event(record, &event) == MODULE_RECORD_DROPPED ? -EFBIG : 0;
}

static int parse_udevd(ModuleRecord *record, Fields *f) {
        record->initrd = fields_choice(f, "system", "initrd");
        record->mode = fields_mode(f);
        record->n_loaders_max = fields_number(f, UINT32_MAX);
        record->udevd = fields_number(f, UINT32_MAX);
        record->written = fields_number(f, USEC_INFINITY - 1);
        record->n_waiting = fields_number(f, UINT32_MAX);
        return f->error;
}

static int parse_dropped(ModuleRecord *record, Fields *f) {
        record->n_loads_dropped = fields_number(f, UINT64_MAX);
        record->n_requests_dropped = fields_number(f, UINT64_MAX);
        record->n_events_dropped = fields_number(f, UINT64_MAX);
        return f->error;
}

/* Line n, from 1 on; > 0 if it is the last. */
static int parse_line(ModuleRecord *record, char *line, size_t n) {
        _cleanup_(fields_done) Fields f = {};
        const char *what;
        int r;

        fields_split(&f, line);
        what = fields_raw(&f);

        if (n == 2)
                r = streq(what, "udevd") ? parse_udevd(record, &f) : -EBADMSG;
        else if (n == 3)
                r = streq(what, "dropped") ? parse_dropped(record, &f) : -EBADMSG;
        else if (streq(what, "load"))
                r = parse_load(record, &f);
        else if (streq(what, "request"))
                r = parse_request(record, &f);
        else if (streq(what, "event"))
                r = parse_event(record, &f);
        else if (streq(what, "end"))
                r = fields_number(&f, UINT64_MAX) == n - 1 ? 1 : -EBADMSG;
        else
                r = -EBADMSG;

        if (f.error < 0)
                return f.error;

        return r >= 0 && f.at < f.n ? -EBADMSG : r;
}

static int parse_text(ModuleRecord *record, char *p, const char *end, size_t *ret_line) {
        int r;

        for (size_t n = 1;; n++) {
                char *next;

                *ret_line = n;

                next = memchr(p, '\n', end - p);
                if (!next)
                        /* Also if it ends with a whole line, since the last one is missing. */
                        return n > 1 || memcmp(p, MAGIC VERSION, MIN((size_t) (end - p), strlen(MAGIC VERSION))) == 0 ?
                                -ENODATA : -EBADMSG;
                *next++ = 0;
                if (strlen(p) != (size_t) (next - 1 - p))
                        return -EBADMSG;

                if (n == 1) {
                        const char *version = startswith(p, MAGIC);

                        if (!version)
                                return -EBADMSG;
                        if (!streq(version, VERSION))
                                return -EPROTONOSUPPORT;
                } else {
                        r = parse_line(record, p, n);
                        if (r < 0)
                                return r;
                        if (r > 0)
                                return next == end ? 0 : -EBADMSG;
                }

                p = next;
        }
}

int module_record_parse(const void *bytes, size_t size, ModuleRecord **ret, size_t *ret_line) {
        _cleanup_(module_record_freep) ModuleRecord *record = NULL;
        _cleanup_free_ char *text = NULL;
        int r;

        assert(bytes || size == 0);
        assert(ret);
        assert(ret_line);

        *ret_line = 1;

        if (size > MODULE_RECORD_TEXT_MAX)
                return -EFBIG;

        text = new(char, size + 1);
        record = module_record_new();
        if (!text || !record)
                return -ENOMEM;

        memcpy_safe(text, bytes, size);
        text[size] = 0;

        r = parse_text(record, text, text + size, ret_line);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(record);
        return 0;
}
