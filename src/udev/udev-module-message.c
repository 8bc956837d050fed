/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A request is a header, then the device, then the steps. A step is one byte that says what follows it, and one or
 * two strings. All strings end with NUL, so they may hold any other byte. */

#include <errno.h>
#include <string.h>

#include "macro.h"
#include "string-util.h"

#include "udev-module-message.h"

typedef struct RequestHeader {
        uint64_t seqnum;
        uint32_t id;
        uint16_t n_steps;
        uint8_t class;
        uint8_t waits;
} RequestHeader;

enum {
        STEP_PRELOAD = 'p',     /* name */
        STEP_ASKED_FOR = 'a',   /* name, alias */
        STEP_SAME_ALIAS = 's',  /* name; its alias is that of the step before. Long MODALIASes have many modules */
};

typedef struct Writer {
        char *p;
        size_t left;
} Writer;

typedef struct Reader {
        const char *p;
        size_t left;
} Reader;

static int write_bytes(Writer *w, const void *bytes, size_t size) {
        if (size > w->left)
                return -EMSGSIZE;

        memcpy(w->p, bytes, size);
        w->p += size;
        w->left -= size;
        return 0;
}

static int write_string(Writer *w, const char *s) {
        return write_bytes(w, s, strlen(s) + 1);
}

static int write_step(Writer *w, const ModuleRequestStep *step, const char *last_alias) {
        char what;
        int r;

        if (isempty(step->name))
                return -EINVAL;

        if (!step->alias)
                what = STEP_PRELOAD;
        else if (last_alias && streq(step->alias, last_alias))
                what = STEP_SAME_ALIAS;
        else
                what = STEP_ASKED_FOR;

        r = write_bytes(w, &what, 1);
        if (r < 0)
                return r;

        r = write_string(w, step->name);
        if (r < 0 || what != STEP_ASKED_FOR)
                return r;

        return write_string(w, step->alias);
}

static int read_string(Reader *r, const char **ret) {
        const char *end;

        end = memchr(r->p, 0, r->left);
        if (!end)
                return -EBADMSG;

        *ret = r->p;
        r->left -= end + 1 - r->p;
        r->p = end + 1;
        return 0;
}

static int read_step(Reader *reader, const char *last_alias, ModuleRequestStep *ret) {
        ModuleRequestStep step = {};
        char what;
        int r;

        if (reader->left == 0)
                return -EBADMSG;

        what = *reader->p++;
        reader->left--;

        r = read_string(reader, &step.name);
        if (r < 0)
                return r;
        if (isempty(step.name))
                return -EBADMSG;

        switch (what) {
        case STEP_PRELOAD:
                break;
        case STEP_ASKED_FOR:
                r = read_string(reader, &step.alias);
                if (r < 0)
                        return r;
                if (isempty(step.alias))
                        return -EBADMSG;
                break;
        case STEP_SAME_ALIAS:
                if (!last_alias)
                        return -EBADMSG;
                step.alias = last_alias;
                break;
        default:
                return -EBADMSG;
        }

        *ret = step;
        return 0;
}

int module_message_build_request(const ModuleRequest *request, void *buffer, size_t *ret_size) {
        Writer w = { .p = buffer, .left = MODULE_MESSAGE_MAX };
        const char *last_alias = NULL;
        RequestHeader header;
        int r;

        assert(request);
        assert(buffer);
        assert(ret_size);

        if (request->n_steps == 0 || request->class < 0 || request->class >= _MODULE_CLASS_MAX)
                return -EINVAL;
        if (request->n_steps > MODULE_REQUEST_STEPS_MAX)
                return -E2BIG;

        header = (RequestHeader) {
                .seqnum = request->seqnum,
                .id = request->id,
                .n_steps = request->n_steps,
                .class = request->class,
                .waits = request->waiter != 0,
        };

        r = write_bytes(&w, &header, sizeof(header));
        if (r < 0)
                return r;

        r = write_string(&w, strempty(request->device));
        if (r < 0)
                return r;

        for (size_t i = 0; i < request->n_steps; i++) {
                r = write_step(&w, request->steps + i, last_alias);
                if (r < 0)
                        return r;

                last_alias = request->steps[i].alias ?: last_alias;
        }

        *ret_size = MODULE_MESSAGE_MAX - w.left;
        return 0;
}

int module_message_parse_request(
                const void *buffer,
                size_t size,
                pid_t sender,
                ModuleRequestStep *steps,
                ModuleRequest *ret) {

        const char *device, *last_alias = NULL;
        RequestHeader header;
        Reader reader;
        int r;

        assert(buffer);
        assert(steps);
        assert(ret);

        if (size < sizeof(header))
                return -EBADMSG;

        memcpy(&header, buffer, sizeof(header));
        reader = (Reader) {
                .p = (const char *) buffer + sizeof(header),
                .left = size - sizeof(header),
        };

        if (header.n_steps > MODULE_REQUEST_STEPS_MAX)
                return -E2BIG;
        if (header.n_steps == 0 || header.class >= _MODULE_CLASS_MAX || header.waits > 1)
                return -EBADMSG;

        r = read_string(&reader, &device);
        if (r < 0)
                return r;

        for (size_t i = 0; i < header.n_steps; i++) {
                r = read_step(&reader, last_alias, steps + i);
                if (r < 0)
                        return r;

                last_alias = steps[i].alias ?: last_alias;
        }

        if (reader.left > 0 || !last_alias)
                return -EBADMSG;

        *ret = (ModuleRequest) {
                .seqnum = header.seqnum,
                .device = empty_to_null(device),
                .class = header.class,
                .waiter = header.waits ? sender : 0,
                .id = header.id,
                .steps = steps,
                .n_steps = header.n_steps,
        };
        return 0;
}

int module_message_build_order(const ModuleRequestStep *step, void *buffer, size_t *ret_size) {
        Writer w = { .p = buffer, .left = MODULE_MESSAGE_MAX };
        int r;

        assert(step);
        assert(buffer);
        assert(ret_size);

        r = write_step(&w, step, NULL);
        if (r < 0)
                return r;

        *ret_size = MODULE_MESSAGE_MAX - w.left;
        return 0;
}

int module_message_parse_order(const void *buffer, size_t size, ModuleRequestStep *ret) {
        Reader reader = { .p = buffer, .left = size };
        int r;

        assert(buffer);
        assert(ret);

        r = read_step(&reader, NULL, ret);
        if (r < 0)
                return r;

        return reader.left > 0 ? -EBADMSG : 0;
}
