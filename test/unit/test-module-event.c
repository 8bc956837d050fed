/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <glib.h>

#include "device-private.h"
#include "strv.h"

#include "udev-module-dispatch.h"
#include "udev-module-event.h"

#define NOW (5 * USEC_PER_SEC)

static sd_device *device(const char *action, const char *subsystem, const char *modalias) {
        _cleanup_strv_free_ char **properties = NULL;
        sd_device *dev;

        properties = strv_new("DEVPATH=/devices/test", "SEQNUM=1");
        g_assert_nonnull(properties);
        g_assert_cmpint(strv_extendf(&properties, "ACTION=%s", action), >=, 0);
        g_assert_cmpint(strv_extendf(&properties, "SUBSYSTEM=%s", subsystem), >=, 0);
        if (modalias)
                g_assert_cmpint(strv_extendf(&properties, "MODALIAS=%s", modalias), >=, 0);
        g_assert_cmpint(device_new_from_strv(&dev, properties), >=, 0);

        return dev;
}

static void test_urgent(void) {
        static const struct {
                const char *action, *subsystem, *modalias;
                bool urgent;
        } cases[] = {
                { "add",    "block",  NULL,                                                       true  },
                { "change", "block",  NULL,                                                       true  },
                { "add",    "input",  "input:b0003v046Dp4024e0111-e0,1,2",                        true  },
                { "add",    "pci",    "pci:v00008086d0000A182sv00001849sd0000A182bc01sc06i01",    true  },
                { "add",    "pci",    "pci:v00008086d0000A12Fsv00001849sd0000A12Fbc0Csc03i30",    true  },
                { "add",    "usb",    "usb:v046DpC31Cd6402dc00dsc00dp00ic03isc01ip01in00",        true  },
                { "add",    "pci",    "pci:v00008086d000015B8sv00001849sd000015B8bc02sc00i00",    false },
                { "add",    "usb",    "usb:v08BBp2902d0100dc00dsc00dp00ic01isc02ip00in01",        false },
                { "add",    "tty",    NULL,                                                       false },
                { "add",    "usb",    "",                                                         false },
                { "add",    "usb",    "\xff",                                                     false },

                /* Loads nothing. */
                { "bind",   "pci",    "pci:v00008086d0000A182sv00001849sd0000A182bc01sc06i01",    false },
                { "remove", "usb",    "usb:v046DpC31Cd6402dc00dsc00dp00ic03isc01ip01in00",        false },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                _cleanup_(sd_device_unrefp) sd_device *dev = NULL;

                dev = device(cases[i].action, cases[i].subsystem, cases[i].modalias);
                g_assert_cmpint(module_event_is_urgent(dev), ==, cases[i].urgent);
        }
}

typedef struct Events {
        ModuleEventOrder order;
        ModuleEvent events[8];
        size_t n;
} Events;

/* The next event, of a disk or of a tty. */
static ModuleEvent *add(Events *e, const char *subsystem, usec_t now) {
        _cleanup_(sd_device_unrefp) sd_device *dev = NULL;
        ModuleEvent *event = e->events + e->n++;

        dev = device("add", subsystem, NULL);
        g_assert_cmpint(module_event_add(&e->order, event, dev, now, event), >=, 0);
        event->seqnum = e->n;
        return event;
}

/* One pass, in which nothing is started: the numbers of the events, from 0. */
static char *pass(Events *e) {
        GString *found = g_string_new(NULL);
        ModuleEvent *event;

        module_event_begin_pass(&e->order);
        while ((event = module_event_next(&e->order)))
                g_string_append_printf(found, "%zu", (size_t) (event - e->events));

        return g_string_free(found, false);
}

#define assert_pass(e, expected)                                \
        do {                                                    \
                g_autofree char *found = pass(e);               \
                g_assert_cmpstr(found, ==, expected);           \
        } while (false)

static void events_done(Events *e) {
        for (size_t i = 0; i < e->n; i++)
                module_event_remove(&e->order, e->events + i);
        assert_pass(e, "");
        module_event_order_done(&e->order);
}

static void test_order(void) {
        Events e = {};

        assert_pass(&e, "");
        add(&e, "tty", NOW);
        add(&e, "tty", NOW + 1);
        add(&e, "block", NOW + 1);
        add(&e, "block", NOW + MODULE_EVENT_AGE_USEC - 1);
        add(&e, "tty", NOW + MODULE_EVENT_AGE_USEC - 1);
        add(&e, "block", NOW + MODULE_EVENT_AGE_USEC + 1);
        assert_pass(&e, "230154");

        /* The same again, as long as nothing has become of them. */
        assert_pass(&e, "230154");
        events_done(&e);
}

