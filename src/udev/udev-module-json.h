/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Writing JSON, since the interface of systemd's own differs from version to version. Errors are those of the
 * stream. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct ModuleJson {
        FILE *f;
        bool pretty;                    /* with line breaks and indentation, or else in one line */
        unsigned depth;
        bool begun;                     /* something is in the innermost already */
} ModuleJson;

/* '{' or '[', and what closes it. name: in an object that of the member, in an array and at the top NULL; so for all. A
 * line break follows what closes the outermost. */
void module_json_begin(ModuleJson *json, const char *name, char bracket);
void module_json_end(ModuleJson *json, char bracket);

/* NULL becomes null, bytes that are no UTF-8 become U+FFFD. Control characters are escaped: it may go to a
 * terminal. */
void module_json_string(ModuleJson *json, const char *name, const char *s);
void module_json_number(ModuleJson *json, const char *name, uint64_t n);
void module_json_boolean(ModuleJson *json, const char *name, bool b);
