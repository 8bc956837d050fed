/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "alloc-util.h"
#include "errno-util.h"
#include "string-util.h"

#include "udev-module-chain.h"
#include "udev-module-plot.h"

/* In pixels. */
#define LEFT 170.0
#define WIDTH 1130.0                    /* of the time axis */
#define RIGHT 20.0
#define ROW 15.0                        /* of a load, or of text */
#define BAND 26.0
#define STRIP 60.0                      /* the uevents that wait */

/* A part of a chain gets words if it is more than this of all. */
#define WORDS_PERCENT 3U

#define STRIP_BINS 226U                 /* 5 pixels each */

static const char* const class_colors[_MODULE_CLASS_MAX] = {
        [MODULE_CLASS_BUS]     = "#7b5ea7",
        [MODULE_CLASS_STORAGE] = "#d1495b",
        [MODULE_CLASS_INPUT]   = "#1b7fbd",
        [MODULE_CLASS_DISPLAY] = "#2a9d6f",
        [MODULE_CLASS_NETWORK] = "#d98f1f",
        [MODULE_CLASS_OTHER]   = "#8a8a8a",
        [MODULE_CLASS_SOUND]   = "#b0629b",
        [MODULE_CLASS_IDLE]    = "#b9b29a",
};

/* What was before a chain. */
#define FIRST_COLOR "#e4e4e4"

static const char* const chain_colors[_MODULE_CHAIN_KIND_MAX] = {
        [MODULE_CHAIN_QUEUED]  = "#f2c14e",
        [MODULE_CHAIN_RULES]   = "#8fb8de",
        [MODULE_CHAIN_WAITING] = "#f0a868",
        [MODULE_CHAIN_LOADING] = "#34495e",
        [MODULE_CHAIN_KERNEL]  = "#9c6b98",
};

static const char* const chain_legend[_MODULE_CHAIN_KIND_MAX] = {
        [MODULE_CHAIN_QUEUED]  = "uevent waits for a worker",
        [MODULE_CHAIN_RULES]   = "udev rules",
        [MODULE_CHAIN_WAITING] = "module waits for its turn",
        [MODULE_CHAIN_LOADING] = "module loads",
        [MODULE_CHAIN_KERNEL]  = "the kernel looks for devices",
};

typedef struct Plot {
        FILE *f;
        const ModuleRecord *record;
        usec_t begin, end;
        double y;                       /* the next thing goes there */
        ModuleChain disk_chain;
} Plot;

static double seconds(usec_t usec) {
        return (double) usec / USEC_PER_SEC;
}

static usec_t since(const Plot *p, usec_t usec) {
        return usec > p->begin ? usec - p->begin : 0;
}

static double place(const Plot *p, usec_t usec) {
        return LEFT + WIDTH * MIN(since(p, usec), since(p, p->end)) / MAX(since(p, p->end), 1U);
}

/* Names of devices and modules may be anything. */
static void write_text(FILE *f, const char *s) {
        for (; *s; s++)
                switch (*s) {
                case '&':
                        fputs("&amp;", f);
                        break;
                case '<':
                        fputs("&lt;", f);
                        break;
                case '>':
                        fputs("&gt;", f);
                        break;
                default:
                        fputc(*s >= ' ' && *s <= '~' ? *s : '?', f);
                }
}

_printf_(5, 6)
static void draw_text(const Plot *p, double x, double y, const char *class, const char *format, ...) {
        _cleanup_free_ char *text = NULL;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);

        fprintf(p->f, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
        write_text(p->f, strempty(text));
        fputs("</text>\n", p->f);
}

static void draw_box(const Plot *p, double x, double y, double width, double height, const char *fill, double opacity) {
        fprintf(p->f,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" fill-opacity=\"%.2f\"/>\n",
                x, y, MAX(width, .7), height, fill, opacity);
}

static void draw_span(const Plot *p, usec_t from, usec_t to, double y, double height, const char *fill,
                      double opacity) {
        if (to > from)
                draw_box(p, place(p, from), y, place(p, to) - place(p, from), height, fill, opacity);
}

static const char *link_name(const ModuleChainLink *link) {
        return link->event ? module_record_device_name(link->event->device) : link->load->module;
}

