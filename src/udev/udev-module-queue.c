/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The model, as far as the queue keeps it; the tests in test/unit/test-module-queue.c are sorted by its rules. The
 * others are kept elsewhere: `udevadm settle` means what it meant, no load and no unread uevent of one is left when it
 * returns (2, udev-module-pool.c); a load is never killed, what takes long is named in the log (6, there too) and the
 * manager never blocks (8, udev-module-dispatch.c); what is asked for outlives udevd (9, udev-module-journal.h);
 * switched off, udevd is stock's (10, hooks.cocci). The order of events (5) is in udev-module-event.h, what a class is in
 * udev-module-class.c.
 *
 * A request is a list of steps, each of them a module that must be attempted. It stands at exactly one of them at
 * any time; when that one is served, it goes on to the next that is not served yet, and after the last one it is
 * finished. A step (ModuleStep) is shared by all requests that name its module. It is idle as long as nobody stands
 * there, waiting from when the first request gets there, and loading from module_queue_next() until the attempt
 * ends.
 *
 * Rule 1. A load holds only what waits for it.
 *   - Who needs a module only as a pre-load goes on as soon as it is live, and so does who asked for it if nobody
 *     waits for that. The load may end much later: at its end the kernel waits for all asynchronous probes in the
 *     system.
 *
 * Rule 3. Share, never drop.
 *   - The end of an attempt serves every request that needs the module and was added before that end, wherever it
 *     stands: those that stand there go on, and those that get there later pass. So a module is never attempted
 *     twice at once, nor again for somebody who asked while it was being loaded.
 *   - Who asks after the end gets a new attempt: no result is kept for good. Except: a failure answers whoever gets
 *     there less than MODULE_QUEUE_FAILURE_USEC after it, unless any module was loaded since, by us or by others, or
 *     the configuration was read again: then all kept failures are void. And except if a pre-load has failed: that
 *     answers nobody who asks for the module itself, also if he stood there already.
 *
 * Rule 4. The last step is always libkmod's own.
 *   - A request makes its steps in the order of its list, one after the other; see rule 1 for what counts as the end
 *     of one. (A load that does more than to insert its module is never said to be live: udev-module-loader.h.)
 *   - A failure does not end a request. After that of a pre-load no other pre-load is attempted, since libkmod may
 *     stop there or not: what was asked for comes next, in which libkmod does all of it. After that of a module that
 *     was asked for the next step comes.
 *   - An attempt counts as asked for, and applies the blacklist, if anybody who stands there when it starts has
 *     asked for the module itself; otherwise it is a pre-load. That does not change while it is being loaded.
 *
 * Rule 5. Order.
 *   - A step has the best class of all the requests that need it and are not served yet, also of those that stand
 *     further up in their lists, and also while it is being loaded.
 *   - The step with the earliest deadline goes first: the time when the oldest of the requests that stand there was
 *     asked, plus the class times MODULE_QUEUE_AGE_USEC. With equal deadlines the older request goes first. That time
 *     is that of the request and not that of its getting to the step: what was asked for first is finished first,
 *     and a long list does not go to the back with each of its steps. Nothing that was asked for later than the
 *     deadline goes before it: nobody waits for ever.
 *
 * Rule 7. A slow module blocks nobody but those who need it.
 *   - As many loads are at work at once as there are places. A quarter of these (if there are four at least) takes
 *     only bus, storage and input.
 *   - A load that only waits, for its device or, when its module is live, for the probes of others, is parked: it has
 *     no place until it works again.
 *
 * Rule 9. Nothing lost.
 *   - If a loader dies, its step waits again in its old place, unless the module is live and nobody stands there any
 *     more. If one dies over the same attempt once more, the attempt has failed, and who waits is told to load by
 *     himself; if the module is live, it just ends.
 *   - Where no process can be had, and no load is at work or none starts for a while, who waits is told to load by
 *     himself, and the queue tries again later.
 *   - Once the queue has given up, nothing starts that had been asked for until then, and whoever waits for
 *     something of that is told to load it by himself.
 *
 * What makes it hold: an order number for each request and for each end of an attempt tells who was added before
 * (request.serial < step.done_serial). All memory is taken in module_queue_add(), everything else cannot fail: steps
 * exist as long as a request names them or their failure is kept, and are all the time in both priority queues, the
 * idle and the loading ones behind all others. Nothing calls itself: the end of an attempt makes requests go on, but
 * never ends another attempt. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc-util.h"
