#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Put the boots of an ablation together: all of them into a TSV, medians and spread into a table, a line for each part
that was missing.

  ablation.py TSV DIR…      DIR: what ablation has left of a boot
"""

import pathlib
import sys

import table

COLUMNS = (("settle", "settle"), ("first disk", "first_disk"), ("last disk", "last_disk"),
           ("first input", "first_input"), ("last input", "last_input"))


def main():
    if len(sys.argv) < 3:
        sys.exit("ablation.py: usage: ablation.py TSV DIR…")
    directories = [pathlib.Path(d) for d in sys.argv[2:]]
    boots = [table.read_boot(d) for d in directories]

    table.write_tsv(sys.argv[1], directories, boots)
    print("\nWith the queue, seconds after udevd was ready: median (least to most)\n")
    print(f"{'without':18}" + "".join(f"{head:>22}" for head, _ in COLUMNS))
    for variant in dict.fromkeys(b["variant"] for b in boots):
        name = "-" if variant == "all" else variant
        print(f"{name:18}" + "".join(f"{table.cell(table.values(boots, variant, (key,))):>22}" for _, key in COLUMNS))
    print(f"All figures of all boots: {sys.argv[1]}")


if __name__ == "__main__":
    main()
