/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The queue against its model (the head of udev-module-queue.c). Time and loaders are simulated, and so is lack of
 * memory: the build redirects malloc() and its kin to here. */

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "udev-module-queue.h"

#define SEC USEC_PER_SEC

/* Memory */

static unsigned n_blocks;               /* that the queue has and has not freed */
static unsigned alloc_countdown;        /* > 0: the allocation that brings it to 0 fails, and all after it */
static bool alloc_fails;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_reallocarray(void *p, size_t n, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
void __wrap_free(void *p);

static bool alloc_may(void) {
        if (alloc_countdown > 0 && --alloc_countdown == 0)
                alloc_fails = true;
        if (alloc_fails)
                errno = ENOMEM;
        return !alloc_fails;
}

static void *alloc_count(void *p) {
        if (p)
                n_blocks++;
        return p;
}

static void alloc_uncount(void *p) {
        if (p)
                n_blocks--;
}

void *__wrap_malloc(size_t size) {
        return alloc_may() ? alloc_count(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t n, size_t size) {
        return alloc_may() ? alloc_count(__real_calloc(n, size)) : NULL;
}

void *__wrap_realloc(void *p, size_t size) {
        return __wrap_reallocarray(p, 1, size);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size) {
        if (!alloc_may())
                return NULL;
        alloc_uncount(p);
        return alloc_count(__real_reallocarray(p, n, size));
}

void __wrap_free(void *p) {
        alloc_uncount(p);
        __real_free(p);
}

/* Short forms. A list of steps is written "dep1 dep2 module=alias": what has an alias was asked for. */

typedef struct Fixture {
        ModuleQueue *q;
        usec_t now;
        unsigned n_loaders;
        uint32_t last_id;
        unsigned n_blocks;              /* before there was a queue */
} Fixture;

static void fixture_set_up(Fixture *f, gconstpointer n_loaders) {
        f->n_loaders = n_loaders ? GPOINTER_TO_UINT(n_loaders) : 16;
        f->now = 100 * SEC;
        f->n_blocks = n_blocks;
        g_assert_cmpint(module_queue_new(&f->q, f->n_loaders), ==, 0);
}

static void fixture_tear_down(Fixture *f, gconstpointer n_loaders) {
        module_queue_free(f->q);
        /* systemd may take hash maps from a pool, which stays. */
        g_assert_cmpuint(n_blocks, <=, f->n_blocks + 1);
}

static int try_add(Fixture *f, ModuleClass class, pid_t waiter, uint64_t seqnum, const char *list) {
        g_auto(GStrv) words = g_strsplit(list, " ", 0);
        size_t n = g_strv_length(words);
        g_autofree ModuleRequestStep *steps = g_new0(ModuleRequestStep, n);
        g_autofree char *device = g_strdup_printf("/devices/%" PRIu64, seqnum);
        ModuleRequest request = {
                .seqnum = seqnum,
                .device = device,
                .class = class,
                .waiter = waiter,
                .id = waiter > 0 ? ++f->last_id : 0,
                .steps = steps,
                .n_steps = n,
        };

        for (size_t i = 0; i < n; i++) {
                char *alias = strchr(words[i], '=');

                if (alias) {
                        *alias = '\0';
                        steps[i].alias = alias + 1;
                }
                steps[i].name = words[i];
        }

        return module_queue_add(f->q, &request, f->now);
}

static void add(Fixture *f, ModuleClass class, const char *list) {
        g_assert_cmpint(try_add(f, class, 0, 0, list), ==, 0);
}

static uint32_t add_as(Fixture *f, ModuleClass class, pid_t waiter, const char *list) {
        g_assert_cmpint(try_add(f, class, waiter, 0, list), ==, 0);
        return f->last_id;
}

static uint32_t add_for(Fixture *f, pid_t waiter, const char *list) {
        return add_as(f, MODULE_CLASS_OTHER, waiter, list);
}

/* The queue itself counts the loads that take a loader's place. */
static ModuleStep *next(Fixture *f) {
        return module_queue_next(f->q, f->n_loaders, f->now);
}

#define name_of(step) ((step) ? module_step_name(step) : NULL)

/* The next one is this, and takes a loader. */
#define assert_next(f, expected)                                        \
        ({                                                              \
                ModuleStep *_step = next(f);                            \
                g_assert_cmpstr(name_of(_step), ==, expected);          \
                _step;                                                  \
        })

#define assert_none_next(f) g_assert_cmpstr(name_of(next(f)), ==, NULL)

static void done(Fixture *f, ModuleStep *step, int error) {
        module_queue_done(f->q, step, error, f->now);
}

/* The next one is this, and the attempt ends with error at once. */
#define assert_attempt(f, expected, error) done(f, assert_next(f, expected), error)

#define assert_answer(f, expected_waiter, expected_id, expected_load_yourself)          \
        ({                                                                              \
                ModuleAnswer _answer;                                                   \
                g_assert_true(module_queue_pop_answer((f)->q, &_answer));               \
                g_assert_cmpint(_answer.waiter, ==, expected_waiter);                   \
                g_assert_cmpuint(_answer.id, ==, expected_id);                          \
                g_assert_cmpint(_answer.load_yourself, ==, expected_load_yourself);     \
        })

#define assert_no_answer(f) \
        g_assert_false(module_queue_pop_answer((f)->q, &(ModuleAnswer) {}))

#define assert_empty(f)                                                 \
        ({                                                              \
                g_assert_true(module_queue_is_empty((f)->q));           \
                assert_none_next(f);                                    \
                assert_no_answer(f);                                    \
        })

/* When the failures are old too, what is left is the queue itself, with two heaps and two hash maps, and the array
 * of each of these. */
#define assert_purged(f)                                                \
        ({                                                              \
                (f)->now += MODULE_QUEUE_FAILURE_USEC;                  \
                assert_empty(f);                                        \
                g_assert_cmpuint(n_blocks, <=, (f)->n_blocks + 9);      \
        })

/* Rule 3: share, never drop */

static void test_share_waiting(Fixture *f, gconstpointer data) {
        uint32_t a, b;

        a = add_for(f, 11, "m=x");
        b = add_for(f, 12, "m=x");
        g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 1);

        assert_attempt(f, "m", 0);
        assert_answer(f, 11, a, false);
        assert_answer(f, 12, b, false);
        assert_empty(f);
}

static void test_share_loading(Fixture *f, gconstpointer data) {
        ModuleStep *m;
        uint32_t a, b;

        a = add_for(f, 11, "m=x");
        m = assert_next(f, "m");
        b = add_for(f, 12, "m=x");
        assert_none_next(f);
        assert_no_answer(f);
        g_assert_false(module_queue_is_empty(f->q));

        done(f, m, -ENODEV);
        assert_answer(f, 11, a, false);
        assert_answer(f, 12, b, false);
        assert_empty(f);
}

static void test_share_result_not_kept(Fixture *f, gconstpointer data) {
        for (int error = 0; error < 3; error++) {
                uint32_t id = add_for(f, 11, "m=x");

                assert_no_answer(f);
                assert_attempt(f, "m", error);
                assert_answer(f, 11, id, false);
                assert_empty(f);
        }
}

/* Served before it gets there, whether it was added before the attempt began … */
static void test_share_ahead_waiting(Fixture *f, gconstpointer data) {
        ModuleStep *x, *m;
        uint32_t id;

        id = add_for(f, 11, "x m=x");
        add(f, MODULE_CLASS_OTHER, "m=x");
        x = assert_next(f, "x");
        m = assert_next(f, "m");
        done(f, m, 0);
        assert_no_answer(f);
        done(f, x, 0);
        assert_answer(f, 11, id, false);
        assert_empty(f);
}

/* … or while it was running */
static void test_share_ahead_loading(Fixture *f, gconstpointer data) {
        ModuleStep *x, *m;
        uint32_t id;

        add(f, MODULE_CLASS_OTHER, "m=x");
        m = assert_next(f, "m");
        id = add_for(f, 11, "x m=x y=x");
        x = assert_next(f, "x");
        done(f, m, -ENODEV);
        done(f, x, 0);
        assert_no_answer(f);
        assert_attempt(f, "y", 0);
        assert_answer(f, 11, id, false);
        assert_empty(f);
}

/* Who asks after the end gets a new attempt, and does not lean on the old one later. */
static void test_share_after_end(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", 0);
        add(f, MODULE_CLASS_OTHER, "x m=x");
        assert_attempt(f, "x", 0);
        assert_attempt(f, "m", 0);
        assert_empty(f);
}

/* Who is served passes, though another attempt runs by then. */
static void test_share_passes_later_attempt(Fixture *f, gconstpointer data) {
        ModuleStep *x, *m;
        uint32_t id;

        id = add_for(f, 11, "x m=x");
        x = assert_next(f, "x");
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", 0);
        add(f, MODULE_CLASS_OTHER, "m=x");
        m = assert_next(f, "m");
        done(f, x, 0);
        assert_answer(f, 11, id, false);
        done(f, m, 0);
        assert_empty(f);
}

static void test_failure_kept(Fixture *f, gconstpointer data) {
        uint32_t id;

        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", -ENODEV);

        f->now += 3 * SEC - 1;
        id = add_for(f, 11, "m=x");
        assert_answer(f, 11, id, false);
        assert_empty(f);

        /* Answering does not make it any longer. */
        f->now += 1;
        add_for(f, 11, "m=x");
        assert_next(f, "m");
}

/* libkmod may do more for who asks for the module itself: an install line, options of the alias. */
static void test_failure_of_preload(Fixture *f, gconstpointer data) {
        ModuleStep *m;
        uint32_t id;

        add(f, MODULE_CLASS_OTHER, "m n=x");
        assert_attempt(f, "m", -ENODEV);
        assert_attempt(f, "n", -ENODEV);

        /* It answers who needs the module as a pre-load. */
        add(f, MODULE_CLASS_OTHER, "m k=x");
        assert_attempt(f, "k", -ENODEV);
        assert_empty(f);

        id = add_for(f, 11, "m=y");
        assert_no_answer(f);
        m = assert_next(f, "m");
        g_assert_cmpstr(module_step_alias(m), ==, "y");
        done(f, m, -ENODEV);
        assert_answer(f, 11, id, false);

        /* And this one whoever comes then. */
        id = add_for(f, 11, "m=z");
        assert_answer(f, 11, id, false);
        add(f, MODULE_CLASS_OTHER, "m k=x");
        assert_empty(f);

        /* The same if he stands there already when it fails. */
        f->now += MODULE_QUEUE_FAILURE_USEC;
        add(f, MODULE_CLASS_OTHER, "m n=x");
        m = assert_next(f, "m");
        id = add_for(f, 11, "m=y");
        done(f, m, -ENODEV);
        assert_no_answer(f);
        m = assert_next(f, "m");
        g_assert_cmpstr(module_step_alias(m), ==, "y");
        done(f, m, -ENODEV);
        assert_answer(f, 11, id, false);
        assert_attempt(f, "n", 0);
        assert_purged(f);
}

static void test_failure_expires(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", -ENODEV);

        f->now += 3 * SEC;
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_next(f, "m");
}

/* Also for those that the end of a load, or a death, brings there then. */
static void test_failure_expires_at_end(Fixture *f, gconstpointer data) {
        for (unsigned i = 0; i < 2; i++) {
                ModuleStep *m;

                add(f, MODULE_CLASS_OTHER, "n=x");
                assert_attempt(f, "n", -ENODEV);
                add(f, MODULE_CLASS_OTHER, "m n=x");
                m = assert_next(f, "m");
                if (i == 1) {
                        g_assert_true(module_queue_died(f->q, m, f->now));
                        m = assert_next(f, "m");
                }

                f->now += 3 * SEC;
                if (i == 0)
                        done(f, m, -ENODEV);
                else
                        g_assert_false(module_queue_died(f->q, m, f->now));
                assert_attempt(f, "n", 0);
                assert_empty(f);
        }
}

static void test_failure_void_by_success(Fixture *f, gconstpointer data) {
        for (int error = 0; error < 2; error++) {
                add(f, MODULE_CLASS_OTHER, "l=x m=x");
                assert_attempt(f, "l", -ENODEV);
                assert_attempt(f, "m", -ENODEV);
                add(f, MODULE_CLASS_OTHER, "n=x");
                assert_attempt(f, "n", error);

                add(f, MODULE_CLASS_OTHER, "m=x l=x");
                assert_attempt(f, "m", -ENODEV);
                assert_attempt(f, "l", 0);
                assert_empty(f);
        }
}

static void test_failure_not_void_by_failure(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", -ENODEV);
        add(f, MODULE_CLASS_OTHER, "n=x");
        assert_attempt(f, "n", -ENODEV);

        add(f, MODULE_CLASS_OTHER, "m=x n=x");
        assert_empty(f);
}

static void test_failure_void_by_forget(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", -ENODEV);
        module_queue_forget_failures(f->q);

        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_next(f, "m");
}

/* What counts is when a request gets to the step. */
static void test_failure_of_later_step(Fixture *f, gconstpointer data) {
        ModuleStep *x, *y, *z;

        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", -ENODEV);
        add(f, MODULE_CLASS_OTHER, "x m=x");
        add(f, MODULE_CLASS_OTHER, "y m=x");
        add(f, MODULE_CLASS_OTHER, "z m=x");
        x = assert_next(f, "x");
        y = assert_next(f, "y");
        z = assert_next(f, "z");

        done(f, x, -ENODEV);
        assert_none_next(f);

        done(f, y, 0);
        assert_attempt(f, "m", -ENODEV);

        done(f, z, -ENODEV);
        assert_empty(f);
}

/* Whom a kept failure has answered needs the module no longer: his class does not count any more. Others' does. */
static void test_failure_takes_need_away(Fixture *f, gconstpointer data) {
        ModuleStep *x;

        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", -ENODEV);
        add(f, MODULE_CLASS_BUS, "m=x m=y");
        add(f, MODULE_CLASS_INPUT, "x m=x");
        x = assert_next(f, "x");

        f->now += 3 * SEC;
        add(f, MODULE_CLASS_SOUND, "m=x");
        g_assert_cmpint(module_step_class(assert_next(f, "m")), ==, MODULE_CLASS_INPUT);
        done(f, x, 0);
}

/* Rule 1: a load holds only what waits for it */

/* Who builds on it goes on at once, and who waits for the module itself waits for the end. */
static void test_live_passes(Fixture *f, gconstpointer data) {
        ModuleStep *m, *a;
        uint32_t first, itself, last;

        first = add_for(f, 11, "m a=x");
        itself = add_for(f, 12, "m=x");
        last = add_for(f, 13, "m b m c=x");
        m = assert_next(f, "m");
        assert_none_next(f);

        module_queue_live(f->q, m);
        a = assert_next(f, "a");
        assert_attempt(f, "b", 0);
        assert_attempt(f, "c", 0);
        assert_answer(f, 13, last, false);
        assert_no_answer(f);
        done(f, a, 0);
        assert_answer(f, 11, first, false);
        assert_no_answer(f);
        g_assert_cmpuint(module_queue_n_loading(f->q), ==, 1);

        done(f, m, 0);
        assert_answer(f, 12, itself, false);
        assert_empty(f);
}

/* For whom nobody waits, what he asked for is there: the next module of his list comes, and not before that. */
static void test_live_passes_unawaited(Fixture *f, gconstpointer data) {
        ModuleStep *m, *n;
        uint32_t id;

        add(f, MODULE_CLASS_OTHER, "m=x n=x");
        id = add_for(f, 11, "m=x o=x");
        add_for(f, 12, "m=x p=x");
        m = assert_next(f, "m");
        assert_none_next(f);
        module_queue_forget_waiter(f->q, 12);
        assert_none_next(f);

        module_queue_live(f->q, m);
        n = assert_next(f, "n");
        assert_attempt(f, "p", 0);
        assert_none_next(f);
        done(f, n, 0);
        assert_no_answer(f);
        g_assert_cmpuint(module_queue_n_loading(f->q), ==, 1);

        /* It is not attempted again for who comes now. */
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_none_next(f);

        done(f, m, 0);
        assert_attempt(f, "o", 0);
        assert_answer(f, 11, id, false);
        assert_empty(f);
}

/* Whether he gets there by being added, or later */
static void test_live_passes_later(Fixture *f, gconstpointer data) {
        ModuleStep *m;
        uint32_t itself, passes, both;

        add(f, MODULE_CLASS_OTHER, "m=x");
        m = assert_next(f, "m");
        module_queue_live(f->q, m);

        itself = add_for(f, 11, "z m=x");
        passes = add_for(f, 12, "m a=x");
        both = add_for(f, 13, "m b m=x");
        assert_attempt(f, "z", 0);
        assert_attempt(f, "a", 0);
        assert_answer(f, 12, passes, false);
        assert_attempt(f, "b", 0);
        assert_none_next(f);
        assert_no_answer(f);

        done(f, m, 0);
        assert_answer(f, 11, itself, false);
        assert_answer(f, 13, both, false);
        assert_empty(f);

        /* It is so for this load only. */
        add(f, MODULE_CLASS_OTHER, "m n=x");
        m = assert_next(f, "m");
        assert_none_next(f);
        done(f, m, 0);
        assert_attempt(f, "n", 0);
        assert_empty(f);
}

/* One and the same request: it goes on, and stands there again. */
static void test_live_passes_to_itself(Fixture *f, gconstpointer data) {
        ModuleStep *m;
        uint32_t id;

        id = add_for(f, 11, "m m m=x");
        m = assert_next(f, "m");
        module_queue_live(f->q, m);
        assert_none_next(f);
        assert_no_answer(f);
        g_assert_cmpstr(module_step_alias(m), ==, NULL);
        g_assert_true(module_queue_died(f->q, m, f->now));
        m = assert_next(f, "m");
        g_assert_cmpstr(module_step_alias(m), ==, "x");
        done(f, m, 0);
        assert_answer(f, 11, id, false);
        assert_empty(f);
}

/* All of his steps are no obstacle any more: the answer is there. */
static void test_live_answers(Fixture *f, gconstpointer data) {
        ModuleStep *m;
        uint32_t id;

        id = add_for(f, 11, "k=x m l");
        assert_attempt(f, "k", 0);
        m = assert_next(f, "m");
        add(f, MODULE_CLASS_OTHER, "l=x");
        module_queue_live(f->q, assert_next(f, "l"));
        assert_no_answer(f);
        module_queue_live(f->q, m);
        assert_answer(f, 11, id, false);

        /* Or it is at once. */
        add(f, MODULE_CLASS_OTHER, "k=x");
        assert_attempt(f, "k", -ENODEV);
        id = add_for(f, 11, "k=x m l");
        assert_answer(f, 11, id, false);
        assert_no_answer(f);
        done(f, m, 0);
}

/* Those that are live take no loader's place, however often one says that they are. */
static void test_live_loaders(Fixture *f, gconstpointer data) {
        ModuleStep *a, *b, *c, *d;

        for (char list[] = "a=x"; *list <= 'g'; (*list)++)
                add(f, MODULE_CLASS_OTHER, list);
        a = assert_next(f, "a");
        b = assert_next(f, "b");
        assert_none_next(f);

        module_queue_live(f->q, a);
        module_queue_live(f->q, a);
        c = assert_next(f, "c");
        assert_none_next(f);
        module_queue_live(f->q, b);
        d = assert_next(f, "d");
        assert_none_next(f);
        g_assert_cmpuint(module_queue_n_loading(f->q), ==, 4);
        g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 3);

        /* The place of these is taken. */
        done(f, a, 0);
        done(f, b, 0);
        assert_none_next(f);
        done(f, c, 0);
        assert_next(f, "e");
        assert_none_next(f);

        /* But who can fork no process gets none. */
        done(f, d, 0);
        g_assert_null(module_queue_next(f->q, 0, f->now));
        assert_next(f, "f");
}