#include "hash-funcs.h"
#include "hashmap.h"
#include "list.h"
#include "macro.h"
#include "prioq.h"
#include "string-util.h"
#include "time-util.h"

#include "udev-module-queue.h"

typedef struct Request Request;

typedef struct RequestStep {
        ModuleStep *step;
        const char *alias;              /* in the request's strings; NULL for a pre-load */
} RequestStep;

struct Request {
        uint64_t serial;
        uint64_t seqnum;
        usec_t asked;
        const char *device;
        pid_t waiter;                   /* 0: nobody, or he is gone */
        uint32_t id;
        LIST_FIELDS(Request, place);    /* in the list of the step where it stands, or in that of the answers */
        LIST_FIELDS(Request, of_waiter);
        uint16_t n_steps, current;      /* finished, and thus an answer, if they are equal */
        uint8_t class;
        bool load_yourself;
        RequestStep steps[];            /* the strings follow */
};

typedef struct RequestList {
        LIST_HEAD(Request, first);
        Request *last;
} RequestList;

typedef enum StepState {
        STEP_IDLE,
        STEP_WAITING,
        STEP_LOADING,
} StepState;

struct ModuleStep {
        StepState state;
        ModuleClass class;              /* while not idle */
        unsigned n_refs;                /* how many times requests name it */
        uint32_t need[_MODULE_CLASS_MAX]; /* of these, those not served yet, by class of the request */
        uint32_t n_shared;              /* those that this attempt is for, also if it is live and they are served */
        usec_t asked;                   /* when the first of those came */

        RequestList standing;           /* the oldest one is the first, the others as they came */
        const Request *asker;           /* the oldest of them that asked for the module itself */
        const char *alias;              /* while loading: what the asker had looked up when it started */
        bool preload;                   /* the last attempt: there was none */

        uint64_t done_serial;           /* when the last attempt ended */
        bool failed;                    /* the last attempt did, or is lost */
        bool lost;                      /* that one ended with no result, nobody will try again, and it is not live */
        bool live;                      /* being loaded still, but there already for who only builds on it */
        bool parked;                    /* only waits, and has given its place to others */
        bool died;                      /* a loader died over this attempt */
        bool given_up;                  /* no second try for this attempt */
        bool kept;                      /* it failed, and that still answers; only while idle */
        usec_t failed_at;
        LIST_FIELDS(ModuleStep, list);  /* of the kept failures, or of those that are loading */

        /* The place in the order: 'infinite' unless waiting */
        usec_t deadline;
        uint64_t deadline_serial;
        bool urgent;
        unsigned waiting_idx, urgent_idx;

        char name[];
};

struct ModuleQueue {
        unsigned n_places;
        uint64_t serial;

        Hashmap *steps;                 /* by name */
        Hashmap *waiters;               /* by pid: the first of his requests and answers */
        Prioq *waiting;                 /* all steps, those that wait in front */
        Prioq *urgent;                  /* all steps, those that wait and may take the last places in front */

        LIST_HEAD(ModuleStep, kept);    /* oldest failure first */
        ModuleStep *kept_last;
        LIST_HEAD(ModuleStep, loading);
        RequestList answers;

        unsigned n_waiting, n_loading, n_parked; /* the last are among the loading ones */
};

static int step_compare_waiting(const void *a, const void *b) {
        const ModuleStep *x = a, *y = b;

        return CMP(x->deadline, y->deadline) ?: CMP(x->deadline_serial, y->deadline_serial);
}

static int step_compare_urgent(const void *a, const void *b) {
        const ModuleStep *x = a, *y = b;

        return CMP(y->urgent, x->urgent) ?: step_compare_waiting(x, y);
}

static void request_list_append(RequestList *list, Request *r) {
        LIST_INSERT_AFTER(place, list->first, list->last, r);
        list->last = r;
}

static void request_list_prepend(RequestList *list, Request *r) {
        LIST_PREPEND(place, list->first, r);
        if (!list->last)
                list->last = r;
}

static void request_list_remove(RequestList *list, Request *r) {
        if (list->last == r)
                list->last = r->place_prev;
        LIST_REMOVE(place, list->first, r);
}

