/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The classes of loads, for classes.py. Standard input has a line for each load: a MODALIAS, and behind a tab each the
 * files of the modules that it resolves to. Standard output has a line for each: the class. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "udev-module-class.h"

int main(void) {
        char *line = NULL;
        size_t size = 0;

        while (getline(&line, &size, stdin) >= 0) {
                ModuleClass directory = _MODULE_CLASS_INVALID;
                char *files = line, *modalias, *file;

                line[strcspn(line, "\n")] = 0;
                modalias = strsep(&files, "\t");
                while ((file = strsep(&files, "\t")))
                        directory = module_class_best(directory, module_class_from_path(file));

                puts(module_class_to_string(module_class_decide(modalias, directory)));
        }

        free(line);
        return ferror(stdin) || fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
