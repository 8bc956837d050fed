/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Bytes as they come from the request socket and from the manager: as a request, which goes on into the queue, and as
 * an order. What is understood can be written again and is then understood alike. */

#include <errno.h>
#include <string.h>

#include "macro.h"
#include "string-util.h"

#include "fuzz.h"
#include "udev-module-message.h"
#include "udev-module-queue.h"

#define SENDER 815

static void assert_same_step(const ModuleRequestStep *a, const ModuleRequestStep *b) {
        assert_se(streq(a->name, b->name));
        assert_se(streq_ptr(a->alias, b->alias));
}

/* A request that was understood is one that the queue takes, and can come to the end of. */
static void enqueue(const ModuleRequest *request) {
        _cleanup_(module_queue_freep) ModuleQueue *q = NULL;
        ModuleAnswer answer;
        ModuleStep *step;

        assert_se(module_queue_new(&q, 4) >= 0);
        assert_se(module_queue_add(q, request, 1) >= 0);
        while ((step = module_queue_next(q, 4, 1)))
                module_queue_done(q, step, -ENOENT, 1);
        assert_se(module_queue_is_empty(q));
        assert_se(module_queue_pop_answer(q, &answer) == (request->waiter != 0));
        assert_se(request->waiter == 0 || (answer.waiter == SENDER && answer.id == request->id));
}

static void try_request(const uint8_t *data, size_t size) {
        static ModuleRequestStep steps[MODULE_REQUEST_STEPS_MAX], steps_again[MODULE_REQUEST_STEPS_MAX];
        static char buffer[MODULE_MESSAGE_MAX];
        ModuleRequest a, b;
        size_t size_again;
        int r;

        r = module_message_parse_request(data, size, SENDER, steps, &a);
        if (r < 0) {
                assert_se(IN_SET(r, -EBADMSG, -E2BIG));
                return;
        }

        assert_se(a.n_steps > 0 && a.n_steps <= MODULE_REQUEST_STEPS_MAX);
        assert_se(a.class >= 0 && a.class < _MODULE_CLASS_MAX);
        assert_se(IN_SET(a.waiter, 0, SENDER));

        assert_se(module_message_build_request(&a, buffer, &size_again) >= 0);
        assert_se(size_again <= size);
        assert_se(module_message_parse_request(buffer, size_again, SENDER, steps_again, &b) >= 0);
        assert_se(a.seqnum == b.seqnum && streq_ptr(a.device, b.device) && a.class == b.class && a.waiter == b.waiter &&
                  a.id == b.id && a.n_steps == b.n_steps);
        for (size_t i = 0; i < a.n_steps; i++)
                assert_same_step(a.steps + i, b.steps + i);

        enqueue(&a);
}

static void try_order(const uint8_t *data, size_t size) {
        static char buffer[MODULE_MESSAGE_MAX];
        ModuleRequestStep a, b;
        size_t size_again;
        int r;

        r = module_message_parse_order(data, size, &a);
        if (r < 0) {
                assert_se(r == -EBADMSG);
                return;
        }

        assert_se(module_message_build_order(&a, buffer, &size_again) >= 0);
        assert_se(size_again == size && memcmp(buffer, data, size) == 0);
        assert_se(module_message_parse_order(buffer, size_again, &b) >= 0);
        assert_same_step(&a, &b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        /* What is longer is refused by whoever receives it. */
        if (size > MODULE_MESSAGE_MAX)
                return 0;

        try_request(data, size);
        try_order(data, size);
        return 0;
}

void fuzz_seeds(void (*seed)(const void *data, size_t size)) {
        static char buffer[MODULE_MESSAGE_MAX];
        ModuleRequestStep many[MODULE_REQUEST_STEPS_MAX], steps[] = {
                { "libata" },
                { "ahci",    "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01" },
                { "intel_x", "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01" },
                { "dummy",   "a" },
        };
        ModuleRequest request = {
                .seqnum = 4711,
                .device = "/devices/pci0000:00/0000:00:1f.2",
                .class = MODULE_CLASS_STORAGE,
                .waiter = 1,
                .id = 7,
                .steps = steps,
        };
        size_t size;

        for (request.n_steps = 2; request.n_steps <= ELEMENTSOF(steps); request.n_steps++) {
                assert_se(module_message_build_request(&request, buffer, &size) >= 0);
                seed(buffer, size);
                seed(buffer, size - 1);
        }

        for (size_t i = 0; i < ELEMENTSOF(many); i++)
                many[i] = (ModuleRequestStep) { "dummy", "a" };
        request = (ModuleRequest) { .steps = many, .n_steps = ELEMENTSOF(many) };
        assert_se(module_message_build_request(&request, buffer, &size) >= 0);
        seed(buffer, size);

        for (size_t i = 0; i < 2; i++) {
                assert_se(module_message_build_order(steps + i, buffer, &size) >= 0);
                seed(buffer, size);
        }
}
