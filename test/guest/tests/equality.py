#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether two boots have ended alike: modules, devices, udev's database, links and tags, device nodes.

  equality.py DIR DIR          DIR: what test/guest/run left; differences go to stdout
  equality.py --self-test DIR  whether what is made wrong in a copy of DIR is found

Exit status: 0 alike, 1 not, 2 wrong command line.

Set aside, for two boots of stock udevd differ in it as well:
  - names that the kernel numbers in order of discovery (NUMBERED): the number becomes "#". Devices that then have
    the same name are compared as a multiset, and what udev says of them (ID_PATH, serial numbers) tells them apart.
  - numbers of device nodes: each stands for its device, which is compared.
  - what the USB network adapter is: two drivers take it, each by another interface, and the first one wins.
  - the link cdrom and the priority that its rule gives: it is for the drive that is sr0.
  - the time in a database entry ("I:"), and the number in disk/by-diskseq/.
  - which of several devices with the same priority has got a link: who claims it is compared.
Everything else must be the same to the letter.
"""

import collections
import os
import pathlib
import re
import shutil
import sys
import tempfile

# Each matches a component of a path in /sys, or a name in /dev. What is in the groups is the number.
NUMBERED = [re.compile(f"{p}$") for p in (
    # SCSI: hosts, and what is named after its host
    r"(?:sas_)?host(\d+)", r"target(\d+):\d+:\d+", r"(\d+):\d+:\d+:\d+", r"phy-(\d+):\d+", r"ata(\d+)",
    r"(?:link|dev)(\d+)(?:\.\d+)?", r":ata(\d+)--scsi:(\d+):\d+:\d+:\d+",
    # disks
    r"sd([a-z]+)\d*", r"s[rg](\d+)", r"nvme(\d+)", r"nvme-subsys(\d+)", r"nvme(\d+)n\d+(?:p\d+)?",
    r"ng(\d+)n\d+", r"bdi(\d+:\d+)", r"(\d+:\d+)",
    # input
    r"(?:input|event|mouse|js|hidraw)(\d+)", r"input(\d+)::\w+",
    r"[0-9A-F]{4}:[0-9A-F]{4}:[0-9A-F]{4}\.([0-9A-F]{4})",
    # USB: buses, and what is named after its bus
    r"usb(\d+)", r"(\d+)-\d[\d.]*(?::\d+\.\d+)?", r"ttyUSB(\d+)", r"usbdev(\d+)\.\d+",
    # sound: cards, and what is named after its card
    r"card(\d+)", r"controlC(\d+)", r"pcmC(\d+)D\d+[cp]", r"hwC(\d+)D\d+", r"hdaudioC(\d+)D\d+", r"midiC(\d+)D\d+",
    r"(?:dm)?midi(\d*)", r"seq-midi-(\d+)-\d+", r"(\d+)-\d:\w+(?:,\d+)*",
    # graphics: cards, frame buffers, connectors
    r"card(\d+)-Virtual-(\d+)", r"renderD(\d+)", r"fb(\d+)",
    # others
    r"hwmon(\d+)", r"wakeup(\d+)",
)]


# The network device of an adapter that cdc_ether and cdc_subset take.
EITHER_DRIVER = re.compile(r"(.*/usb\d+/(\d+-[\d.]+))/\2:1\.[01]/net/(?:usb\d+|enx[0-9a-f]+)")


def numberless(component):
    """A component without the number that depends on the order of discovery."""
    for pattern in NUMBERED:
        match = pattern.match(component)
        if match:
            for group in range(pattern.groups, 0, -1):
                component = component[:match.start(group)] + "#" + component[match.end(group):]
            return component
    return component


def numberless_path(path):
    path = EITHER_DRIVER.sub(r"\1/(either)", path)
    return "/".join(numberless(c) for c in path.split("/"))


def is_optical(path):
    return path.endswith("/sr#")


class Boot:
    """A boot's end; each attribute is a multiset of what is compared."""

    def __init__(self, directory):
        self.directory = directory
        self.read_devices()
        self.modules = collections.Counter(line.split()[0] for line in self.lines("modules"))
        self.database = self.read_database()
        self.links = self.read_links()
        self.tags = self.read_tags()
        self.nodes = self.read_nodes()

    def lines(self, name):
        return (self.directory / name).read_text(errors="surrogateescape").splitlines()

    def read_devices(self):
        """The devices, and by id (as the files in /run/udev/data are named) where in /sys each is."""
        self.path_by_id = {}
        subsystem_of = {}
        for line in self.lines("subsystems"):
            path, subsystem = re.match(r"'(.*)/subsystem' -> '(.*)'$", line).groups()
            subsystem_of[path] = subsystem = os.path.basename(subsystem)
            self.path_by_id[f"+{subsystem}:{os.path.basename(path).replace('!', '/')}"] = path
        for line in self.lines("numbers"):
            path, name, number = re.match(r"(.*)/(dev|ifindex):(.*)$", line).groups()
            kind = "n" if name == "ifindex" else "b" if subsystem_of.get(path) == "block" else "c"
            self.path_by_id[kind + number] = path
        self.devices = collections.Counter((s, numberless_path(p)) for p, s in subsystem_of.items())

    def device(self, device_id):
        """What a device is, whatever its number: its path, or for what is not in /sys/devices its id."""
        return numberless_path(self.path_by_id[device_id]) if device_id in self.path_by_id else device_id

    def read_database(self):
        entries = collections.Counter()
        for file in (self.directory / "udev/data").iterdir():
            device = self.device(file.name)
            if device.endswith("/(either)"):
                entries[device, "-"] += 1
                continue
            content = []
            for line in file.read_text(errors="surrogateescape").splitlines():
                if line == "S:cdrom" or line.startswith("L:") and is_optical(device):
                    continue
                if line.startswith("I:"):
                    line = "I:"
                elif line.startswith("S:disk/by-diskseq/"):
                    line = re.sub(r"\d+$", "#", line)
                elif line.startswith("E:ID_PART_ENTRY_DISK="):
                    key, number = line.split("=")
                    line = f"{key}={self.device('b' + number)}"
                content.append(line)
            entries[device, "\n".join(sorted(content))] += 1
        return entries

    @staticmethod
    def node_name(name):
        return re.sub(r"^(/dev/bus/usb)/\d+/\d+$", r"\1/#/#", numberless_path(name))

    def link_name(self, name):
        if "by-diskseq" in name:
            return re.sub(r"\d+$", "#", name)
        match = re.match(r"/dev/(block|char)/(.*)$", name)
        if match:
            return f"/dev/{match[1]}/{self.device(match[1][0] + match[2])}"
        return numberless_path(name)

    def read_links(self):
        """Who claims which link, with which priority."""
        links = collections.Counter()
        for directory in (self.directory / "udev/links").iterdir():
            name = self.link_name("/dev/" + directory.name.replace(r"\x2f", "/"))
            for claim in directory.iterdir():
                # Not a claim: the lock, which udevd removes when it has nothing to do for a while.
                if claim.name == ".lock":
                    continue
                priority = os.readlink(claim).split(":")[0]
                device = self.device(claim.name)
                if is_optical(device):
                    priority = "#"
                    if name == "/dev/cdrom":
                        device = "(sr0)"
                links[name, device, priority] += 1
        return links

    def read_tags(self):
        return collections.Counter((d.name, self.device(f.name))
                                   for d in (self.directory / "udev/tags").iterdir() for f in d.iterdir())

    def read_nodes(self):
        """Nodes by the device they stand for; links by the device they lead to, unless more than one claims them."""
        claimants = collections.defaultdict(set)
        for name, device, _ in self.links:
            claimants[name].add(device)
        device_of = {}
        rows = []
        for line in self.lines("dev"):
            mode, owner, numbers, rest = line.split(" ", 3)
            name, target = re.match(r"'(.*)' -> '(.*)'$", rest).groups() if mode[0] == "l" else (rest, None)
            rows.append((mode, owner, name, target))
            if mode[0] in "bc":
                major, minor = (int(n, 16) for n in numbers.split(":"))
                device_of[name] = self.device(f"{mode[0]}{major}:{minor}")
        nodes = collections.Counter()
        for mode, owner, name, target in rows:
            if target is not None:
                to = device_of.get(os.path.normpath(os.path.join(os.path.dirname(name), target)), target)
                name = self.link_name(name)
                if len(claimants[name]) > 1 and to in claimants[name]:
                    to = "(one of those that claim it)"
                elif name == "/dev/cdrom" and is_optical(to):
                    to = "(sr0)"
                nodes[mode, owner, name, to] += 1
            else:
                nodes[mode, owner, self.node_name(name), device_of.get(name, "-")] += 1
        return nodes


