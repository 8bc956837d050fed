#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Put boots' results together: all of them into a TSV, medians and spread into a table for each scenario, and the
ratios to stock (module_queue=no; where that was not booted, to the whole queue) of the boots of a round, which have the
same seed.

  table.py OUT DIR…     DIR: what coldplug.sh has left of a boot. Writes OUT/boots.tsv and OUT/boots.svg; the lines of
                        OUT/about go to the head of the TSV
  table.py TSV…         the tables of such a file again
"""

import pathlib
import statistics
import sys

sys.dont_write_bytecode = True
import chart    # noqa: E402

CPU_TIME = ("cpu_user", "cpu_nice", "cpu_system", "cpu_irq")
TIMES = (
    ("settle, s", ("settle",)),
    ("first disk, s", ("first_disk",)),
    ("last disk, s", ("last_disk",)),
    ("first input device, s", ("first_input",)),
    ("last input device, s", ("last_input",)),
    ("list loaded, s", ("loaded",)),
    ("CPU idle, s", ("cpu_idle", "cpu_iowait")),
    ("CPU user, s", ("cpu_user", "cpu_nice")),
    ("CPU system, s", ("cpu_system", "cpu_irq")),
    ("settle / its bound", ("bound_settle",)),
    ("last disk / its bound", ("bound_last_disk",)),
    ("last input device / its bound", ("bound_last_input",)),
    ("processes forked", ("forks",)),
    ("modules loaded", ("modules",)),
    ("RSS, MB", ("memory_rss",)),
    ("PSS, MB", ("memory_pss",)),
    ("manager's PSS, MB", ("memory_manager",)),
    ("processes", ("memory_processes",)),
)
RATIOS = ("settle", "first_disk", "last_disk", "first_input", "last_input", "memory_pss")
COLUMNS_MAX = 4     # more variants than that have a line each


def read_boot(directory):
    lines = (directory / "result.tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def read_tsv(path):
    lines = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")]
    return [{k: v for k, v in zip(lines[0], line) if v != "-"} for line in lines[1:]]


def write_tsv(path, about, boots):
    keys = list(dict.fromkeys(k for b in boots for k in b))
    with open(path, "w", encoding="utf-8") as tsv:
        for line in about:
            print(f"# {line}", file=tsv)
        print(*keys, sep="\t", file=tsv)
        for boot in boots:
            print(*(boot.get(k, "-") for k in keys), sep="\t", file=tsv)


def machine_of(boot):
    return boot["scenario"], boot.get("fixture")


def numbers_of(boots, key):
    return [float(b[key]) for b in boots if key in b]


def median(boots, key):
    return statistics.median(numbers_of(boots, key) or [0])


def add_bounds(boots):
    """Of one machine. Settle cannot come before the CPUs have done their work, in the boot with the least of it, nor
    before what its end waited for; and a disk or an input device not before what led to it (chain.py): as estimated by
    the median of the boots of "yes". (In "wait" nearly all of a chain is the wait for a worker.) A figure gets how many
    times as late it came. Returns the bounds.

    >>> boots = [dict(variant=v, smp="2", settle="6", last_disk="3", chain_disk=chain, chain_settle="1",
    ...               cpu_user="4", cpu_nice="1", cpu_system="2", cpu_irq="1") for v, chain in (("yes", "2"), ("wait", "0"))]
    >>> add_bounds(boots), boots[0]["bound_settle"], boots[0]["bound_last_disk"]
    ({'settle': 4.0, 'last_disk': 2.0, 'last_input': 0}, '1.5', '1.5')
    """
    recorded = [b for b in boots if b["variant"] in ("yes", "yes-bare")]
    for boot in boots:
        if "cpu_user" in boot:
            boot["cpu_time"] = str(sum(float(boot[k]) for k in CPU_TIME) / int(boot["smp"]))
    bounds = {"settle": max(min(numbers_of(boots, "cpu_time"), default=0), median(recorded, "chain_settle")),
              "last_disk": median(recorded, "chain_disk"), "last_input": median(recorded, "chain_input")}
    for boot in boots:
        for key, bound in bounds.items():
            if bound and key in boot:
                boot[f"bound_{key}"] = str(float(boot[key]) / bound)
    return bounds


def values(boots, variant, keys):
    """A row's values in all boots of the variant that have it, by seed."""
    return {b["seed"]: sum(float(b[k]) for k in keys)
            for b in boots if b["variant"] == variant and all(k in b for k in keys)}


def pair_ratios(above, below):
    """The ratios of two variants' values, by seed, in the rounds that have both.

    >>> pair_ratios({"1": 1.0, "2": 3.0, "4": 9.0}, {"1": 2.0, "2": 2.0, "3": 5.0})
    [0.5, 1.5]
    """
    return [value / below[seed] for seed, value in above.items() if below.get(seed)]


