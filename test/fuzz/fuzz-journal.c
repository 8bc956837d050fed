/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The file that the last udevd has left. What is understood of it goes into the queue, which must take it; and up to
 * where it is understood it is a good file. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc-util.h"
#include "fileio.h"
#include "macro.h"

#include "fuzz.h"
#include "udev-module-journal.h"
#include "udev-module-queue.h"

static void on_request(const ModuleRequest *request, void *userdata) {
        ModuleQueue *q = userdata;

        assert_se(request->waiter == 0);
        for (size_t i = 0; i < request->n_steps; i++)
                assert_se(request->steps[i].alias);
        assert_se(module_queue_add(q, request, 1) >= 0);
}

static void on_request_again(const ModuleRequest *request, void *userdata) {
        (*(unsigned *) userdata)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(module_queue_freep) ModuleQueue *q = NULL;
        unsigned n = 0, n_again = 0;
        size_t good, good_again;
        ModuleStep *step;
        int r;

        /* An empty input has no bytes at all, an empty file is read into some. */
        if (!data)
                data = (const uint8_t *) "";

        assert_se(module_queue_new(&q, 4) >= 0);
        r = module_journal_parse(data, size, on_request, q, &good);
        assert_se(IN_SET(r, 0, -ENODATA, -EBADMSG, -EPROTONOSUPPORT));
        assert_se(good <= size && (r < 0 || good == size));

        assert_se(module_journal_parse(data, size, on_request_again, &n, &good_again) == r && good_again == good);
        assert_se(module_journal_parse(data, good, on_request_again, &n_again, &good_again) == 0);
        assert_se(good_again == good && n_again == n);
        assert_se(module_queue_is_empty(q) == (n == 0));

        while ((step = module_queue_next(q, 4, 1)))
                module_queue_done(q, step, -ENOENT, 1);
        assert_se(module_queue_is_empty(q));
        return 0;
}

void fuzz_seeds(void (*seed)(const void *data, size_t size)) {
        static const ModuleRequestStep steps[] = {
                { "libata" },
                { "ahci",    "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01" },
                { "intel_x", "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01" },
                { "dummy",   "a" },
        };
        char dir[] = "/tmp/fuzz-journal.XXXXXX";
        _cleanup_free_ char *path = NULL;
        _cleanup_(module_journal_freep) ModuleJournal *j = NULL;

        assert_se(mkdtemp(dir));
        assert_se(asprintf(&path, "%s/file", dir) >= 0);
        assert_se(module_journal_new(&j, path) >= 0);
        for (size_t n = 2; n <= ELEMENTSOF(steps); n++) {
                _cleanup_free_ char *bytes = NULL;
                size_t size;

                module_journal_add(j, &(ModuleRequest) {
                        .seqnum = n,
                        .device = "/devices/pci0000:00/0000:00:1f.2",
                        .class = MODULE_CLASS_STORAGE,
                        .steps = steps,
                        .n_steps = n,
                });
                assert_se(read_full_file(path, &bytes, &size) >= 0);
                seed(bytes, size);
                seed(bytes, size - 1);
        }
        module_journal_clear(j);
        assert_se(rmdir(dir) == 0);
}
