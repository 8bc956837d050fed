// SPDX-License-Identifier: GPL-2.0-or-later
//
// Where udevd calls the module-load queue, in systemd 252, 257 and 262. Where these differ, a hook has several rules,
// and the name of each ends with the first of the three that it is for. spatch says nothing about a rule that does not
// match, so tools/build counts what each hook has inserted: a new hook needs a line in its list.

// What is configured. 252 has it in static variables, 257 in the Manager, 262 in a structure that exists once for each
// place where it comes from.
@config_field_252@
symbol arg_blockdev_read_only;
expression E;
@@
 static bool arg_blockdev_read_only = E;
+static ModuleConfig arg_module_config;

@config_field_257@
identifier S = {Manager, UdevConfig};
@@
 struct S {
   ...
   bool blockdev_read_only;
+  ModuleConfig module_config;
   ...
 };

// udev.conf is read here; the kernel command line comes later and wins.
@config_file@
expression E1, E2, E3, E4, E5;
@@
 udev_parse_config_full(E1, E2, E3, E4, E5);
+module_config_read_file(&arg_module_config);

// Later versions have a table of its keys.
@config_table@
typedef ConfigTableItem;
symbol config_parse_signal;
identifier table, c;
@@
 ConfigTableItem table[] = {
   ...,
   { NULL, "timeout_signal", config_parse_signal, 0, &c->timeout_signal },
+  { NULL, "module_queue", config_parse_module_queue, 0, &c->module_config.mode },
+  { NULL, "module_queue_loaders", config_parse_module_queue_loaders, 0, &c->module_config.loaders },
   ...
 };

// And one more for all other verbs of udevadm, or each of them would warn.
@config_known@
identifier table;
@@
 ConfigTableItem table[] = {
   ...,
   { NULL, "timeout_signal", NULL, 0, NULL },
+  { NULL, "module_queue", NULL, 0, NULL },
+  { NULL, "module_queue_loaders", NULL, 0, NULL },
   ...
 };

// Before upstream's own keys: an unknown udev.* key ends in a warning there.
@config_cmdline_252 depends on config_field_252@
identifier key, value, data;
@@
 parse_proc_cmdline_item(const char *key, const char *value, void *data) { ...
   assert(key);
+
+  if (module_config_read_cmdline(&arg_module_config, key, value))
+          return 0;
   ... }

@config_cmdline_257@
typedef Manager, UdevConfig;
type T = {Manager *, UdevConfig *};
identifier key, value, data, c;
expression E;
@@
 parse_proc_cmdline_item(const char *key, const char *value, void *data) { ...
   T c = E;
   ...
   assert(key);
+
+  if (module_config_read_cmdline(&c->module_config, key, value))
+          return 0;
   ... }

// There is no way to set it by a control message, but this is the order of all.
@config_merge_262@
symbol timeout_signal, SIGKILL;
identifier m;
@@
 manager_merge_config(Manager *m) { ...
   MERGE_NON_ZERO(timeout_signal, SIGKILL);
+  MERGE_NON_ZERO(module_config.mode, MODULE_QUEUE_NO);
+  MERGE_NON_ZERO(module_config.loaders, 0);
   ... }

// Workers know the queue by what they have inherited.
@config_changed_262@
identifier m, old;
statement S;
@@
 manager_needs_reload(Manager *m, const UdevConfig *old) { ...
   if (m->config.resolve_name_timing != old->resolve_name_timing) S
+
+  if (!module_config_equal(&m->config.module_config, &old->module_config))
+          return UDEV_RELOAD_KILL_WORKERS;
   ... }

// The one field that the queue has in the Manager. A struct tag, for the Manager may be in a header that does not
// know the type.
@manager_field@
@@
 struct Manager {
   ...
+  struct ModuleDispatch *module_dispatch;
   bool stop_exec_queue;
   ...
 };

