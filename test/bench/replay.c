/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Real machines' requests (test/bench/machines), looked up as udevd's workers do in the index of a kernel's modules,
 * through simulated coldplugs (replay-coldplug.h) with stock's order and with the queue's. Prints a row for each set
 * of load times, number of CPUs and order, and fails if the two orders have not loaded the same. */

#include <errno.h>
#include <libkmod.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc-util.h"
#include "fd-util.h"
#include "fileio.h"
#include "hashmap.h"
#include "log.h"
#include "module-util.h"
#include "parse-util.h"
#include "path-util.h"
#include "siphash24.h"
#include "stat-util.h"
#include "string-util.h"
#include "strv.h"

#include "udev-module-class.h"
#include "udev-module-plan.h"
#include "udev-module-queue.h"

#include "replay-coldplug.h"

/* CPU time of a load: log-normal. The guest of test/guest spends 28 % of 9.7 s of CPU time on loading 153 modules,
 * which is 18 ms for each, the mean of this. The spread is chosen. */
#define LOAD_CPU_MEDIAN_USEC 11000.0
#define LOAD_CPU_SIGMA 1.0

/* How long a driver's probe sleeps, if no public figure is known: log-normal. The median is that of the public figures
 * (module-init-times.tsv) below 10 s. The spread is chosen: theirs is twice that, but they are of modules that somebody
 * thought worth a report. With this, one driver in 40 takes more than 0.25 s. */
#define PROBE_MEDIAN_USEC 5000.0
#define PROBE_SIGMA 2.0

/* Sets of load times: what one says may be luck. */
#define N_SETS 5U

/* Of machines/NAME.tsv */
enum {
        COLUMN_DEVPATH,
        COLUMN_SUBSYSTEM,
        COLUMN_MODALIAS,
        COLUMN_ROLE,
        COLUMN_MODULES,
        COLUMN_PATH,
        _COLUMN_MAX,
};

typedef struct Alias {
        char *alias;
        ModulePlan plan;
        ColdplugStep *steps;
} Alias;

typedef struct ModuleKind {
        bool has_device;                /* some device asks for it; if not it has nothing to probe */
        bool asynchronous;
} ModuleKind;

typedef struct Machine {
        ColdplugMachine sim;
        ModuleKind *kinds;              /* of its modules */
        Hashmap *aliases;               /* by string */
        bool paths_known;               /* the file tells what leads to disks and input devices */
        size_t n_requests, n_steps;     /* of all look-ups, if nothing were loaded */
} Machine;

typedef struct Replay {
        struct kmod_ctx *ctx;
        const char *kernel;
        Hashmap *times;                 /* usec + 1 by module, from module-init-times.tsv */
        bool kernel_shares;
        bool broken;                    /* libkmod has complained */
        char **cpus;
} Replay;

static Alias *alias_free(Alias *a) {
        if (!a)
                return NULL;

        module_plan_clear(&a->plan);
        free(a->alias);
        free(a->steps);
        return mfree(a);
}

DEFINE_TRIVIAL_CLEANUP_FUNC(Alias *, alias_free);
DEFINE_PRIVATE_HASH_OPS_WITH_VALUE_DESTRUCTOR(alias_hash_ops, char, string_hash_func, string_compare_func,
                                              Alias, alias_free);

static void machine_done(Machine *m) {
        for (size_t i = 0; i < m->sim.n_devices; i++)
                free((char *) m->sim.devices[i].devpath);
        for (size_t i = 0; i < m->sim.n_modules; i++) {
                free((char *) m->sim.modules[i].name);
                free(m->sim.modules[i].loads);
        }
        free(m->sim.devices);
        free(m->sim.modules);
        free(m->kinds);
        hashmap_free(m->aliases);
}

static void replay_done(Replay *replay) {
        kmod_unref(replay->ctx);
        hashmap_free(replay->times);
        strv_free(replay->cpus);
}

/* 0 … 1, both excluded; always the same for the same module, set of times and number. */
static double module_draw(const char *name, uint8_t set, uint8_t number) {
        const uint8_t key[16] = { set, number };

        return ((siphash24(name, strlen(name), key) >> 11) + 0.5) / (1ULL << 53);
}