/* To be called whenever the state, the need or the oldest request of a step has changed. */
static void step_update(ModuleQueue *q, ModuleStep *step) {
        usec_t deadline = USEC_INFINITY;
        uint64_t serial = UINT64_MAX;
        bool urgent = false;

        if (step->standing.first) {
                ModuleClass class = 0;

                /* Who stands there needs it, so there is one. */
                while (step->need[class] == 0)
                        class++;

                step->class = class;
        }

        if (step->state == STEP_WAITING) {
                deadline = usec_add(step->standing.first->asked, step->class * MODULE_QUEUE_AGE_USEC);
                serial = step->standing.first->serial;
                urgent = step->class <= MODULE_CLASS_URGENT_LAST;
        }

        if (step->deadline == deadline && step->deadline_serial == serial && step->urgent == urgent)
                return;

        step->deadline = deadline;
        step->deadline_serial = serial;
        step->urgent = urgent;

        prioq_reshuffle(q->waiting, step, &step->waiting_idx);
        prioq_reshuffle(q->urgent, step, &step->urgent_idx);
}

static void step_set_parked(ModuleQueue *q, ModuleStep *step, bool parked) {
        q->n_parked += parked;
        q->n_parked -= step->parked;
        step->parked = parked;
}

static void step_set_state(ModuleQueue *q, ModuleStep *step, StepState state) {
        if (step->state == STEP_WAITING)
                q->n_waiting--;
        else if (step->state == STEP_LOADING) {
                q->n_loading--;
                step_set_parked(q, step, false);
                LIST_REMOVE(list, q->loading, step);
        }

        step->state = state;

        if (state == STEP_WAITING)
                q->n_waiting++;
        else if (state == STEP_LOADING) {
                q->n_loading++;
                LIST_PREPEND(list, q->loading, step);
        }

        step_update(q, step);
}

static void step_set_live(ModuleQueue *q, ModuleStep *step, bool live) {
        step->live = live;
        step_set_parked(q, step, live);
}

static void step_free(ModuleQueue *q, ModuleStep *step) {
        hashmap_remove(q->steps, step->name);
        prioq_remove(q->waiting, step, &step->waiting_idx);
        prioq_remove(q->urgent, step, &step->urgent_idx);
        free(step);
}

/* Find or make the step of a module, and take a reference. */
static int step_ref_by_name(ModuleQueue *q, const char *name, ModuleStep **ret) {
        ModuleStep *step;
        size_t size;
        int r;

        step = hashmap_get(q->steps, name);
        if (step) {
                step->n_refs++;
                *ret = step;
                return 0;
        }

        size = strlen(name) + 1;
        step = malloc(sizeof(ModuleStep) + size);
        if (!step)
                return -ENOMEM;

        *step = (ModuleStep) {
                .n_refs = 1,
                .deadline = USEC_INFINITY,
                .deadline_serial = UINT64_MAX,
                .waiting_idx = PRIOQ_IDX_NULL,
                .urgent_idx = PRIOQ_IDX_NULL,
        };
        memcpy(step->name, name, size);

        r = hashmap_put(q->steps, step->name, step);
        if (r >= 0)
                r = prioq_put(q->waiting, step, &step->waiting_idx);
        if (r >= 0)
                r = prioq_put(q->urgent, step, &step->urgent_idx);
        if (r < 0) {
                step_free(q, step);
                return r;
        }

        *ret = step;
        return 0;
}

static void step_unref(ModuleQueue *q, ModuleStep *step) {
        if (--step->n_refs == 0 && !step->kept)
                step_free(q, step);
}

/* An attempt has ended, or there will be none: whoever needs the module now is served. Returns those who stood
 * there; it is for the caller to make them go on. */
static Request *step_end(ModuleQueue *q, ModuleStep *step, bool lost) {
        Request *served = step->standing.first;

        step->standing = (RequestList) {};
        step->asker = NULL;
        step->alias = NULL;
        step->done_serial = ++q->serial;
        step->lost = lost && !step->live;
        step->failed = step->lost;
        step_set_live(q, step, false);
        step->died = step->given_up = false;
        memset(step->need, 0, sizeof(step->need));
        step->n_shared = 0;
        step_set_state(q, step, STEP_IDLE);

        return served;
}

static void step_keep_failure(ModuleQueue *q, ModuleStep *step, usec_t now) {
        step->kept = true;
        step->failed_at = now;
        LIST_INSERT_AFTER(list, q->kept, q->kept_last, step);
        q->kept_last = step;
}