/* Rule 7: what only waits gives its place to others, and takes it back */

static void test_park(Fixture *f, gconstpointer data) {
        ModuleStep *a, *b, *c;

        for (const char *list = "abcde"; *list; list++) {
                g_autofree char *step = g_strdup_printf("%c=x", *list);

                add(f, MODULE_CLASS_OTHER, step);
        }

        a = assert_next(f, "a");
        b = assert_next(f, "b");
        assert_none_next(f);

        /* Once is as good as twice. */
        module_queue_park(f->q, a, true);
        module_queue_park(f->q, a, true);
        c = assert_next(f, "c");
        assert_none_next(f);

        /* Three are at work now: one has to end before another one starts. */
        module_queue_park(f->q, a, false);
        done(f, b, 0);
        assert_none_next(f);
        done(f, c, 0);
        b = assert_next(f, "d");
        assert_none_next(f);

        /* The place of a parked one is free already. */
        module_queue_park(f->q, b, true);
        c = assert_next(f, "e");
        done(f, b, 0);
        add(f, MODULE_CLASS_OTHER, "f=x");
        assert_none_next(f);
        done(f, a, 0);
        done(f, c, 0);
        assert_attempt(f, "f", 0);
        assert_purged(f);
}

/* Nobody passes a parked one: it is not live. */
static void test_park_is_not_live(Fixture *f, gconstpointer data) {
        ModuleStep *m;

        add(f, MODULE_CLASS_OTHER, "m a=x");
        m = assert_next(f, "m");
        module_queue_park(f->q, m, true);
        assert_none_next(f);

        /* And what is live stays parked. */
        module_queue_live(f->q, m);
        module_queue_park(f->q, m, false);
        assert_attempt(f, "a", 0);
        done(f, m, 0);
        assert_purged(f);
}

/* A loader that dies while it is parked, or is put back, leaves nothing behind. */
static void test_park_ended(Fixture *f, gconstpointer data) {
        ModuleStep *a, *b;

        add(f, MODULE_CLASS_OTHER, "a=x");
        add(f, MODULE_CLASS_OTHER, "b=x");
        add(f, MODULE_CLASS_OTHER, "c=x");

        a = assert_next(f, "a");
        module_queue_park(f->q, a, true);
        g_assert_true(module_queue_died(f->q, a, f->now));

        a = assert_next(f, "a");
        b = assert_next(f, "b");
        assert_none_next(f);

        module_queue_park(f->q, b, true);
        module_queue_put_back(f->q, b);
        b = assert_next(f, "b");
        assert_none_next(f);

        done(f, a, 0);
        done(f, b, 0);
        assert_attempt(f, "c", 0);
        assert_purged(f);
}

