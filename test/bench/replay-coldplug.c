/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "alloc-util.h"
#include "log.h"
#include "macro.h"
#include "string-util.h"

#include "udev-module-class.h"
#include "udev-module-dispatch.h"
#include "udev-module-pool.h"
#include "udev-module-queue.h"

#include "replay-coldplug.h"
#include "replay-cpu.h"

#define EVENTS_PER_DEVICE (1U + COLDPLUG_NODES_PER_DEVICE)

typedef struct Module {
        enum {
                MODULE_ABSENT,
                MODULE_COMING,
                MODULE_LIVE,
        } state;
        bool bound;                     /* live, and has probed its devices */
        bool inserting;                 /* a finit_module() that was not in vain has not returned yet */
        double probes_until;            /* asynchronously; INFINITY if it does not */
} Module;

typedef struct Device {
        bool exists, bound;             /* the latter: all of its modules have, if there are any */
        size_t provider;                /* the next ancestor that needs a module; COLDPLUG_NONE */
} Device;

/* An event's number is that of its device times EVENTS_PER_DEVICE, plus 0 for the device's own, 1 … for a node's. */
typedef enum EventState {
        EVENT_NOT_YET,
        EVENT_QUEUED,
        EVENT_RUNNING,
        EVENT_DONE,
} EventState;

/* A worker or a loader. */
typedef struct Process {
        enum {
                PROCESS_IDLE,
                PROCESS_RULES,          /* CPU */
                PROCESS_READS,          /* CPU */
                PROCESS_STARTS,         /* CPU */
                PROCESS_PROBES,         /* sleeps until wake_usec */
                PROCESS_SYNCHRONIZES,   /* until there is no asynchronous probe */
                PROCESS_LOST,           /* until the module is live */
                PROCESS_SHARES,         /* until the load of another process has ended */
        } state;
        CpuTask cpu;
        double wake_usec;

        size_t event;                   /* a worker's */
        size_t i_step;                  /* the next one of its device */

        ModuleStep *step;               /* a loader's */
        double since_usec;
        bool live;                      /* the queue knows that the module is */

        size_t module;                  /* whose loads are being done; COLDPLUG_NONE */
        size_t i_load;                  /* in these */
} Process;

typedef struct Simulation {
        const ColdplugMachine *machine;
        ColdplugOrder order;
        double now_usec;
        Cpus cpus;

        Module *modules;
        unsigned n_probing;             /* asynchronously */
        Device *devices;
        EventState *events;
        size_t *pending;                /* events, in the order in which they came */
        size_t n_pending, first_pending;

        Process *workers;
        unsigned n_workers;

        ModuleQueue *queue;
        ModuleRequestStep *request_steps;
        Process *loaders;
        unsigned n_busy;
        double watch_at_usec;           /* INFINITY: not */
        usec_t watch_usec;

        ColdplugResult *result;
} Simulation;

static void simulation_done(Simulation *s) {
        free(s->modules);
        free(s->devices);
        free(s->events);
        free(s->pending);
        free(s->workers);
        free(s->loaders);
        free(s->request_steps);
        module_queue_free(s->queue);
}

static usec_t simulation_now(const Simulation *s) {
        return (usec_t) s->now_usec;
}

/* What happened when, for SYSTEMD_LOG_LEVEL=debug. */
static void simulation_log(const Simulation *s, const char *what, const char *who) {
        log_debug("%-5s %2u CPUs %10.6f %s %s", s->order == COLDPLUG_STOCK ? "stock" : "queue", s->cpus.n_cpus,
                  s->now_usec / USEC_PER_SEC, what, who);
}

static void event_add(Simulation *s, size_t event) {
        assert(s->events[event] == EVENT_NOT_YET);

        s->events[event] = EVENT_QUEUED;
        s->pending[s->n_pending++] = event;
}

static bool event_is_left(EventState state) {
        return IN_SET(state, EVENT_QUEUED, EVENT_RUNNING);
}

/* Events of ancestors always come before. */
static bool event_is_blocked(const Simulation *s, size_t event) {
        size_t device = event / EVENTS_PER_DEVICE;

        if (event % EVENTS_PER_DEVICE == 0)
                device = s->machine->devices[device].parent;

        for (; device != COLDPLUG_NONE; device = s->machine->devices[device].parent)
                if (event_is_left(s->events[device * EVENTS_PER_DEVICE]))
                        return true;

        return false;
}

