#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel in a vmlinuz as an ELF file, which QEMU starts by its PVH note: an emulated machine takes seconds to
decompress it by itself.

  vmlinux.py VMLINUZ FILE

Where it is not compressed by xz, as Debian's are, FILE is a copy of VMLINUZ, with which the machine does start.
"""

import lzma
import pathlib
import struct
import sys

# The kernel's Documentation/arch/x86/boot.rst: the number of setup sectors (0 means 4) after the first, then the
# payload's place behind them and its size.
SETUP_SECTORS, PAYLOAD = 0x1f1, 0x248

image = pathlib.Path(sys.argv[1]).read_bytes()
offset, size = struct.unpack_from("<II", image, PAYLOAD)
offset += ((image[SETUP_SECTORS] or 4) + 1) * 512
payload = image[offset:offset + size]
if payload.startswith(b"\xfd7zXZ\0"):
    # What follows is the size of the ELF file.
    image = lzma.LZMADecompressor().decompress(payload)
pathlib.Path(sys.argv[2]).write_bytes(image)
