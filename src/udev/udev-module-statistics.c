/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>

#include "alloc-util.h"
#include "sort-util.h"
#include "string-util.h"

#include "udev-module-chain.h"
#include "udev-module-statistics.h"

static int usec_compare(const usec_t *a, const usec_t *b) {
        return CMP(*a, *b);
}

/* Newton's; the library for it is not linked everywhere. */
static usec_t square_root(double v) {
        double root = v;

        if (v < 1)
                return 0;

        for (unsigned i = 0; i < 128; i++)
                root = (root + v / root) / 2;

        return root + .5;
}

ModuleDistribution module_distribution(usec_t *values, size_t n) {
        ModuleDistribution d = { .n = n };
        double sum = 0, squares = 0, mean;
        size_t most = 0, same = 0;

        assert(values || n == 0);

        if (n == 0)
                return d;

        typesafe_qsort(values, n, usec_compare);

        for (size_t i = 0; i < n; i++) {
                usec_t ms = values[i] / USEC_PER_MSEC;

                d.sum += values[i];
                sum += values[i];

                same = i > 0 && values[i - 1] / USEC_PER_MSEC == ms ? same + 1 : 1;
                if (same > most) {
                        most = same;
                        d.mode = ms * USEC_PER_MSEC;
                }
        }

        mean = sum / n;
        for (size_t i = 0; i < n; i++)
                squares += (values[i] - mean) * (values[i] - mean);

        d.mean = d.sum / n;
        d.median = values[n / 2];
        if (n % 2 == 0)
                d.median -= (values[n / 2] - values[n / 2 - 1] + 1) / 2;
        d.max = values[n - 1];
        d.deviation = square_root(squares / n);
        return d;
}

static usec_t between(usec_t from, usec_t to) {
        return to > from ? to - from : 0;
}

typedef struct Span {
        usec_t from, to;
} Span;

static int span_compare(const Span *a, const Span *b) {
        return CMP(a->from, b->from);
}

/* How long there was one at least. Sorts them. */
static usec_t spans_union(Span *spans, size_t n) {
        usec_t sum = 0, at = 0;

        typesafe_qsort(spans, n, span_compare);

        for (size_t i = 0; i < n; i++) {
                sum += between(MAX(spans[i].from, at), spans[i].to);
                at = MAX(at, spans[i].to);
        }

        return sum;
}

int module_statistics(const ModuleRecord *record, ModuleStatistics *ret) {
        _cleanup_free_ usec_t *first = NULL, *second = NULL, *third = NULL;
        _cleanup_free_ Span *spans = NULL;
        usec_t first_trigger = USEC_INFINITY, last_trigger = 0;
        ModuleStatistics s = {};
        size_t n;
        int r;

        assert(record);
        assert(ret);

        r = module_record_coldplug(record, &s.begin, &s.end);
        if (r < 0)
                return r;

        n = MAX(record->n_events, record->n_loads) + 1;
        first = new(usec_t, n);
        second = new(usec_t, n);
        third = new(usec_t, n);
        spans = new(Span, n);
        if (!first || !second || !third || !spans)
                return -ENOMEM;

        n = 0;
        for (size_t i = 0; i < record->n_events; i++) {
                const ModuleRecordEvent *e = record->events + i;

                if (e->processed == 0 || e->processed > s.end)
                        continue;

                first[n] = between(e->received, e->processed);
                second[n] = between(e->received, e->started);
                third[n] = between(e->started, e->processed);
                spans[n++] = (Span) { e->started, e->processed };

                /* A rule may trigger a `change` long after. */
                if (e->triggered && streq_ptr(e->action, "add")) {
                        s.n_triggered++;
                        first_trigger = MIN(first_trigger, e->received);
                        last_trigger = MAX(last_trigger, e->received);
                }
        }

        s.n_events = n;
        s.trigger = between(first_trigger, last_trigger);
        s.processing = spans_union(spans, n);
        s.completion = module_distribution(first, n);
        s.queued = module_distribution(second, n);
        s.processed = module_distribution(third, n);

        n = 0;
        for (size_t i = 0; i < record->n_loads; i++) {
                const ModuleRecordLoad *l = record->loads + i;

                if (l->done == 0 || l->done > s.end)
                        continue;

                first[n] = between(l->asked, l->started);
                second[n] = between(l->started, l->done);
                spans[n++] = (Span) { l->started, l->done };

                if (l->error < 0)
                        s.n_failed++;
                if (!s.longest_wait ||
                    between(l->asked, l->started) > between(s.longest_wait->asked, s.longest_wait->started))
                        s.longest_wait = l;
                if (!s.longest_hold ||
                    between(l->started, l->done) > between(s.longest_hold->started, s.longest_hold->done))
                        s.longest_hold = l;
        }

        s.n_loads = n;
        s.loading = spans_union(spans, n);
        s.waits = module_distribution(first, n);
        s.holds = module_distribution(second, n);

        for (size_t i = 0; i < record->n_requests; i++)
                s.n_requests += record->requests[i].asked <= s.end;

        *ret = s;
        return 0;
}
