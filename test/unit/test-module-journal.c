/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "udev-module-journal.h"
#include "udev-module-message.h"

static char *dir, *path;

static void setup(void) {
        dir = g_dir_make_tmp("test-module-journal-XXXXXX", NULL);
        g_assert_nonnull(dir);
        path = g_build_filename(dir, "journal", NULL);
}

static void teardown(void) {
        g_unlink(path);
        g_assert_cmpint(g_rmdir(dir), ==, 0);
        g_free(path);
        g_free(dir);
}

static ModuleJournal *journal_new(void) {
        ModuleJournal *j = NULL;

        g_assert_cmpint(module_journal_new(&j, path), ==, 0);
        return j;
}

/* Asked for: a module by an alias, with a pre-load, and somebody waits. */
static void add(ModuleJournal *j, const char *name, const char *alias) {
        const ModuleRequestStep steps[] = { { "first" }, { name, alias } };

        module_journal_add(j, &(ModuleRequest) {
                .seqnum = 4711,
                .device = "/devices/x",
                .class = MODULE_CLASS_INPUT,
                .waiter = 815,
                .steps = steps,
                .n_steps = G_N_ELEMENTS(steps),
        });
}

/* What a request asks for, as NAME=ALIAS words; one line a request. */
static void note(const ModuleRequest *request, void *userdata) {
        GString *all = userdata;

        g_assert_cmpint(request->waiter, ==, 0);
        for (size_t i = 0; i < request->n_steps; i++)
                g_string_append_printf(all, "%s=%s%c", request->steps[i].name, request->steps[i].alias,
                                       i + 1 < request->n_steps ? ' ' : '\n');
}

/* What the next udevd finds. */
static void assert_left(const char *expected) {
        g_autoptr(GString) all = g_string_new(NULL);
        ModuleJournal *j = journal_new();
        unsigned n_lines = 0;

        for (const char *p = expected; *p; p++)
                n_lines += *p == '\n';

        g_assert_cmpuint(module_journal_read(j, note, all), ==, n_lines);
        g_assert_cmpstr(all->str, ==, expected);
        module_journal_free(j);
}

static void assert_no_file(void) {
        g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
        g_assert_false(g_file_test(path, G_FILE_TEST_IS_SYMLINK));
}

static gsize content(char **ret) {
        gsize size;

        g_assert_true(g_file_get_contents(path, ret, &size, NULL));
        return size;
}

static void set_content(const void *bytes, gsize size) {
        int fd;

        g_unlink(path);
        fd = g_open(path, O_WRONLY|O_CREAT|O_EXCL, 0600);
        g_assert_cmpint(fd, >=, 0);
        g_assert_cmpint(write(fd, bytes, size), ==, size);
        close(fd);
}

/* In a buffer of just that size, so that a sanitizer sees who reads behind its end. */
static int parse(const void *bytes, size_t size, GString *all, size_t *ret) {
        g_autofree char *copy = g_memdup2(bytes, size);

        return module_journal_parse(copy ?: "", size, note, all, ret);
}

static void test_round_trip(void) {
        ModuleJournal *j;
        struct stat st;

        setup();
        j = journal_new();
        assert_no_file();

        add(j, "a", "alias of a");
        add(j, "b", "\xff\r\t ");
        module_journal_add(j, &(ModuleRequest) {
                .class = MODULE_CLASS_IDLE,
                .steps = (ModuleRequestStep[]) { { "c", "x" }, { "p" }, { "d", "x" } },
                .n_steps = 3,
        });
        g_assert_true(module_journal_is_complete(j));
        g_assert_cmpint(g_stat(path, &st), ==, 0);
        g_assert_cmpuint(st.st_mode, ==, S_IFREG|0600);

        /* It stays until all is loaded, whoever reads it, and goes on. */
        module_journal_free(j);
        for (int i = 0; i < 2; i++)
                assert_left("a=alias of a\nb=\xff\r\t \nc=x d=x\n");
        teardown();
}

static void test_go_on(void) {
        g_autoptr(GString) all = g_string_new(NULL);
        ModuleJournal *j;

        setup();
        j = journal_new();
        add(j, "a", "x");
        module_journal_free(j);

        j = journal_new();
        g_assert_cmpuint(module_journal_read(j, note, all), ==, 1);
        add(j, "b", "x");
        module_journal_free(j);
        assert_left("a=x\nb=x\n");

        j = journal_new();
        g_assert_cmpuint(module_journal_read(j, note, all), ==, 2);
        module_journal_clear(j);
        assert_no_file();
        add(j, "c", "x");
        module_journal_free(j);
        assert_left("c=x\n");
        teardown();
}