/* A part of a chain in words. The caller frees it; NULL if there is no memory. */
static char *link_describe(const ModuleChainLink *link) {
        const char *name = link_name(link);

        switch (link->kind) {
        case MODULE_CHAIN_QUEUED:
                return strjoin("the uevent of ", name, " waits until a worker is free for it");
        case MODULE_CHAIN_RULES:
                return strjoin("udev rules for ", name);
        case MODULE_CHAIN_WAITING:
                return strjoin("module ", name, " waits for its turn");
        case MODULE_CHAIN_LOADING:
                return strjoin("module ", name, link->load->preload ? " loads, another one needs it" :
                               " loads and looks for its devices");
        case MODULE_CHAIN_KERNEL:
                return strjoin("module ", link->load->module, " is loaded, the kernel still looks for ", name);
        default:
                assert_not_reached();
        }
}

/* Times of this axis, behind all that is drawn later between the two heights. */
static void draw_axis(const Plot *p, double top, double bottom) {
        static const usec_t steps[] = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 60000,
                                        300000 };
        usec_t length = since(p, p->end), step = 3600 * USEC_PER_SEC;

        for (size_t i = 0; i < ELEMENTSOF(steps); i++)
                if (length / (steps[i] * USEC_PER_MSEC) < 12) {
                        step = steps[i] * USEC_PER_MSEC;
                        break;
                }

        for (usec_t t = 0; t <= length && t / step < 100; t += step) {
                double x = place(p, p->begin + t);

                fprintf(p->f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", x, top, x,
                        bottom);
                draw_text(p, x, top - 3, "tick", "%.*fs", step < USEC_PER_SEC / 10 ? 2 : step < USEC_PER_SEC ? 1 : 0,
                          seconds(t));
        }
}

static const ModuleChainLink *chain_longest(const ModuleChain *chain) {
        const ModuleChainLink *longest = chain->links;

        for (size_t i = 1; i < chain->n_links; i++)
                if (chain->links[i].to - chain->links[i].from > longest->to - longest->from)
                        longest = chain->links + i;

        return longest;
}

static int draw_chain(Plot *p, const char *what, const ModuleChain *chain) {
        _cleanup_free_ char *most = NULL;
        const ModuleChainLink *last;
        usec_t whole;

        if (chain->n_links == 0)
                return 0;

        last = chain->links + chain->n_links - 1;
        most = link_describe(chain_longest(chain));
        if (!most)
                return -ENOMEM;

        whole = since(p, last->to);
        draw_text(p, LEFT, p->y + 12, "title", "%s: %s, after %.2f s. Most of it: %s", what, link_name(last),
                  seconds(whole), most);
        p->y += 18;

        draw_span(p, p->begin, chain->links[0].from, p->y, BAND, FIRST_COLOR, 1);
        for (size_t i = 0; i < chain->n_links; i++) {
                const ModuleChainLink *link = chain->links + i;

                draw_span(p, link->from, link->to, p->y, BAND, chain_colors[link->kind], 1);
        }
        for (size_t i = 0, n = 0; i < chain->n_links; i++) {
                const ModuleChainLink *link = chain->links + i;

                if ((link->to - link->from) * 100 >= whole * WORDS_PERCENT)
                        draw_text(p, (place(p, link->from) + place(p, link->to)) / 2, p->y + 17, "number", "%zu", ++n);
        }
        p->y += BAND + 4;

        if (since(p, chain->links[0].from) * 100 >= whole * WORDS_PERCENT) {
                p->y += ROW;
                draw_box(p, LEFT, p->y - 9, 10, 10, FIRST_COLOR, 1);
                draw_text(p, LEFT + 40, p->y, "words", "%.2f s: until udevd was told of %s",
                          seconds(since(p, chain->links[0].from)), link_name(chain->links));
        }

        for (size_t i = 0, n = 0; i < chain->n_links; i++) {
                const ModuleChainLink *link = chain->links + i;
                _cleanup_free_ char *words = NULL;

                if ((link->to - link->from) * 100 < whole * WORDS_PERCENT)
                        continue;

                words = link_describe(link);
                if (!words)
                        return -ENOMEM;

                n++;
                p->y += ROW;
                draw_box(p, LEFT, p->y - 9, 10, 10, chain_colors[link->kind], 1);
                draw_text(p, LEFT + 16, p->y, "words", "%zu.", n);
                draw_text(p, LEFT + 40, p->y, "words", "%.2f s: %s", seconds(link->to - link->from), words);
        }

        p->y += 24;
        return 0;
}

