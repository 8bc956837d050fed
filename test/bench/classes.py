#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the classes of real machines' requests with what the devices lead to.

  classes.py PROGRAM TSV    PROGRAM: bench-module-class; TSV: where all requests go, with class and verdict
"""

import collections
import csv
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
DISK = {"bus", "storage"}
INPUT = {"bus", "input"}
# The least share of what must be classed so, in percent, and the most of what should not.
DISK_MIN, INPUT_MIN, FALSE_MAX = 99, 99, 15

Request = collections.namedtuple("Request", "machine devpath modalias modules path class_name verdict")


def read_table(path):
    with open(path, newline="") as lines:
        yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


def verdict(path, class_name):
    leads_to = set(path.split(","))
    missed = [kind for kind, classes in (("disk", DISK), ("input", INPUT))
              if kind in leads_to and class_name not in classes]
    if missed:
        return "missed " + ",".join(missed)
    if leads_to & {"disk", "input"}:
        return "found"
    return "false" if class_name in DISK | INPUT else "-"


def read_requests(program):
    """What resolves to modules, on all machines of which it is known what that leads to."""
    files = {row["module"]: row["file"] for row in read_table(HERE / "module-files.tsv")}
    rows, loads = [], []
    for machine in sorted((HERE / "machines").glob("*.tsv")):
        for row in read_table(machine):
            if row["path"] == "?" or row["modules"] == "-":
                continue
            try:
                paths = [f"/lib/modules/6.1/{files[module]}" for module in row["modules"].split(",")]
            except KeyError as module:
                sys.exit(f"classes.py: {machine.name}: module-files.tsv does not have the module {module}")
            rows.append((machine.stem, row))
            loads.append("\t".join([row["modalias"], *paths]) + "\n")

    result = subprocess.run([program], input="".join(loads), stdout=subprocess.PIPE, text=True, check=True)
    for (machine, row), name in zip(rows, result.stdout.splitlines(), strict=True):
        yield Request(machine, row["devpath"], row["modalias"], row["modules"], row["path"], name,
                      verdict(row["path"], name))


def percent(part, whole):
    return 100 * part / whole if whole else None


def share(value):
    return f"{value:5.1f}" if value is not None else "    -"


def count(requests):
    """How many are on the path to a disk, and in percent how many of them have been found; the same for input; how
    many false friends there are, and in percent how many of all."""
    counts = []
    for kind in "disk", "input":
        on_path = [r for r in requests if kind in r.path.split(",")]
        missed = [r for r in on_path if r.verdict.startswith("missed") and kind in r.verdict]
        counts += [len(on_path), percent(len(on_path) - len(missed), len(on_path))]
    false = sum(r.verdict == "false" for r in requests)
    return *counts, false, percent(false, len(requests))


def put_row(name, requests):
    disk, disk_share, inputs, input_share, false, false_share = count(requests)
    # One that is on a path goes last, and stays.
    distinct = list({(r.machine, r.modalias): r for r in sorted(requests, key=lambda r: r.verdict == "found")}.values())
    *_, distinct_false, distinct_share = count(distinct)
    print(f"{name:28} {len(requests):8} {disk:5} {share(disk_share)} {inputs:6} {share(input_share)} "
          f"{false:6} {share(false_share)} {len(distinct):9} {distinct_false:6} {share(distinct_share)}")


def main():
    if len(sys.argv) != 3:
        sys.exit("classes.py: usage: classes.py PROGRAM TSV")
    requests = list(read_requests(sys.argv[1]))

    with open(sys.argv[2], "w") as table:
        print(*Request._fields, sep="\t", file=table)
        for request in requests:
            print(*request, sep="\t", file=table)

    machines = collections.defaultdict(list)
    for request in requests:
        machines[request.machine].append(request)
    print(f"{'machine':28} {'requests':>8} {'disk':>5} {'%':>5} {'input':>6} {'%':>5} {'false':>6} {'%':>5} "
          f"{'distinct':>9} {'false':>6} {'%':>5}")
    for name, own in machines.items():
        put_row(name, own)
    put_row(f"all {len(machines)}", requests)

    for request in requests:
        if request.verdict.startswith("missed"):
            print(f"{request.verdict}: {request.class_name}, {request.modules}, {request.modalias} ({request.machine})")

    _, disk, _, inputs, _, false = count(requests)
    wrong = [text for ok, text in (
        (disk >= DISK_MIN, f"{disk:.2f} % of what leads to disks is classed bus or storage, not {DISK_MIN}"),
        (inputs >= INPUT_MIN, f"{inputs:.2f} % of what leads to input is classed bus or input, not {INPUT_MIN}"),
        (false <= FALSE_MAX, f"{false:.2f} % are false friends, more than {FALSE_MAX}"),
    ) if not ok]
    for text in wrong:
        print(f"classes.py: error: {text}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
