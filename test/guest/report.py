#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What a boot's files say, as lines "key<TAB>value".

  report.py DIR

Times are seconds from "udevd is ready". A device counts from the first time that udevd has announced it:
  settle                          until udevadm settle returned
  loaded                          until a list of modules was loaded, if the script does that
  first_disk, last_disk, disks    disks but no loop, ram, zram, sr, fd; and how many
  first_input, last_input, inputs event* nodes; and how many
  quiet                           until the last uevent, of the kernel or of udevd
  uevents_kernel, uevents_udev    in the whole boot
  modules                         loaded at the end
If udevd's memory was recorded, only the last one of these, and
  memory_rss, memory_pss, memory_manager, memory_processes    the most at any time, in MB (10^6 bytes): sums of udevd's
                                  processes, the manager's PSS, and how many processes there were
Within settle: cpu_user, cpu_nice, cpu_system, cpu_idle, cpu_iowait, cpu_irq in seconds; forks.

With a trace also finit.tsv, one line for each module insertion that was tried, and their numbers:
  finit_udevd, finit_udevd_ok, finit_udevd_EEXIST, …    by udevd's processes, and their results
  finit_other, finit_other_ok, …                        by others (modprobe, forked by the kernel)
  finit_udevd_EEXIST_modprobe     those of udevd's EEXIST that were a race with another's insertion
  finit_udevd_EEXIST_udevd        those that were not
