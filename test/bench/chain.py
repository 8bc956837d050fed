#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""From "udevadm module-queue critical-chain --json", how long what led to the last disk, the last input device and the
end took without its waits, as lines "chain_TARGET<TAB>seconds". That is how soon each could come with nobody in its way:
from above, as the rest of the coldplug ran beside it.

>>> chain_seconds([{"kind": "queued", "from_usec": 0, "to_usec": 5}, {"kind": "rules", "from_usec": 5, "to_usec": 2000005},
...     {"kind": "waiting", "from_usec": 2000005, "to_usec": 9000000}, {"kind": "loading", "from_usec": 9000000,
...     "to_usec": 9500000}, {"kind": "kernel", "from_usec": 9500000, "to_usec": 9750000}])
2.75
"""

import json
import sys

WAITS = ("queued", "waiting")


def chain_seconds(links):
    return sum(link["to_usec"] - link["from_usec"] for link in links if link["kind"] not in WAITS) / 1e6


if __name__ == "__main__":
    for chain in json.load(sys.stdin):
        if chain["part"] == "system" and chain["links"]:
            print(f"chain_{chain['target']}", f"{chain_seconds(chain['links']):.3f}", sep="\t")
