/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc-util.h"
#include "hash-funcs.h"
#include "hashmap.h"
#include "sort-util.h"
#include "string-util.h"

#include "udev-module-chain.h"

/* However odd the times in a record are. */
#define LINKS_MAX 256U

typedef struct Span {
        usec_t from, to;
} Span;

static int span_compare(const Span *a, const Span *b) {
        return CMP(a->from, b->from);
}

int module_record_coldplug(const ModuleRecord *record, usec_t *ret_begin, usec_t *ret_end) {
        _cleanup_free_ Span *spans = NULL;
        usec_t triggered = USEC_INFINITY, end = 0;
        size_t n = 0;

        assert(record);
        assert(ret_begin);
        assert(ret_end);

        spans = new(Span, record->n_events + record->n_loads + 1);
        if (!spans)
                return -ENOMEM;

        for (size_t i = 0; i < record->n_events; i++) {
                const ModuleRecordEvent *e = record->events + i;

                spans[n++] = (Span) { e->received, MAX(e->processed, e->received) };
                if (e->triggered)
                        triggered = MIN(triggered, e->received);
        }

        for (size_t i = 0; i < record->n_loads; i++) {
                const ModuleRecordLoad *l = record->loads + i;

                spans[n++] = (Span) { l->asked, MAX(MAX(l->done, l->started), l->asked) };
        }

        typesafe_qsort(spans, n, span_compare);

        if (triggered == USEC_INFINITY)
                triggered = 0;

        for (size_t i = 0; i < n; i++) {
                if (end > 0 && end >= triggered && spans[i].from > usec_add(end, MODULE_COLDPLUG_GAP_USEC))
                        break;

                end = MAX(end, spans[i].to);
        }

        *ret_begin = n > 0 ? spans[0].from : 0;
        *ret_end = end;
        return 0;
}

const char *module_record_device_name(const char *device) {
        const char *slash;

        if (!device)
                return "?";

        slash = strrchr(device, '/');
        return slash && slash[1] ? slash + 1 : device;
}

static bool name_is_numbered(const char *name, const char *prefix) {
        const char *p = startswith(name, prefix);

        return p && *p && strspn(p, DIGITS) == strlen(p);
}

bool module_record_event_is_disk(const ModuleRecordEvent *event) {
        const char *name;

        assert(event);

        if (!streq_ptr(event->action, "add") || !streq_ptr(event->subsystem, "block") ||
            !streq_ptr(event->devtype, "disk"))
                return false;

        name = module_record_device_name(event->device);
        return !name_is_numbered(name, "loop") && !name_is_numbered(name, "ram") && !name_is_numbered(name, "zram") &&
                !name_is_numbered(name, "sr") && !name_is_numbered(name, "fd");
}

bool module_record_event_is_input(const ModuleRecordEvent *event) {
        assert(event);

        return streq_ptr(event->action, "add") && streq_ptr(event->subsystem, "input") &&
                name_is_numbered(module_record_device_name(event->device), "event");
}

const ModuleRecordEvent *module_record_last_event(
                const ModuleRecord *record,
                bool (*is)(const ModuleRecordEvent *event),
                usec_t until) {

        const ModuleRecordEvent *last = NULL;

        assert(record);
        assert(is);

        for (size_t i = 0; i < record->n_events; i++) {
                const ModuleRecordEvent *e = record->events + i;

                if (e->processed > 0 && e->processed <= until && is(e) && (!last || e->processed > last->processed))
                        last = e;
        }

        return last;
}

static bool event_is_any(const ModuleRecordEvent *event) {
        return true;
}

void module_record_last(
                const ModuleRecord *record,
                usec_t until,
                const ModuleRecordEvent **ret_event,
                const ModuleRecordLoad **ret_load) {

        const ModuleRecordLoad *load = NULL;
        const ModuleRecordEvent *event;

        assert(record);
        assert(ret_event);
        assert(ret_load);

        event = module_record_last_event(record, event_is_any, until);

        for (size_t i = 0; i < record->n_loads; i++) {
                const ModuleRecordLoad *l = record->loads + i;

                if (l->done > 0 && l->done <= until && l->done > (load ? load->done : event ? event->processed : 0))
                        load = l;
        }

        *ret_event = load ? NULL : event;
        *ret_load = load;
}