/* The class is that of those that still need it. */
static void test_live_class(Fixture *f, gconstpointer data) {
        ModuleStep *m;

        add_as(f, MODULE_CLASS_SOUND, 11, "m=x");
        add(f, MODULE_CLASS_BUS, "m m a=x");
        add(f, MODULE_CLASS_STORAGE, "m b=x");
        m = assert_next(f, "m");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_BUS);
        module_queue_live(f->q, m);
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_SOUND);

        /* Who passes counts no more, who will stand there does. */
        add(f, MODULE_CLASS_BUS, "m m c=x");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_SOUND);
        add_as(f, MODULE_CLASS_NETWORK, 11, "m d m=x");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_NETWORK);

        /* It waits in that class too. */
        add(f, MODULE_CLASS_DISPLAY, "e=x");
        assert_next(f, "a");
        assert_next(f, "c");
        assert_next(f, "b");
        assert_next(f, "e");
        g_assert_true(module_queue_died(f->q, m, f->now));
        add(f, MODULE_CLASS_SOUND, "g=x");
        assert_next(f, "m");
        assert_next(f, "d");
        assert_next(f, "g");
}

/* Nobody is left whose class it could be. */
static void test_live_class_alone(Fixture *f, gconstpointer data) {
        ModuleStep *m;

        add(f, MODULE_CLASS_NETWORK, "m a=x");
        add(f, MODULE_CLASS_STORAGE, "m b=x");
        m = assert_next(f, "m");
        module_queue_live(f->q, m);
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_STORAGE);
        add(f, MODULE_CLASS_BUS, "m c=x");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_STORAGE);

        add_as(f, MODULE_CLASS_IDLE, 11, "m=x");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_IDLE);
}

/* A load whose module is live, and that all have gone on from. */
static ModuleStep *live_alone(Fixture *f) {
        ModuleStep *m;
        uint32_t id;

        id = add_for(f, 11, "k=x m");
        assert_attempt(f, "k", 0);
        m = assert_next(f, "m");
        assert_no_answer(f);
        module_queue_live(f->q, m);
        assert_answer(f, 11, id, false);
        return m;
}

/* Also if it was the last step of all. The load goes on without those that it was for. */
static void test_live_alone(Fixture *f, gconstpointer data) {
        for (unsigned i = 0; i < 2; i++) {
                ModuleStep *m = live_alone(f);

                g_assert_false(module_queue_is_empty(f->q));
                g_assert_cmpuint(module_queue_n_loading(f->q), ==, 1);
                g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 0);
                assert_none_next(f);
                g_assert_cmpstr(module_step_name(m), ==, "m");
                g_assert_cmpstr(module_step_alias(m), ==, NULL);
                g_assert_cmpstr(module_step_device(m), ==, NULL);
                g_assert_cmpuint(module_step_seqnum(m), ==, 0);
                g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_OTHER);

                /* The strings that the first had brought are gone. */
                module_queue_forget_waiter(f->q, 11);
                f->now += MODULE_QUEUE_FAILURE_USEC;
                if (i == 0) {
                        done(f, m, 0);
                        assert_empty(f);
                        continue;
                }

                /* It is the same load for who comes now. */
                add_for(f, 12, "m=late");
                assert_none_next(f);
                g_assert_cmpstr(module_step_alias(m), ==, NULL);
                g_assert_cmpstr(module_step_device(m), ==, "/devices/0");
                done(f, m, 0);
                assert_answer(f, 12, f->last_id, false);
                assert_empty(f);
        }
        assert_purged(f);
}

/* The result is one, whoever is there to hear it. */
static void test_live_failure_kept(Fixture *f, gconstpointer data) {
        uint32_t id;

        done(f, live_alone(f), -ENODEV);
        assert_empty(f);

        f->now += 3 * SEC - 1;
        id = add_for(f, 11, "m k=x");
        assert_attempt(f, "k", -ENODEV);
        assert_answer(f, 11, id, false);
        assert_empty(f);

        f->now += 1;
        add(f, MODULE_CLASS_OTHER, "m k=x");
        assert_attempt(f, "m", 0);
        assert_attempt(f, "k", 0);
        assert_purged(f);
}

/* There is no second try then, and nothing to tell. */
static void test_live_died_alone(Fixture *f, gconstpointer data) {
        ModuleStep *m, *x;
        uint32_t id;

        m = live_alone(f);
        g_assert_false(module_queue_died(f->q, m, f->now));
        assert_empty(f);

        /* Who has not got there yet is served. */
        m = live_alone(f);
        id = add_for(f, 12, "x m=x");
        x = assert_next(f, "x");
        g_assert_false(module_queue_died(f->q, m, f->now));
        done(f, x, 0);
        assert_answer(f, 12, id, false);
        assert_empty(f);

        /* It was no failure. */
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", 0);
        assert_purged(f);
}

/* For who asked for the module itself it is tried once more, and that attempt is like others. */
static void test_live_died(Fixture *f, gconstpointer data) {
        ModuleStep *m;
        uint32_t a, b;

        add(f, MODULE_CLASS_OTHER, "m a=y");
        a = add_for(f, 11, "m=x");
        m = assert_next(f, "m");
        module_queue_live(f->q, m);
        assert_attempt(f, "a", 0);
        g_assert_true(module_queue_died(f->q, m, f->now));
        g_assert_cmpuint(module_queue_n_loading(f->q), ==, 0);
        g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 1);

        b = add_for(f, 12, "m b=y");
        m = assert_next(f, "m");
        assert_none_next(f);
        g_assert_cmpstr(module_step_alias(m), ==, "x");
        g_assert_false(module_queue_died(f->q, m, f->now));
        assert_answer(f, 11, a, true);
        assert_attempt(f, "b", -ENODEV);
        assert_answer(f, 12, b, true);

        /* And it has failed. */
        a = add_for(f, 11, "m=x");
        assert_answer(f, 11, a, true);
        assert_empty(f);
        assert_purged(f);
}

/* What is live need not be loaded by anybody. */
static void test_live_died_twice(Fixture *f, gconstpointer data) {
        for (unsigned i = 0; i < 2; i++) {
                ModuleStep *m;
                uint32_t id;

                id = add_for(f, 11, "m=x");
                m = assert_next(f, "m");
                if (i == 0)
                        module_queue_live(f->q, m);
                g_assert_true(module_queue_died(f->q, m, f->now));
                assert_no_answer(f);
                m = assert_next(f, "m");
                module_queue_live(f->q, m);
                g_assert_false(module_queue_died(f->q, m, f->now));
                assert_answer(f, 11, id, false);
                assert_empty(f);
        }
        assert_purged(f);
}

static void test_live_put_back(Fixture *f, gconstpointer data) {
        ModuleStep *m, *x;
        uint32_t id;

        id = add_for(f, 11, "m=x");
        m = assert_next(f, "m");
        module_queue_live(f->q, m);
        module_queue_put_back(f->q, m);
        assert_no_answer(f);
        g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 1);
        add(f, MODULE_CLASS_OTHER, "m n=y");
        m = assert_next(f, "m");
        assert_none_next(f);
        done(f, m, 0);
        assert_answer(f, 11, id, false);
        assert_attempt(f, "n", 0);
        assert_empty(f);

        /* Nobody stands there. */
        m = live_alone(f);
        id = add_for(f, 11, "x m=x");
        x = assert_next(f, "x");
        module_queue_put_back(f->q, m);
        g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 0);
        done(f, x, 0);
        assert_answer(f, 11, id, false);
        assert_empty(f);
        assert_purged(f);
}

/* It is counted no more, however it ended: two loaders are two. */
static void test_live_ended(Fixture *f, gconstpointer data) {
        for (unsigned i = 0; i < 5; i++) {
                ModuleStep *m, *a, *b;

                add_for(f, 11, "m=x");
                m = assert_next(f, "m");
                module_queue_live(f->q, m);
                switch (i) {
                case 0:
                        done(f, m, 0);
                        break;
                case 1:
                        g_assert_true(module_queue_died(f->q, m, f->now));
                        assert_attempt(f, "m", 0);
                        break;
                case 2:
                        g_assert_true(module_queue_died(f->q, m, f->now));
                        m = assert_next(f, "m");
                        module_queue_live(f->q, m);
                        g_assert_false(module_queue_died(f->q, m, f->now));
                        break;
                case 3:
                        module_queue_put_back(f->q, m);
                        assert_attempt(f, "m", 0);
                        break;
                default:
                        done(f, m, 0);
                        module_queue_forget_waiter(f->q, 11);
                        g_assert_false(module_queue_died(f->q, live_alone(f), f->now));
                }
                module_queue_forget_waiter(f->q, 11);

                add(f, MODULE_CLASS_OTHER, "a=x");
                add(f, MODULE_CLASS_OTHER, "b=x");
                add(f, MODULE_CLASS_OTHER, "c=x");
                a = assert_next(f, "a");
                b = assert_next(f, "b");
                assert_none_next(f);
                done(f, a, 0);
                done(f, b, 0);
                assert_attempt(f, "c", 0);
                assert_empty(f);
        }
}

/* The oldest that stays is then the one that came first, though he got there last. */
static void test_live_oldest(Fixture *f, gconstpointer data) {
        ModuleStep *m, *x;

        g_assert_cmpint(try_add(f, MODULE_CLASS_OTHER, 0, 1, "m a=x"), ==, 0);
        g_assert_cmpint(try_add(f, MODULE_CLASS_OTHER, 11, 2, "x m=old"), ==, 0);
        f->now += SEC;
        g_assert_cmpint(try_add(f, MODULE_CLASS_OTHER, 0, 3, "b=x"), ==, 0);
        f->now += SEC;
        g_assert_cmpint(try_add(f, MODULE_CLASS_OTHER, 11, 4, "m=new"), ==, 0);
        m = assert_next(f, "m");
        x = assert_next(f, "x");
        done(f, x, 0);
        g_assert_cmpuint(module_step_seqnum(m), ==, 1);

        module_queue_live(f->q, m);
        g_assert_cmpuint(module_step_seqnum(m), ==, 2);
        g_assert_cmpstr(module_step_device(m), ==, "/devices/2");
        g_assert_cmpstr(module_step_alias(m), ==, "old");

        /* His place is what it waits in, if it must be tried again. */
        g_assert_true(module_queue_died(f->q, m, f->now));
        assert_next(f, "a");
        g_assert_cmpstr(module_step_alias(assert_next(f, "m")), ==, "old");
        assert_next(f, "b");
}

/* It was loaded: what has failed without it is tried again. */
static void test_live_voids_failures(Fixture *f, gconstpointer data) {
        ModuleStep *m;

        add(f, MODULE_CLASS_OTHER, "m n=x");
        m = assert_next(f, "m");
        add(f, MODULE_CLASS_OTHER, "n=x");
        assert_attempt(f, "n", -ENOENT);
        add(f, MODULE_CLASS_OTHER, "m n=x");
        module_queue_live(f->q, m);
        assert_attempt(f, "n", -ENOENT);

        /* But not by its being live all the time. */
        module_queue_live(f->q, m);
        add(f, MODULE_CLASS_OTHER, "m n=x");
        assert_none_next(f);
        g_assert_false(module_queue_died(f->q, m, f->now));
        add(f, MODULE_CLASS_OTHER, "n=x");
        assert_empty(f);
}

/* An earlier attempt that had no result tells nobody any more to load by himself. */
static void test_live_after_lost(Fixture *f, gconstpointer data) {
        ModuleStep *m, *x;
        uint32_t a, b, c;

        a = add_for(f, 11, "x m=x");
        x = assert_next(f, "x");
        add(f, MODULE_CLASS_OTHER, "m=x");
        g_assert_true(module_queue_died(f->q, assert_next(f, "m"), f->now));
        g_assert_false(module_queue_died(f->q, assert_next(f, "m"), f->now));
        f->now += 3 * SEC;

        b = add_for(f, 12, "m y=x");
        m = assert_next(f, "m");
        module_queue_live(f->q, m);
        c = add_for(f, 13, "m y=x");
        assert_attempt(f, "y", 0);
        assert_answer(f, 12, b, false);
        assert_answer(f, 13, c, false);

        /* Nor him who was served by that one. */
        done(f, x, 0);
        assert_answer(f, 11, a, false);
        done(f, m, 0);
        assert_empty(f);
}

