#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cut the appended signatures off all modules under a directory.

Under TCG verifying them is half of all CPU time of a coldplug; on hardware it is next to nothing.

  unsign.py DIR
"""

import lzma
import multiprocessing
import pathlib
import struct
import sys

MAGIC = b"~Module signature appended~\n"
DESCRIPTOR = struct.Struct(">BBBBB3xI")  # algorithm, hash, type, signer's length, key id's length, signature's

# What the kernel build gives to xz.
XZ_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20}]


def unsigned(data):
    """The module without its signature; None if it has none."""
    if not data.endswith(MAGIC):
        return None
    end = len(data) - len(MAGIC) - DESCRIPTOR.size
    *_, signer, key_id, signature = DESCRIPTOR.unpack_from(data, end)
    return data[:end - signer - key_id - signature]


def cut(path):
    data = path.read_bytes()
    if path.suffix == ".xz":
        data = unsigned(lzma.decompress(data))
        if data is not None:
            data = lzma.compress(data, check=lzma.CHECK_CRC32, filters=XZ_FILTERS)
    else:
        data = unsigned(data)
    if data is None:
        return 0
    path.write_bytes(data)
    return 1


def main():
    if len(sys.argv) != 2:
        sys.exit("unsign.py: usage: unsign.py DIR")
    modules = [p for p in pathlib.Path(sys.argv[1]).rglob("*.ko*") if p.suffix in (".ko", ".xz")]
    with multiprocessing.Pool() as pool:
        done = sum(pool.imap_unordered(cut, modules, chunksize=16))
    if done == 0:
        sys.exit(f"unsign.py: {sys.argv[1]}: no signed module among {len(modules)}")


if __name__ == "__main__":
    main()