void module_chain_done(ModuleChain *chain) {
        assert(chain);

        free(chain->links);
        *chain = (ModuleChain) {};
}

/* The chain while it is made, from its end. */
typedef struct Walk {
        const ModuleRecord *record;
        Hashmap *events;                /* by SEQNUM */
        ModuleChain chain;              /* newest first */
        usec_t at;                      /* all up to here is still to be explained */
} Walk;

static void walk_done(Walk *w) {
        hashmap_free(w->events);
        module_chain_done(&w->chain);
}

static const ModuleRecordEvent *walk_event(const Walk *w, uint64_t seqnum) {
        return hashmap_get(w->events, &seqnum);
}

/* A part that begins then and ends where the one that came after it begins. */
static int walk_add(
                Walk *w,
                ModuleChainKind kind,
                usec_t from,
                const ModuleRecordEvent *event,
                const ModuleRecordLoad *load) {

        if (from >= w->at)
                return 0;

        if (!GREEDY_REALLOC(w->chain.links, w->chain.n_links + 1))
                return -ENOMEM;

        w->chain.links[w->chain.n_links++] = (ModuleChainLink) {
                .kind = kind,
                .from = from,
                .to = w->at,
                .event = event,
                .load = load,
        };
        w->at = from;
        return 0;
}

/* When it is no obstacle any more for what builds on it. */
static usec_t load_release(const ModuleRecordLoad *load) {
        return load->preload && load->live > 0 ? load->live : load->done;
}

/* In a list of modules with blanks between them: its place, or NULL. */
static const char *modules_find(const char *modules, const char *module) {
        size_t n = strlen(module);

        for (const char *p = modules; p; p = strchr(p, ' ')) {
                p += *p == ' ';
                if (strneq(p, module, n) && IN_SET(p[n], 0, ' '))
                        return p;
        }

        return NULL;
}

/* Whose load it was. */
static const ModuleRecordRequest *walk_first_request(const Walk *w, const ModuleRecordLoad *load) {
        for (size_t i = 0; i < w->record->n_requests; i++) {
                const ModuleRecordRequest *r = w->record->requests + i;

                if (r->seqnum == load->seqnum && r->modules && modules_find(r->modules, load->module))
                        return r;
        }

        return NULL;
}

/* Whether the request has used this attempt; by then. */
static bool load_is_for(const ModuleRecordLoad *load, const ModuleRecordRequest *request, usec_t until) {
        return load->started < until && (load->done == 0 || load->done > request->asked) &&
                request->modules && modules_find(request->modules, load->module);
}

/* What was loaded last for the request before the load, and has held it. */
static const ModuleRecordLoad *walk_before(
                const Walk *w,
                const ModuleRecordRequest *request,
                const ModuleRecordLoad *load) {

        const ModuleRecordLoad *last = NULL;
        const char *place;

        place = modules_find(request->modules, load->module);
        if (!place)
                return NULL;

        for (size_t i = 0; i < w->record->n_loads; i++) {
                const ModuleRecordLoad *l = w->record->loads + i;
                usec_t release = load_release(l);

                if (l != load && release > 0 && release <= w->at && release > request->asked &&
                    load_is_for(l, request, w->at) && modules_find(request->modules, l->module) < place &&
                    (!last || release > load_release(last)))
                        last = l;
        }

        return last;
}

/* Whether path is below dir. */
static bool device_is_below(const char *path, const char *dir) {
        const char *p;

        if (!path || !dir)
                return false;

        p = startswith(path, dir);
        return p && *p == '/';
}

