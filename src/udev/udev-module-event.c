/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>

#include "macro.h"
#include "strv.h"

#include "udev-module-class.h"
#include "udev-module-event.h"

bool module_event_is_urgent(sd_device *dev) {
        const char *subsystem = NULL, *modalias = NULL;
        sd_device_action_t action;

        assert(dev);

        (void) sd_device_get_subsystem(dev, &subsystem);
        if (STRPTR_IN_SET(subsystem, "block", "input"))
                return true;

        /* Only `add` loads modules. */
        if (sd_device_get_action(dev, &action) < 0 || action != SD_DEVICE_ADD ||
            sd_device_get_property_value(dev, "MODALIAS", &modalias) < 0)
                return false;

        return module_class_decide(modalias, _MODULE_CLASS_INVALID) <= MODULE_CLASS_URGENT_LAST;
}

static int event_compare(const void *a, const void *b) {
        const ModuleEvent *x = a, *y = b;

        return CMP(x->state != MODULE_EVENT_WAITING, y->state != MODULE_EVENT_WAITING) ?:
                CMP(x->due, y->due) ?:
                CMP(x->seqnum, y->seqnum);
}

static void event_set_state(ModuleEventOrder *order, ModuleEvent *event, ModuleEventState state) {
        if (event->state == MODULE_EVENT_SEEN)
                LIST_REMOVE(list, order->seen, event);
        else if (event->state == MODULE_EVENT_BLOCKED) {
                LIST_REMOVE(list, event->blocker->blocked, event);
                event->blocker = NULL;
        }

        event->state = state;

        if (state == MODULE_EVENT_SEEN)
                LIST_PREPEND(list, order->seen, event);

        prioq_reshuffle(order->events, event, &event->idx);
}

void module_event_order_done(ModuleEventOrder *order) {
        assert(order);

        order->events = prioq_free(order->events);
        order->seen = NULL;
}

bool module_event_order_is_empty(const ModuleEventOrder *order) {
        assert(order);

        return prioq_isempty(order->events);
}

int module_event_add(ModuleEventOrder *order, ModuleEvent *event, sd_device *dev, usec_t now, void *userdata) {
        assert(order);
        assert(event);
        assert(dev);

        *event = (ModuleEvent) {
                .event = userdata,
                .due = module_event_is_urgent(dev) ? now : usec_add(now, MODULE_EVENT_AGE_USEC),
                .idx = PRIOQ_IDX_NULL,
        };
        (void) sd_device_get_seqnum(dev, &event->seqnum);

        if (!order->events) {
                order->events = prioq_new(event_compare);
                if (!order->events)
                        return -ENOMEM;
        }

        return prioq_put(order->events, event, &event->idx);
}

void module_event_remove(ModuleEventOrder *order, ModuleEvent *event) {
        assert(order);
        assert(event);

        if (event->idx == PRIOQ_IDX_NULL) /* adding it has failed */
                return;

        while (event->blocked)
                event_set_state(order, event->blocked, MODULE_EVENT_WAITING);

        /* Out of the list where it may be. */
        event_set_state(order, event, MODULE_EVENT_STARTED);
        prioq_remove(order->events, event, &event->idx);
}

void module_event_begin_pass(ModuleEventOrder *order) {
        assert(order);

        while (order->seen)
                event_set_state(order, order->seen, MODULE_EVENT_WAITING);
}

void *module_event_next(ModuleEventOrder *order) {
        ModuleEvent *event;

        assert(order);

        event = prioq_peek(order->events);
        if (!event || event->state != MODULE_EVENT_WAITING)
                return NULL;

        event_set_state(order, event, MODULE_EVENT_SEEN);
        return event->event;
}

void module_event_block(ModuleEventOrder *order, ModuleEvent *event, ModuleEvent *blocker) {
        assert(order);
        assert(event);
        assert(blocker);

        event_set_state(order, event, MODULE_EVENT_BLOCKED);
        event->blocker = blocker;
        LIST_PREPEND(list, blocker->blocked, event);

        for (; blocker && blocker->due > event->due; blocker = blocker->blocker) {
                blocker->due = event->due;
                prioq_reshuffle(order->events, blocker, &blocker->idx);
        }
}

void module_event_start(ModuleEventOrder *order, ModuleEvent *event) {
        assert(order);
        assert(event);

        event_set_state(order, event, MODULE_EVENT_STARTED);
}

void module_event_requeue(ModuleEventOrder *order, ModuleEvent *event) {
        assert(order);
        assert(event);

        event_set_state(order, event, MODULE_EVENT_WAITING);
}