static void test_nothing_left(void) {
        ModuleJournal *j;

        setup();
        assert_left("");
        assert_no_file();

        /* Nobody's file is touched unless there was something to remember. */
        j = journal_new();
        set_content("something", 9);
        module_journal_clear(j);
        g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
        module_journal_free(j);

        set_content("", 0);
        assert_left("");
        assert_no_file();
        teardown();
}

/* The same module by another alias may come with other options. */
static void test_duplicates(void) {
        ModuleJournal *j;
        g_autofree char *before = NULL;
        gsize size;

        setup();
        j = journal_new();
        add(j, "a", "x");
        add(j, "b", "x");
        size = content(&before);
        for (int i = 0; i < 1000; i++)
                add(j, i % 2 ? "a" : "b", "x");
        module_journal_add(j, &(ModuleRequest) {
                .steps = (ModuleRequestStep[]) { { "a", "x" }, { "b", "x" } },
                .n_steps = 2,
        });
        for (int i = 0; i < 2; i++) {
                g_autofree char *after = NULL;

                g_assert_cmpuint(content(&after), ==, size);
        }

        add(j, "a", "y");
        module_journal_free(j);
        assert_left("a=x\nb=x\na=y\n");

        /* Nor what the last udevd has left. */
        j = journal_new();
        {
                g_autoptr(GString) all = g_string_new(NULL);

                g_assert_cmpuint(module_journal_read(j, note, all), ==, 3);
        }
        add(j, "a", "y");
        module_journal_clear(j);
        add(j, "a", "y");
        module_journal_free(j);
        assert_left("a=y\n");
        teardown();
}

/* Cut off at every byte: what comes before counts, and what is added then is behind it. */
static void test_cut_off(void) {
        g_autofree char *bytes = NULL;
        gsize size, ends[4], n_ends = 0;
        ModuleJournal *j;

        setup();
        j = journal_new();
        for (const char *name = "abc"; *name; name++) {
                g_autofree char *c = NULL;

                add(j, (char[]) { *name, 0 }, "x");
                ends[n_ends++] = content(&c);
        }
        module_journal_free(j);
        size = content(&bytes);
        ends[n_ends] = G_MAXSIZE;

        for (gsize cut = 0; cut <= size; cut++) {
                static const char *const left[] = { "", "a=x\n", "a=x\nb=x\n", "a=x\nb=x\nc=x\n" };
                g_autoptr(GString) all = g_string_new(NULL), expected = g_string_new(NULL);
                unsigned n = 0;
                size_t good;
                int r;

                while (ends[n] <= cut)
                        n++;

                r = parse(bytes, cut, all, &good);
                g_assert_cmpint(r, ==, cut == 0 || good == cut ? 0 : -ENODATA);
                g_assert_cmpuint(good, <=, cut);
                if (n > 0)
                        g_assert_cmpuint(good, ==, ends[n - 1]);
                g_assert_cmpstr(all->str, ==, left[n]);

                set_content(bytes, cut);
                j = journal_new();
                g_assert_cmpuint(module_journal_read(j, note, all), ==, n);
                add(j, "new", "x");
                module_journal_free(j);
                g_string_printf(expected, "%snew=x\n", left[n]);
                assert_left(expected->str);
        }
        teardown();
}

/* Each byte changed: read or not, but nothing behind its end, and no crash. What is before it counts. */
static void test_damaged(void) {
        g_autofree char *bytes = NULL;
        gsize size, first;
        ModuleJournal *j;

        setup();
        j = journal_new();
        add(j, "a", "x");
        first = content(&bytes);
        g_clear_pointer(&bytes, g_free);
        add(j, "b", "x");
        module_journal_free(j);
        size = content(&bytes);

        for (gsize at = 0; at < size; at++)
                for (unsigned bit = 0; bit < 8; bit++) {
                        g_autoptr(GString) all = g_string_new(NULL);
                        size_t good;
                        int r;

                        bytes[at] ^= 1 << bit;
                        r = parse(bytes, size, all, &good);
                        bytes[at] ^= 1 << bit;

                        g_assert_cmpuint(good, <=, size);
                        g_assert_true((r == 0) == (good == size));
                        if (at >= first)
                                g_assert_true(g_str_has_prefix(all->str, "a=x\n"));
                }
        teardown();
}