static void queue_forget_failure(ModuleQueue *q, ModuleStep *step) {
        if (q->kept_last == step)
                q->kept_last = step->list_prev;
        LIST_REMOVE(list, q->kept, step);

        step->kept = false;
        if (step->n_refs == 0)
                step_free(q, step);
}

static void queue_forget_old_failures(ModuleQueue *q, usec_t now) {
        while (q->kept && now >= usec_add(q->kept->failed_at, MODULE_QUEUE_FAILURE_USEC))
                queue_forget_failure(q, q->kept);
}

/* It may have other steps before this one. */
static bool request_is_served(const Request *r, const ModuleStep *step) {
        return r->serial < step->done_serial;
}

/* What it has looked up to find the module at which it stands; NULL for a pre-load. */
static const char *request_alias(const Request *r) {
        return r->steps[r->current].alias;
}

static int request_link_waiter(ModuleQueue *q, Request *r) {
        Request *first;

        first = hashmap_get(q->waiters, INT_TO_PTR(r->waiter));
        if (!first)
                return hashmap_put(q->waiters, INT_TO_PTR(r->waiter), r);

        LIST_INSERT_AFTER(of_waiter, first, first, r);
        return 0;
}

static void request_unlink_waiter(ModuleQueue *q, Request *r) {
        Request *first;

        first = hashmap_get(q->waiters, INT_TO_PTR(r->waiter));
        LIST_REMOVE(of_waiter, first, r);
        if (first)
                (void) hashmap_update(q->waiters, INT_TO_PTR(r->waiter), first);
        else
                hashmap_remove(q->waiters, INT_TO_PTR(r->waiter));

        r->waiter = 0;
}

static void request_unref_steps(ModuleQueue *q, Request *r) {
        for (uint16_t i = 0; i < r->n_steps; i++)
                step_unref(q, r->steps[i].step);
}

static void request_finish(ModuleQueue *q, Request *r) {
        /* There are steps left only if it is given up. */
        for (; r->current < r->n_steps; r->current++) {
                ModuleStep *step = r->steps[r->current].step;

                if (!request_is_served(r, step)) {
                        step->need[r->class]--;
                        step_update(q, step);
                }
        }

        request_unref_steps(q, r);

        if (r->waiter > 0)
                request_list_append(&q->answers, r);
        else
                free(r);
}

static void request_stand(ModuleQueue *q, Request *r, ModuleStep *step) {
        if (!step->standing.first || r->serial < step->standing.first->serial)
                request_list_prepend(&step->standing, r);
        else
                request_list_append(&step->standing, r);

        if (request_alias(r) && (!step->asker || r->serial < step->asker->serial))
                step->asker = r;

        if (step->kept)
                queue_forget_failure(q, step);

        if (step->state == STEP_IDLE)
                step_set_state(q, step, STEP_WAITING);
        else
                step_update(q, step);
}

/* Whether the current step is no obstacle although no attempt has ended since the request was added. */
static bool request_may_pass(const Request *r, const ModuleStep *step) {
        if (step->kept)
                return !step->preload || !request_alias(r);

        return step->live && (!request_alias(r) || r->waiter == 0);
}

/* To the first step, from the current one on, that is not served yet. */
static void request_go_on(ModuleQueue *q, Request *r) {
        bool failed = false; /* a pre-load for what is asked for next */

        for (; r->current < r->n_steps; r->current++) {
                ModuleStep *step = r->steps[r->current].step;
                bool preload = !r->steps[r->current].alias, skip = failed && preload;

                if (!request_is_served(r, step)) {
                        if (!skip && !request_may_pass(r, step))
                                return request_stand(q, r, step);

                        step->need[r->class]--;
                        if (skip || step->kept) /* no attempt is made for it */
                                step->n_shared--;
                        step_update(q, step);
                }

                if (skip)
                        continue;

                failed = preload && step->failed;
                if (step->lost)
                        r->load_yourself = true;
        }

        request_finish(q, r);
}

static void requests_go_on(ModuleQueue *q, Request *first) {
        LIST_FOREACH(place, r, first)
                request_go_on(q, r);
}

