/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The state of the module queue over udevd's Varlink socket, where udevd has one (262): what `udevadm module-queue status`
 * shows, for programs, without the second that the file in /run/udev may be late. Called
 *
 *   varlinkctl call /run/udev/io.systemd.Udev io.systemd.Udev.ModuleQueue.Describe {}
 *
 * Like all of that socket it is for root. */

typedef struct sd_varlink_server sd_varlink_server;

/* Add the interface to the server, whose userdata is udevd's Manager. Failure is one line in the log. */
void module_varlink_add(sd_varlink_server *server);
