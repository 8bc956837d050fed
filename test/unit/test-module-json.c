/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <glib.h>
#include <stdlib.h>

#include "udev-module-json.h"

static char *write_json(bool pretty) {
        char *text = NULL;
        size_t size;
        ModuleJson json = { .f = open_memstream(&text, &size), .pretty = pretty };

        module_json_begin(&json, NULL, '{');
        module_json_string(&json, "name", "a\"b\\c\n\x7f\xc3\xa4\xc2\x9b\xff\xc3");
        module_json_string(&json, "none", NULL);
        module_json_begin(&json, "empty", '[');
        module_json_end(&json, ']');
        module_json_begin(&json, "list", '[');
        module_json_number(&json, NULL, UINT64_MAX);
        module_json_boolean(&json, NULL, false);
        module_json_begin(&json, NULL, '{');
        module_json_boolean(&json, "x", true);
        module_json_end(&json, '}');
        module_json_end(&json, ']');
        module_json_end(&json, '}');
        fclose(json.f);
        return text;
}

static void test_short(void) {
        char *text = write_json(false);

        g_assert_cmpstr(text, ==,
                        "{\"name\":\"a\\\"b\\\\c\\u000a\\u007f\xc3\xa4\\u009b\\ufffd\\ufffd\",\"none\":null,"
                        "\"empty\":[],\"list\":[18446744073709551615,false,{\"x\":true}]}\n");
        free(text);
}

static void test_pretty(void) {
        char *text = write_json(true);

        g_assert_cmpstr(text, ==,
                        "{\n        \"name\" : \"a\\\"b\\\\c\\u000a\\u007f\xc3\xa4\\u009b\\ufffd\\ufffd\",\n"
                        "        \"none\" : null,\n"
                        "        \"empty\" : [],\n        \"list\" : [\n                18446744073709551615,\n"
                        "                false,\n                {\n                        \"x\" : true\n"
                        "                }\n        ]\n}\n");
        free(text);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/json/short", test_short);
        g_test_add_func("/json/pretty", test_pretty);

        return g_test_run();
}