static void test_started(void) {
        Events e = {};

        add(&e, "tty", NOW);
        add(&e, "tty", NOW);
        add(&e, "tty", NOW);
        module_event_begin_pass(&e.order);
        g_assert_true(module_event_next(&e.order) == e.events);
        module_event_start(&e.order, e.events);
        assert_pass(&e, "12");

        /* In its old place. */
        module_event_requeue(&e.order, e.events);
        assert_pass(&e, "012");

        /* Freed in any state. */
        module_event_start(&e.order, e.events);
        module_event_remove(&e.order, e.events);
        module_event_remove(&e.order, e.events + 1);
        assert_pass(&e, "2");
        module_event_block(&e.order, e.events + 2, add(&e, "tty", NOW));
        module_event_remove(&e.order, e.events + 2);
        e.events[2] = (ModuleEvent) { .idx = PRIOQ_IDX_NULL };
        assert_pass(&e, "3");
        g_assert_false(module_event_order_is_empty(&e.order));
        module_event_remove(&e.order, e.events + 3);
        g_assert_true(module_event_order_is_empty(&e.order));
        assert_pass(&e, "");
        module_event_order_done(&e.order);
}

static void test_blocked(void) {
        Events e = {};
        ModuleEvent *parent, *child, *grandchild;

        parent = add(&e, "tty", NOW);
        child = add(&e, "tty", NOW);
        grandchild = add(&e, "tty", NOW);
        module_event_block(&e.order, grandchild, child);
        module_event_block(&e.order, child, parent);
        assert_pass(&e, "0");
        assert_pass(&e, "0");
        module_event_remove(&e.order, parent);
        e.events[0] = (ModuleEvent) { .idx = PRIOQ_IDX_NULL };
        assert_pass(&e, "1");
        module_event_start(&e.order, child);
        assert_pass(&e, "");
        module_event_remove(&e.order, child);
        e.events[1] = (ModuleEvent) { .idx = PRIOQ_IDX_NULL };
        assert_pass(&e, "2");
        events_done(&e);
}

/* What an event waits for is as urgent as the event, whatever that one waits for in its turn. */
static void test_inheritance(void) {
        Events e = {};
        ModuleEvent *parent, *child;

        add(&e, "tty", NOW);
        parent = add(&e, "tty", NOW);
        child = add(&e, "tty", NOW);
        module_event_block(&e.order, child, parent);
        module_event_block(&e.order, add(&e, "block", NOW + 1), child);
        g_assert_cmpuint(parent->due, ==, NOW + 1);
        assert_pass(&e, "10");

        /* And never less than it was. */
        module_event_block(&e.order, add(&e, "tty", NOW + 2), parent);
        g_assert_cmpuint(parent->due, ==, NOW + 1);
        events_done(&e);
}

/* As in udevd: its list has what blocks another event for as long as it is referred to. */
typedef struct UdevdEvent {
        ModuleEvent module;
        LIST_FIELDS(struct UdevdEvent, event);
} UdevdEvent;

struct ModuleDispatch {
        ModuleEventOrder order;
};

void *module_dispatch_next_event(ModuleDispatch *d) {
        return module_event_next(&d->order);
}

/* While the events are gone through, any of the list may be freed that is not in the order any more, also what comes
 * next in the list. */
static void test_free_in_pass(void) {
        _cleanup_(sd_device_unrefp) sd_device *dev = device("add", "tty", NULL);
        ModuleDispatch dispatch = {}, *d = &dispatch;
        UdevdEvent events[5] = {};
        LIST_HEAD(UdevdEvent, head) = NULL;
        size_t n = 0;

        for (size_t i = G_N_ELEMENTS(events); i > 0; i--)
                LIST_PREPEND(event, head, events + i - 1);
        for (size_t i = 0; i < G_N_ELEMENTS(events); i++)
                g_assert_cmpint(module_event_add(&d->order, &events[i].module, dev, NOW + i, events + i), >=, 0);

        module_event_start(&d->order, &events[0].module);
        module_event_block(&d->order, &events[2].module, &events[1].module);
        module_event_remove(&d->order, &events[1].module);

        module_event_begin_pass(&d->order);
        MODULE_DISPATCH_FOREACH_EVENT(d, event, head) {
                g_assert_true(event == events + 2 + n);
                if (n++ > 0)
                        continue;

                LIST_REMOVE(event, head, events + 1);
                memset(events + 1, 0, sizeof(UdevdEvent));
        }
        g_assert_cmpuint(n, ==, 3);

        /* Without a queue it is the list, of which the one that it is at may be freed. */
        n = 0;
        MODULE_DISPATCH_FOREACH_EVENT((ModuleDispatch*) NULL, event, head) {
                g_assert_true(event == events + (n == 0 ? 0 : n + 1));
                LIST_REMOVE(event, head, event);
                n++;
        }
        g_assert_cmpuint(n, ==, 4);

        for (size_t i = 0; i < G_N_ELEMENTS(events); i++)
                if (i != 1)
                        module_event_remove(&d->order, &events[i].module);
        module_event_order_done(&d->order);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);

        g_test_add_func("/module-event/urgent", test_urgent);
        g_test_add_func("/module-event/order", test_order);
        g_test_add_func("/module-event/started", test_started);
        g_test_add_func("/module-event/blocked", test_blocked);
        g_test_add_func("/module-event/inheritance", test_inheritance);
        g_test_add_func("/module-event/free-in-pass", test_free_in_pass);

        return g_test_run();
}
