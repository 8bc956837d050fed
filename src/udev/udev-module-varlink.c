/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "udev-module-compat.h"
#include "udev-module-varlink.h"

#if MODULE_HAVE_VARLINK

#include "sd-json.h"
#include "sd-varlink.h"
#include "sd-varlink-idl.h"

#include "json-util.h"
#include "log.h"
#include "udev-manager.h"

#include "udev-module-dispatch.h"

static SD_VARLINK_DEFINE_STRUCT_TYPE(
                Load,
                SD_VARLINK_FIELD_COMMENT("The name of the module."),
                SD_VARLINK_DEFINE_FIELD(module, SD_VARLINK_STRING, 0),
                SD_VARLINK_FIELD_COMMENT("Its class, which decides what is loaded first: bus, storage, input, …"),
                SD_VARLINK_DEFINE_FIELD(class, SD_VARLINK_STRING, 0),
                SD_VARLINK_FIELD_COMMENT("The device whose event asked first, as a path below /sys."),
                SD_VARLINK_DEFINE_FIELD(device, SD_VARLINK_STRING, SD_VARLINK_NULLABLE),
                SD_VARLINK_FIELD_COMMENT("The SEQNUM of that event."),
                SD_VARLINK_DEFINE_FIELD(seqnum, SD_VARLINK_INT, 0),
                SD_VARLINK_FIELD_COMMENT("How many requests share the load."),
                SD_VARLINK_DEFINE_FIELD(requests, SD_VARLINK_INT, 0),
                SD_VARLINK_FIELD_COMMENT("The PID of the process that loads it."),
                SD_VARLINK_DEFINE_FIELD(loader, SD_VARLINK_INT, 0),
                SD_VARLINK_FIELD_COMMENT("When it was started, in microseconds of CLOCK_MONOTONIC."),
                SD_VARLINK_DEFINE_FIELD(startedUSec, SD_VARLINK_INT, 0),
                SD_VARLINK_FIELD_COMMENT("Whether the module works already, and only waits for the probes of others."),
                SD_VARLINK_DEFINE_FIELD(live, SD_VARLINK_BOOL, 0));

static SD_VARLINK_DEFINE_METHOD(
                Describe,
                SD_VARLINK_FIELD_COMMENT("Whether there is a queue. If not, the other fields tell what one that was switched off still does."),
                SD_VARLINK_DEFINE_OUTPUT(on, SD_VARLINK_BOOL, 0),
                SD_VARLINK_FIELD_COMMENT("Whether events wait for their modules (module_queue=wait)."),
                SD_VARLINK_DEFINE_OUTPUT(wait, SD_VARLINK_BOOL, SD_VARLINK_NULLABLE),
                SD_VARLINK_FIELD_COMMENT("How many loaders there may be."),
                SD_VARLINK_DEFINE_OUTPUT(loadersMax, SD_VARLINK_INT, SD_VARLINK_NULLABLE),
                SD_VARLINK_FIELD_COMMENT("How many modules wait for a loader."),
                SD_VARLINK_DEFINE_OUTPUT(waiting, SD_VARLINK_INT, SD_VARLINK_NULLABLE),
                SD_VARLINK_FIELD_COMMENT("The modules that are being loaded."),
                SD_VARLINK_DEFINE_OUTPUT_BY_TYPE(loading, Load, SD_VARLINK_ARRAY|SD_VARLINK_NULLABLE));

static SD_VARLINK_DEFINE_INTERFACE(
                io_systemd_Udev_ModuleQueue,
                "io.systemd.Udev.ModuleQueue",
                SD_VARLINK_INTERFACE_COMMENT("The queue of kernel modules that systemd-udevd loads."),
                SD_VARLINK_SYMBOL_COMMENT("A module that is being loaded."),
                &vl_type_Load,
                SD_VARLINK_SYMBOL_COMMENT("What the queue is doing."),
                &vl_method_Describe);

static int append_load(sd_json_variant **loading, const ModuleRecordLoad *load) {
        return sd_json_variant_append_arraybo(
                        loading,
                        SD_JSON_BUILD_PAIR_STRING("module", load->module),
                        SD_JSON_BUILD_PAIR_STRING("class", module_class_to_string(load->class)),
                        JSON_BUILD_PAIR_STRING_NON_EMPTY("device", load->device),
                        SD_JSON_BUILD_PAIR_UNSIGNED("seqnum", load->seqnum),
                        SD_JSON_BUILD_PAIR_UNSIGNED("requests", load->n_requests),
                        SD_JSON_BUILD_PAIR_UNSIGNED("loader", load->loader),
                        SD_JSON_BUILD_PAIR_UNSIGNED("startedUSec", load->started),
                        SD_JSON_BUILD_PAIR_BOOLEAN("live", load->live > 0));
}

static int vl_method_describe(
                sd_varlink *link,
                sd_json_variant *parameters,
                sd_varlink_method_flags_t flags,
                void *userdata) {

        _cleanup_(sd_json_variant_unrefp) sd_json_variant *loading = NULL;
        Manager *manager = ASSERT_PTR(userdata);
        const ModuleRecord *record;
        int r;

        assert(link);

        r = sd_varlink_dispatch(link, parameters, /* dispatch_table= */ NULL, /* userdata= */ NULL);
        if (r != 0)
                return r;

        record = module_dispatch_get_record(manager->module_dispatch);
        if (!record)
                return sd_varlink_replybo(link, SD_JSON_BUILD_PAIR_BOOLEAN("on", false));

        r = sd_json_variant_new_array(&loading, NULL, 0);
        for (size_t i = 0; i < record->n_loads && r >= 0; i++)
                if (record->loads[i].done == 0)
                        r = append_load(&loading, record->loads + i);
        if (r < 0)
                return r;

        return sd_varlink_replybo(
                        link,
                        SD_JSON_BUILD_PAIR_BOOLEAN("on", record->mode != MODULE_RECORD_OFF),
                        SD_JSON_BUILD_PAIR_BOOLEAN("wait", record->mode == MODULE_RECORD_WAIT),
                        SD_JSON_BUILD_PAIR_UNSIGNED("loadersMax", record->n_loaders_max),
                        SD_JSON_BUILD_PAIR_UNSIGNED("waiting", record->n_waiting),
                        SD_JSON_BUILD_PAIR_VARIANT("loading", loading));
}

void module_varlink_add(sd_varlink_server *server) {
        int r;

        r = sd_varlink_server_add_interface(server, &vl_interface_io_systemd_Udev_ModuleQueue);
        if (r >= 0)
                r = sd_varlink_server_bind_method(server, "io.systemd.Udev.ModuleQueue.Describe", vl_method_describe);
        if (r < 0)
                log_warning_errno(r, "Failed to add the module queue to udevd's Varlink server, ignoring: %m");
}

#endif