// In the process that runs the event loop (udevd may have forked to the background), after the kmod context that
// loaders inherit exists, and before the first worker.
@start_252 depends on config_field_252 exists@
identifier f, m;
@@
 int f(Manager *m) { ...
   udev_builtin_init();
+  (void) module_dispatch_start(&m->module_dispatch, m->event, &arg_module_config,
+                                     udev_warn_timeout(arg_event_timeout_usec), NULL);
   ... }

@start_257 exists@
identifier m;
@@
 manager_main(Manager *m) { ...
   udev_builtin_init();
+  (void) module_dispatch_start(&m->module_dispatch, m->event, &m->module_config,
+                                     udev_warn_timeout(m->timeout_usec), NULL);
   ...
   udev_rules_load(&m->rules, m->resolve_name_timing)
   ... }

@start_262 exists@
identifier m;
@@
 manager_main(Manager *m) { ...
   udev_builtin_init();
+  (void) module_dispatch_start(&m->module_dispatch, m->event, &m->config.module_config,
+                                     udev_warn_timeout(m->config.timeout_usec), m->workers_cgroup);
   ...
   udev_rules_load(&m->rules, m->config.resolve_name_timing, ...)
   ... }

// Only here has the kmod context been made anew, and it is what a loader inherits.
@reload exists@
identifier m, force;
@@
 manager_reload(Manager *m, bool force) { ...
(
   udev_builtin_init();
+  module_dispatch_reload(m->module_dispatch);
|
   udev_builtin_reload(...);
+  module_dispatch_reload(m->module_dispatch);
)
   ... }

// 262 has read udev.conf again and tells its workers to leave if anything has changed. Events that are done are in its
// list as long as others refer to them, but event_remove has been there: in the order they would be for ever.
@configure_262 exists@
iterator name LIST_FOREACH;
identifier m, force;
@@
 manager_reload(Manager *m, bool force) { ...
   udev_builtin_reload(...);
+  r = module_dispatch_configure(&m->module_dispatch, m->event, &m->config.module_config,
+                                      udev_warn_timeout(m->config.timeout_usec), m->workers_cgroup);
+  if (r > 0)
+    LIST_FOREACH(event, event, m->events) {
+      if (event->state == EVENT_PROCESSED)
+        continue;
+      r = module_dispatch_adopt_event(m->module_dispatch, event->dev, &event->module,
+                                                event->state == EVENT_QUEUED, event);
+      if (r < 0) {
+        log_oom();
+        m->module_dispatch = module_dispatch_free(m->module_dispatch);
+        break;
+      }
+    }
   ... }

// And it has got those that the last udevd has left.
@adopt_262 depends on start_262 exists@
identifier m;
@@
 manager_main(Manager *m) { ...
   (void) module_dispatch_start(...);
+  LIST_FOREACH(event, event, m->events) {
+    r = module_dispatch_adopt_event(m->module_dispatch, event->dev, &event->module, true, event);
+    if (r < 0)
+      return log_oom();
+  }
   ... }

@release_262 exists@
typedef sd_event_source;
identifier s, userdata, m;
expression E;
@@
 on_post(sd_event_source *s, void *userdata) { ...
   Manager *m = E;
+  m->module_dispatch = module_dispatch_release(m->module_dispatch);
   ...
   if (m->exit) return on_post_exit(m);
   ... }

// /run/udev/queue is what `udevadm settle` looks at: it stays while a load is asked for. Idle workers leave all the same:
// where no more processes are to be had it is their places that loaders wait for.
@busy_252 exists@
identifier s, userdata, m;
expression E;
statement S1, S2;
@@
 on_post(sd_event_source *s, void *userdata) { ...
   Manager *m = E;
   ...
+  if (module_dispatch_is_busy(m->module_dispatch)) {
+          /* It stays. */
+  } else
   if (unlink("/run/udev/queue") < 0) S1 else S2
   ... }

@busy_262 exists@
identifier m;
statement S1, S2;
@@
 manager_unlink_queue_file(Manager *m) {
   assert(m);
+
+  if (module_dispatch_is_busy(m->module_dispatch))
+          return 0;
   ...
   if (unlink("/run/udev/queue") < 0) S1 else S2
   ... }