static void draw_marks(Plot *p, const char *title, bool (*is)(const ModuleRecordEvent *event), const char *color) {
        size_t n = 0;

        for (size_t i = 0; i < p->record->n_events; i++) {
                const ModuleRecordEvent *e = p->record->events + i;
                double x;

                if (!is(e) || e->processed == 0 || e->processed > p->end)
                        continue;

                n++;
                x = place(p, e->processed);
                fprintf(p->f, "<path d=\"M%.1f %.1f l5 11 l-10 0 z\" fill=\"%s\"><title>", x, p->y, color);
                write_text(p->f, strempty(e->device));
                fprintf(p->f, ": %.3f s</title></path>\n", seconds(since(p, e->processed)));
        }

        draw_text(p, LEFT - 10, p->y + 10, "label", "%zu %s", n, title);
        p->y += 20;
}

/* How many uevents udevd has and no worker. */
static void draw_waiting(Plot *p) {
        int waiting[STRIP_BINS + 1] = {}, n = 0, most = 0;

        for (size_t i = 0; i < p->record->n_events; i++) {
                const ModuleRecordEvent *e = p->record->events + i;

                if (e->received > p->end || e->started < e->received)
                        continue;

                waiting[(size_t) ((place(p, e->received) - LEFT) / WIDTH * STRIP_BINS)]++;
                waiting[(size_t) ((place(p, e->started) - LEFT) / WIDTH * STRIP_BINS)]--;
        }

        for (size_t i = 0; i < STRIP_BINS; i++)
                most = MAX(most, n += waiting[i]);

        n = 0;
        for (size_t i = 0; most > 0 && i < STRIP_BINS; i++) {
                double height = STRIP * (n += waiting[i]) / most;

                if (n > 0)
                        draw_box(p, LEFT + WIDTH * i / STRIP_BINS, p->y + STRIP - height, WIDTH / STRIP_BINS, height,
                                 "#f2c14e", 1);
        }

        draw_text(p, LEFT - 10, p->y + STRIP / 2, "label", "uevents that wait");
        draw_text(p, LEFT - 10, p->y + STRIP / 2 + 13, "label", "(%i at most)", most);
        p->y += STRIP + 10;
}

static const ModuleChainLink *chain_find(const ModuleChain *chain, const ModuleRecordLoad *load) {
        for (size_t i = 0; i < chain->n_links; i++)
                if (chain->links[i].load == load && chain->links[i].kind == MODULE_CHAIN_LOADING)
                        return chain->links + i;

        return NULL;
}

static void draw_load(Plot *p, const ModuleRecordLoad *l) {
        const ModuleChainLink *critical = chain_find(&p->disk_chain, l);
        const char *color = class_colors[l->class], *style;
        usec_t live = l->live > 0 ? l->live : l->done;
        double x;

        fputs("<g><title>", p->f);
        write_text(p->f, l->module);
        fprintf(p->f, " (%s%s), needed by %" PRIu32 ", ", module_class_to_string(l->class),
                l->preload ? ", for another module" : "",
                l->n_requests);
        write_text(p->f, strempty(l->device));
        fputs("</title>\n", p->f);

        draw_span(p, l->asked, l->started, p->y + 6, 3, "#c9c9c9", 1);
        draw_span(p, l->started, live, p->y + 2, 11, color, 1);
        draw_span(p, live, l->done, p->y + 2, 11, color, .35);
        if (critical)
                fprintf(p->f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"13\" class=\"critical\"/>\n",
                        place(p, critical->from) - 1, p->y + 1, place(p, critical->to) - place(p, critical->from) + 2);

        if (place(p, l->done) < LEFT + WIDTH * .75) {
                x = place(p, l->done) + 5;
                style = critical ? "after strong" : "after";
        } else {
                x = place(p, MIN(l->asked, l->started)) - 5;
                style = critical ? "label strong" : "label";
        }
        draw_text(p, x, p->y + 11, style, "%s %.2f s%s", l->module,
                  seconds(l->done > l->started ? l->done - l->started : 0), l->error < 0 ? " (failed)" : "");

        fputs("</g>\n", p->f);
        p->y += ROW;
}

static void draw_legends(Plot *p) {
        double x = LEFT;

        for (ModuleChainKind k = 0; k < _MODULE_CHAIN_KIND_MAX; k++) {
                draw_box(p, x, p->y - 9, 10, 10, chain_colors[k], 1);
                draw_text(p, x + 14, p->y, "words", "%s", chain_legend[k]);
                x += 34 + 7 * strlen(chain_legend[k]);
        }
        p->y += 22;
}