static void test_garbage(void) {
        static const char *const wrong[] = {
                "x", "\n", "udev module queuf 1\n", "no such file at all, but of some length",
        };
        g_autoptr(GRand) rand = g_rand_new_with_seed(4);

        setup();
        for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
                size_t good;

                g_assert_cmpint(parse(wrong[i], strlen(wrong[i]), NULL, &good), ==, -EBADMSG);
                g_assert_cmpuint(good, ==, 0);
                set_content(wrong[i], strlen(wrong[i]));
                assert_left("");
                assert_no_file();
        }

        for (int i = 0; i < 10000; i++) {
                g_autoptr(GString) all = g_string_new(NULL), bytes = g_string_new("udev module queue 1\n");
                size_t good;

                for (int n = g_rand_int_range(rand, 1, 100); n > 0; n--)
                        g_string_append_c(bytes, g_rand_boolean(rand) ? 0 : g_rand_int(rand));
                (void) parse(bytes->str, bytes->len, all, &good);
                g_assert_cmpuint(good, <=, bytes->len);
        }
        teardown();
}

/* What the builder never writes. */
static void test_wrong_record(void) {
        const ModuleRequest preload = {
                .steps = (ModuleRequestStep[]) { { "p" }, { "a", "x" } },
                .n_steps = 2,
        };
        g_autofree char *bytes = g_malloc(100 + MODULE_MESSAGE_MAX);
        g_autoptr(GString) all = g_string_new(NULL);
        uint32_t n;
        size_t size, good;

        memcpy(bytes, "udev module queue 1\n", 20);
        g_assert_cmpint(module_message_build_request(&preload, bytes + 24, &size), ==, 0);
        n = size;
        memcpy(bytes + 20, &n, 4);
        g_assert_cmpint(parse(bytes, 24 + size, all, &good), ==, -EBADMSG);
        g_assert_cmpuint(good, ==, 20);

        n = MODULE_MESSAGE_MAX + 1;
        memcpy(bytes + 20, &n, 4);
        g_assert_cmpint(parse(bytes, 24 + size, all, &good), ==, -EBADMSG);
        n = 0;
        memcpy(bytes + 20, &n, 4);
        g_assert_cmpint(parse(bytes, 24 + size, all, &good), ==, -EBADMSG);
        g_assert_cmpstr(all->str, ==, "");
}

static void test_other_version(void) {
        static const char other[] = "udev module queue 2\nwhatever";
        size_t good;

        setup();
        g_assert_cmpint(parse(other, strlen(other), NULL, &good), ==, -EPROTONOSUPPORT);
        set_content(other, strlen(other));
        assert_left("");
        assert_no_file();
        teardown();
}

/* Whatever else is in its place is neither followed nor waited for. */
static void test_no_file(void) {
        g_autofree char *target = NULL, *bytes = NULL;
        ModuleJournal *j;

        setup();
        j = journal_new();
        add(j, "a", "x");
        module_journal_free(j);

        target = g_build_filename(dir, "target", NULL);
        g_assert_cmpint(g_rename(path, target), ==, 0);
        g_assert_cmpint(symlink(target, path), ==, 0);
        assert_left("");
        assert_no_file();
        g_assert_true(g_file_test(target, G_FILE_TEST_IS_REGULAR));

        /* Nor is it written through one that comes later. */
        j = journal_new();
        g_assert_cmpint(symlink("/dev/null", path), ==, 0);
        add(j, "b", "x");
        g_assert_false(module_journal_is_complete(j));
        module_journal_clear(j);
        g_assert_true(g_file_test(path, G_FILE_TEST_IS_SYMLINK));
        module_journal_free(j);
        g_unlink(path);

        g_assert_cmpint(mkfifo(path, 0600), ==, 0);
        assert_left("");
        assert_no_file();

        /* Somebody else may write to it. */
        g_assert_cmpint(g_rename(target, path), ==, 0);
        g_assert_cmpint(g_chmod(path, 0622), ==, 0);
        assert_left("");
        assert_no_file();
        teardown();
}

/* A directory stays, and udevd goes on without a journal. */
static void test_directory(void) {
        ModuleJournal *j;

        setup();
        g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
        assert_left("");
        j = journal_new();
        add(j, "a", "x");
        g_assert_false(module_journal_is_complete(j));
        module_journal_clear(j);
        g_assert_true(g_file_test(path, G_FILE_TEST_IS_DIR));
        g_assert_true(module_journal_is_complete(j));

        /* It is tried again with every new burst. */
        g_assert_cmpint(g_rmdir(path), ==, 0);
        add(j, "a", "x");
        g_assert_true(module_journal_is_complete(j));
        module_journal_free(j);
        assert_left("a=x\n");
        teardown();
}