// What follows ends udevd or kills all that is left in its cgroup: no load may be left, and no loader. Idle ones leave
// by themselves, and their end brings us here again.
@loaders_252 exists@
identifier s, userdata, m;
expression E;
statement S;
@@
 on_post(sd_event_source *s, void *userdata) { ...
   Manager *m = E;
   ...
   if (!hashmap_isempty(m->workers)) S
+
+  if (module_dispatch_is_busy(m->module_dispatch) || module_dispatch_has_loaders(m->module_dispatch))
+          return 1;
   ...
   if (m->exit) return sd_event_exit(m->event, 0);
   ... }

@loaders_262 exists@
identifier s, userdata, m;
expression E, E1;
statement S1, S2;
@@
 on_post(sd_event_source *s, void *userdata) { ...
   Manager *m = E;
   ...
   if (!hashmap_isempty(m->workers)) S1
   ...
+  if (module_dispatch_is_busy(m->module_dispatch) || module_dispatch_has_loaders(m->module_dispatch))
+          return 0;
   if (m->workers_cgroup && E1) S2
   ... }

@loaders_exit_262 exists@
identifier m;
statement S;
@@
 on_post_exit(Manager *m) { ...
   if (
-      !hashmap_isempty(m->workers)
+      !hashmap_isempty(m->workers) || module_dispatch_is_busy(m->module_dispatch) ||
+            module_dispatch_has_loaders(m->module_dispatch)
      ) S
   ... }

// Start to drain as soon as udevd is to exit; on_post() above waits for the end of it.
@stop exists@
symbol true;
identifier m;
@@
 manager_exit(Manager *m) { ...
   m->exit = true;
+  module_dispatch_stop(m->module_dispatch);
   ... }

// While the event loop and the workers that it refers to still exist. Workers free their copy of the Manager as well:
// there the pointer is NULL already.
@free_dispatch exists@
identifier m;
@@
 manager_free(Manager *m) { ...
+  m->module_dispatch = module_dispatch_free(m->module_dispatch);
+
   udev_builtin_exit();
   ... }

// First thing in the child: nothing that the worker frees or runs may see the manager's side.
@enter_worker exists@
identifier m, r;
identifier fork = {safe_fork, pidref_safe_fork};
@@
 worker_spawn(Manager *m, ...) { ...
   r = fork("(udev-worker)", ...);
   ...
   if (r == 0) {
+          m->module_dispatch = module_dispatch_enter_worker(m->module_dispatch);
+
           ...
   }
   ... }

// A worker may ask as soon as it exists in the manager's list, and no longer.
@add_worker_252 exists@
typedef Worker;
identifier worker, ret, m, monitor, p;
@@
 worker_new(Worker **ret, Manager *m, sd_device_monitor *monitor, pid_t p) { ...
   worker->manager = m;
+  module_dispatch_add_worker(m->module_dispatch, p);
   ... }

@add_worker_262 exists@
typedef PidRef;
identifier worker, ret, m, monitor, p;
@@
 worker_new(Worker **ret, Manager *m, sd_device_monitor *monitor, PidRef *p) { ...
   worker->manager = m;
+  module_dispatch_add_worker(m->module_dispatch, worker->pidref.pid);
   ... }

@remove_worker_252 exists@
identifier worker;
@@
 worker_free(Worker *worker) { ...
   if (worker->manager)
+  {
+          module_dispatch_remove_worker(worker->manager->module_dispatch, worker->pid);
           hashmap_remove(worker->manager->workers, PID_TO_PTR(worker->pid));
+  }
   ... }

@remove_worker_262 exists@
identifier worker;
@@
 worker_free(Worker *worker) { ...
   if (worker->manager)
+  {
+          module_dispatch_remove_worker(worker->manager->module_dispatch, worker->pidref.pid);
           hashmap_remove(worker->manager->workers, &worker->pidref);
+  }
   ... }