/* Rule 4: the last step is always libkmod's own */

static void test_steps_one_by_one(Fixture *f, gconstpointer data) {
        uint32_t id;

        id = add_for(f, 11, "a b c=x d=x e=x");
        for (char name[] = "a"; *name <= 'e'; (*name)++) {
                ModuleStep *step = assert_next(f, name);

                assert_none_next(f);
                assert_no_answer(f);
                done(f, step, 0);
        }
        assert_answer(f, 11, id, false);
        assert_empty(f);
}

static void test_steps_go_on_after_failure(Fixture *f, gconstpointer data) {
        uint32_t id;

        id = add_for(f, 11, "a=x b=x c=x");
        assert_attempt(f, "a", -ENOENT);
        assert_attempt(f, "b", -ENODEV);
        assert_no_answer(f);
        assert_attempt(f, "c", 0);
        assert_answer(f, 11, id, false);
        assert_empty(f);
}

/* libkmod stops at a dependency that fails, but not at a soft one. Whichever it is, it is for libkmod to say. */
static void test_steps_failed_preload(Fixture *f, gconstpointer data) {
        uint32_t id;

        id = add_for(f, 11, "a b c m=x d e n=y");
        assert_attempt(f, "a", 0);
        assert_attempt(f, "b", -EINVAL);
        assert_attempt(f, "m", -EINVAL);
        assert_attempt(f, "d", 0);
        assert_attempt(f, "e", 0);
        assert_no_answer(f);
        assert_attempt(f, "n", 0);
        assert_answer(f, 11, id, false);

        /* The same of a failure that is kept, and of one that somebody else has met. */
        add(f, MODULE_CLASS_OTHER, "b=z");
        assert_attempt(f, "b", -EINVAL);
        add(f, MODULE_CLASS_OTHER, "b c m=x");
        assert_attempt(f, "m", 0);
        add(f, MODULE_CLASS_BUS, "b c m=x");
        add(f, MODULE_CLASS_OTHER, "d b c n=x");
        assert_attempt(f, "b", -EINVAL);
        assert_attempt(f, "m", 0);
        assert_attempt(f, "d", -ENODEV);
        assert_attempt(f, "n", 0);
        assert_purged(f);
}

/* An error that says nothing about the module does not answer who asks next. */
static void test_failure_transient(Fixture *f, gconstpointer data) {
        const int errors[] = { -ENOMEM, -EINTR, -EAGAIN };

        for (size_t i = 0; i < G_N_ELEMENTS(errors); i++) {
                add(f, MODULE_CLASS_OTHER, "m=x");
                assert_attempt(f, "m", errors[i]);
        }

        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", -ENODEV);
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_purged(f);
}

static void test_steps_same_name(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_OTHER, "a m=x a m=y");
        assert_attempt(f, "a", 0);
        assert_attempt(f, "m", 0);
        assert_empty(f);
}

static void test_steps_name_is_opaque(Fixture *f, gconstpointer data) {
        ModuleStep *a, *b;

        add(f, MODULE_CLASS_OTHER, "snd-pcm=\xff\"%s");
        add(f, MODULE_CLASS_OTHER, "snd_pcm=y");
        a = assert_next(f, "snd-pcm");
        b = assert_next(f, "snd_pcm");
        g_assert_cmpstr(module_step_alias(a), ==, "\xff\"%s");
        g_assert_cmpstr(module_step_alias(b), ==, "y");
}

static void test_kind(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_OTHER, "m n=first");
        add(f, MODULE_CLASS_OTHER, "m=second");
        add(f, MODULE_CLASS_OTHER, "m=third");
        add(f, MODULE_CLASS_OTHER, "a b=second c=second d=third");
        g_assert_cmpstr(module_step_alias(assert_next(f, "m")), ==, "second");

        for (char name[] = "a"; *name <= 'd'; (*name)++) {
                const char *alias[] = { NULL, "second", "second", "third" };
                ModuleStep *step = assert_next(f, name);

                g_assert_cmpstr(module_step_alias(step), ==, alias[*name - 'a']);
                done(f, step, 0);
        }
}

/* Whoever joins while it is loading changes nothing, but counts if it is started again. */
static void test_kind_is_fixed(Fixture *f, gconstpointer data) {
        ModuleStep *m;

        add(f, MODULE_CLASS_OTHER, "m n=x");
        m = assert_next(f, "m");
        add(f, MODULE_CLASS_OTHER, "m=late");
        g_assert_cmpstr(module_step_alias(m), ==, NULL);

        module_queue_put_back(f->q, m);
        m = assert_next(f, "m");
        g_assert_cmpstr(module_step_alias(m), ==, "late");
        g_assert_true(module_queue_died(f->q, m, f->now));
        m = assert_next(f, "m");
        g_assert_cmpstr(module_step_alias(m), ==, "late");
        done(f, m, 0);

        /* And it is not kept for the next attempt. */
        add(f, MODULE_CLASS_OTHER, "m o=x");
        assert_next(f, "n");
        g_assert_cmpstr(module_step_alias(assert_next(f, "m")), ==, NULL);
}

/* Rule 5: order */

static void test_order_classes(Fixture *f, gconstpointer data) {
        for (ModuleClass class = _MODULE_CLASS_MAX; class-- > 0;) {
                char list[] = { 'a' + class, '=', 'x', '\0' };

                add(f, class, list);
                f->now += SEC;
        }

        for (ModuleClass class = 0; class < _MODULE_CLASS_MAX; class++) {
                char name[] = { 'a' + class, '\0' };

                g_assert_cmpint(module_step_class(assert_next(f, name)), ==, class);
        }
        assert_none_next(f);
}

static void test_order_first_come(Fixture *f, gconstpointer data) {
        const char *names = "iyxjabzmlkc";

        /* With the clock and without: some are asked in the same microsecond. */
        for (const char *p = names; *p; p++) {
                char list[] = { *p, '=', 'x', '\0' };

                add(f, MODULE_CLASS_OTHER, list);
                f->now += (p - names) % 3;
        }
        add(f, MODULE_CLASS_OTHER, "z=x");

        for (const char *p = names; *p; p++)
                assert_next(f, ((char[]) { *p, '\0' }));
}

static void test_order_inherit_standing(Fixture *f, gconstpointer data) {
        ModuleStep *m;

        add(f, MODULE_CLASS_OTHER, "n=x");
        add(f, MODULE_CLASS_IDLE, "m=x");
        add(f, MODULE_CLASS_STORAGE, "m=x");
        m = assert_next(f, "m");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_STORAGE);
}

static void test_order_inherit_ahead(Fixture *f, gconstpointer data) {
        ModuleStep *m;

        add(f, MODULE_CLASS_IDLE, "m=x");
        add(f, MODULE_CLASS_OTHER, "n=x");
        add(f, MODULE_CLASS_STORAGE, "a b m=x");
        m = assert_next(f, "m");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_STORAGE);
        assert_next(f, "a");
        assert_next(f, "n");
}

/* A step that nobody had got to when it became important. */
static void test_order_inherit_before_waiting(Fixture *f, gconstpointer data) {
        ModuleStep *a;

        add(f, MODULE_CLASS_STORAGE, "a m=x");
        a = assert_next(f, "a");
        add(f, MODULE_CLASS_OTHER, "n=x");
        add(f, MODULE_CLASS_IDLE, "m=x");
        g_assert_cmpint(module_step_class(assert_next(f, "m")), ==, MODULE_CLASS_STORAGE);
        done(f, a, 0);
}

static void test_order_inherit_loading(Fixture *f, gconstpointer data) {
        ModuleStep *m;

        add(f, MODULE_CLASS_IDLE, "m=x");
        m = assert_next(f, "m");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_IDLE);
        add(f, MODULE_CLASS_NETWORK, "m=x");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_NETWORK);
        add(f, MODULE_CLASS_STORAGE, "a m=x");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_STORAGE);
        add(f, MODULE_CLASS_SOUND, "m=x");
        g_assert_cmpint(module_step_class(m), ==, MODULE_CLASS_STORAGE);
}

static void test_order_class_ends_with_attempt(Fixture *f, gconstpointer data) {
        /* Also if somebody still has it in his list */
        add(f, MODULE_CLASS_BUS, "x m=x");
        assert_next(f, "x");
        add(f, MODULE_CLASS_BUS, "m=x");
        assert_attempt(f, "m", 0);
        add(f, MODULE_CLASS_IDLE, "m=x");
        g_assert_cmpint(module_step_class(assert_next(f, "m")), ==, MODULE_CLASS_IDLE);
}

/* Requests for storage come for ever, and there is one loader that is always busy. */
static void test_order_age(Fixture *f, gconstpointer data) {
        usec_t begin = f->now;

        add(f, MODULE_CLASS_IDLE, "idle=x");
        for (unsigned i = 0;; i++) {
                char list[] = { 's', 'a' + i % 2, '=', 'x', '\0' };
                ModuleStep *step;

                add(f, MODULE_CLASS_STORAGE, list);
                step = next(f);
                f->now += 100 * USEC_PER_MSEC;
                if (g_str_equal(module_step_name(step), "idle"))
                        break;
                done(f, step, 0);
                g_assert_cmpuint(f->now, <, begin + 70 * SEC);
        }

        /* Not by luck early either: as long as it is strict, it is strict. */
        g_assert_cmpuint(f->now, >, begin + (MODULE_CLASS_IDLE - MODULE_CLASS_STORAGE) * MODULE_QUEUE_AGE_USEC);
}

/* The age is that of the request: a long list does not begin anew with each step. */
static void test_order_age_of_request(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_OTHER, "a b c=x");
        f->now += SEC;
        add(f, MODULE_CLASS_OTHER, "n=x");
        f->now += SEC;
        assert_attempt(f, "a", 0);
        f->now += SEC;
        assert_attempt(f, "b", 0);
        f->now += SEC;
        assert_attempt(f, "c", 0);
        assert_attempt(f, "n", 0);
        assert_empty(f);
}

/* An old request that gets to a step brings its age with it. It is then the one that came first, for the log. */
static void test_order_joined_by_older(Fixture *f, gconstpointer data) {
        ModuleStep *step;

        g_assert_cmpint(try_add(f, MODULE_CLASS_OTHER, 0, 1, "a m n=old"), ==, 0);
        step = assert_next(f, "a");
        f->now += SEC;
        g_assert_cmpint(try_add(f, MODULE_CLASS_OTHER, 0, 2, "b=x"), ==, 0);
        f->now += SEC;
        g_assert_cmpint(try_add(f, MODULE_CLASS_OTHER, 0, 3, "m=new"), ==, 0);
        f->now += SEC;
        done(f, step, 0);

        step = assert_next(f, "m");
        g_assert_cmpuint(module_step_seqnum(step), ==, 1);
        g_assert_cmpstr(module_step_device(step), ==, "/devices/1");
        g_assert_cmpstr(module_step_alias(step), ==, "new");
        assert_next(f, "b");
}