/* Box and Muller's way from two even draws to a normal one. */
static double module_draw_log_normal(const char *name, uint8_t set, uint8_t number, double median, double sigma) {
        double u = module_draw(name, set, 2 * number), v = module_draw(name, set, 2 * number + 1);

        return median * exp(sigma * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

/* Drivers whose probes, or the scans that these start, are asynchronous: those of disks and of their controllers. */
static bool module_is_asynchronous(const char *path) {
        return strstr(path, "/kernel/drivers/ata/") ||
               strstr(path, "/kernel/drivers/nvme/host/") ||
               strstr(path, "/kernel/drivers/scsi/");
}

/* The public figures are of the init itself. */
static void module_set_times(ColdplugModule *m, ModuleKind kind, const Replay *replay, uint8_t set) {
        double probe_usec;
        usec_t known;

        m->cpu_usec = module_draw_log_normal(m->name, set, 0, LOAD_CPU_MEDIAN_USEC, LOAD_CPU_SIGMA);
        m->probe_usec = m->async_usec = 0;
        if (!kind.has_device)
                return;

        known = PTR_TO_UINT64(hashmap_get(replay->times, m->name));
        if (known > 0)
                m->probe_usec = known - 1;

        probe_usec = module_draw_log_normal(m->name, set, 1, PROBE_MEDIAN_USEC, PROBE_SIGMA);
        if (kind.asynchronous)
                m->async_usec = probe_usec;
        else if (known == 0)
                m->probe_usec = probe_usec;
}

static int machine_add_module(Machine *m, const char *name, size_t *ret) {
        char *n;

        for (size_t i = 0; i < m->sim.n_modules; i++)
                if (streq(m->sim.modules[i].name, name)) {
                        *ret = i;
                        return 0;
                }

        if (!GREEDY_REALLOC(m->sim.modules, m->sim.n_modules + 1) ||
            !GREEDY_REALLOC(m->kinds, m->sim.n_modules + 1))
                return -ENOMEM;

        n = strdup(name);
        if (!n)
                return -ENOMEM;

        *ret = m->sim.n_modules++;
        m->sim.modules[*ret] = (ColdplugModule) { .name = n };
        m->kinds[*ret] = (ModuleKind) {};
        return 0;
}

/* libkmod hands no user data to its callback. */
static struct {
        Machine *machine;
        size_t module;
        int error;
} listing;

static void on_load(struct kmod_module *module, bool install, const char *options) {
        ColdplugModule *m;
        size_t load;
        int r;

        r = machine_add_module(listing.machine, kmod_module_get_name(module), &load);
        if (r < 0) {
                listing.error = r;
                return;
        }

        m = listing.machine->sim.modules + listing.module;
        if (!GREEDY_REALLOC(m->loads, m->n_loads + 1)) {
                listing.error = -ENOMEM;
                return;
        }
        m->loads[m->n_loads++] = load;
}

/* What libkmod does to load it, all of it: not only what a plan has to know. */
static int machine_resolve_module(Machine *m, size_t i, const Replay *replay) {
        _cleanup_(kmod_module_unrefp) struct kmod_module *module = NULL;
        const char *name = m->sim.modules[i].name;
        int r;

        r = kmod_module_new_from_name(replay->ctx, name, &module);
        if (r < 0)
                return log_error_errno(r, "%s: no module %s: %m", replay->kernel, name);

        listing.machine = m;
        listing.module = i;
        listing.error = 0;
        r = kmod_module_probe_insert_module(module, KMOD_PROBE_DRY_RUN, NULL, NULL, NULL, on_load);
        if (r >= 0)
                r = listing.error;
        if (r < 0)
                return log_error_errno(r, "%s: cannot list what %s needs: %m", replay->kernel, name);

        m->kinds[i].asynchronous = module_is_asynchronous(strempty(kmod_module_get_path(module)));
        return 0;
}

static int machine_resolve_alias(Machine *m, const Replay *replay, const char *modalias, const Alias **ret) {
        _cleanup_(alias_freep) Alias *a = NULL;
        int r;

        *ret = hashmap_get(m->aliases, modalias);
        if (*ret)
                return 0;

        a = new0(Alias, 1);
        if (!a)
                return -ENOMEM;

        a->alias = strdup(modalias);
        if (!a->alias)
                return -ENOMEM;

        r = module_plan_resolve(&a->plan, replay->ctx, modalias);
        if (r < 0)
                return r;

        a->steps = new(ColdplugStep, a->plan.n_steps);
        if (!a->steps)
                return -ENOMEM;

        for (size_t i = 0; i < a->plan.n_steps; i++) {
                r = machine_add_module(m, a->plan.steps[i].name, &a->steps[i].module);
                if (r < 0)
                        return r;

                a->steps[i].asked = a->plan.steps[i].alias;
        }

        r = hashmap_ensure_put(&m->aliases, &alias_hash_ops, a->alias, a);
        if (r < 0)
                return r;

        *ret = TAKE_PTR(a);
        return 0;
}

/* By what the device leads to, or if that is not known by its class. */
static int device_set_goals(ColdplugDevice *d, const char *path, bool known) {
        _cleanup_strv_free_ char **goals = NULL;

        if (!known) {
                d->leads_to[COLDPLUG_STORAGE] = d->n_steps > 0 && d->class == MODULE_CLASS_STORAGE;
                d->leads_to[COLDPLUG_INPUT] = d->n_steps > 0 && d->class == MODULE_CLASS_INPUT;
                return 0;
        }

        goals = strv_split(path, ",");
        if (!goals)
                return -ENOMEM;

        d->leads_to[COLDPLUG_STORAGE] = strv_contains(goals, "disk");
        d->leads_to[COLDPLUG_INPUT] = strv_contains(goals, "input");
        return 0;
}

static int machine_add_device(Machine *m, const Replay *replay, char **columns) {
        ColdplugDevice *d;
        const Alias *a;
        int r;

        if (!GREEDY_REALLOC(m->sim.devices, m->sim.n_devices + 1))
                return -ENOMEM;

        r = machine_resolve_alias(m, replay, columns[COLUMN_MODALIAS], &a);
        if (r < 0)
                return r;

        d = m->sim.devices + m->sim.n_devices;
        *d = (ColdplugDevice) {
                .devpath = strdup(columns[COLUMN_DEVPATH]),
                .modalias = a->alias,
                .parent = COLDPLUG_NONE,
                .class = module_class_decide(a->alias, a->plan.class),
                .steps = a->steps,
                .n_steps = a->plan.n_steps,
        };
        if (!d->devpath)
                return -ENOMEM;
        m->sim.n_devices++;

        m->n_requests += d->n_steps > 0;
        m->n_steps += d->n_steps;

        /* The next one: the nearest is the longest. */
        for (size_t i = 0; i + 1 < m->sim.n_devices; i++)
                if (path_startswith(d->devpath, m->sim.devices[i].devpath) &&
                    (d->parent == COLDPLUG_NONE ||
                     strlen(m->sim.devices[i].devpath) > strlen(m->sim.devices[d->parent].devpath)))
                        d->parent = i;

        m->paths_known = !streq(columns[COLUMN_PATH], "?");
        return device_set_goals(d, columns[COLUMN_PATH], m->paths_known);
}

static int machine_read(Machine *m, const Replay *replay, const char *file) {
        _cleanup_fclose_ FILE *f = NULL;
        int r;

        f = fopen(file, "re");
        if (!f)
                return log_error_errno(errno, "Cannot open %s: %m", file);

        for (unsigned line_number = 1;; line_number++) {
                _cleanup_free_ char *line = NULL;
                char *columns[_COLUMN_MAX], *p;
                size_t n = 0;

                r = read_line(f, SIZE_MAX, &line);
                if (r < 0)
                        return log_error_errno(r, "Cannot read %s: %m", file);
                if (r == 0)
                        break;

                p = line;
                while (p && n < _COLUMN_MAX)
                        columns[n++] = strsep(&p, "\t");
                if (n != _COLUMN_MAX || p)
                        return log_error_errno(SYNTHETIC_ERRNO(EINVAL), "%s:%u: not %u columns.",
                                               file, line_number, (unsigned) _COLUMN_MAX);

                if (line_number == 1) /* the head */
                        continue;

                r = machine_add_device(m, replay, columns);
                if (r < 0)
                        return log_error_errno(r, "%s:%u: cannot take this device: %m", file, line_number);
        }

        return 0;
}

static int machine_resolve_modules(Machine *m, const Replay *replay) {
        int r;

        for (size_t i = 0; i < m->sim.n_devices; i++)
                for (size_t j = 0; j < m->sim.devices[i].n_steps; j++)
                        if (m->sim.devices[i].steps[j].asked)
                                m->kinds[m->sim.devices[i].steps[j].module].has_device = true;

        /* There come to be more on the way. */
        for (size_t i = 0; i < m->sim.n_modules; i++) {
                r = machine_resolve_module(m, i, replay);
                if (r < 0)
                        return r;
        }

        return 0;
}

static const char *const order_names[_COLDPLUG_ORDER_MAX] = {
        [COLDPLUG_STOCK] = "stock",
        [COLDPLUG_QUEUE] = "queue",
};

static void print_head(void) {
        puts("kernel\tmachine\tpaths\tcpus\tset\torder\tdevices\trequests\tdistinct\tsteps\tmodules\t"
             "asked\tattempts\tinserts\twasted\t"
             "storage_usec\tinput_usec\tloads_usec\tshort_loads_usec\tsettle_usec\tcpu_usec");
}

static void print_result(const Replay *replay, const Machine *m, const char *name, unsigned n_cpus, unsigned set,
                         ColdplugOrder order, const ColdplugResult *result) {
        size_t n_distinct = 0;
        Alias *a;

        HASHMAP_FOREACH(a, m->aliases)
                n_distinct += a->plan.n_steps > 0;

        printf("%s\t%s\t%s\t%u\t%u\t%s\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t"
               "%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\n",
               replay->kernel, name, m->paths_known ? "known" : "by-class", n_cpus, set, order_names[order],
               m->sim.n_devices, m->n_requests, n_distinct, m->n_steps, m->sim.n_modules,
               result->n_requests, result->n_attempts, result->n_inserts, result->n_wasted,
               result->goal_usec[COLDPLUG_STORAGE], result->goal_usec[COLDPLUG_INPUT],
               result->loads_usec, result->short_loads_usec, result->settle_usec, result->cpu_usec);
}

/* What must hold on any machine. */
static int check_results(const Machine *m, const char *name, unsigned n_cpus, const ColdplugResult *results) {
        const ColdplugResult *stock = results + COLDPLUG_STOCK, *queue = results + COLDPLUG_QUEUE;
        int r = 0;

        for (size_t i = 0; i < m->sim.n_modules; i++)
                if (!stock->loaded[i] || !queue->loaded[i])
                        r = log_error_errno(SYNTHETIC_ERRNO(EBADE), "%s, %u CPUs: module %s was%s loaded by stock, and"
                                            "%s by the queue.", name, n_cpus, m->sim.modules[i].name,
                                            stock->loaded[i] ? "" : " not", queue->loaded[i] ? "" : " not");

        if (queue->cpu_usec > stock->cpu_usec + 1)
                r = log_error_errno(SYNTHETIC_ERRNO(EBADE), "%s, %u CPUs: the queue took %.0f usec of CPU time, and "
                                    "stock only %.0f.", name, n_cpus, queue->cpu_usec, stock->cpu_usec);

        return r;
}

static int replay_cpus(const Replay *replay, const Machine *m, const char *name, unsigned n_cpus, unsigned set) {
        ColdplugResult results[_COLDPLUG_ORDER_MAX] = {};
        int r = 0;

        for (ColdplugOrder o = 0; o < _COLDPLUG_ORDER_MAX; o++) {
                r = coldplug_run(&m->sim, o, n_cpus, results + o);
                if (r < 0) {
                        log_error_errno(r, "%s, %u CPUs, %s: cannot simulate it to the end: %m",
                                        name, n_cpus, order_names[o]);
                        goto finish;
                }

                print_result(replay, m, name, n_cpus, set, o, results + o);
        }

        r = check_results(m, name, n_cpus, results);

finish:
        for (ColdplugOrder o = 0; o < _COLDPLUG_ORDER_MAX; o++)
                free(results[o].loaded);

        return r;
}

static int replay_machine(const Replay *replay, const char *file) {
        _cleanup_(machine_done) Machine m = { .sim.kernel_shares = replay->kernel_shares };
        _cleanup_free_ char *name = NULL;
        int r, ret = 0;

        name = strdup(basename(file));
        if (!name)
                return log_oom();

        if (endswith(name, ".tsv"))
                *endswith(name, ".tsv") = '\0';

        r = machine_read(&m, replay, file);
        if (r < 0)
                return r;

        r = machine_resolve_modules(&m, replay);
        if (r < 0)
                return r;

        for (unsigned set = 1; set <= N_SETS; set++) {
                for (size_t i = 0; i < m.sim.n_modules; i++)
                        module_set_times(m.sim.modules + i, m.kinds[i], replay, set);

                STRV_FOREACH(c, replay->cpus) {
                        unsigned n_cpus;

                        r = safe_atou(*c, &n_cpus);
                        if (r >= 0 && n_cpus == 0)
                                r = -ERANGE;
                        if (r < 0)
                                return log_error_errno(r, "'%s' is no number of CPUs: %m", *c);

                        r = replay_cpus(replay, &m, name, n_cpus, set);
                        if (r < 0)
                                ret = r;
                }
        }

        return ret;
}

/* Lines of module, usec, source; comments start with #. */
static int replay_read_times(Replay *replay, const char *file) {
        _cleanup_fclose_ FILE *f = NULL;
        int r;

        f = fopen(file, "re");
        if (!f)
                return log_error_errno(errno, "Cannot open %s: %m", file);

        for (unsigned line_number = 1;; line_number++) {
                _cleanup_free_ char *line = NULL, *name = NULL;
                char *p;
                uint64_t usec;

                r = read_line(f, SIZE_MAX, &line);
                if (r < 0)
                        return log_error_errno(r, "Cannot read %s: %m", file);
                if (r == 0)
                        return 0;
                if (line[0] == '#')
                        continue;

                p = line;
                name = strdup(strsep(&p, "\t"));
                r = name ? safe_atou64(strempty(strsep(&p, "\t")), &usec) : -ENOMEM;
                if (r >= 0)
                        r = hashmap_ensure_put(&replay->times, &string_hash_ops_free, name, UINT64_TO_PTR(usec + 1));
                if (r < 0)
                        return log_error_errno(r, "%s:%u: not a module and its usec: %m", file, line_number);

                TAKE_PTR(name);
        }
}

static void on_kmod_log(void *userdata, int priority, const char *file, int line, const char *fn, const char *format,
                        va_list args) {
        Replay *replay = userdata;

        replay->broken = true;
        fprintf(stderr, "libkmod: ");
        DISABLE_WARNING_FORMAT_NONLITERAL;
        vfprintf(stderr, format, args);
        REENABLE_WARNING;
}

static int replay_open(Replay *replay, const char *tree, const char *config) {
        const char *configs[] = { config, NULL };
        unsigned major, minor;
        int r;

        replay->kernel = basename(tree);
        if (sscanf(replay->kernel, "%u.%u", &major, &minor) != 2)
                return log_error_errno(SYNTHETIC_ERRNO(EINVAL), "%s is not named by a kernel's release.", tree);
        replay->kernel_shares = major > 6 || (major == 6 && minor >= 5);

        replay->ctx = kmod_new(tree, configs);
        if (!replay->ctx)
                return log_error_errno(errno, "Cannot use libkmod with %s: %m", tree);

        /* What it only logs, and goes on without, is an index that does not fit the tree. */
        kmod_set_log_priority(replay->ctx, LOG_ERR);
        kmod_set_log_fn(replay->ctx, on_kmod_log, replay);

        r = kmod_load_resources(replay->ctx);
        if (r < 0)
                return log_error_errno(r, "%s has no index of modules: %m", tree);

        return 0;
}

static int run(int argc, char *argv[]) {
        _cleanup_(replay_done) Replay replay = {};
        int r;

        if (argc != 6) {
                fprintf(stderr, "Usage: %s MODULES CONFIG TIMES CPUS[,CPUS…] MACHINE\n\n"
                        "MODULES: a directory with a kernel's modules (the files may be empty) and their index, named by\n"
                        "its release\n"
                        "CONFIG: a directory with what modprobe.d is to be\n"
                        "TIMES: test/bench/module-init-times.tsv\n"
                        "MACHINE: one of test/bench/machines/\n\n"
                        "Run it with an empty /sys/module: what is in there counts as loaded.\n",
                        program_invocation_short_name);
                return -EINVAL;
        }

        if (access("/sys/module", F_OK) >= 0 && dir_is_empty("/sys/module", /* ignore_hidden_or_backup= */ false) <= 0)
                return log_error_errno(SYNTHETIC_ERRNO(ENOTEMPTY), "/sys/module is not empty.");

        r = replay_open(&replay, argv[1], argv[2]);
        if (r < 0)
                return r;

        r = replay_read_times(&replay, argv[3]);
        if (r < 0)
                return r;

        replay.cpus = strv_split(argv[4], ",");
        if (!replay.cpus)
                return log_oom();

        print_head();
        r = replay_machine(&replay, argv[5]);
        return replay.broken ? -EBADMSG : r;
}

int main(int argc, char *argv[]) {
        log_parse_environment();
        log_open();

        return run(argc, argv) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