static void test_too_big(void) {
        static char big[MODULE_JOURNAL_MAX + 1] = "udev module queue 1\n";

        setup();
        set_content(big, sizeof(big));
        assert_left("");
        assert_no_file();
        teardown();
}

/* Full: what is in it counts, what comes then is not written, until it was empty. */
static void test_full(void) {
        g_autoptr(GString) expected = g_string_new(NULL);
        g_autofree char *alias = g_strnfill(4000, 'x'), *bytes = NULL;
        ModuleJournal *j;
        struct stat st;

        setup();
        j = journal_new();
        for (unsigned i = 0; i < MODULE_JOURNAL_MAX / 4000; i++) {
                g_autofree char *name = g_strdup_printf("m%u", i);

                add(j, name, alias);
                if (module_journal_is_complete(j))
                        g_string_append_printf(expected, "%s=%s\n", name, alias);
        }
        g_assert_false(module_journal_is_complete(j));
        add(j, "small", "x");
        g_assert_cmpint(g_stat(path, &st), ==, 0);
        g_assert_cmpint(st.st_size, <=, MODULE_JOURNAL_MAX);
        g_assert_cmpint(st.st_size, >, MODULE_JOURNAL_MAX - 5000);
        assert_left(expected->str);

        module_journal_clear(j);
        assert_no_file();
        add(j, "small", "x");
        g_assert_true(module_journal_is_complete(j));
        module_journal_free(j);
        assert_left("small=x\n");
        teardown();
}

/* No space for all of a record: none of it is there. */
static void test_no_space(void) {
        g_autofree char *bytes = NULL;
        struct rlimit old;
        ModuleJournal *j;

        setup();
        signal(SIGXFSZ, SIG_IGN);
        g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
        j = journal_new();
        add(j, "a", "x");
        g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &(struct rlimit) { content(&bytes) + 10, old.rlim_max }), ==, 0);
        add(j, "b", "x");
        add(j, "c", "x");
        g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
        g_assert_false(module_journal_is_complete(j));
        assert_left("a=x\n");
        add(j, "d", "x");
        assert_left("a=x\n");
        module_journal_clear(j);
        assert_no_file();
        module_journal_free(j);
        teardown();
}

/* The longest request that a worker may send. */
static void test_long(void) {
        g_autofree ModuleRequestStep *steps = g_new0(ModuleRequestStep, MODULE_REQUEST_STEPS_MAX);
        g_autofree char *alias = g_strnfill(4095, 'x'), *name = g_strnfill(55, 'n');
        g_autoptr(GString) all = g_string_new(NULL);
        ModuleJournal *j;

        setup();
        for (unsigned i = 0; i < MODULE_REQUEST_STEPS_MAX; i++)
                steps[i] = (ModuleRequestStep) { name, alias };
        j = journal_new();
        module_journal_add(j, &(ModuleRequest) { .steps = steps, .n_steps = MODULE_REQUEST_STEPS_MAX });
        g_assert_true(module_journal_is_complete(j));
        module_journal_free(j);

        j = journal_new();
        g_assert_cmpuint(module_journal_read(j, note, all), ==, 1);
        g_assert_cmpuint(all->len, ==, MODULE_REQUEST_STEPS_MAX * (55 + 1 + 4095 + 1));
        module_journal_clear(j);
        module_journal_free(j);
        teardown();
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/module-journal/round-trip", test_round_trip);
        g_test_add_func("/module-journal/go-on", test_go_on);
        g_test_add_func("/module-journal/nothing-left", test_nothing_left);
        g_test_add_func("/module-journal/duplicates", test_duplicates);
        g_test_add_func("/module-journal/cut-off", test_cut_off);
        g_test_add_func("/module-journal/damaged", test_damaged);
        g_test_add_func("/module-journal/garbage", test_garbage);
        g_test_add_func("/module-journal/wrong-record", test_wrong_record);
        g_test_add_func("/module-journal/other-version", test_other_version);
        g_test_add_func("/module-journal/no-file", test_no_file);
        g_test_add_func("/module-journal/directory", test_directory);
        g_test_add_func("/module-journal/too-big", test_too_big);
        g_test_add_func("/module-journal/full", test_full);
        g_test_add_func("/module-journal/no-space", test_no_space);
        g_test_add_func("/module-journal/long", test_long);

        return g_test_run();
}