static void test_order_log_names_first(Fixture *f, gconstpointer data) {
        ModuleStep *step;

        g_assert_cmpint(try_add(f, MODULE_CLASS_OTHER, 0, 7, "m=x"), ==, 0);
        g_assert_cmpint(try_add(f, MODULE_CLASS_BUS, 0, 8, "m=y"), ==, 0);
        step = assert_next(f, "m");
        g_assert_cmpuint(module_step_seqnum(step), ==, 7);
        g_assert_cmpstr(module_step_device(step), ==, "/devices/7");
        done(f, step, 0);

        g_assert_cmpint(module_queue_add(f->q, &(ModuleRequest) {
                .steps = &(ModuleRequestStep) { .name = "m", .alias = "x" },
                .n_steps = 1,
        }, f->now), ==, 0);
        step = assert_next(f, "m");
        g_assert_cmpuint(module_step_seqnum(step), ==, 0);
        g_assert_cmpstr(module_step_device(step), ==, NULL);
}

/* Rule 7: loaders */

static void test_loaders_reserved(Fixture *f, gconstpointer data) {
        ModuleStep *step;

        /* Of eight, two are kept. */
        for (char list[] = "a=x"; *list < 'a' + 8; (*list)++)
                add(f, MODULE_CLASS_DISPLAY, list);

        for (char name[] = "a"; *name < 'a' + 6; (*name)++)
                assert_next(f, name);
        assert_none_next(f);
        g_assert_cmpuint(module_queue_n_loading(f->q), ==, 6);
        g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 2);

        add(f, MODULE_CLASS_INPUT, "i=x");
        step = assert_next(f, "i");
        assert_none_next(f);
        done(f, step, 0);

        /* Though something of a worse class is due for its age */
        f->now += 200 * SEC;
        add(f, MODULE_CLASS_STORAGE, "s=x");
        assert_next(f, "s");
        assert_none_next(f);

        /* What becomes urgent only now */
        add(f, MODULE_CLASS_BUS, "z h=x");
        assert_next(f, "h");
        assert_none_next(f);
        g_assert_cmpuint(module_queue_n_loading(f->q), ==, 8);
}

static void test_loaders_few(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_IDLE, "a=x");
        add(f, MODULE_CLASS_IDLE, "b=x");
        add(f, MODULE_CLASS_IDLE, "c=x");
        add(f, MODULE_CLASS_BUS, "d=x");
        assert_next(f, "d");
        assert_next(f, "a");
        assert_next(f, "b");
        assert_none_next(f);
}

static void test_loaders_serial(Fixture *f, gconstpointer data) {
        ModuleStep *step;

        add(f, MODULE_CLASS_IDLE, "a=x");
        add(f, MODULE_CLASS_IDLE, "b=x");
        step = assert_next(f, "a");
        add(f, MODULE_CLASS_BUS, "c=x");
        assert_none_next(f);
        /* Even if somebody counts his loaders wrong */
        g_assert_null(module_queue_next(f->q, 5, f->now));
        done(f, step, 0);
        assert_attempt(f, "c", 0);
        assert_attempt(f, "b", 0);
        assert_empty(f);
}

static void test_loaders_none_free(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_BUS, "a=x");
        g_assert_null(module_queue_next(f->q, 0, f->now));
        g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 1);
        assert_next(f, "a");
}

/* Rule 9: nothing lost */

static void test_died_once(Fixture *f, gconstpointer data) {
        ModuleStep *m;
        uint32_t id;

        id = add_for(f, 11, "m=x");
        add(f, MODULE_CLASS_OTHER, "n=x");
        m = assert_next(f, "m");
        f->now += SEC;
        g_assert_true(module_queue_died(f->q, m, f->now));
        assert_no_answer(f);
        g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 2);
        g_assert_cmpuint(module_queue_n_loading(f->q), ==, 0);

        assert_attempt(f, "m", 0);
        assert_answer(f, 11, id, false);
        assert_next(f, "n");
}

static void test_died_twice(Fixture *f, gconstpointer data) {
        ModuleStep *x;
        uint32_t a, b, c;

        a = add_for(f, 11, "m=x");
        b = add_for(f, 12, "m n=x");
        c = add_for(f, 13, "x m=x");
        g_assert_true(module_queue_died(f->q, assert_next(f, "m"), f->now));
        g_assert_false(module_queue_died(f->q, assert_next(f, "m"), f->now));
        assert_answer(f, 11, a, true);
        assert_no_answer(f);

        /* Nobody drops the rest of the list. */
        assert_attempt(f, "n", -ENODEV);
        assert_answer(f, 12, b, true);
        x = assert_next(f, "x");

        /* It is a failure like others, and answers like others. */
        f->now += 3 * SEC - 1;
        a = add_for(f, 11, "m=x");
        assert_answer(f, 11, a, true);
        f->now += 1;
        a = add_for(f, 11, "m=x");
        assert_attempt(f, "m", -ENODEV);
        assert_answer(f, 11, a, false);

        /* He was served by the last attempt that he waited for: it did have a result. */
        done(f, x, 0);
        assert_answer(f, 13, c, false);
        assert_empty(f);
}

static void test_died_passed(Fixture *f, gconstpointer data) {
        ModuleStep *x;
        uint32_t id;

        id = add_for(f, 11, "x m=x");
        x = assert_next(f, "x");
        add(f, MODULE_CLASS_OTHER, "m=x");
        g_assert_true(module_queue_died(f->q, assert_next(f, "m"), f->now));
        g_assert_false(module_queue_died(f->q, assert_next(f, "m"), f->now));
        done(f, x, 0);
        assert_answer(f, 11, id, true);
        assert_empty(f);
}

/* Deaths are counted for each attempt. */
static void test_died_in_new_attempt(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_OTHER, "x m=x");
        assert_next(f, "x");
        for (unsigned i = 0; i < 3; i++) {
                uint32_t id = add_for(f, 11, "m=x");

                g_assert_true(module_queue_died(f->q, assert_next(f, "m"), f->now));
                assert_attempt(f, "m", 0);
                assert_answer(f, 11, id, false);
        }
}

static void test_put_back(Fixture *f, gconstpointer data) {
        ModuleStep *m;
        uint32_t id;

        id = add_for(f, 11, "m=x");
        f->now += SEC;
        add(f, MODULE_CLASS_OTHER, "n=x");
        for (unsigned i = 0; i < 5; i++) {
                m = assert_next(f, "m");
                g_assert_cmpuint(module_queue_n_loading(f->q), ==, 1);
                f->now += SEC;
                module_queue_put_back(f->q, m);
                g_assert_cmpuint(module_queue_n_loading(f->q), ==, 0);
                g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 2);
                assert_no_answer(f);
        }

        /* None of this was a death. */
        g_assert_true(module_queue_died(f->q, assert_next(f, "m"), f->now));
        assert_attempt(f, "m", 0);
        assert_answer(f, 11, id, false);
}

static void test_waiter_nobody(Fixture *f, gconstpointer data) {
        add(f, MODULE_CLASS_OTHER, "m=x");
        assert_attempt(f, "m", 0);
        assert_empty(f);
}

static void test_waiter_order_of_answers(Fixture *f, gconstpointer data) {
        ModuleStep *a, *b;
        uint32_t first, second, third;

        first = add_for(f, 11, "a=x");
        second = add_for(f, 11, "b=x");
        third = add_for(f, 12, "b=x");
        a = assert_next(f, "a");
        b = assert_next(f, "b");
        done(f, b, 0);
        done(f, a, 0);
        assert_answer(f, 11, second, false);
        assert_answer(f, 12, third, false);
        assert_answer(f, 11, first, false);
        assert_empty(f);
}

static void test_waiter_forget(Fixture *f, gconstpointer data) {
        uint32_t other;

        add_for(f, 11, "a=x");
        add_for(f, 11, "b c=x");
        other = add_for(f, 12, "a=x");
        add_for(f, 11, "a=x");
        module_queue_forget_waiter(f->q, 11);
        module_queue_forget_waiter(f->q, 11);
        module_queue_forget_waiter(f->q, 4711);

        /* What he asked for is loaded nevertheless. */
        assert_attempt(f, "a", 0);
        assert_attempt(f, "b", 0);
        assert_attempt(f, "c", 0);
        assert_answer(f, 12, other, false);
        assert_empty(f);
}

/* His answers may be there already. */
static void test_waiter_forget_answers(Fixture *f, gconstpointer data) {
        uint32_t first, last;

        first = add_for(f, 12, "a=x");
        add_for(f, 11, "a=x");
        add_for(f, 11, "a=x");
        last = add_for(f, 12, "a=x");
        add_for(f, 11, "a=x");
        assert_attempt(f, "a", 0);
        module_queue_forget_waiter(f->q, 11);
        assert_answer(f, 12, first, false);
        assert_answer(f, 12, last, false);
        assert_empty(f);

        /* A later process with this pid is another one. */
        first = add_for(f, 11, "a=x");
        assert_attempt(f, "a", 0);
        assert_answer(f, 11, first, false);
        assert_empty(f);
}

/* Where there are no loaders: what was asked for stays, whoever waits for it loads by himself. */
static void test_pop_waiter(Fixture *f, gconstpointer data) {
        ModuleAnswer answer;
        unsigned waiters = 0;
        ModuleStep *m;

        g_assert_false(module_queue_pop_waiter(f->q, &answer));

        add_for(f, 11, "a m=x");
        add_for(f, 12, "m=x");
        add(f, MODULE_CLASS_OTHER, "n=x");
        m = assert_next(f, "a");
        module_queue_put_back(f->q, m);
        while (module_queue_pop_waiter(f->q, &answer)) {
                g_assert_true(answer.load_yourself);
                waiters += answer.waiter;
        }
        g_assert_cmpuint(waiters, ==, 11 + 12);

        assert_attempt(f, "a", 0);
        assert_attempt(f, "m", 0);
        assert_attempt(f, "n", 0);
        assert_no_answer(f);
        assert_empty(f);
}

static void test_pop_waiter_of_load(Fixture *f, gconstpointer data) {
        ModuleAnswer answer;
        ModuleStep *m;
        uint32_t a;

        a = add_for(f, 11, "m=x n=x");
        m = assert_next(f, "m");
        (void) add_for(f, 12, "n=x");

        /* It has two of them. */
        (void) add_for(f, 11, "o=x");

        g_assert_true(module_queue_pop_waiter(f->q, &answer));
        g_assert_true(module_queue_pop_waiter(f->q, &answer));
        g_assert_false(module_queue_pop_waiter(f->q, &answer));
        assert_no_answer(f);

        module_queue_done(f->q, m, 0, f->now);
        g_assert_true(module_queue_pop_waiter(f->q, &answer));
        g_assert_cmpuint(answer.id, ==, a);

        assert_attempt(f, "n", 0);
        assert_attempt(f, "o", 0);
        assert_no_answer(f);
        assert_empty(f);
}

static void collect_name(const char *name, void *userdata) {
        GString *names = userdata;

        g_string_append_printf(names, "%s%s", names->len > 0 ? " " : "", name);
}

#define assert_give_up(f, expected)                                                     \
        ({                                                                              \
                g_autoptr(GString) _names = g_string_new(NULL);                         \
                size_t _n = module_queue_give_up((f)->q, collect_name, _names);         \
                g_auto(GStrv) _words = g_strsplit(_names->str, " ", 0);                 \
                g_assert_cmpstr(_names->str, ==, expected);                             \
                g_assert_cmpuint(_n, ==, g_strv_length(_words));                        \
        })

static void test_give_up_waiting(Fixture *f, gconstpointer data) {
        uint32_t a, b;

        a = add_for(f, 11, "a c=x b=x");
        b = add_for(f, 12, "b=x");
        add(f, MODULE_CLASS_BUS, "z=x");
        assert_give_up(f, "z a c b");
        assert_answer(f, 11, a, true);
        assert_answer(f, 12, b, true);
        assert_empty(f);

        assert_give_up(f, "");
}

