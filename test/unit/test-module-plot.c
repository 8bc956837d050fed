/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "udev-module-plot.h"

static int plot(const ModuleRecord *r, char **ret) {
        size_t size;
        FILE *f = open_memstream(ret, &size);
        int k = module_plot(f, r);

        fclose(f);
        return k;
}

static void on_text(GMarkupParseContext *context, const char *text, size_t size, gpointer userdata, GError **error) {
        g_string_append_len(userdata, text, size);
        g_string_append_c(userdata, '\n');
}

static void test_plot(void) {
        GMarkupParser parser = { .text = on_text };
        ModuleRecord *r = module_record_new();
        GString *texts = g_string_new(NULL);
        GMarkupParseContext *context = g_markup_parse_context_new(&parser, 0, texts, NULL);
        GError *error = NULL;
        char *svg = NULL;

        module_record_add_event(r, &(ModuleRecordEvent) {
                .seqnum = 1, .device = "/devices/a", .action = "add", .subsystem = "pci", .triggered = true,
                .received = 1000000, .started = 1100000, .processed = 1300000,
        });
        module_record_add_request(r, &(ModuleRecordRequest) { .seqnum = 1, .asked = 1200000, .modules = "<&\"\377" });
        module_record_add_load(r, &(ModuleRecordLoad) {
                .seqnum = 1, .module = "<&\"\377", .class = MODULE_CLASS_STORAGE,
                .asked = 1200000, .started = 1300000, .done = 3000000,
                .error = -ENODEV,
        });
        module_record_add_event(r, &(ModuleRecordEvent) {
                .seqnum = 2, .device = "/devices/a/block/sd<", .action = "add", .subsystem = "block", .devtype = "disk",
                .received = 2000000, .started = 2100000, .processed = 2200000,
        });

        g_assert_cmpint(plot(r, &svg), ==, 0);
        /* It is XML, whatever the names are. */
        g_assert_true(g_markup_parse_context_parse(context, svg, strlen(svg), &error));
        g_assert_true(g_markup_parse_context_end_parse(context, &error));
        g_assert_nonnull(strstr(texts->str, "The last disk: sd<, after 1.20 s. Most of it: module <&\"? loads"));
        g_assert_nonnull(strstr(texts->str, "0.70 s: module <&\"? loads and looks for its devices"));
        g_assert_nonnull(strstr(texts->str, "<&\"? 1.70 s (failed)"));
        g_assert_nonnull(strstr(texts->str, "1 disks"));
        g_assert_nonnull(strstr(texts->str, "0 input devices"));

        g_markup_parse_context_free(context);
        g_string_free(texts, TRUE);
        free(svg);
        module_record_free(r);
}

/* Nothing has taken any time. */
static void test_no_chain(void) {
        ModuleRecord *r = module_record_new();
        char *svg = NULL;

        module_record_add_event(r, &(ModuleRecordEvent) {
                .device = "/devices/a/block/sda", .action = "add", .subsystem = "block", .devtype = "disk",
                .received = 5, .started = 5, .processed = 5,
        });
        module_record_add_event(r, &(ModuleRecordEvent) { .received = 4 });
        g_assert_cmpint(plot(r, &svg), ==, 0);
        free(svg);
        module_record_free(r);
}

static void test_empty(void) {
        ModuleRecord *r = module_record_new();
        char *svg = NULL;

        g_assert_cmpint(plot(r, &svg), ==, -ENODATA);
        free(svg);
        module_record_free(r);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/plot/plot", test_plot);
        g_test_add_func("/plot/no-chain", test_no_chain);
        g_test_add_func("/plot/empty", test_empty);

        return g_test_run();
}
