/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Settings of the kernel command line, several of them, each ended by NUL as "KEY" or "KEY=VALUE": whatever they are,
 * the configuration is one that can be used, and what is not ours is left to udevd. */

#include <string.h>

#include "alloc-util.h"
#include "macro.h"
#include "proc-cmdline.h"
#include "string-util.h"

#include "fuzz.h"
#include "udev-module-config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = memdup_suffix0(data, size);
        ModuleConfig config = {};

        assert_se(text);

        for (char *key = text, *next; key < text + size; key = next) {
                char *value;
                bool ours;

                next = key + strlen(key) + 1;
                value = strchr(key, '=');
                if (value)
                        *value++ = 0;

                ours = module_config_read_cmdline(&config, key, value);
                assert_se(ours == (proc_cmdline_key_streq(key, "udev.module_queue") ||
                                   proc_cmdline_key_streq(key, "udev.module_queue_loaders")));
                assert_se(IN_SET(config.mode, MODULE_QUEUE_UNSET, MODULE_QUEUE_NO, MODULE_QUEUE_YES, MODULE_QUEUE_WAIT));
                assert_se(config.loaders <= MODULE_QUEUE_LOADERS_MAX);
        }

        return 0;
}

void fuzz_seeds(void (*seed)(const void *data, size_t size)) {
        static const char all[] =
                "udev.module_queue=yes\0udev.module-queue=no\0udev.module_queue=wait\0udev.module_queue\0"
                "udev.module_queue_loaders=1\0udev.module_queue_loaders=256\0udev.module_queue_loaders=257\0"
                "udev.module_queue_loaders=0x10\0udev.module_queue_loaders=-1\0udev.log_level=debug\0quiet";

        for (const char *p = all; p < all + sizeof(all); p += strlen(p) + 1)
                seed(p, strlen(p) + 1);
        seed(all, sizeof(all));
}
