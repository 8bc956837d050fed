#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Put boots' results together: all of them into a TSV, medians and spread by mode into a table, and the ratios of
the queue (module_queue=yes) to stock (no).

  table.py TSV DIR…      DIR: what test/guest/run left
"""

import pathlib
import statistics
import sys

ROWS = (
    ("settle, s", ("settle",)),
    ("first disk, s", ("first_disk",)),
    ("last disk, s", ("last_disk",)),
    ("first input device, s", ("first_input",)),
    ("last input device, s", ("last_input",)),
    ("CPU idle, s", ("cpu_idle", "cpu_iowait")),
    ("CPU user, s", ("cpu_user", "cpu_nice")),
    ("CPU system, s", ("cpu_system", "cpu_irq")),
    ("processes forked", ("forks",)),
    ("modules loaded", ("modules",)),
)
RATIOS = ("settle", "first_disk", "last_disk", "last_input")


def read_boot(directory):
    lines = (directory / "result.tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def read_modules(directory):
    return {line.split()[0] for line in (directory / "modules").read_text().splitlines()}


def values(boots, mode, keys):
    """A row's values in all boots of the mode that have it."""
    return [sum(float(b[k]) for k in keys) for b in boots if b["mode"] == mode and all(k in b for k in keys)]


def cell(numbers):
    if not numbers:
        return "-"
    digits = 0 if all(n.is_integer() and n > 50 for n in numbers) else 2
    middle, low, high = statistics.median(numbers), min(numbers), max(numbers)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def print_table(boots, modes):
    b = boots[0]
    clock = "counted in instructions" if b["smp"] == "1" else "in threads of their own"
    print(f"\n{b['profile']} machine, kernel {b['kernel']}, CPUs: {b['smp']} {clock}, {b['modules_tree']} modules,"
          f" init_on_alloc={b['init_on_alloc']}; seconds after udevd was ready: median (least to most)\n")
    heads = [f"module_queue={m}" for m in modes]
    print(f"{'':22}" + "".join(f"{h:>28}" for h in heads))
    print(f"{'boots':22}" + "".join(f"{sum(b['mode'] == m for b in boots):>28}" for m in modes))
    for name, keys in ROWS:
        print(f"{name:22}" + "".join(f"{cell(values(boots, m, keys)):>28}" for m in modes))


def print_module_differences(directories):
    """Every boot must end with the same modules."""
    first = read_modules(directories[0])
    same = True
    for d in directories[1:]:
        modules = read_modules(d)
        if modules != first:
            same = False
            print(f"modules of {d.name} against {directories[0].name}: "
                  f"missing {sorted(first - modules) or 'none'}, more {sorted(modules - first) or 'none'}")
    if same:
        print("The same modules were loaded in all boots.")


def main():
    if len(sys.argv) < 3:
        sys.exit("table.py: usage: table.py TSV DIR…")
    directories = [pathlib.Path(d) for d in sys.argv[2:]]
    boots = [read_boot(d) for d in directories]
    modes = list(dict.fromkeys(b["mode"] for b in boots))

    keys = list(dict.fromkeys(k for b in boots for k in b))
    with open(sys.argv[1], "w") as tsv:
        print("boot", *keys, sep="\t", file=tsv)
        for directory, boot in zip(directories, boots):
            print(directory.name, *(boot.get(k, "-") for k in keys), sep="\t", file=tsv)

    print_table(boots, modes)
    print()
    print_module_differences(directories)
    print(f"All figures of all boots: {sys.argv[1]}")
    if {"no", "yes"} <= set(modes):
        for key in RATIOS:
            queue, stock = (statistics.median(values(boots, m, (key,))) for m in ("yes", "no"))
            print(f"ratio {key} queue/stock {queue / stock:.2f}")


if __name__ == "__main__":
    main()