static void device_update(Simulation *s, size_t i) {
        const ColdplugDevice *d = s->machine->devices + i;
        Device *device = s->devices + i;

        if (!device->exists) {
                if (device->provider != COLDPLUG_NONE && !s->devices[device->provider].bound)
                        return;

                device->exists = true;
                simulation_log(s, "appears ", d->devpath);
                event_add(s, i * EVENTS_PER_DEVICE);
        }

        if (device->bound)
                return;

        for (size_t j = 0; j < d->n_steps; j++)
                if (d->steps[j].asked && !s->modules[d->steps[j].module].bound)
                        return;

        device->bound = true;
        for (size_t j = 1; j < EVENTS_PER_DEVICE; j++)
                event_add(s, i * EVENTS_PER_DEVICE + j);
}

/* Devices come after their ancestors, so once through is enough. */
static void devices_update(Simulation *s) {
        for (size_t i = 0; i < s->machine->n_devices; i++)
                device_update(s, i);
}

static void module_set_bound(Simulation *s, size_t module) {
        simulation_log(s, "bound   ", s->machine->modules[module].name);
        s->modules[module].bound = true;
        devices_update(s);
}

static void module_set_live(Simulation *s, size_t module) {
        simulation_log(s, "live    ", s->machine->modules[module].name);
        s->modules[module].state = MODULE_LIVE;
        s->result->loaded[module] = true;
        s->result->n_loaded++;
}

/* What a look-up drops: what is live, and then also what had to come first for it. Returns the number of the steps
 * that are left, which start in steps[*ret_first]; the last one is asked for. */
static size_t device_next_steps(const Simulation *s, const ColdplugDevice *d, size_t from, size_t *ret_first) {
        for (size_t i = from; i < d->n_steps; i++) {
                if (!d->steps[i].asked)
                        continue;

                if (s->modules[d->steps[i].module].state != MODULE_LIVE) {
                        *ret_first = from;
                        return i + 1 - from;
                }

                from = i + 1;
        }

        return 0;
}

/* To the next module that is to be inserted, if there is any left in what is being loaded. */
static bool process_insert_next(Simulation *s, Process *p) {
        const ColdplugModule *m;

        if (p->module == COLDPLUG_NONE)
                return false;

        m = s->machine->modules + p->module;
        for (; p->i_load < m->n_loads; p->i_load++) {
                size_t load = m->loads[p->i_load];

                if (s->modules[load].state == MODULE_LIVE)
                        continue;

                simulation_log(s, "insert  ", s->machine->modules[load].name);
                s->result->n_inserts++;

                if (s->machine->kernel_shares && s->modules[load].inserting) {
                        p->state = PROCESS_SHARES;
                        s->result->n_wasted++;
                        return true;
                }

                if (s->machine->kernel_shares)
                        s->modules[load].inserting = true;
                p->state = PROCESS_READS;
                cpus_start(&s->cpus, &p->cpu, s->machine->modules[load].cpu_usec * COLDPLUG_WASTED_SHARE);
                return true;
        }

        p->module = COLDPLUG_NONE;
        return false;
}

static void process_load(Process *p, size_t module) {
        p->module = module;
        p->i_load = 0;
}

static void loaders_start(Simulation *s);

static void event_set_done(Simulation *s, size_t event) {
        const ColdplugDevice *d = s->machine->devices + event / EVENTS_PER_DEVICE;

        simulation_log(s, event % EVENTS_PER_DEVICE == 0 ? "device  " : "node of ", d->devpath);
        s->events[event] = EVENT_DONE;
        s->result->settle_usec = s->now_usec;

        for (size_t i = 0; i < _COLDPLUG_GOAL_MAX; i++)
                if (d->leads_to[i])
                        s->result->goal_usec[i] = s->now_usec;
}