static int request_new(ModuleQueue *q, const ModuleRequest *request, usec_t now, Request **ret) {
        const char *last_alias = NULL;
        size_t size;
        Request *n;
        char *p;

        /* Of a MODALIAS with many modules one copy is enough. */
        size = offsetof(Request, steps) + request->n_steps * sizeof(RequestStep);
        for (size_t i = 0; i < request->n_steps; i++) {
                const char *alias = request->steps[i].alias;

                if (alias && !streq_ptr(alias, last_alias)) {
                        size += strlen(alias) + 1;
                        last_alias = alias;
                }
        }
        if (request->device)
                size += strlen(request->device) + 1;

        n = malloc(size);
        if (!n)
                return -ENOMEM;

        *n = (Request) {
                .seqnum = request->seqnum,
                .asked = now,
                .waiter = request->waiter,
                .id = request->id,
                .class = request->class,
        };

        p = (char*) (n->steps + request->n_steps);
        last_alias = NULL;
        for (; n->n_steps < request->n_steps; n->n_steps++) {
                const ModuleRequestStep *s = request->steps + n->n_steps;
                RequestStep *t = n->steps + n->n_steps;
                int r;

                r = step_ref_by_name(q, s->name, &t->step);
                if (r < 0) {
                        request_unref_steps(q, n);
                        free(n);
                        return r;
                }

                if (s->alias && !streq_ptr(s->alias, last_alias)) {
                        last_alias = p;
                        p = stpcpy(p, s->alias) + 1;
                }
                t->alias = s->alias ? last_alias : NULL;
        }
        if (request->device)
                n->device = strcpy(p, request->device);

        *ret = n;
        return 0;
}

static int request_validate(const ModuleRequest *request) {
        bool asked_for = false;

        if (request->n_steps == 0 || request->waiter < 0 ||
            request->class < 0 || request->class >= _MODULE_CLASS_MAX)
                return -EINVAL;

        if (request->n_steps > MODULE_REQUEST_STEPS_MAX)
                return -E2BIG;

        for (size_t i = 0; i < request->n_steps; i++) {
                const ModuleRequestStep *s = request->steps + i;

                if (isempty(s->name))
                        return -EINVAL;

                if (!s->alias)
                        continue;

                if (isempty(s->alias))
                        return -EINVAL;

                asked_for = true;
        }

        return asked_for ? 0 : -EINVAL;
}

int module_queue_new(ModuleQueue **ret, unsigned n_places) {
        _cleanup_(module_queue_freep) ModuleQueue *q = NULL;

        assert(ret);

        if (n_places == 0)
                return -EINVAL;

        q = new(ModuleQueue, 1);
        if (!q)
                return -ENOMEM;

        *q = (ModuleQueue) {
                .n_places = n_places,
                .steps = hashmap_new(&string_hash_ops),
                .waiters = hashmap_new(NULL),
                .waiting = prioq_new(step_compare_waiting),
                .urgent = prioq_new(step_compare_urgent),
        };
        if (!q->steps || !q->waiters || !q->waiting || !q->urgent)
                return -ENOMEM;

        *ret = TAKE_PTR(q);
        return 0;
}

void module_queue_set_places(ModuleQueue *q, unsigned n_places) {
        assert(q);
        assert(n_places > 0);

        q->n_places = n_places;
}

ModuleQueue *module_queue_free(ModuleQueue *q) {
        ModuleStep *step;

        if (!q)
                return NULL;

        /* Every request that is not finished stands at one step. */
        while ((step = hashmap_steal_first(q->steps))) {
                LIST_FOREACH(place, r, step->standing.first)
                        free(r);
                free(step);
        }

        LIST_FOREACH(place, r, q->answers.first)
                free(r);

        hashmap_free(q->steps);
        hashmap_free(q->waiters);
        prioq_free(q->waiting);
        prioq_free(q->urgent);

        return mfree(q);
}

int module_queue_add(ModuleQueue *q, const ModuleRequest *request, usec_t now) {
        Request *n;
        int r;

        assert(q);
        assert(request);
        assert(request->steps || request->n_steps == 0);

        queue_forget_old_failures(q, now);

        r = request_validate(request);
        if (r < 0)
                return r;

        r = request_new(q, request, now, &n);
        if (r < 0)
                return r;

        if (n->waiter > 0) {
                r = request_link_waiter(q, n);
                if (r < 0) {
                        request_unref_steps(q, n);
                        free(n);
                        return r;
                }
        }

        n->serial = ++q->serial;

        for (uint16_t i = 0; i < n->n_steps; i++) {
                ModuleStep *step = n->steps[i].step;

                step->need[n->class]++;
                if (step->n_shared++ == 0)
                        step->asked = now;
                step_update(q, step);
        }

        request_go_on(q, n);
        return 0;
}