// Only what is in the event list counts as received, and has a place in the order.
@note_uevent_252 exists@
typedef Event;
identifier m, dev, event, r;
@@
 event_queue_insert(Manager *m, sd_device *dev) { ...
   int r;
   ...
   LIST_APPEND(event, m->events, event);
+  r = module_dispatch_note_uevent(m->module_dispatch, dev, &event->module, event);
+  if (r < 0) {
+    event_free(event);
+    return r;
+  }
   ... }

@note_uevent_262 exists@
identifier m, dev, event, r;
@@
 event_queue_insert(Manager *m, sd_device *dev) { ...
   int r;
   ...
   event->manager = m;
+  r = module_dispatch_note_uevent(m->module_dispatch, dev, &event->module, event);
+  if (r < 0)
+    return r;
   TAKE_PTR(event);
   ... }

// The place of an event in the order.
@event_field@
@@
 struct Event {
   ...
   sd_device_action_t action;
+  ModuleEvent module;
   ...
 };

// What leads to disks and keyboards is started first: with the queue the loop takes the events from the order, and not
// from the list.
@event_order exists@
iterator name LIST_FOREACH, MODULE_DISPATCH_FOREACH_EVENT;
identifier m, event;
statement S;
@@
 event_queue_start(Manager *m) { ...
+  module_dispatch_begin_pass(m->module_dispatch);
+
-  LIST_FOREACH(event, event, m->events)
+  MODULE_DISPATCH_FOREACH_EVENT(m->module_dispatch, event, m->events)
   S
   ... }

@event_block_252 exists@
identifier event, e;
@@
 int event_is_blocked(Event *event) { ...
   event->blocker_seqnum = e->seqnum;
+  module_dispatch_block_event(event->manager->module_dispatch, &event->module, &e->module);
   return true;
   ... }

@event_block_262 exists@
iterator name LIST_FOREACH_BACKWARDS;
symbol event_ref, event_unref;
identifier event, e;
@@
 event_find_blocker(Event *event) { ...
   LIST_FOREACH_BACKWARDS(event, e, ...) { ...
     unref_and_replace_new_ref(event->blocker, e, event_ref, event_unref);
+    module_dispatch_block_event(event->manager->module_dispatch, &event->module, &e->module);
     ...
   }
   ... }

@event_start exists@
identifier worker, event;
@@
 worker_attach_event(Worker *worker, Event *event) { ...
   event->state = EVENT_RUNNING;
+  module_dispatch_start_event(worker->manager->module_dispatch, &event->module);
   ... }

@event_requeue_252 exists@
identifier event;
@@
 event_requeue(Event *event) { ...
   event->state = EVENT_QUEUED;
+  module_dispatch_requeue_event(event->manager->module_dispatch, &event->module);
   ... }

// By time, and when the disk may not be locked any more.
@event_requeue_262 exists@
identifier f = {manager_requeue_locked_events, manager_requeue_locked_events_by_device};
identifier m, event;
@@
 f(Manager *m, ...) { ...
   event->state = EVENT_QUEUED;
+  module_dispatch_requeue_event(m->module_dispatch, &event->module);
   ... }

@event_remove_252 exists@
identifier event;
@@
 Event *event_free(Event *event) { ...
   assert(event->manager);
   ...
   LIST_REMOVE(event, event->manager->events, event);
+  module_dispatch_remove_event(event->manager->module_dispatch, &event->module);
   ... }

// Those that are blocked by it refer to it still.
@event_remove_262 exists@
identifier event;
@@
 Event *event_enter_processed(Event *event) { ...
   event->state = EVENT_PROCESSED;
+  module_dispatch_remove_event(event->manager->module_dispatch, &event->module);
   ... }

@begin_event exists@
identifier dev;
@@
 worker_process_device(..., sd_device *dev) { ...
   log_device_uevent(dev, "Processing device");
+
+  module_client_begin_event(dev);
   ... }