/* The rules of an event have run: what the worker does about modules. */
static int worker_ask(Simulation *s, Process *p) {
        const ColdplugDevice *d = s->machine->devices + p->event / EVENTS_PER_DEVICE;
        size_t from = 0, n, n_request = 0;
        int r;

        /* As libkmod decides it, at this moment. */
        while ((n = device_next_steps(s, d, from, &from)) > 0) {
                for (size_t i = from; i < from + n; i++)
                        if (s->modules[d->steps[i].module].state != MODULE_LIVE)
                                s->request_steps[n_request++] = (ModuleRequestStep) {
                                        .name = s->machine->modules[d->steps[i].module].name,
                                        .alias = d->steps[i].asked ? d->modalias : NULL,
                                };
                from += n;
        }
        if (n_request == 0)
                return 0;

        s->result->n_requests++;

        if (s->order == COLDPLUG_STOCK)
                return 0;

        r = module_queue_add(s->queue, &(ModuleRequest) {
                .seqnum = p->event,
                .device = d->devpath,
                .class = d->class,
                .steps = s->request_steps,
                .n_steps = n_request,
        }, simulation_now(s));
        if (r < 0)
                return r;

        loaders_start(s);
        return 0;
}

/* Stock: one module of the event after the other. */
static bool worker_load_next(Simulation *s, Process *p) {
        const ColdplugDevice *d = s->machine->devices + p->event / EVENTS_PER_DEVICE;
        size_t first, n;

        if (s->order != COLDPLUG_STOCK || p->event % EVENTS_PER_DEVICE != 0)
                return false;

        n = device_next_steps(s, d, p->i_step, &first);
        if (n == 0)
                return false;

        p->i_step = first + n;
        process_load(p, d->steps[first + n - 1].module);
        return true;
}

static size_t module_by_name(const ColdplugMachine *machine, const char *name) {
        for (size_t i = 0; i < machine->n_modules; i++)
                if (streq(machine->modules[i].name, name))
                        return i;

        assert_not_reached();
}

static Process *loaders_find_idle(Simulation *s) {
        for (unsigned i = 0; i < MODULE_LOADERS_MAX; i++)
                if (!s->loaders[i].step)
                        return s->loaders + i;

        assert_not_reached();
}

/* As dispatch_start_steps() */
static void loaders_start(Simulation *s) {
        ModuleStep *step;

        while ((step = module_queue_next(s->queue, MODULE_LOADERS_MAX - s->n_busy, simulation_now(s)))) {
                Process *p = loaders_find_idle(s);

                p->step = step;
                p->live = false;
                p->since_usec = s->now_usec;
                s->n_busy++;
                s->result->n_attempts++;
                process_load(p, module_by_name(s->machine, module_step_name(step)));

                if (s->watch_usec > MODULE_WATCH_USEC) {
                        s->watch_usec = MODULE_WATCH_USEC;
                        s->watch_at_usec = INFINITY;
                }
        }

        for (unsigned i = 0; i < MODULE_LOADERS_MAX; i++) {
                Process *p = s->loaders + i;

                if (!p->step)
                        continue;

                cpus_set_nice(&p->cpu, module_class_nice(module_step_class(p->step)));
                if (!p->live && isinf(s->watch_at_usec))
                        s->watch_at_usec = s->now_usec + s->watch_usec;
        }
}

static bool process_sleeps(const Process *p) {
        return p->state != PROCESS_IDLE && !p->cpu.runs;
}

/* As on_watch() */
static void loaders_watch(Simulation *s) {
        s->watch_at_usec = INFINITY;

        for (unsigned i = 0; i < MODULE_LOADERS_MAX; i++) {
                Process *p = s->loaders + i;

                if (!p->step || p->live || s->now_usec < p->since_usec + MODULE_WATCH_USEC)
                        continue;

                if (s->modules[module_by_name(s->machine, module_step_name(p->step))].state == MODULE_LIVE) {
                        p->live = true;
                        module_queue_live(s->queue, p->step);
                } else
                        module_queue_park(s->queue, p->step, process_sleeps(p));
        }

        s->watch_usec = MIN(2 * s->watch_usec, MODULE_WATCH_USEC_MAX);
        loaders_start(s);
}

static void loader_finish(Simulation *s, Process *p) {
        ModuleStep *step = TAKE_PTR(p->step);

        s->n_busy--;
        s->result->settle_usec = s->now_usec;
        module_queue_done(s->queue, step, 0, simulation_now(s));
        loaders_start(s);
}

/* What comes next for a process that has nothing to wait for. */
static void process_go_on(Simulation *s, Process *p) {
        do
                if (process_insert_next(s, p))
                        return;
        while (!p->step && worker_load_next(s, p));

        p->state = PROCESS_IDLE;
        if (p->step)
                loader_finish(s, p);
        else
                event_set_done(s, p->event);
}

