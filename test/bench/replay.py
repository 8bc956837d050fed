#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of simulated coldplugs, of what bench-module-replay prints.

  replay.py TSV
"""

import collections
import statistics
import sys

KEYS = ("requests", "distinct", "steps", "modules")
TIMES = (
    ("storage_usec", "the last storage device is done"),
    ("input_usec", "the last input device is done"),
    ("short_loads_usec", "the last load has ended, of modules that take less than 10 s by themselves"),
    ("settle_usec", "nothing is left, of all modules"),
)
GOALS = ("storage_usec", "input_usec")
WORSE = 1.02    # what is called worse: less is noise of the simulation


def read_rows(path):
    with open(path, encoding="utf-8") as lines:
        head = next(lines).rstrip("\n").split("\t")
        return [dict(zip(head, line.rstrip("\n").split("\t"))) for line in lines]


def pairs(runs, machine, cpus, key):
    """A time with stock's order and with the queue's, for each set of load times."""
    stock, queue = ({r["set"]: float(r[key]) / 1e6 for r in runs[machine, cpus] if r["order"] == order}
                    for order in ("stock", "queue"))
    return [(time, queue[s]) for s, time in stock.items() if s in queue]


def print_times(runs, machines, cpus, key, text):
    print(f"\nSeconds until {text}\n")
    print(f"{'CPUs':29}" + "".join(f"{c:>24}" for c in cpus))
    print(f"{'':29}" + f"{'stock':>9}{'queue':>7}{'ratio':>6}  " * len(cpus))
    sums = collections.defaultdict(lambda: [0, 0])
    ratios = collections.defaultdict(list)
    worse = collections.Counter()
    for m, by_class in machines.items():
        guess = by_class and key in GOALS
        line = f"{m + ('*' if guess else ''):29}"
        for c in cpus:
            values = pairs(runs, m, c, key)
            if not values or not any(s for s, _ in values):
                line += f"{'-':>22}  "
                continue
            stock, queue = (statistics.median(v) for v in zip(*values))
            all_ratios = [q / s for s, q in values]
            ratio = statistics.median(all_ratios)
            mark = "!" if min(all_ratios) > WORSE else " "
            line += f"{stock:9.2f}{queue:7.2f}{ratio:6.2f}{mark} "
            if guess:
                continue
            sums[c] = [sums[c][0] + stock, sums[c][1] + queue]
            ratios[c].append(ratio)
            worse[c] += mark == "!"
        print(line.rstrip())
    print(f"{'sum':29}" + "".join(f"{s:9.2f}{q:7.2f}{q / s:6.2f}  " for s, q in (sums[c] for c in cpus) if s).rstrip())
    print(f"{'median ratio':29}"
          + "".join(f"{statistics.median(ratios[c]):22.2f}  " for c in cpus if ratios[c]).rstrip())
    print(f"{'machines with !':29}" + "".join(f"{worse[c]:19} of {len(ratios[c]):2} " for c in cpus).rstrip())


def print_kernel(kernels, rows):
    machines = {}
    runs = collections.defaultdict(list)
    for r in rows:
        machines[r["machine"]] = r["paths"] != "known"
        runs[r["machine"], int(r["cpus"])].append(r)
    cpus = sorted({c for _, c in runs})

    print(f"\n{', '.join(kernels)}: what {len(machines)} machines ask for\n")
    print(f"{'':29}{'':>48}{'loads in vain of stock, CPUs':>34}")
    print(f"{'':29}" + "".join(f"{k:>10}" for k in KEYS) + f"{'attempts':>10}   " + "".join(f"{c:>8}" for c in cpus))
    for m in machines:
        r = next(r for r in runs[m, cpus[0]] if r["order"] == "queue")
        wasted = (statistics.median(int(r["wasted"]) for r in runs[m, c] if r["order"] == "stock") for c in cpus)
        print(f"{m:29}" + "".join(f"{r[k]:>10}" for k in (*KEYS, "attempts")) + "   "
              + "".join(f"{w:8.0f}" for w in wasted))

    for key, text in TIMES:
        print_times(runs, machines, cpus, key, text)


def main():
    if len(sys.argv) != 2:
        sys.exit("replay.py: usage: replay.py TSV")
    rows = read_rows(sys.argv[1])

    print("""\
Simulated: this says in which order real machines' requests are served and what is shared, and nothing about how fast
a machine starts. All times are made up, or from other machines; both orders have the same.

requests   devices whose MODALIAS leads to modules that are not built in, if nothing is loaded
distinct   MODALIASes among these
steps      modules that the requests name together
modules    different ones that are loaded; attempts: steps that the queue does for them after sharing
stock, queue, ratio   medians of five sets of load times; ! = the queue comes later in each of the five
*          the dump does not tell what leads to disks and input devices: those that the queue itself classes so;
           not in the sums""")

    by_version = collections.defaultdict(list)
    for r in rows:
        by_version[".".join(r["kernel"].split(".")[:2])].append(r)
    for version_rows in by_version.values():
        print_kernel(sorted({r["kernel"] for r in version_rows}), version_rows)


if __name__ == "__main__":
    main()