"""

import collections
import errno
import pathlib
import re
import sys

TICKS = 100  # of /proc/stat in a second
CPU = (("cpu_user", (0,)), ("cpu_nice", (1,)), ("cpu_system", (2,)), ("cpu_idle", (3,)), ("cpu_iowait", (4,)),
       ("cpu_irq", (5, 6)))
UDEVD_COMMS = re.compile(r"\(udev-\w+\)|systemd-udevd|udevadm")

Uevent = collections.namedtuple("Uevent", "time source action devpath subsystem devtype devname seqnum modalias")
Insertion = collections.namedtuple("Insertion", "opened start end comm pid module result")


def put(key, value):
    print(key, f"{value:.3f}" if isinstance(value, float) else value, sep="\t")


def read_stamps(directory):
    """name -> (time, counters)"""
    stamps = {}
    for line in (directory / "stamps").read_text().splitlines():
        name, time, *counters = line.split("\t")
        stamps[name] = float(time), [int(c) for c in counters]
    return stamps


def read_uevents(directory):
    with open(directory / "uevents", errors="replace") as lines:
        for line in lines:
            time, *rest = line.rstrip("\n").split("\t")
            yield Uevent(float(time), *rest)


def is_disk(uevent):
    return (uevent.subsystem == "block" and uevent.devtype == "disk" and
            not re.match(r"/dev/(loop|ram|zram|sr|fd)\d", uevent.devname))


def is_input(uevent):
    return uevent.subsystem == "input" and uevent.devname.startswith("/dev/input/event")


def put_devices(uevents, kind, belongs, ready):
    added = {}
    for uevent in uevents:
        if uevent.source == "udev" and uevent.action == "add" and belongs(uevent):
            added.setdefault(uevent.devpath, uevent.time - ready)
    put(f"{kind}s", len(added))
    if added:
        put(f"first_{kind}", min(added.values()))
        put(f"last_{kind}", max(added.values()))


def put_memory(path):
    samples = [[float(n) for n in line.split("\t")] for line in path.read_text().splitlines()]
    _, processes, *kib = (max(column) for column in zip(*samples))
    for key, value in zip(("rss", "pss", "manager"), kib):
        put(f"memory_{key}", value * 1024 / 1e6)
    put("memory_processes", int(processes))


def read_trace(directory, ready):
    """All insertions. The file that a process opened last is the module that it inserts."""
    line_format = re.compile(r"\s*(.+)-(\d+)\s+\[\d+\]\s+\S+\s+([\d.]+): (\w+)(.*)")
    opened, running = {}, {}
    time = 0.0

    def insertion(pid, end, result):
        start, comm = running.pop(pid)
        opened_at, module = opened.get(pid, (start, "?"))
        return Insertion(opened_at, start, end, comm, int(pid), module, result)

    with open(directory / "trace", errors="replace") as lines:
        for line in lines:
            match = line_format.match(line)
            if not match:
                continue
            comm, pid, time, event, rest = match.groups()
            time = float(time) - ready
            if event == "open":
                opened[pid] = time, re.sub(r'.*/(.*?)\.ko.*', r"\1", rest).replace("-", "_")
            elif event in ("sys_finit_module", "sys_init_module") and "->" not in rest:
                running[pid] = time, comm
            elif event in ("sys_finit_module", "sys_init_module") and pid in running:
                result = int(rest.split("->")[1], 16)
                result = "ok" if result == 0 else errno.errorcode.get(2**64 - result, f"-{2**64 - result}")
                yield insertion(pid, time, result)
    for pid in list(running):
        yield insertion(pid, time, "unfinished")


def winner_of(insertion, insertions):
    """Who had inserted the module of an insertion that failed with EEXIST. The loser looks whether the module is
    live before it opens the file, so the winner must have been at it then or later, or just before."""
    for other in insertions:
        if (other.module == insertion.module and other.result != "EEXIST" and
                other.start < insertion.end and other.end > insertion.opened - 1):
            return f"{other.comm}-{other.pid}"
    return "?"


def put_insertions(directory, ready):
    insertions = list(read_trace(directory, ready))
    counts = {("udevd", "EEXIST_modprobe"): 0, ("udevd", "EEXIST_udevd"): 0}
    with open(directory / "finit.tsv", "w") as table:
        print("start", "end", "comm", "pid", "module", "result", "winner", sep="\t", file=table)
        for i in insertions:
            who = "udevd" if UDEVD_COMMS.fullmatch(i.comm) else "other"
            winner = winner_of(i, insertions) if i.result == "EEXIST" else "-"
            print(f"{i.start:.3f}", f"{i.end:.3f}", *i[3:], winner, sep="\t", file=table)
            counts[who, ""] = counts.get((who, ""), 0) + 1
            counts[who, i.result] = counts.get((who, i.result), 0) + 1
            if (who, i.result) == ("udevd", "EEXIST"):
                counts[who, "EEXIST_modprobe" if winner.startswith("modprobe-") else "EEXIST_udevd"] += 1
    for (who, result), n in sorted(counts.items(), reverse=True):
        put(f"finit_{who}_{result}".rstrip("_"), n)
    lost = sum(int(n) for n in re.findall(r"(?:overrun|dropped events): (\d+)", (directory / "trace.stats").read_text()))
    if lost:
        sys.exit(f"report.py: {directory}: the trace has lost {lost} events, the counts are too low")


def main():
    if len(sys.argv) != 2:
        sys.exit("report.py: usage: report.py DIR")
    directory = pathlib.Path(sys.argv[1])
    put("modules", len((directory / "modules").read_text().splitlines()))
    if (directory / "memory").exists():
        put_memory(directory / "memory")
        return
    stamps = read_stamps(directory)
    if "ready" not in stamps:
        return
    ready, before = stamps["ready"]
    if "loaded" in stamps:
        put("loaded", stamps["loaded"][0] - ready)
    if "settled" in stamps:
        settled, after = stamps["settled"]
        put("settle", settled - ready)
        for name, columns in CPU:
            put(name, sum(after[c] - before[c] for c in columns) / TICKS)
        put("forks", after[-1] - before[-1])

    uevents = list(read_uevents(directory))
    put_devices(uevents, "disk", is_disk, ready)
    put_devices(uevents, "input", is_input, ready)
    if uevents:
        put("quiet", uevents[-1].time - ready)
    for source in ("kernel", "udev"):
        put(f"uevents_{source}", sum(u.source == source for u in uevents))
    if (directory / "trace").exists():
        put_insertions(directory, ready)


if __name__ == "__main__":
    main()