// The builtin `kmod load` of a worker asks the manager. Checked after the arguments, so that bad ones fail alike.
@client_load exists@
symbol dev;
identifier argv, modules;
@@
 builtin_kmod(..., char *argv[], ...) { ...
   char **modules = strv_skip(argv, 2);
+
+  if (module_client_is_active())
+          return module_client_load(ctx, dev, modules);
   ... }

// A worker waits for its loads where the event has a UUID, since somebody may wait for it by that. In 262 `udevadm
// trigger` gives one to each event, and each of a coldplug would wait: with the queue it gives none if nobody has asked
// for it, as before 262.
@trigger_262@
symbol arg_uuid, arg_settle, action_str;
identifier d, action, id, r;
@@
-  r = sd_device_trigger_with_uuid(d, action, &id);
+  r = arg_uuid || arg_settle || !module_queue_is_on() ? sd_device_trigger_with_uuid(d, action, &id) :
+                                             sd_device_set_sysattr_value(d, "uevent", action_str);

@varlink_262@
identifier v;
@@
+  module_varlink_add(v);
   manager->varlink_server = TAKE_PTR(v);

// The loaders work with the context that this file keeps to itself.
@loader_context@
identifier ctx;
@@
 static struct kmod_ctx *ctx = NULL;
+struct kmod_ctx *module_loader_context(void) { return ctx; }

// The barrier in the RUN list: an entry may depend on the modules that those before it have asked for.
@before_run exists@
typedef UdevEvent, UdevBuiltinCommand;
identifier event, builtin;
expression E;
@@
 udev_event_execute_run(UdevEvent *event, ...) { ...
   UdevBuiltinCommand builtin = E;
+
+  module_client_before_run(event->dev);
   ... }

@after_run exists@
iterator name ORDERED_HASHMAP_FOREACH_KEY;
identifier event;
statement S;
@@
 udev_event_execute_run(UdevEvent *event, ...) { ...
   ORDERED_HASHMAP_FOREACH_KEY(...) S
+
+  module_client_after_run(event->dev);
   ... }

// The verb of udevadm. In 262 it is a macro outside of all functions: tools/tree.sh adds that one.
@verb_252@
typedef Verb;
symbol lock_main, VERB_ANY;
identifier verbs;
@@
 Verb verbs[] = {
   ...,
   { "lock", VERB_ANY, VERB_ANY, 0, lock_main },
+  { "module-queue", VERB_ANY, VERB_ANY, 0, module_queue_main },
   ...
 };

@verb_help_252@
identifier descriptions;
expression E;
@@
 char *const descriptions[][2] = {
   ...,
   { "lock", E },
+  { "module-queue", "See the queue of kernel modules" },
   ...
 };

// Headers, where a rule above has matched.
@include_dispatch_252 depends on config_file@
@@
 #include "udev-event.h"
+#include "udev-module-client.h"
+#include "udev-module-config.h"
+#include "udev-module-dispatch.h"

@include_dispatch_257 depends on manager_field && !config_file@
@@
 #include "udev-ctrl.h"
+#include "udev-module-dispatch.h"

@include_dispatch_262 depends on manager_field@
@@
 #include "udev-forward.h"
+#include "udev-module-dispatch.h"

@include_config_262 depends on config_field_257 && !manager_field@
@@
 #include "udev-forward.h"
+#include "udev-module-config.h"

@include_client depends on before_run@
@@
 #include "udev-event.h"
+#include "udev-module-client.h"

@include_worker depends on begin_event && !config_file@
@@
 #include "udev-event.h"
+#include "udev-module-client.h"

@include_verb depends on verb_252@
@@
 #include "udevadm.h"
+#include "udevadm-module-queue.h"

@include_varlink depends on varlink_262@
@@
 #include "udev-varlink.h"
+#include "udev-module-varlink.h"

@include_trigger depends on trigger_262@
@@
 #include "udevadm.h"
+#include "udevadm-module-queue.h"

@include_loader depends on client_load@
@@
 #include "udev-builtin.h"
+#include "udev-module-client.h"
+#include "udev-module-loader.h"