/* If what a process did or waited for is over, do what comes next. Returns false if it is not, < 0 on error. */
static int process_continue(Simulation *s, Process *p) {
        const ColdplugModule *m = NULL;
        Module *module = NULL;
        size_t load = COLDPLUG_NONE;
        int r;

        if (p->cpu.runs)
                return false;

        if (p->module != COLDPLUG_NONE && p->state > PROCESS_RULES) {
                load = s->machine->modules[p->module].loads[p->i_load];
                m = s->machine->modules + load;
                module = s->modules + load;
        }

        switch (p->state) {

        case PROCESS_IDLE:
                if (!p->step)
                        return false;
                break;

        case PROCESS_RULES:
                if (p->event % EVENTS_PER_DEVICE == 0) {
                        r = worker_ask(s, p);
                        if (r < 0)
                                return r;
                }
                break;

        case PROCESS_READS:
                if (module->state != MODULE_ABSENT) {
                        p->state = PROCESS_LOST;
                        s->result->n_wasted++;
                        return true;
                }

                module->state = MODULE_COMING;
                p->state = PROCESS_STARTS;
                cpus_start(&s->cpus, &p->cpu, m->cpu_usec * (1 - COLDPLUG_WASTED_SHARE));
                return true;

        case PROCESS_STARTS:
                p->state = PROCESS_PROBES;
                p->wake_usec = s->now_usec + m->probe_usec;
                return true;

        case PROCESS_PROBES:
                if (s->now_usec < p->wake_usec)
                        return false;

                module_set_live(s, load);
                if (m->async_usec > 0) {
                        module->probes_until = s->now_usec + m->async_usec;
                        s->n_probing++;
                } else
                        module_set_bound(s, load);
                p->state = PROCESS_SYNCHRONIZES;
                return true;

        case PROCESS_SYNCHRONIZES:
                if (s->n_probing > 0)
                        return false;

                simulation_log(s, "loaded  ", m->name);
                module->inserting = false;
                s->result->loads_usec = s->now_usec;
                if (m->probe_usec + m->async_usec < COLDPLUG_LONG_USEC)
                        s->result->short_loads_usec = s->now_usec;
                p->i_load++;
                break;

        case PROCESS_LOST:
                if (module->state != MODULE_LIVE)
                        return false;

                p->i_load++;
                break;

        case PROCESS_SHARES:
                if (module->inserting)
                        return false;

                p->i_load++;
                break;
        }

        process_go_on(s, p);
        return true;
}

/* Give idle workers what may start. */
static bool workers_start(Simulation *s) {
        unsigned i_worker = 0;
        bool started = false;

        while (s->first_pending < s->n_pending && s->events[s->pending[s->first_pending]] != EVENT_QUEUED)
                s->first_pending++;

        for (size_t i = s->first_pending; i < s->n_pending; i++) {
                size_t event = s->pending[i];
                Process *p;

                if (s->events[event] != EVENT_QUEUED || event_is_blocked(s, event))
                        continue;

                while (i_worker < s->n_workers && s->workers[i_worker].state != PROCESS_IDLE)
                        i_worker++;
                if (i_worker >= s->n_workers)
                        break;

                p = s->workers + i_worker;
                p->state = PROCESS_RULES;
                p->event = event;
                p->i_step = 0;
                s->events[event] = EVENT_RUNNING;
                cpus_start(&s->cpus, &p->cpu, COLDPLUG_EVENT_CPU_USEC);
                started = true;
        }

        return started;
}

static int processes_continue(Simulation *s, Process *processes, unsigned n) {
        bool any = false;

        for (unsigned i = 0; i < n; i++) {
                int r;

                while ((r = process_continue(s, processes + i)) > 0)
                        any = true;
                if (r < 0)
                        return r;
        }

        return any;
}

/* All that happens at this time. */
static int simulation_go_on(Simulation *s) {
        int r, q;

        for (size_t i = 0; i < s->machine->n_modules; i++)
                if (s->modules[i].probes_until <= s->now_usec) {
                        s->modules[i].probes_until = INFINITY;
                        s->n_probing--;
                        module_set_bound(s, i);
                }

        if (s->watch_at_usec <= s->now_usec)
                loaders_watch(s);

        do {
                r = processes_continue(s, s->workers, s->n_workers);
                if (r < 0)
                        return r;

                q = s->queue ? processes_continue(s, s->loaders, MODULE_LOADERS_MAX) : 0;
                if (q < 0)
                        return q;
        } while (workers_start(s) || r > 0 || q > 0);

        return 0;
}

