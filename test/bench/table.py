#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Put boots' results together: all of them into a TSV, medians and spread by variant into a table, and the ratios of
the queue (module_queue=yes) to stock (no), and of what has a fixture to what is without.

  table.py TSV DIR…      DIR: what coldplug.sh has left of a boot
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


def values(boots, variant, keys):
    """A row's values in all boots of the variant that have it."""
    return [sum(float(b[k]) for k in keys) for b in boots if b["variant"] == variant and all(k in b for k in keys)]


def cell(numbers):
    if not numbers:
        return "-"
    digits = 0 if all(n.is_integer() and n > 50 for n in numbers) else 2
    middle, low, high = statistics.median(numbers), min(numbers), max(numbers)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def print_table(boots, variants):
    b = boots[0]
    clock = "counted in instructions" if b["smp"] == "1" else "in threads of their own"
    print(f"\n{b['profile']} machine, kernel {b['kernel']}, CPUs: {b['smp']} {clock}, {b['modules_tree']} modules,"
          f" init_on_alloc={b['init_on_alloc']}; seconds after udevd was ready: median (least to most)")
    for fixture in dict.fromkeys(b["fixture"] for b in boots if "fixture" in b):
        print(f"The machine has more: {fixture}. Its devices are no disks and no input devices.")
    print()
    heads = [f"module_queue={v.replace('-', ' ')}" for v in variants]
    print(f"{'':22}" + "".join(f"{h:>28}" for h in heads))
    print(f"{'boots':22}" + "".join(f"{sum(b['variant'] == v for b in boots):>28}" for v in variants))
    for name, keys in ROWS:
        print(f"{name:22}" + "".join(f"{cell(values(boots, v, keys)):>28}" for v in variants))


def print_module_differences(directories, boots):
    """Every boot must end with the same modules, of those with a fixture and of those without."""
    same = True
    for fixture in dict.fromkeys(b.get("fixture") for b in boots):
        first, *others = (d for d, b in zip(directories, boots) if b.get("fixture") == fixture)
        for d in others:
            missing, more = read_modules(first) - read_modules(d), read_modules(d) - read_modules(first)
            if missing or more:
                same = False
                print(f"modules of {d.name} against {first.name}: "
                      f"missing {sorted(missing) or 'none'}, more {sorted(more) or 'none'}")
    if same:
        print("The same modules were loaded in all boots of the same machine.")


def write_tsv(path, directories, boots):
    keys = list(dict.fromkeys(k for b in boots for k in b))
    with open(path, "w") as tsv:
        print("boot", *keys, sep="\t", file=tsv)
        for directory, boot in zip(directories, boots):
            print(directory.name, *(boot.get(k, "-") for k in keys), sep="\t", file=tsv)


def print_ratio(boots, key, name, variant, base):
    above, below = (statistics.median(values(boots, v, (key,))) for v in (variant, base))
    print(f"ratio {key} {name} {above / below:.2f}")


def main():
    if len(sys.argv) < 3:
        sys.exit("table.py: usage: table.py TSV DIR…")
    directories = [pathlib.Path(d) for d in sys.argv[2:]]
    boots = [read_boot(d) for d in directories]
    variants = list(dict.fromkeys(b["variant"] for b in boots))

    write_tsv(sys.argv[1], directories, boots)
    print_table(boots, variants)
    print()
    print_module_differences(directories, boots)
    print(f"All figures of all boots: {sys.argv[1]}")
    for key in RATIOS:
        if {"no", "yes"} <= set(variants):
            print_ratio(boots, key, "queue/stock", "yes", "no")
    for variant in variants:
        if f"{variant}-without" in variants:
            for key in RATIOS:
                print_ratio(boots, key, f"{variant}/{variant}-without", variant, f"{variant}-without")


if __name__ == "__main__":
    main()