static void test_give_up_loading(Fixture *f, gconstpointer data) {
        ModuleStep *m, *n;
        uint32_t a, b, c, d, e;

        a = add_for(f, 11, "m=x");
        b = add_for(f, 12, "m a b=x");
        c = add_for(f, 13, "m n=x");
        d = add_for(f, 14, "n=x");
        m = assert_next(f, "m");
        n = assert_next(f, "n");
        e = add_for(f, 15, "w n=x");
        assert_give_up(f, "w a b");

        /* Nobody is left who could tell him later. */
        assert_answer(f, 15, e, true);
        assert_no_answer(f);
        assert_none_next(f);

        done(f, m, 0);
        assert_answer(f, 11, a, false);
        assert_answer(f, 12, b, true);
        assert_no_answer(f);
        assert_none_next(f);

        done(f, n, 0);
        assert_answer(f, 13, c, false);
        assert_answer(f, 14, d, false);
        assert_empty(f);
}

/* There is no second try after that. */
static void test_give_up_and_die(Fixture *f, gconstpointer data) {
        ModuleStep *m, *n;
        uint32_t a, b;

        a = add_for(f, 11, "m=x");
        b = add_for(f, 12, "n=x");
        m = assert_next(f, "m");
        n = assert_next(f, "n");
        assert_give_up(f, "");
        g_assert_false(module_queue_died(f->q, m, f->now));
        assert_answer(f, 11, a, true);
        module_queue_put_back(f->q, n);
        assert_answer(f, 12, b, true);
        assert_empty(f);

        /* Who asks now is not one of those given up. */
        module_queue_forget_failures(f->q);
        add(f, MODULE_CLASS_OTHER, "m=x");
        g_assert_true(module_queue_died(f->q, assert_next(f, "m"), f->now));
        assert_attempt(f, "m", 0);
        assert_empty(f);
}

/* What is live is given up as little as what is not, and what comes after it as much. */
static void test_give_up_live(Fixture *f, gconstpointer data) {
        ModuleStep *m, *n, *o;
        uint32_t a, b, c, d, e;

        a = add_for(f, 11, "m=x");
        b = add_for(f, 12, "m u=x");
        c = add_for(f, 13, "n v=x");
        d = add_for(f, 14, "n=x");
        e = add_for(f, 15, "o=x n w=x m");
        m = assert_next(f, "m");
        n = assert_next(f, "n");
        o = assert_next(f, "o");
        module_queue_live(f->q, m);
        assert_give_up(f, "u w v");
        assert_answer(f, 12, b, true);
        assert_no_answer(f);
        assert_none_next(f);

        /* Nothing starts for who goes on now. */
        module_queue_live(f->q, n);
        assert_answer(f, 13, c, true);
        done(f, o, 0);
        assert_answer(f, 15, e, true);
        assert_no_answer(f);
        assert_none_next(f);
        g_assert_false(module_queue_is_empty(f->q));

        /* There is no second try, nor need of one. */
        g_assert_false(module_queue_died(f->q, m, f->now));
        assert_answer(f, 11, a, false);
        module_queue_put_back(f->q, n);
        assert_answer(f, 14, d, false);
        assert_empty(f);

        /* Who comes after that finds it gone on. */
        m = live_alone(f);
        assert_give_up(f, "");
        a = add_for(f, 11, "m x=x");
        assert_attempt(f, "x", 0);
        assert_answer(f, 11, a, false);
        done(f, m, 0);
        assert_empty(f);
        assert_purged(f);
}

/* Bad requests change nothing */

static void test_bad(Fixture *f, gconstpointer data) {
        const ModuleRequestStep good = { .name = "m", .alias = "x" };
        ModuleRequestStep many[MODULE_REQUEST_STEPS_MAX + 1];
        const struct {
                int error;
                ModuleRequest request;
        } bad[] = {
                { -EINVAL, { .steps = &good, .n_steps = 0 } },
                { -EINVAL, { .steps = NULL, .n_steps = 0 } },
                { -EINVAL, { .steps = (ModuleRequestStep[]) { good, {} }, .n_steps = 2 } },
                { -EINVAL, { .steps = (ModuleRequestStep[]) { good, { .name = "" } }, .n_steps = 2 } },
                { -EINVAL, { .steps = (ModuleRequestStep[]) { good, { .name = "m", .alias = "" } }, .n_steps = 2 } },
                { -EINVAL, { .steps = (ModuleRequestStep[]) { { .name = "m" }, { .name = "n" } }, .n_steps = 2 } },
                { -EINVAL, { .steps = &good, .n_steps = 1, .class = _MODULE_CLASS_INVALID } },
                { -EINVAL, { .steps = &good, .n_steps = 1, .class = _MODULE_CLASS_MAX } },
                { -EINVAL, { .steps = &good, .n_steps = 1, .waiter = -1 } },
                { -E2BIG,  { .steps = many, .n_steps = MODULE_REQUEST_STEPS_MAX + 1 } },
                { -E2BIG,  { .steps = many, .n_steps = SIZE_MAX } },
        };
        unsigned blocks = n_blocks;

        for (size_t i = 0; i < G_N_ELEMENTS(many); i++)
                many[i] = good;

        for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
                g_assert_cmpint(module_queue_add(f->q, &bad[i].request, f->now), ==, bad[i].error);
                g_assert_cmpuint(n_blocks, ==, blocks);
                g_assert_cmpuint(module_queue_n_waiting(f->q), ==, 0);
                assert_empty(f);
        }

        g_assert_cmpint(module_queue_new(&f->q, 0), ==, -EINVAL);

        /* One less is good. */
        g_assert_cmpint(module_queue_add(f->q, &(ModuleRequest) {
                .steps = many,
                .n_steps = MODULE_REQUEST_STEPS_MAX,
        }, f->now), ==, 0);
        assert_attempt(f, "m", 0);
        assert_empty(f);
}

/* Memory */

static void test_memory_new(void) {
        for (unsigned i = 1;; i++) {
                unsigned blocks = n_blocks;
                ModuleQueue *q = NULL;
                int r;

                alloc_countdown = i;
                r = module_queue_new(&q, 4);
                alloc_countdown = 0;
                if (r == 0) {
                        module_queue_free(q);
                        g_assert_cmpuint(i, >, 3);
                        break;
                }

                alloc_fails = false;
                g_assert_cmpint(r, ==, -ENOMEM);
                g_assert_null(q);
                /* See above. */
                g_assert_cmpuint(n_blocks, <=, blocks + 1);
        }
}

/* Each allocation of module_queue_add() fails once: nothing has happened then. */
static void test_memory_add(Fixture *f, gconstpointer data) {
        unsigned n_failures = 0;

        for (unsigned round = 0; round < 50; round++) {
                g_autofree char *list = g_strdup_printf("a b%u c%u=x d=x", round, round);

                for (unsigned i = 1;; i++) {
                        unsigned waiting = module_queue_n_waiting(f->q);
                        int r;

                        alloc_countdown = i;
                        r = try_add(f, MODULE_CLASS_OTHER, 100 + (pid_t) round, 0, list);
                        alloc_countdown = 0;
                        if (r == 0)
                                break;

                        alloc_fails = false;
                        g_assert_cmpint(r, ==, -ENOMEM);
                        g_assert_cmpuint(module_queue_n_waiting(f->q), ==, waiting);
                        assert_no_answer(f);
                        n_failures++;
                }
        }
        g_assert_cmpuint(n_failures, >, 50);

        /* And nothing else needs memory. */
        alloc_fails = true;
        for (ModuleStep *step; (step = next(f));)
                done(f, step, 0);
        alloc_fails = false;

        for (unsigned i = 0; i < 50; i++)
                g_assert_true(module_queue_pop_answer(f->q, &(ModuleAnswer) {}));
        assert_purged(f);
}

static void test_memory_purged(Fixture *f, gconstpointer data) {
        for (unsigned round = 0; round < 20; round++) {
                for (unsigned i = 0; i < 500; i++) {
                        g_autofree char *list = g_strdup_printf("a%u b%u-%u=x", i % 91, round, i);

                        add(f, MODULE_CLASS_OTHER, list);
                }
                for (ModuleStep *step; (step = next(f));)
                        done(f, step, round % 2 == 0 ? -ENODEV : 0);
                assert_purged(f);
        }
}

static void test_memory_free(void) {
        Fixture f = {};
        unsigned blocks;

        fixture_set_up(&f, NULL);
        fixture_tear_down(&f, NULL);
        blocks = n_blocks;

        /* Free it with something of everything in it. */
        fixture_set_up(&f, NULL);
        live_alone(&f);
        add(&f, MODULE_CLASS_OTHER, "live=x");
        module_queue_live(f.q, assert_next(&f, "live"));
        add(&f, MODULE_CLASS_OTHER, "failed=x");
        assert_attempt(&f, "failed", -ENODEV);
        add_for(&f, 11, "failed=x");
        add_for(&f, 12, "loading more failed=x");
        assert_next(&f, "loading");
        add_for(&f, 13, "waiting failed=x");
        add_for(&f, 13, "loading more=x");
        fixture_tear_down(&f, NULL);
        g_assert_cmpuint(n_blocks, ==, blocks);

        g_assert_null(module_queue_free(NULL));
}

/* 100,000 requests that are served at once, on a stack with room for a hundred calls: nothing calls itself. */
static void *many_at_once(void *userdata) {
        Fixture *f = userdata;
        ModuleStep *step;

        for (unsigned i = 0; i < 100000; i++)
                add(f, MODULE_CLASS_OTHER, "a b=x");
        done(f, assert_next(f, "a"), 0);
        step = assert_next(f, "b");
        assert_none_next(f);
        done(f, step, 0);
        assert_empty(f);
        return NULL;
}

static void test_many(Fixture *f, gconstpointer data) {
        pthread_attr_t attr;
        pthread_t thread;

        g_assert_cmpint(pthread_attr_init(&attr), ==, 0);
        g_assert_cmpint(pthread_attr_setstacksize(&attr, 256 * 1024), ==, 0);
        g_assert_cmpint(pthread_create(&thread, &attr, many_at_once, f), ==, 0);
        g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
        pthread_attr_destroy(&attr);
}

/* Random requests, results, deaths and lack of memory, compared at each step with the model as it is written down:
 * no list but that of all requests, no order but by looking at all of them. */

#define MODEL_MODULES 10
#define MODEL_STEPS 6

typedef struct ModelRequest {
        unsigned order;                         /* of being added */
        usec_t asked;
        ModuleClass class;
        pid_t waiter;
        uint32_t id;
        bool load_yourself, finished;
        unsigned n_steps, current;
        unsigned modules[MODEL_STEPS];
        bool asked_for[MODEL_STEPS];
        unsigned place;                         /* order of those that stand at a step, see model_go_on() */
} ModelRequest;

typedef struct ModelModule {
        char name[8];
        ModuleStep *loading;
        const ModelRequest *starter;            /* the first that asked for it when the attempt began */
        unsigned end;                           /* in the same order as requests */
        unsigned deaths;
        bool live, lost, bad, failed, given_up; /* bad: how the last attempt ended; failed: that answers */
        usec_t failed_at;
        bool preload, failed_preload;           /* that is no attempt for who asks for the module itself */
} ModelModule;

typedef struct Model {
        Fixture f;
        unsigned order;
        ModelModule modules[MODEL_MODULES];
        GPtrArray *requests;                    /* unfinished */
        GQueue answers;                         /* ModelRequest */
        unsigned n_attempts, n_added;
        GRand *rand;
} Model;

