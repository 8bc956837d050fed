// SPDX-License-Identifier: GPL-2.0-or-later
//
// Where udevd calls the module-load queue. Written for systemd 252; anchors that are known to differ in later
// versions are disjunctions. spatch says nothing about a rule that does not match, so tools/build counts what each
// rule has inserted: a new rule needs a line in its list.

// udev.conf is read here; the kernel command line comes later and wins.
@config_file@
@@
 udev_parse_config_full(...);
+module_config_read_file();

// Before upstream's own keys: an unknown udev.* key ends in a warning there.
@config_cmdline@
identifier key, value, data;
@@
 parse_proc_cmdline_item(const char *key, const char *value, void *data) { ...
   assert(key);
+
+  if (module_config_read_cmdline(key, value))
+          return 0;
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
@start exists@
typedef Manager;
identifier f, m;
@@
 int f(Manager *m) { ...
   udev_builtin_init();
+  (void) module_dispatch_start(&m->module_dispatch, m->event, udev_warn_timeout(arg_event_timeout_usec));
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

// /run/udev/queue is what `udevadm settle` looks at: it stays while a load is asked for.
@busy exists@
typedef sd_event_source;
identifier s, userdata, m;
expression E;
statement S1, S2;
@@
 on_post(sd_event_source *s, void *userdata) { ...
   Manager *m = E;
   ...
+  if (module_dispatch_is_busy(m->module_dispatch))
+          return 1;
   if (unlink("/run/udev/queue") < 0) S1 else S2
   ... }

// What follows ends udevd or kills all that is left in its cgroup: a loader must not be there any more. Idle ones
// leave by themselves, and their end brings us here again.
@loaders exists@
identifier s, userdata, m;
expression E;
statement S;
@@
 on_post(sd_event_source *s, void *userdata) { ...
   Manager *m = E;
   ...
   if (!hashmap_isempty(m->workers)) S
+
+  if (module_dispatch_has_loaders(m->module_dispatch))
+          return 1;
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
@add_worker exists@
typedef Worker;
identifier worker, ret, m, monitor, pid;
@@
 worker_new(Worker **ret, Manager *m, sd_device_monitor *monitor, pid_t pid) { ...
   worker->manager = m;
+  module_dispatch_add_worker(m->module_dispatch, pid);
   ... }

@remove_worker exists@
identifier worker;
statement S;
@@
 worker_free(Worker *worker) { ...
   if (worker->manager)
+  {
+          module_dispatch_remove_worker(worker->manager->module_dispatch, worker->pid);
           S
+  }
   ... }

// Only what went into the event list counts as received, and nothing else gets a place in the order.
@note_uevent exists@
typedef Event;
identifier m, dev, event;
@@
 event_queue_insert(Manager *m, sd_device *dev) { ...
   LIST_APPEND(event, m->events, event);
+  module_dispatch_note_uevent(m->module_dispatch, dev, &event->module);
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

// What leads to disks and keyboards is started first. An event that is known to be blocked is not looked at again
// until that one is gone: each look goes through the list, and out of order most events would be looked at in vain.
@event_order exists@
iterator name LIST_FOREACH;
identifier m, event, r;
@@
 event_queue_start(Manager *m) {
   int r;
+  usec_t due;
   ...
+  due = module_dispatch_next_pass(m->module_dispatch, 0);
+next_pass:
   LIST_FOREACH(event, event, m->events) {
     if (event->state != EVENT_QUEUED)
       continue;
+    if (event->module.blocked || event->module.due > due)
+      continue;
     ...
   }
+
+  due = module_dispatch_next_pass(m->module_dispatch, due);
+  if (due > 0)
+    goto next_pass;

   return 0;
 }

@event_block exists@
identifier event, blocker;
@@
 int event_is_blocked(Event *event) { ...
   event->blocker_seqnum = blocker->seqnum;
+  module_dispatch_block_event(event->manager->module_dispatch, &event->module, &blocker->module);
   return true;
   ... }

// Not on exit: nothing is started any more, and all events are freed at once.
@event_unblock exists@
iterator name LIST_FOREACH;
identifier event;
@@
 Event *event_free(Event *event) { ...
   LIST_REMOVE(event, event->manager->events, event);
+  if (event->manager->module_dispatch && !event->manager->exit)
+    LIST_FOREACH(event, e, event->manager->events)
+      if (e->blocker_seqnum == event->seqnum)
+        e->module.blocked = false;
   ... }

@begin_event exists@
identifier m, dev;
@@
 worker_process_device(Manager *m, sd_device *dev) { ...
   log_device_uevent(dev, "Processing device");
+
+  module_client_begin_event(dev);
   ... }

// The builtin `kmod load` of a worker asks the manager. Checked after the arguments, so that bad ones fail alike.
@client_load exists@
identifier dev, argv, modules;
@@
 builtin_kmod(sd_device *dev, ..., char *argv[], ...) { ...
   char **modules = strv_skip(argv, 2);
+
+  if (module_client_is_active())
+          return module_client_load(ctx, dev, modules);
   ... }

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

// Headers, where a rule above has matched.
@include_dispatch depends on start@
@@
 #include "udev-event.h"
+#include "udev-module-client.h"
+#include "udev-module-config.h"
+#include "udev-module-dispatch.h"

@include_client depends on before_run@
@@
 #include "udev-event.h"
+#include "udev-module-client.h"

@include_loader depends on client_load@
@@
 #include "udev-builtin.h"
+#include "udev-module-client.h"
+#include "udev-module-loader.h"