def cell(numbers):
    """
    >>> cell([2.5, 1, 4])
    '2.50 (1.00 to 4.00)'
    >>> cell([60.0, 61.0])
    '60 (60 to 61)'
    >>> cell([])
    '-'
    """
    if not numbers:
        return "-"
    digits = 0 if all(float(n).is_integer() and n > 4 for n in numbers) else 2
    middle, low, high = statistics.median(numbers), min(numbers), max(numbers)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def print_grid(rows):
    """The first row is the head. With too many columns for a line, each gets a line."""
    if len(rows[0]) > COLUMNS_MAX + 1:
        rows = list(zip(*rows))
    widths = [max(len(text) for text in column) for column in zip(*rows)]
    for first, *others in rows:
        print(f"{first:{widths[0]}}" + "".join(f"  {text:>{w}}" for text, w in zip(others, widths[1:])))


def print_bounds(boots, bounds):
    texts = [f"{key.replace('_', ' ')} {bound:.2f} s" for key, bound in bounds.items() if bound]
    if texts:
        of = f" with {boots[0]['fixture']}" if "fixture" in boots[0] else ""
        print(f"Bounds{of}, as estimated by what had to be done: {', '.join(texts)}.")


def print_head(scenario, boots):
    b = boots[0]
    clock = "counted in instructions" if b["smp"] == "1" else "in threads of their own"
    print(f"\n{scenario}: {b['profile']} machine, kernel {b['kernel']}, CPUs: {b['smp']} {clock}, {b['modules_tree']}"
          f" modules, init_on_alloc={b['init_on_alloc']}; "
          + ("the most at any time" if "memory_pss" in b else "seconds after udevd was ready")
          + ": median (least to most)")
    for fixture in dict.fromkeys(b["fixture"] for b in boots if "fixture" in b):
        print(f"The machine has more: {fixture}.")
    print()


def print_table(boots, variants):
    rows = [["", *variants], ["boots", *(str(sum(b["variant"] == v for b in boots)) for v in variants)]]
    for name, keys in TIMES:
        cells = [cell(list(values(boots, v, keys).values())) for v in variants]
        if any(c != "-" for c in cells):
            rows.append([name, *cells])
    print_grid(rows)


def base_of(variant, variants):
    """What a variant is compared with."""
    if variant.endswith("-bare"):
        return None
    return next((base for base in ("no", "yes") if base in variants and base != variant), None)


def print_ratios(scenario, boots, variants):
    bases = {v: base_of(v, variants) for v in variants}
    bases = {v: b for v, b in bases.items() if b and v != "no"}
    for v in variants:
        if f"{v}-bare" in variants:
            bases[f"{v}-bare"] = v
    for variant, base in bases.items():
        for key in RATIOS:
            ratios = pair_ratios(values(boots, variant, (key,)), values(boots, base, (key,)))
            if ratios:
                print(f"ratio {key} {scenario} {variant}/{base} {cell(ratios)}")


def read_modules(directory):
    return {line.split()[0] for line in (directory / "modules").read_text().splitlines()}


def print_module_differences(directories, boots):
    """All boots of a scenario must end with the same modules, those with a fixture and those without."""
    same = True
    machines = [machine_of(b) for b in boots]
    for machine in dict.fromkeys(machines):
        first, *others = (d for d, m in zip(directories, machines) if m == machine)
        for d in others:
            missing, more = read_modules(first) - read_modules(d), read_modules(d) - read_modules(first)
            if missing or more:
                same = False
                print(f"modules of {d.parent.name}/{d.name} against {first.name}: "
                      f"missing {sorted(missing) or 'none'}, more {sorted(more) or 'none'}")
    if same:
        print("The same modules were loaded in all boots of the same machine.")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    paths = [pathlib.Path(p) for p in sys.argv[1:]]
    directories = []
    if paths[0].is_dir():
        out, *directories = paths
        boots = [read_boot(d) for d in directories]
        write_tsv(out / "boots.tsv", (out / "about").read_text().splitlines(), boots)
    else:
        boots = [boot for path in paths for boot in read_tsv(path)]

    scenarios = {}
    for boot in boots:
        scenarios.setdefault(boot["scenario"], []).append(boot)
    for scenario, its_boots in scenarios.items():
        variants = list(dict.fromkeys(b["variant"] for b in its_boots))
        machines = [[b for b in its_boots if machine_of(b) == m] for m in dict.fromkeys(map(machine_of, its_boots))]
        machines = [(m, add_bounds(m)) for m in machines]
        print_head(scenario, its_boots)
        print_table(its_boots, variants)
        print()
        print_ratios(scenario, its_boots, variants)
        for machine, bounds in machines:
            print_bounds(machine, bounds)

    if directories:
        print()
        print_module_differences(directories, boots)
        chart.write(out / "boots.svg", scenarios)
        print(f"All figures of all boots: {out}/boots.tsv; as a picture: {out}/boots.svg")


if __name__ == "__main__":
    main()