/* 0 … n − 1 */
static unsigned random_in(Model *m, unsigned n) {
        return g_rand_int_range(m->rand, 0, n);
}

static char *model_alias(const ModelRequest *r) {
        return g_strdup_printf("alias-%u", r->order / 3);
}

static bool model_failure_answers(Model *m, ModelModule *module, bool asked_for) {
        return module->failed && m->f.now < module->failed_at + 3 * SEC && !(module->failed_preload && asked_for);
}

static bool model_request_needs(Model *m, const ModelRequest *r, const ModelModule *module) {
        if (module->end > r->order)
                return false;
        for (unsigned i = r->current; i < r->n_steps; i++)
                if (m->modules + r->modules[i] == module)
                        return true;
        return false;
}

static bool model_request_stands_at(Model *m, const ModelRequest *r, const ModelModule *module) {
        return m->modules + r->modules[r->current] == module;
}

static void model_request_finish(Model *m, ModelRequest *r) {
        r->finished = true;
        if (r->waiter > 0)
                g_queue_push_tail(&m->answers, r);
}

static bool model_may_pass(Model *m, const ModelRequest *r, ModelModule *module) {
        return module->end > r->order || model_failure_answers(m, module, r->asked_for[r->current]) ||
                (module->live && (!r->asked_for[r->current] || r->waiter == 0));
}

static void model_request_go_on(Model *m, ModelRequest *r) {
        bool skip_preloads = false;

        for (; r->current < r->n_steps; r->current++) {
                ModelModule *module = m->modules + r->modules[r->current];

                if (skip_preloads && !r->asked_for[r->current])
                        continue;

                if (!model_may_pass(m, r, module)) {
                        r->place = ++m->order;
                        module->failed = false;
                        return;
                }
                r->load_yourself |= module->lost;
                skip_preloads = module->bad && !r->asked_for[r->current];
        }
        model_request_finish(m, r);
}

static int model_compare_place(gconstpointer a, gconstpointer b) {
        const ModelRequest *x = *(ModelRequest**) a, *y = *(ModelRequest**) b;

        return (x->place > y->place) - (x->place < y->place);
}

static void model_remove_finished(Model *m) {
        for (unsigned i = 0; i < m->requests->len;) {
                ModelRequest *r = g_ptr_array_index(m->requests, i);

                if (!r->finished) {
                        i++;
                        continue;
                }
                g_ptr_array_remove_index_fast(m->requests, i);
                if (r->waiter == 0)
                        g_free(r);
        }
}

/* All those that stand there go on, or stand there again: the oldest first, then the others as they came. */
static void model_go_on(Model *m, const ModelModule *module) {
        g_autoptr(GPtrArray) standing = g_ptr_array_new();

        for (unsigned i = 0; i < m->requests->len; i++) {
                ModelRequest *r = g_ptr_array_index(m->requests, i);

                if (model_request_stands_at(m, r, module))
                        g_ptr_array_add(standing, r);
        }

        g_ptr_array_sort(standing, model_compare_place);
        for (unsigned i = 1; i < standing->len; i++)
                if (((ModelRequest*) standing->pdata[i])->order < ((ModelRequest*) standing->pdata[0])->order) {
                        gpointer older = g_ptr_array_remove_index(standing, i);

                        g_ptr_array_insert(standing, 0, older);
                }
        for (unsigned i = 0; i < standing->len; i++)
                model_request_go_on(m, g_ptr_array_index(standing, i));
        model_remove_finished(m);
}

static void model_void_failures(Model *m) {
        for (unsigned i = 0; i < MODEL_MODULES; i++)
                m->modules[i].failed = false;
}

static void model_end(Model *m, ModelModule *module, int error, bool lost) {
        module->loading = NULL;
        module->end = ++m->order;
        module->lost = lost;
        module->bad = lost || error < 0;
        module->deaths = 0;
        module->live = module->given_up = false;
        if (error < 0) {
                module->failed = true;
                module->failed_at = m->f.now;
                module->failed_preload = !lost && module->preload;
        }
        model_go_on(m, module);
}

/* Everything about a module that somebody stands at; false if nobody does. */
static bool model_look(
                Model *m,
                const ModelModule *module,
                ModuleClass *ret_class,
                const ModelRequest **ret_oldest,
                const ModelRequest **ret_asker) {

        *ret_class = _MODULE_CLASS_MAX;
        *ret_oldest = *ret_asker = NULL;

        for (unsigned i = 0; i < m->requests->len; i++) {
                const ModelRequest *r = g_ptr_array_index(m->requests, i);

                if (model_request_needs(m, r, module))
                        *ret_class = MIN(*ret_class, r->class);
                if (!model_request_stands_at(m, r, module))
                        continue;
                if (!*ret_oldest || r->order < (*ret_oldest)->order)
                        *ret_oldest = r;
                if (r->asked_for[r->current] && (!*ret_asker || r->order < (*ret_asker)->order))
                        *ret_asker = r;
        }

        return *ret_oldest;
}

static ModelModule *model_best(Model *m, bool urgent_only) {
        ModelModule *best = NULL;
        const ModelRequest *best_oldest = NULL, *oldest, *asker;
        usec_t best_deadline = 0, deadline;
        ModuleClass class;

        for (ModelModule *module = m->modules; module < m->modules + MODEL_MODULES; module++) {
                if (module->loading || !model_look(m, module, &class, &oldest, &asker))
                        continue;
                if (urgent_only && class > MODULE_CLASS_INPUT)
                        continue;

                deadline = oldest->asked + class * MODULE_QUEUE_AGE_USEC;
                if (!best || deadline < best_deadline ||
                    (deadline == best_deadline && oldest->order < best_oldest->order)) {
                        best = module;
                        best_deadline = deadline;
                        best_oldest = oldest;
                }
        }

        return best;
}

static void model_add(Model *m) {
        ModelRequest *r = g_new0(ModelRequest, 1);
        g_autoptr(GString) list = g_string_new(NULL);
        g_autofree char *alias = NULL;
        unsigned itself;
        int error;

        r->asked = m->f.now;
        r->class = random_in(m, _MODULE_CLASS_MAX);
        r->waiter = random_in(m, 2) == 0 ? 1 + random_in(m, 4) : 0;
        r->n_steps = 1 + random_in(m, MODEL_STEPS);
        r->order = ++m->order;
        alias = model_alias(r);
        itself = random_in(m, 3) == 0 ? (unsigned) random_in(m, r->n_steps) : r->n_steps - 1;
        for (unsigned i = 0; i < r->n_steps; i++) {
                r->modules[i] = random_in(m, MODEL_MODULES);
                r->asked_for[i] = i == itself || random_in(m, 4) == 0;
                g_string_append_printf(list, "%s%s%s%s", i > 0 ? " " : "", m->modules[r->modules[i]].name,
                                       r->asked_for[i] ? "=" : "", r->asked_for[i] ? alias : "");
        }

        alloc_fails = false;
        alloc_countdown = random_in(m, 10) == 0 ? 1 + random_in(m, 4) : 0;
        error = try_add(&m->f, r->class, r->waiter, r->order, list->str);
        alloc_countdown = 0;
        if (error < 0) {
                g_assert_cmpint(error, ==, -ENOMEM);
                g_assert_true(alloc_fails);
                g_free(r);
                return;
        }

        r->id = r->waiter > 0 ? m->f.last_id : 0;
        g_ptr_array_add(m->requests, r);
        m->n_added++;
        model_request_go_on(m, r);
        model_remove_finished(m);
}

static void model_next(Model *m) {
        unsigned n_free = m->f.n_loaders, n_told, reserve = m->f.n_loaders / 4;
        const ModelRequest *oldest, *asker;
        ModelModule *expected = NULL;
        g_autofree char *device = NULL, *alias = NULL;
        ModuleClass class;
        ModuleStep *step;

        for (unsigned i = 0; i < MODEL_MODULES; i++)
                if (m->modules[i].loading && !m->modules[i].live)
                        n_free--;

        /* There may be fewer processes than may be at work, or more. */
        n_told = random_in(m, 3) > 0 ? m->f.n_loaders : random_in(m, m->f.n_loaders);
        n_free = MIN(n_free, n_told);
        if (n_free > 0)
                expected = model_best(m, n_free <= reserve);

        step = module_queue_next(m->f.q, n_told, m->f.now);
        g_assert_cmpstr(name_of(step), ==, expected ? expected->name : NULL);
        if (!expected)
                return;

        g_assert_true(model_look(m, expected, &class, &oldest, &asker));
        g_assert_false(model_failure_answers(m, expected, asker));
        g_assert_cmpuint(oldest->order, >, expected->end);
        expected->loading = step;
        expected->starter = asker;
        expected->preload = !asker;
        m->n_attempts++;

        alias = asker ? model_alias(asker) : NULL;
        device = g_strdup_printf("/devices/%u", oldest->order);
        g_assert_cmpstr(module_step_alias(step), ==, alias);
        g_assert_cmpstr(module_step_device(step), ==, device);
        g_assert_cmpuint(module_step_seqnum(step), ==, oldest->order);
}

/* Something happens to one that is being loaded. */
static void model_progress(Model *m) {
        ModelModule *module = NULL;
        const ModelRequest *oldest, *asker;
        g_autofree char *alias = NULL, *device = NULL;
        ModuleClass class;
        bool stands;
        int error;

        for (unsigned i = 0, first = random_in(m, MODEL_MODULES); i < MODEL_MODULES && !module; i++)
                if (m->modules[(first + i) % MODEL_MODULES].loading)
                        module = m->modules + (first + i) % MODEL_MODULES;
        if (!module)
                return;

        stands = model_look(m, module, &class, &oldest, &asker);
        if (stands) {
                device = g_strdup_printf("/devices/%u", oldest->order);
                g_assert_cmpint(module_step_class(module->loading), ==, class);
        } else
                g_assert_true(module->live);
        alias = module->starter ? model_alias(module->starter) : NULL;
        g_assert_cmpstr(module_step_name(module->loading), ==, module->name);
        g_assert_cmpstr(module_step_alias(module->loading), ==, alias);
        g_assert_cmpstr(module_step_device(module->loading), ==, device);
        g_assert_cmpuint(module_step_seqnum(module->loading), ==, stands ? oldest->order : 0);

        switch (random_in(m, 12)) {
        case 0 ... 4:
                error = (int[]) { 0, 0, 1, -ENODEV, -EINVAL }[random_in(m, 5)];
                done(&m->f, module->loading, error);
                if (error >= 0)
                        model_void_failures(m);
                else if (module->preload && asker && !module->given_up) {
                        module->loading = NULL;
                        module->live = false;
                        module->deaths = 0;
                        break;
                }
                model_end(m, module, error, false);
                break;

        case 5 ... 8:
                module_queue_live(m->f.q, module->loading);
                if (module->live)
                        break;
                module->live = true;
                module->lost = module->bad = false;
                model_void_failures(m);
                model_go_on(m, module);
                /* Who has passed is no longer named. */
                if (module->starter) {
                        (void) model_look(m, module, &class, &oldest, &asker);
                        module->starter = asker;
                }
                break;

        case 9:
                /* It brings no time: let old failures go first. */
                g_assert_null(module_queue_next(m->f.q, 0, m->f.now));
                module_queue_put_back(m->f.q, module->loading);
                if (module->given_up || !stands)
                        model_end(m, module, 0, !module->live);
                else {
                        module->loading = NULL;
                        module->live = false;
                }
                break;

        default:
                if (module_queue_died(m->f.q, module->loading, m->f.now)) {
                        g_assert_cmpuint(++module->deaths, ==, 1);
                        g_assert_false(module->given_up);
                        g_assert_true(stands);
                        module->loading = NULL;
                        module->live = false;
                } else {
                        g_assert_true(module->deaths == 1 || module->given_up || !stands);
                        model_end(m, module, module->live ? 0 : -ECONNRESET, !module->live);
                }
        }
}

