/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <inttypes.h>
#include <string.h>

#include "macro.h"
#include "utf8.h"

#include "udev-module-json.h"

static void write_quoted(FILE *f, const char *s) {
        fputc('"', f);

        while (*s) {
                unsigned char c = *s;
                int n = 1;

                if (c >= 0x80) {
                        n = utf8_encoded_valid_unichar(s, SIZE_MAX);
                        if (n <= 0)
                                fputs("\\ufffd", f);
                        else if (c == 0xc2 && (unsigned char) s[1] < 0xa0) /* what a terminal may act on, too */
                                fprintf(f, "\\u%04x", (unsigned char) s[1]);
                        else
                                fwrite(s, 1, n, f);
                        n = MAX(n, 1);
                } else if (c < 0x20 || c == 0x7f)
                        fprintf(f, "\\u%04x", c);
                else {
                        if (IN_SET(c, '"', '\\'))
                                fputc('\\', f);
                        fputc(c, f);
                }

                s += n;
        }

        fputc('"', f);
}

static void json_newline(const ModuleJson *json) {
        if (json->pretty)
                fprintf(json->f, "\n%*s", (int) (8 * json->depth), "");
}

/* What comes before a value. */
static void json_start(ModuleJson *json, const char *name) {
        assert(json);

        if (json->begun)
                fputc(',', json->f);
        if (json->depth > 0)
                json_newline(json);
        json->begun = true;

        if (!name)
                return;

        write_quoted(json->f, name);
        fputs(json->pretty ? " : " : ":", json->f);
}

void module_json_begin(ModuleJson *json, const char *name, char bracket) {
        json_start(json, name);
        fputc(bracket, json->f);
        json->depth++;
        json->begun = false;
}

void module_json_end(ModuleJson *json, char bracket) {
        assert(json);
        assert(json->depth > 0);

        json->depth--;
        if (json->begun)
                json_newline(json);
        json->begun = true;

        fputc(bracket, json->f);
        if (json->depth == 0)
                fputc('\n', json->f);
}

void module_json_string(ModuleJson *json, const char *name, const char *s) {
        json_start(json, name);
        if (s)
                write_quoted(json->f, s);
        else
                fputs("null", json->f);
}

void module_json_number(ModuleJson *json, const char *name, uint64_t n) {
        json_start(json, name);
        fprintf(json->f, "%" PRIu64, n);
}

void module_json_boolean(ModuleJson *json, const char *name, bool b) {
        json_start(json, name);
        fputs(b ? "true" : "false", json->f);
}