static void draw_classes(Plot *p) {
        double x = LEFT;

        p->y += 10;
        draw_text(p, LEFT, p->y, "title", "Modules, in the order in which they were started");
        p->y += 18;
        for (ModuleClass c = 0; c < _MODULE_CLASS_MAX; c++) {
                draw_box(p, x, p->y - 9, 10, 10, class_colors[c], 1);
                draw_text(p, x + 14, p->y, "words", "%s", module_class_to_string(c));
                x += 34 + 7 * strlen(module_class_to_string(c));
        }
        p->y += 16;
        draw_text(p, LEFT, p->y, "words", "Grey line: waits for its turn. Pale: is there, while the kernel waits for "
                  "other drivers. Framed: the last disk waited for it.");
        p->y += 26;
}

static int plot_chains(Plot *p) {
        const ModuleRecordEvent *disk, *input, *last_event;
        const ModuleRecordLoad *last_load;
        _cleanup_(module_chain_done) ModuleChain chain = {};
        int r;

        disk = module_record_last_event(p->record, module_record_event_is_disk, p->end);
        if (disk) {
                r = module_chain_build(p->record, disk, NULL, &p->disk_chain);
                if (r < 0)
                        return r;

                r = draw_chain(p, "The last disk", &p->disk_chain);
                if (r < 0)
                        return r;
        }

        input = module_record_last_event(p->record, module_record_event_is_input, p->end);
        if (input) {
                r = module_chain_build(p->record, input, NULL, &chain);
                if (r < 0)
                        return r;

                r = draw_chain(p, "The last input device", &chain);
                if (r < 0)
                        return r;
                module_chain_done(&chain);
        }

        module_record_last(p->record, p->end, &last_event, &last_load);
        if (!last_event && !last_load)
                return 0;

        r = module_chain_build(p->record, last_event, last_load, &chain);
        if (r < 0)
                return r;

        return draw_chain(p, "The last of all, which udevadm settle waits for", &chain);
}

static int plot_body(Plot *p) {
        size_t n_loads = 0;
        double top;
        int r;

        for (size_t i = 0; i < p->record->n_loads; i++)
                n_loads += p->record->loads[i].started <= p->end;

        p->y = 30;
        draw_text(p, LEFT, p->y, "head", "udevd, %s: %zu loads in %.2f s. Times are since the first uevent.",
                  p->record->initrd ? "initramfs" : "system", n_loads, seconds(since(p, p->end)));
        p->y += 24;
        draw_legends(p);

        r = plot_chains(p);
        if (r < 0)
                return r;

        draw_classes(p);
        top = p->y;
        draw_axis(p, top, top + 40 + STRIP + 10 + n_loads * ROW);
        p->y += 6;
        draw_marks(p, "disks", module_record_event_is_disk, class_colors[MODULE_CLASS_STORAGE]);
        draw_marks(p, "input devices", module_record_event_is_input, class_colors[MODULE_CLASS_INPUT]);
        draw_waiting(p);

        for (size_t i = 0; i < p->record->n_loads; i++)
                if (p->record->loads[i].started <= p->end)
                        draw_load(p, p->record->loads + i);

        p->y += ROW;
        return 0;
}

int module_plot(FILE *f, const ModuleRecord *record) {
        _cleanup_free_ char *body = NULL;
        Plot p = { .record = record };
        size_t size;
        int r;

        assert(f);
        assert(record);

        r = module_record_coldplug(record, &p.begin, &p.end);
        if (r < 0)
                return r;
        if (p.end <= p.begin)
                return -ENODATA;

        /* The height is known in the end. */
        p.f = open_memstream(&body, &size);
        if (!p.f)
                return -ENOMEM;

        r = plot_body(&p);
        module_chain_done(&p.disk_chain);
        if (ferror(p.f) || fflush(p.f) != 0)
                r = -ENOMEM;
        fclose(p.f);
        if (r < 0)
                return r;

        fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%.0f\" height=\"%.0f\">\n"
                "<style>\n"
                "text { font: 11px sans-serif; fill: #222 }\n"
                ".head { font-size: 17px; font-weight: bold }\n"
                ".title { font-size: 13px; font-weight: bold }\n"
                ".number { font-weight: bold; text-anchor: middle }\n"
                ".label { text-anchor: end }\n"
                ".strong { font-weight: bold }\n"
                ".tick { text-anchor: middle; fill: #777 }\n"
                ".grid { stroke: #ddd }\n"
                ".critical { fill: none; stroke: #000; stroke-width: 1.5 }\n"
                "</style>\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                "%s</svg>\n", LEFT + WIDTH + RIGHT, p.y, body);
        return 0;
}