/* The load that has made a device: that of a driver for the nearest one above it. */
static const ModuleRecordLoad *walk_maker(const Walk *w, const ModuleRecordEvent *event,
                                          const ModuleRecordRequest **ret) {
        const ModuleRecordRequest *request = NULL;
        const ModuleRecordLoad *maker = NULL;
        size_t nearest = 0;

        for (size_t i = 0; i < w->record->n_requests; i++) {
                const ModuleRecordRequest *r = w->record->requests + i;
                const ModuleRecordEvent *e = walk_event(w, r->seqnum);
                size_t near;

                if (!e || r->asked >= w->at || !device_is_below(event->device, e->device))
                        continue;

                near = strlen(e->device);
                if (near < nearest)
                        continue;

                for (size_t j = 0; j < w->record->n_loads; j++) {
                        const ModuleRecordLoad *l = w->record->loads + j;

                        /* Of several that may have, the one that started last. */
                        if (load_is_for(l, r, w->at) && (near > nearest || !maker || l->started > maker->started)) {
                                nearest = near;
                                maker = l;
                                request = r;
                        }
                }
        }

        *ret = request;
        return maker;
}

/* All that the load waited for, up to the event that asked; that is returned, or NULL if it is not known. */
static int walk_load(
                Walk *w,
                const ModuleRecordLoad *load,
                const ModuleRecordRequest *request,
                const ModuleRecordEvent **ret) {

        int r;

        for (;;) {
                const ModuleRecordLoad *before;
                usec_t since;

                r = walk_add(w, MODULE_CHAIN_LOADING, load->started, NULL, load);
                if (r < 0)
                        return r;

                /* Somebody else had asked before. */
                if (!request || load->asked < request->asked)
                        request = walk_first_request(w, load);

                before = request && w->chain.n_links < LINKS_MAX ? walk_before(w, request, load) : NULL;
                since = before ? load_release(before) : request ? request->asked : load->asked;
                r = walk_add(w, MODULE_CHAIN_WAITING, since, NULL, load);
                if (r < 0)
                        return r;

                if (!before) {
                        *ret = request ? walk_event(w, request->seqnum) : NULL;
                        return 0;
                }

                load = before;
        }
}

int module_chain_build(
                const ModuleRecord *record,
                const ModuleRecordEvent *event,
                const ModuleRecordLoad *load,
                ModuleChain *ret) {

        _cleanup_(walk_done) Walk w = { .record = record };
        const ModuleRecordRequest *request = NULL;
        int r;

        assert(record);
        assert(!event != !load);
        assert(ret);

        w.events = hashmap_new(&uint64_hash_ops);
        if (!w.events)
                return -ENOMEM;

        /* With adopted events there may be several of a SEQNUM: the first. */
        for (size_t i = 0; i < record->n_events; i++) {
                r = hashmap_put(w.events, &record->events[i].seqnum, record->events + i);
                if (r == -ENOMEM)
                        return r;
        }

        w.at = event ? event->processed : load->done;
        for (;;) {
                if (load) {
                        if (load->done > 0) {
                                r = walk_add(&w, MODULE_CHAIN_KERNEL, load->done, event, load);
                                if (r < 0)
                                        return r;
                        }

                        r = walk_load(&w, load, request, &event);
                        if (r < 0)
                                return r;
                }

                if (!event || w.chain.n_links >= LINKS_MAX)
                        break;

                r = walk_add(&w, MODULE_CHAIN_RULES, event->started, event, NULL);
                if (r < 0)
                        return r;

                r = walk_add(&w, MODULE_CHAIN_QUEUED, event->received, event, NULL);
                if (r < 0)
                        return r;

                load = event->triggered ? NULL : walk_maker(&w, event, &request);
                if (!load)
                        break;
        }

        for (size_t i = 0; i < w.chain.n_links / 2; i++)
                SWAP_TWO(w.chain.links[i], w.chain.links[w.chain.n_links - 1 - i]);

        *ret = w.chain;
        w.chain = (ModuleChain) {};
        return 0;
}