ModuleStep *module_queue_next(ModuleQueue *q, unsigned n_free, usec_t now) {
        ModuleStep *step;
        unsigned reserve;

        assert(q);

        queue_forget_old_failures(q, now);

        n_free = MIN(n_free, LESS_BY(q->n_places, q->n_loading - q->n_parked));
        if (n_free == 0)
                return NULL;

        reserve = q->n_places / 4;
        if (n_free > reserve) {
                step = prioq_peek(q->waiting);
                if (!step || step->state != STEP_WAITING)
                        return NULL;
        } else {
                step = prioq_peek(q->urgent);
                if (!step || !step->urgent)
                        return NULL;
        }

        step->preload = !step->asker;
        if (step->asker)
                step->alias = request_alias(step->asker);
        step->n_refs++; /* who needs it may be gone before the load ends, see module_queue_live() */
        step_set_state(q, step, STEP_LOADING);

        return step;
}

/* A loading step has no result, for this time. False if it may not wait again, or need not. */
static bool step_wait_again(ModuleQueue *q, ModuleStep *step) {
        if (step->given_up || !step->standing.first)
                return false;

        step_set_live(q, step, false);
        step_set_state(q, step, STEP_WAITING);
        return true;
}

void module_queue_done(ModuleQueue *q, ModuleStep *step, int error, usec_t now) {
        Request *served;

        assert(q);
        assert(step);
        assert(step->state == STEP_LOADING);

        queue_forget_old_failures(q, now);

        if (error < 0 && step->preload && step->asker && step_wait_again(q, step)) {
                step->died = false;
                step->n_refs--;
                return;
        }

        served = step_end(q, step, /* lost= */ false);
        step->failed = error < 0;
        if (error >= 0)
                module_queue_forget_failures(q);
        else if (!IN_SET(error, -ENOMEM, -EINTR, -EAGAIN)) /* these say nothing about the module */
                step_keep_failure(q, step, now);

        requests_go_on(q, served);
        step_unref(q, step);
}

void module_queue_live(ModuleQueue *q, ModuleStep *step) {
        Request *first;

        assert(q);
        assert(step);
        assert(step->state == STEP_LOADING);

        if (step->live)
                return;

        step_set_live(q, step, true);
        step->failed = step->lost = false;
        module_queue_forget_failures(q);

        /* Who may not pass stands there again. */
        first = step->standing.first;
        step->standing = (RequestList) {};
        step->asker = NULL;
        requests_go_on(q, first);

        /* The strings of who has passed are gone. */
        if (step->alias)
                step->alias = step->asker ? request_alias(step->asker) : NULL;
}

void module_queue_park(ModuleQueue *q, ModuleStep *step, bool parked) {
        assert(q);
        assert(step);
        assert(step->state == STEP_LOADING);

        if (!step->live)
                step_set_parked(q, step, parked);
}

bool module_queue_died(ModuleQueue *q, ModuleStep *step, usec_t now) {
        Request *served;

        assert(q);
        assert(step);
        assert(step->state == STEP_LOADING);

        queue_forget_old_failures(q, now);

        if (!step->died && step_wait_again(q, step)) {
                step->died = true;
                step->n_refs--;
                return true;
        }

        served = step_end(q, step, /* lost= */ true);
        if (step->lost) {
                step->preload = false; /* who comes next shall not try what kills loaders */
                step_keep_failure(q, step, now);
        }
        requests_go_on(q, served);
        step_unref(q, step);
        return false;
}

void module_queue_put_back(ModuleQueue *q, ModuleStep *step) {
        assert(q);
        assert(step);
        assert(step->state == STEP_LOADING);

        if (!step_wait_again(q, step))
                requests_go_on(q, step_end(q, step, /* lost= */ true));
        step_unref(q, step);
}

void module_queue_forget_failures(ModuleQueue *q) {
        assert(q);

        while (q->kept)
                queue_forget_failure(q, q->kept);
}

