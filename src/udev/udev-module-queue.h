/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The queue: what modules are asked for, for whom, and which of them is to be loaded next.
 *
 * Pure: it has no file descriptor, no clock and no libkmod; who calls it brings the time (usec of
 * CLOCK_MONOTONIC, never going back) and does what it says. Functions that can fail return negative errno and
 * have then changed nothing. Not thread-safe. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "macro.h"
#include "time-util.h"

#include "udev-module-class.h"

/* A failed attempt answers later requests for the same module if it ended less than this ago (model rule 3). */
#define MODULE_QUEUE_FAILURE_USEC (3 * USEC_PER_SEC)

/* Bounded ageing: what was asked for goes before what was asked for this much later in the next better class
 * (twice as much later in the class above that, …). That is more than the coldplug of the guest's rich machine takes,
 * so within one the classes are strict; an idle module waits for newer ones for 70 s at most. */
#define MODULE_QUEUE_AGE_USEC (10 * USEC_PER_SEC)

/* What one request may consist of; more is refused with -E2BIG. The longest lists seen are far below: those of
 * `cpu:` aliases, with up to 20 modules. */
#define MODULE_REQUEST_STEPS_MAX 512U

typedef struct ModuleQueue ModuleQueue;

/* One module that somebody needs: waiting, being loaded, or remembered. Owned by the queue. A pointer got from
 * module_queue_next() is good until module_queue_done() or module_queue_died() gets it back. */
typedef struct ModuleStep ModuleStep;

/* A module of a request. alias is what was looked up to find it (a MODALIAS or a name) for a module that was
 * asked for, NULL for one that must come first (a pre-load). */
typedef struct ModuleRequestStep {
        const char *name;
        const char *alias;
} ModuleRequestStep;

/* What a worker asks for; the strings are the caller's and are copied. */
typedef struct ModuleRequest {
        uint64_t seqnum;                /* SEQNUM of the uevent, for the log */
        const char *device;             /* DEVPATH, for the log; NULL if there is none */
        ModuleClass class;
        pid_t waiter;                   /* who waits for the answer; 0 for nobody */
        uint32_t id;                    /* the waiter's own number for it, comes back in the answer */
        const ModuleRequestStep *steps; /* in the order in which they must be done; later ones of the same name
                                         * are allowed */
        size_t n_steps;                 /* > 0 */
} ModuleRequest;

/* The answer to who waits. */
typedef struct ModuleAnswer {
        pid_t waiter;
        uint32_t id;
        bool load_yourself;     /* a loader died over it twice, or the queue gave up: load it the stock way */
} ModuleAnswer;

/* n_places: how many loads may be at work at once, > 0, not counting those that are parked. */
int module_queue_new(ModuleQueue **ret, unsigned n_places);
ModuleQueue *module_queue_free(ModuleQueue *q);

/* What is at work already stays so. */
void module_queue_set_places(ModuleQueue *q, unsigned n_places);
DEFINE_TRIVIAL_CLEANUP_FUNC(ModuleQueue *, module_queue_free);

/* Take a request. -EINVAL for one that makes no sense (no step, no name, an unknown class), -E2BIG, -ENOMEM.
 * Answers may be ready at once, if a kept failure answers it. */
int module_queue_add(ModuleQueue *q, const ModuleRequest *request, usec_t now);

/* What to start now, given that n_free loaders do nothing or can be forked: the best step that may start, or
 * NULL. The last places and loaders are kept for bus, storage and input. The step counts as being loaded from now
 * on, and takes a place. */
ModuleStep *module_queue_next(ModuleQueue *q, unsigned n_free, usec_t now);

/* A load has ended. error: 0 or positive as libkmod returns it for loaded, already live or denied; negative errno
 * for a failure. Everybody who needs the module and had asked before now is served by this result. */
void module_queue_done(ModuleQueue *q, ModuleStep *step, int error, usec_t now);

/* The load only waits, for its device say, and gives its place to another one; or it works again. It may then be one
 * more than there are places, until another ends. */
void module_queue_park(ModuleQueue *q, ModuleStep *step, bool parked);

/* The module is live, though its load has not ended yet: who needs it only as a pre-load goes on, and for whom nobody
 * waits; kept failures no longer answer, and the load is parked for good. */
void module_queue_live(ModuleQueue *q, ModuleStep *step);

/* The loader at work on it died. Returns true if the step waits for its second attempt. False if there is none: this
 * was the second, or the queue has given up; then it counts as failed, and who waits is told to load by himself. Or
 * the module is live and nobody stands there any more, which is no failure. */
bool module_queue_died(ModuleQueue *q, ModuleStep *step, usec_t now);

/* A module_queue_next() could not be carried out (no process to be had): the step waits again, where it was in the
 * order, and this was no attempt. */
void module_queue_put_back(ModuleQueue *q, ModuleStep *step);

/* A module was loaded by somebody else, or the configuration was read again: kept failures no longer answer. */
void module_queue_forget_failures(ModuleQueue *q);

/* A waiter is gone: what it asked for is still loaded, but no answer is sent. */
void module_queue_forget_waiter(ModuleQueue *q, pid_t waiter);

/* The next one who waits for a module that nobody loads yet need not any more: what it asked for is still loaded, but the
 * answer, to be sent now, is to load by himself. False if there is none. */
bool module_queue_pop_waiter(ModuleQueue *q, ModuleAnswer *ret);

/* Give up all that was asked for and is not being loaded yet, in a stop that took too long: none of it starts any
 * more, nor does the second attempt after a death. Who waits for some of it is told to load by himself, at once or
 * after what is being loaded for him; who waits for nothing but what is being loaded gets that result. Calls
 * given_up() with each module's name: those that wait, best first, each with what should have come after it, then
 * what should have come after those being loaded. It must not call the queue. Returns their number. */
size_t module_queue_give_up(ModuleQueue *q, void (*given_up)(const char *name, void *userdata), void *userdata);

/* The next answer that is to be sent; false if there is none. */
bool module_queue_pop_answer(ModuleQueue *q, ModuleAnswer *ret);

/* No request is left, and nothing waits or is being loaded. There may be answers still. */
bool module_queue_is_empty(const ModuleQueue *q);

unsigned module_queue_n_waiting(const ModuleQueue *q);  /* steps that wait for a loader */
unsigned module_queue_n_loading(const ModuleQueue *q);  /* steps that are being loaded */

/* Of a step got from module_queue_next(). The strings live as long as the step does. alias: as in
 * ModuleRequestStep, that of the oldest request that asks for the module itself; NULL if it is only a pre-load, or if
 * it is live and all of them have gone on. The class may change while it is being loaded, as requests come and go.
 * device and seqnum are those of the request that came first; NULL and 0 if all have gone on, see
 * module_queue_live(). */
const char *module_step_name(const ModuleStep *step);
const char *module_step_alias(const ModuleStep *step);
ModuleClass module_step_class(const ModuleStep *step);
const char *module_step_device(const ModuleStep *step);
uint64_t module_step_seqnum(const ModuleStep *step);

/* For the record. first_alias: for a pre-load, too, then that of the module that it is for. n_shared: how many times
 * requests name it that this attempt is for, so far. asked: when the first of these came. */
const char *module_step_first_alias(const ModuleStep *step);
unsigned module_step_n_shared(const ModuleStep *step);
usec_t module_step_asked(const ModuleStep *step);
