/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "macro.h"

#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

static const char *seed_dir;

static void seed_write(const void *data, size_t size) {
        static unsigned n;
        char path[4096];
        FILE *f;

        assert_se((size_t) snprintf(path, sizeof(path), "%s/seed-%03u", seed_dir, n++) < sizeof(path));
        f = fopen(path, "we");
        assert_se(f);
        assert_se(fwrite(data, 1, size, f) == size);
        assert_se(fclose(f) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
        /* What is wrong with an input is said in the log, for each of them. */
        log_set_max_level(LOG_CRIT);

        if (*argc == 3 && strcmp((*argv)[1], "--seeds") == 0) {
                seed_dir = (*argv)[2];
                fuzz_seeds(seed_write);
                exit(EXIT_SUCCESS);
        }

        return 0;
}