void module_queue_forget_waiter(ModuleQueue *q, pid_t waiter) {
        Request *r;

        assert(q);

        while ((r = hashmap_get(q->waiters, INT_TO_PTR(waiter)))) {
                request_unlink_waiter(q, r);

                if (r->current == r->n_steps) {
                        request_list_remove(&q->answers, r);
                        free(r);
                }
        }
}

bool module_queue_pop_waiter(ModuleQueue *q, ModuleAnswer *ret) {
        Request *first;

        assert(q);
        assert(ret);
        assert(!q->answers.first);

        HASHMAP_FOREACH(first, q->waiters)
                LIST_FOREACH(of_waiter, r, first) {
                        if (r->steps[r->current].step->state == STEP_LOADING)
                                continue;

                        *ret = (ModuleAnswer) {
                                .waiter = r->waiter,
                                .id = r->id,
                                .load_yourself = true,
                        };

                        request_unlink_waiter(q, r);
                        return true;
                }

        return false;
}

/* Of what comes after the current step of a request, give up what nobody has got to yet. */
static size_t request_give_up_rest(
                ModuleQueue *q,
                const Request *r,
                void (*given_up)(const char *name, void *userdata),
                void *userdata) {

        size_t n = 0;

        for (size_t i = r->current + 1U; i < r->n_steps; i++) {
                ModuleStep *step = r->steps[i].step;

                if (step->state != STEP_IDLE || request_is_served(r, step))
                        continue;

                given_up(step->name, userdata);
                (void) step_end(q, step, /* lost= */ true);
                n++;
        }

        return n;
}

size_t module_queue_give_up(
                ModuleQueue *q,
                void (*given_up)(const char *name, void *userdata),
                void *userdata) {

        size_t n = 0;

        assert(q);
        assert(given_up);

        while (q->n_waiting > 0) {
                ModuleStep *step = prioq_peek(q->waiting);
                Request *first;

                given_up(step->name, userdata);
                first = step_end(q, step, /* lost= */ true);
                n++;

                LIST_FOREACH(place, r, first) {
                        n += request_give_up_rest(q, r, given_up, userdata);
                        r->load_yourself = true;
                        request_finish(q, r);
                }
        }

        /* What is being loaded goes on to its end, but nothing comes after it. */
        LIST_FOREACH(list, step, q->loading) {
                step->given_up = true;
                LIST_FOREACH(place, r, step->standing.first)
                        n += request_give_up_rest(q, r, given_up, userdata);
        }

        return n;
}

bool module_queue_pop_answer(ModuleQueue *q, ModuleAnswer *ret) {
        Request *r;

        assert(q);
        assert(ret);

        r = q->answers.first;
        if (!r)
                return false;

        *ret = (ModuleAnswer) {
                .waiter = r->waiter,
                .id = r->id,
                .load_yourself = r->load_yourself,
        };

        request_list_remove(&q->answers, r);
        request_unlink_waiter(q, r);
        free(r);
        return true;
}

bool module_queue_is_empty(const ModuleQueue *q) {
        assert(q);

        /* Every request that is not finished stands at a step of one of these kinds. */
        return q->n_waiting == 0 && q->n_loading == 0;
}

unsigned module_queue_n_waiting(const ModuleQueue *q) {
        assert(q);

        return q->n_waiting;
}

unsigned module_queue_n_loading(const ModuleQueue *q) {
        assert(q);

        return q->n_loading;
}

const char *module_step_name(const ModuleStep *step) {
        assert(step);

        return step->name;
}

const char *module_step_alias(const ModuleStep *step) {
        assert(step);

        return step->alias;
}

ModuleClass module_step_class(const ModuleStep *step) {
        assert(step);

        return step->class;
}

const char *module_step_first_alias(const ModuleStep *step) {
        const Request *r;

        assert(step);

        r = step->standing.first;
        if (!r)
                return NULL;

        for (size_t i = r->current; i < r->n_steps; i++)
                if (r->steps[i].alias)
                        return r->steps[i].alias;

        return NULL;
}

unsigned module_step_n_shared(const ModuleStep *step) {
        assert(step);

        return step->n_shared;
}

usec_t module_step_asked(const ModuleStep *step) {
        assert(step);

        return step->asked;
}

const char *module_step_device(const ModuleStep *step) {
        assert(step);
        return step->standing.first ? step->standing.first->device : NULL;
}

uint64_t module_step_seqnum(const ModuleStep *step) {
        assert(step);
        return step->standing.first ? step->standing.first->seqnum : 0;
}