PARTS = ("modules", "devices", "database", "links", "tags", "nodes")


def differences(a, b):
    """Lines that say what one boot has and the other has not."""
    for part in PARTS:
        left, right = getattr(a, part), getattr(b, part)
        for boot, surplus in ((a, left - right), (b, right - left)):
            for item in sorted(surplus):
                text = item if isinstance(item, str) else " ".join(item).replace("\n", " ")
                yield f"{part}: only in {boot.directory.name}: {text}"


def edit(path, old, new):
    text = path.read_text(errors="surrogateescape")
    assert old in text, f"{path}: no '{old}' to doctor"
    path.write_text(text.replace(old, new, 1), errors="surrogateescape")


def first_with(directory, text):
    """The first database entry that has this text."""
    return next(f for f in sorted((directory / "udev/data").iterdir()) if text in f.read_text(errors="surrogateescape"))


# What is done to a copy, and the parts in which that must be found.
DOCTORED = (
    ("nothing", lambda d: None, set()),
    ("a time", lambda d: edit(first_with(d, "I:"), "I:", "I:7"), set()),
    ("a module is missing", lambda d: edit(d / "modules", "sd_mod ", "sd_mode "), {"modules"}),
    ("a module too many", lambda d: edit(d / "modules", "sd_mod ", "pcspkr2 1\nsd_mod "), {"modules"}),
    ("a database entry is missing", lambda d: first_with(d, "E:ID_ATA=1").unlink(), {"database"}),
    ("a property is another", lambda d: edit(first_with(d, "E:ID_BUS=ata"), "E:ID_BUS=ata", "E:ID_BUS=usb"),
     {"database"}),
    ("a property is missing", lambda d: edit(first_with(d, "E:ID_INPUT=1"), "E:ID_INPUT=1\n", ""), {"database"}),
    ("two disks' serial numbers are exchanged",
     lambda d: (edit(first_with(d, "E:ID_SERIAL_SHORT=ahci0"), "E:ID_SERIAL_SHORT=ahci0", "E:ID_SERIAL_SHORT=new"),
                edit(first_with(d, "E:ID_SERIAL_SHORT=ahci1"), "E:ID_SERIAL_SHORT=ahci1", "E:ID_SERIAL_SHORT=ahci0"),
                edit(first_with(d, "E:ID_SERIAL_SHORT=new"), "E:ID_SERIAL_SHORT=new", "E:ID_SERIAL_SHORT=ahci1")),
     {"database"}),
    ("a tag is missing", lambda d: next(iter(sorted((d / "udev/tags/power-switch").iterdir()))).unlink(), {"tags"}),
    ("a claim to a link is missing",
     lambda d: shutil.rmtree(next(iter(sorted((d / "udev/links").glob("disk*by-uuid*"))))), {"links"}),
    ("a link leads to another device",
     lambda d: edit(d / "dev", "/dev/disk/by-id/ata-QEMU_HARDDISK_ahci0' -> '../../",
                    "/dev/disk/by-id/ata-QEMU_HARDDISK_ahci0' -> '../../vd"), {"nodes"}),
    ("a node's rights are others", lambda d: edit(d / "dev", "brw-rw----", "brw-rw-rw-"), {"nodes"}),
    ("a node's owner is another", lambda d: edit(d / "dev", "brw-rw---- 0:6", "brw-rw---- 0:0"), {"nodes"}),
    ("a node is missing", lambda d: edit(d / "dev", "/dev/hpet\n", "/dev/hpet2\n"), {"nodes"}),
    ("a device is missing", lambda d: edit(d / "subsystems", "bus/pci'", "bus/pcie'"), {"devices", "database"}),
)


def self_test(directory):
    original = Boot(directory)
    failed = 0
    for what, doctor, expected in DOCTORED:
        with tempfile.TemporaryDirectory() as temporary:
            copy = pathlib.Path(temporary) / "doctored"
            copy.mkdir()
            shutil.copytree(directory / "udev", copy / "udev", symlinks=True)
            for name in ("modules", "subsystems", "numbers", "dev"):
                shutil.copy(directory / name, copy)
            doctor(copy)
            found = {line.split(":")[0] for line in differences(original, Boot(copy))}
        if found != expected:
            failed += 1
            print(f"{what}: found in {sorted(found) or 'nothing'}, should be in {sorted(expected) or 'nothing'}")
    return failed


def main():
    arguments = sys.argv[1:]
    if len(arguments) != 2:
        sys.stderr.write("equality.py: usage: equality.py DIR DIR, or --self-test DIR\n")
        return 2
    if arguments[0] == "--self-test":
        return 1 if self_test(pathlib.Path(arguments[1])) else 0
    different = 0
    for line in differences(*(Boot(pathlib.Path(d)) for d in arguments)):
        print(line)
        different += 1
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
