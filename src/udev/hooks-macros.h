/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What spatch must know of the macros in the files that hooks.cocci patches. It does not read their headers, and a
 * function with a macro that it cannot parse is left alone without a word. */

#define _cleanup_(x)
#define _cleanup_close_
#define _cleanup_fclose_
#define _cleanup_free_
#define _cleanup_strv_free_
#define _printf_(a, b)
#define _unused_

#define FOREACH_INOTIFY_EVENT(e, buffer, sz) YACFE_ITERATOR
#define FOREACH_INOTIFY_EVENT_WARN(e, buffer, sz) YACFE_ITERATOR
#define HASHMAP_FOREACH(e, h) YACFE_ITERATOR
#define HASHMAP_FOREACH_KEY(e, k, h) YACFE_ITERATOR
#define LIST_FOREACH(name, i, head) YACFE_ITERATOR
#define LIST_FOREACH_BACKWARDS(name, i, start) YACFE_ITERATOR
#define MODULE_DISPATCH_FOREACH_EVENT(d, e, head) YACFE_ITERATOR
#define ORDERED_HASHMAP_FOREACH_KEY(e, k, h) YACFE_ITERATOR
#define STRV_FOREACH(s, l) YACFE_ITERATOR

#define CMSG_BUFFER_TYPE(size) union { char x; }