static double processes_next(const Simulation *s, const Process *processes, unsigned n) {
        double next = INFINITY;

        for (unsigned i = 0; i < n; i++)
                if (processes[i].state == PROCESS_PROBES)
                        next = fmin(next, processes[i].wake_usec);

        return next;
}

/* When something happens next; INFINITY: never. */
static double simulation_next(Simulation *s) {
        double next;

        next = s->now_usec + cpus_next(&s->cpus);
        next = fmin(next, s->watch_at_usec);
        next = fmin(next, processes_next(s, s->workers, s->n_workers));
        if (s->queue)
                next = fmin(next, processes_next(s, s->loaders, MODULE_LOADERS_MAX));
        for (size_t i = 0; i < s->machine->n_modules; i++)
                next = fmin(next, s->modules[i].probes_until);

        return next;
}

static int processes_new(unsigned n, Process **ret) {
        Process *processes;

        processes = new(Process, n);
        if (!processes)
                return -ENOMEM;

        for (unsigned i = 0; i < n; i++) {
                processes[i] = (Process) { .module = COLDPLUG_NONE };
                cpus_set_nice(&processes[i].cpu, 0);
        }

        *ret = processes;
        return 0;
}

static int simulation_init(Simulation *s, unsigned n_cpus) {
        const ColdplugMachine *machine = s->machine;
        size_t n_events = machine->n_devices * EVENTS_PER_DEVICE;
        int r;

        s->cpus.n_cpus = n_cpus;
        s->watch_usec = MODULE_WATCH_USEC;
        s->watch_at_usec = INFINITY;

        s->result->loaded = new0(bool, machine->n_modules);
        s->modules = new0(Module, machine->n_modules);
        s->devices = new0(Device, machine->n_devices);
        s->events = new0(EventState, n_events);
        s->pending = new(size_t, n_events);
        s->request_steps = new(ModuleRequestStep, MODULE_REQUEST_STEPS_MAX);
        if (!s->result->loaded || !s->modules || !s->devices || !s->events || !s->pending || !s->request_steps)
                return -ENOMEM;

        s->n_workers = 2 * n_cpus + 16;
        r = processes_new(s->n_workers, &s->workers);
        if (r < 0)
                return r;

        if (s->order == COLDPLUG_QUEUE) {
                r = processes_new(MODULE_LOADERS_MAX, &s->loaders);
                if (r < 0)
                        return r;

                r = module_queue_new(&s->queue, MIN(MODULE_LOADERS_MAX,
                                                    MAX(MODULE_PLACES_MIN, n_cpus * MODULE_PLACES_PER_CPU)));
                if (r < 0)
                        return r;
        }

        for (size_t i = 0; i < machine->n_modules; i++)
                s->modules[i].probes_until = INFINITY;

        for (size_t i = 0; i < machine->n_devices; i++) {
                size_t p = machine->devices[i].parent;

                assert(p == COLDPLUG_NONE || p < i);

                while (p != COLDPLUG_NONE && machine->devices[p].n_steps == 0)
                        p = machine->devices[p].parent;
                s->devices[i].provider = p;
        }

        return 0;
}

int coldplug_run(const ColdplugMachine *machine, ColdplugOrder order, unsigned n_cpus, ColdplugResult *ret) {
        ColdplugResult result = {};
        _cleanup_(simulation_done) Simulation s = {
                .machine = machine,
                .order = order,
                .result = &result,
        };
        int r;

        assert(machine);
        assert(n_cpus > 0);
        assert(ret);

        r = simulation_init(&s, n_cpus);
        if (r < 0)
                goto fail;

        devices_update(&s);
        for (;;) {
                double next;

                r = simulation_go_on(&s);
                if (r < 0)
                        goto fail;

                next = simulation_next(&s);
                if (isinf(next))
                        break;

                cpus_run(&s.cpus, next - s.now_usec);
                s.now_usec = next;
        }

        for (size_t i = 0; i < machine->n_devices * EVENTS_PER_DEVICE; i++)
                if (s.events[i] != EVENT_DONE) {
                        r = -EDEADLK;
                        goto fail;
                }
        if (s.queue && !module_queue_is_empty(s.queue)) {
                r = -EDEADLK;
                goto fail;
        }

        result.cpu_usec = s.cpus.used_usec;
        *ret = result;
        return 0;

fail:
        free(result.loaded);
        return r;
}
