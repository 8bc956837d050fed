/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A record, of whatever file. What is understood makes the same text again, within the bounds, and all that is computed
 * from it ends. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc-util.h"
#include "macro.h"

#include "fuzz.h"
#include "udev-module-chain.h"
#include "udev-module-plot.h"
#include "udev-module-record.h"
#include "udev-module-statistics.h"

static void compute(const ModuleRecord *r) {
        _cleanup_free_ char *svg = NULL;
        ModuleStatistics statistics;
        size_t size;
        FILE *f;

        assert_se(module_statistics(r, &statistics) >= 0);
        assert_se(statistics.begin <= statistics.end);

        f = open_memstream(&svg, &size);
        assert_se(f);
        assert_se(IN_SET(module_plot(f, r), 0, -ENODATA));
        assert_se(fclose(f) == 0);

        for (size_t i = 0; i < r->n_events && i < 8; i++) {
                _cleanup_(module_chain_done) ModuleChain chain = {};

                assert_se(module_chain_build(r, r->events + i, NULL, &chain) >= 0);
                for (size_t j = 0; j < chain.n_links; j++) {
                        assert_se(chain.links[j].from < chain.links[j].to);
                        assert_se(j == 0 || chain.links[j].from == chain.links[j - 1].to);
                }
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(module_record_freep) ModuleRecord *r = NULL, *again = NULL;
        _cleanup_free_ char *text = NULL, *text_again = NULL;
        size_t line, n, n_again;
        int k;

        k = module_record_parse(data, size, &r, &line);
        assert_se(IN_SET(k, 0, -ENODATA, -EBADMSG, -EPROTONOSUPPORT, -EFBIG));
        assert_se(line > 0);
        if (k < 0)
                return 0;

        assert_se(module_record_build(r, false, &text, &n) >= 0);
        assert_se(n <= MODULE_RECORD_TEXT_MAX);
        assert_se(module_record_parse(text, n, &again, &line) >= 0);
        assert_se(module_record_build(again, false, &text_again, &n_again) >= 0);
        assert_se(n == n_again && memcmp(text, text_again, n) == 0);

        compute(r);
        return 0;
}

void fuzz_seeds(void (*seed)(const void *data, size_t size)) {
        _cleanup_(module_record_freep) ModuleRecord *r = module_record_new();
        _cleanup_free_ char *text = NULL;
        size_t size;

        assert_se(r);
        module_record_add_event(r, &(ModuleRecordEvent) {
                .seqnum = 10, .device = "/devices/a", .action = "add", .subsystem = "pci", .triggered = true,
                .received = 100, .started = 150, .processed = 230,
        });
        module_record_add_request(r, &(ModuleRecordRequest) { .seqnum = 10, .asked = 200, .modules = "libata ahci" });
        module_record_add_load(r, &(ModuleRecordLoad) {
                .seqnum = 10, .module = "libata", .preload = true, .alias = "pci:\n\xff", .device = "/devices/a",
                .n_requests = 3, .loader = 77, .asked = 200, .started = 210, .live = 220, .done = 250,
        });
        module_record_add_load(r, &(ModuleRecordLoad) {
                .seqnum = 10, .module = "ahci", .class = MODULE_CLASS_STORAGE, .error = -ENODEV,
                .asked = 200, .started = 290, .done = 400,
        });
        module_record_add_event(r, &(ModuleRecordEvent) {
                .seqnum = 11, .device = "/devices/a/block/sda", .action = "add",
                .subsystem = "block", .devtype = "disk",
                .received = 300, .started = 310, .processed = 500,
        });

        assert_se(module_record_build(r, false, &text, &size) >= 0);
        seed(text, size);
        seed(text, size - 10);
}