static void model_forget_waiter(Model *m, pid_t waiter) {
        module_queue_forget_waiter(m->f.q, waiter);

        for (unsigned i = 0; i < m->requests->len; i++) {
                ModelRequest *r = g_ptr_array_index(m->requests, i);

                if (r->waiter == waiter)
                        r->waiter = 0;
        }

        for (GList *l = m->answers.head, *n; l; l = n) {
                ModelRequest *r = l->data;

                n = l->next;
                if (r->waiter == waiter) {
                        g_queue_delete_link(&m->answers, l);
                        g_free(r);
                }
        }
}

static void model_collect(const char *name, void *userdata) {
        g_ptr_array_add(userdata, g_strdup(name));
}

static void model_give_up(Model *m) {
        g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
        const ModelModule *best = model_best(m, false);
        unsigned n_needed = 0;
        size_t n;

        n = module_queue_give_up(m->f.q, model_collect, names);
        g_assert_cmpuint(n, ==, names->len);
        if (best)
                g_assert_cmpstr(names->pdata[0], ==, best->name);

        for (ModelModule *module = m->modules; module < m->modules + MODEL_MODULES; module++) {
                bool needed = false;

                for (unsigned i = 0; i < m->requests->len; i++)
                        if (model_request_needs(m, g_ptr_array_index(m->requests, i), module))
                                needed = true;

                if (module->loading)
                        module->given_up = true;
                else if (needed) {
                        g_assert_true(g_ptr_array_find_with_equal_func(names, module->name, g_str_equal, NULL));
                        n_needed++;
                        module->lost = module->bad = true;
                        module->deaths = 0;
                        module->end = ++m->order;
                }
        }
        g_assert_cmpuint(n, ==, n_needed);

        /* Who stands at one that is being loaded waits for that; the answers of all others are there. */
        for (unsigned i = 0; i < m->requests->len; i++) {
                ModelRequest *r = g_ptr_array_index(m->requests, i);

                if (m->modules[r->modules[r->current]].loading)
                        continue;
                r->load_yourself = true;
                model_request_finish(m, r);
        }
        model_remove_finished(m);
        g_assert_null(model_best(m, false));
}

static void model_check(Model *m, bool answers_in_order) {
        unsigned n_loading = 0, n_waiting = 0;
        const ModelRequest *oldest, *asker;
        ModuleClass class;

        for (unsigned i = 0; i < MODEL_MODULES; i++)
                if (m->modules[i].loading)
                        n_loading++;
                else if (model_look(m, m->modules + i, &class, &oldest, &asker))
                        n_waiting++;

        g_assert_cmpuint(module_queue_n_loading(m->f.q), ==, n_loading);
        g_assert_cmpuint(module_queue_n_waiting(m->f.q), ==, n_waiting);
        g_assert_cmpint(module_queue_is_empty(m->f.q), ==, m->requests->len == 0 && n_loading == 0);

        if (!answers_in_order || random_in(m, 4) == 0) {
                g_autoptr(GHashTable) left = g_hash_table_new(NULL, NULL);
                ModuleAnswer answer;

                for (GList *l = m->answers.head; l; l = l->next) {
                        ModelRequest *r = l->data;

                        g_hash_table_insert(left, GUINT_TO_POINTER(r->id), r);
                }

                while (module_queue_pop_answer(m->f.q, &answer)) {
                        ModelRequest *r = g_hash_table_lookup(left, GUINT_TO_POINTER(answer.id));

                        g_assert_nonnull(r);
                        if (answers_in_order)
                                g_assert_true(r == g_queue_peek_head(&m->answers));
                        g_assert_cmpint(answer.waiter, ==, r->waiter);
                        g_assert_cmpint(answer.load_yourself, ==, r->load_yourself);
                        g_hash_table_remove(left, GUINT_TO_POINTER(answer.id));
                        g_queue_remove(&m->answers, r);
                        g_free(r);
                }
                g_assert_true(g_queue_is_empty(&m->answers));
        }
}

static void test_random(gconstpointer seed) {
        g_autoptr(GRand) generator = g_rand_new_with_seed(GPOINTER_TO_UINT(seed));
        Model model = { .rand = generator }, *m = &model;

        fixture_set_up(&m->f, GUINT_TO_POINTER(1 + random_in(m, 12)));
        m->requests = g_ptr_array_new();
        g_queue_init(&m->answers);
        for (unsigned i = 0; i < MODEL_MODULES; i++)
                g_snprintf(m->modules[i].name, sizeof(m->modules[i].name), "m%u", i);

        for (unsigned round = 0; round < 4000; round++) {
                bool answers_in_order = true;

                /* There is no memory but for new requests. */
                alloc_fails = true;
                switch (random_in(m, 100)) {
                case 0 ... 24:
                        if (m->requests->len < 40)
                                model_add(m);
                        break;
                case 25 ... 54:
                        model_next(m);
                        break;
                case 55 ... 89:
                        model_progress(m);
                        break;
                case 90 ... 96:
                        m->f.now += (usec_t[]) { 0, 1, random_in(m, 400000), SEC, 3 * SEC, 20 * SEC }[random_in(m, 6)];
                        break;
                case 97:
                        module_queue_forget_failures(m->f.q);
                        model_void_failures(m);
                        break;
                case 98:
                        model_forget_waiter(m, 1 + random_in(m, 4));
                        break;
                default:
                        if (random_in(m, 5) == 0) {
                                model_give_up(m);
                                answers_in_order = false;
                        }
                }
                model_check(m, answers_in_order);
        }

        /* Every request ends. */
        for (unsigned i = 0; !module_queue_is_empty(m->f.q); i++) {
                g_assert_cmpuint(i, <, 100000);
                model_next(m);
                model_progress(m);
                model_check(m, true);
        }
        while (!g_queue_is_empty(&m->answers))
                model_check(m, true);
        alloc_fails = false;
        assert_purged(&m->f);

        g_test_message("%u requests, %u attempts", m->n_added, m->n_attempts);
        g_assert_cmpuint(m->n_added, >, 500);
        g_assert_cmpuint(m->n_attempts, >, 200);

        g_ptr_array_unref(m->requests);
        fixture_tear_down(&m->f, NULL);
}

#define test_with_loaders(path, function, n_loaders)                                    \
        g_test_add("/module-queue/" path, Fixture, GUINT_TO_POINTER(n_loaders),         \
                   fixture_set_up, function, fixture_tear_down)
#define test(path, function) test_with_loaders(path, function, 16)

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);

        test("share/waiting", test_share_waiting);
        test("share/loading", test_share_loading);
        test("share/result-not-kept", test_share_result_not_kept);
        test("share/ahead-waiting", test_share_ahead_waiting);
        test("share/ahead-loading", test_share_ahead_loading);
        test("share/after-end", test_share_after_end);
        test("share/passes-later-attempt", test_share_passes_later_attempt);
        test("failure/kept", test_failure_kept);
        test("failure/of-preload", test_failure_of_preload);
        test("failure/expires", test_failure_expires);
        test("failure/expires-at-end", test_failure_expires_at_end);
        test("failure/void-by-success", test_failure_void_by_success);
        test("failure/not-void-by-failure", test_failure_not_void_by_failure);
        test("failure/void-by-forget", test_failure_void_by_forget);
        test("failure/of-later-step", test_failure_of_later_step);
        test("failure/takes-need-away", test_failure_takes_need_away);
        test("live/passes", test_live_passes);
        test("live/passes-unawaited", test_live_passes_unawaited);
        test("live/passes-later", test_live_passes_later);
        test("live/passes-to-itself", test_live_passes_to_itself);
        test("live/answers", test_live_answers);
        test_with_loaders("live/loaders", test_live_loaders, 2);
        test_with_loaders("park", test_park, 2);
        test_with_loaders("park/is-not-live", test_park_is_not_live, 1);
        test_with_loaders("park/ended", test_park_ended, 2);
        test("live/class", test_live_class);
        test("live/class-alone", test_live_class_alone);
        test("live/alone", test_live_alone);
        test("live/failure-kept", test_live_failure_kept);
        test("live/died-alone", test_live_died_alone);
        test("live/died", test_live_died);
        test("live/died-twice", test_live_died_twice);
        test("live/put-back", test_live_put_back);
        test_with_loaders("live/ended", test_live_ended, 2);
        test("live/oldest", test_live_oldest);
        test("live/voids-failures", test_live_voids_failures);
        test("live/after-lost", test_live_after_lost);
        test("steps/one-by-one", test_steps_one_by_one);
        test("steps/go-on-after-failure", test_steps_go_on_after_failure);
        test("steps/failed-preload", test_steps_failed_preload);
        test("failure/transient", test_failure_transient);
        test("steps/same-name", test_steps_same_name);
        test("steps/name-is-opaque", test_steps_name_is_opaque);
        test("kind/asked-for-or-not", test_kind);
        test("kind/is-fixed", test_kind_is_fixed);
        test("order/classes", test_order_classes);
        test("order/first-come", test_order_first_come);
        test("order/inherit-standing", test_order_inherit_standing);
        test("order/inherit-ahead", test_order_inherit_ahead);
        test("order/inherit-before-waiting", test_order_inherit_before_waiting);
        test("order/inherit-loading", test_order_inherit_loading);
        test("order/class-ends-with-attempt", test_order_class_ends_with_attempt);
        test("order/age", test_order_age);
        test("order/age-of-request", test_order_age_of_request);
        test("order/joined-by-older", test_order_joined_by_older);
        test("order/log-names-first", test_order_log_names_first);
        test_with_loaders("loaders/reserved", test_loaders_reserved, 8);
        test_with_loaders("loaders/few", test_loaders_few, 3);
        test_with_loaders("loaders/serial", test_loaders_serial, 1);
        test("loaders/none-free", test_loaders_none_free);
        test("died/once", test_died_once);
        test("died/twice", test_died_twice);
        test("died/passed", test_died_passed);
        test("died/in-new-attempt", test_died_in_new_attempt);
        test("put-back", test_put_back);
        test("waiter/nobody", test_waiter_nobody);
        test("waiter/order-of-answers", test_waiter_order_of_answers);
        test("waiter/forget", test_waiter_forget);
        test("waiter/forget-answers", test_waiter_forget_answers);
        test("pop-waiter", test_pop_waiter);
        test("pop-waiter/of-load", test_pop_waiter_of_load);
        test("give-up/waiting", test_give_up_waiting);
        test("give-up/loading", test_give_up_loading);
        test("give-up/and-die", test_give_up_and_die);
        test("give-up/live", test_give_up_live);
        test("bad", test_bad);
        test("memory/add", test_memory_add);
        test("memory/purged", test_memory_purged);
        test("many", test_many);

        g_test_add_func("/module-queue/memory/new", test_memory_new);
        g_test_add_func("/module-queue/memory/free", test_memory_free);

        for (unsigned seed = 1; seed <= 20; seed++) {
                g_autofree char *path = g_strdup_printf("/module-queue/random/%u", seed);

                g_test_add_data_func(path, GUINT_TO_POINTER(seed), test_random);
        }

        return g_test_run();
}
