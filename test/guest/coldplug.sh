# SPDX-License-Identifier: GPL-2.0-or-later
# The script of a boot that is given no other: what systemd does at boot.

trigger
stamp triggered
settle
stamp settled
