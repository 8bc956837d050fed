#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's hardware: become the QEMU process that boots it (TCG, KVM is never used).

Profile "rich" has about 90 devices of all sorts, for which Debian's kernel loads about 150 modules; "small" has
five. One CPU runs with -icount: time in the guest is then counted in instructions and does not depend on the
host's load. Several CPUs run in threads of their own without it (icount with two CPUs gives no output).
"""

import argparse
import os


class Machine:
    """Collects arguments; hands out drives, bus slots and ids."""

    def __init__(self, disks):
        self.args = []
        self.disks = disks
        self.drives = 0
        self.chardevs = 0
        self.nics = 0
        self.ports = 0
        self.slots = 0

    def add(self, *args):
        self.args += args

    def device(self, spec):
        self.add("-device", spec)

    def drive(self, image, options=""):
        """A drive on an image, by name in the disks' directory or by path; its id."""
        name = f"drive{self.drives}"
        self.drives += 1
        path = os.path.join(self.disks, image)
        self.add("-drive", f"if=none,id={name},file={path},format=raw,file.locking=off,cache=unsafe{options}")
        return name

    def cd(self):
        return self.drive("cd.img", ",media=cdrom,readonly=on")

    def null(self):
        """A drive that reads as zeros."""
        name = f"null{self.drives}"
        self.drives += 1
        self.add("-blockdev", f"driver=null-co,node-name={name},size={32 << 20},read-zeroes=on")
        return name

    def chardev(self):
        name = f"chardev{self.chardevs}"
        self.chardevs += 1
        self.add("-chardev", f"null,id={name}")
        return name

    def netdev(self):
        name = f"net{self.nics}"
        self.add("-netdev", f"hubport,id={name},hubid={self.nics}")
        self.nics += 1
        return name

    def pcie(self):
        """A PCI Express root port of its own; eight of them share a slot."""
        n = self.ports
        self.ports += 1
        multi = ",multifunction=on" if n % 8 == 0 else ""
        self.device(f"pcie-root-port,id=port{n},bus=pcie.0,chassis={n + 1},slot={n + 1}"
                    f",addr={4 + n // 8:#x}.{n % 8}{multi}")
        return f"port{n}"

    def pci(self):
        """The next slot of a conventional bridge, with a further bridge when one is full."""
        bridge, slot = divmod(self.slots, 28)
        self.slots += 1
        if slot == 0:
            if bridge == 0:
                self.device("i82801b11-bridge,id=dmi,bus=pcie.0,addr=0x1e")
            self.device(f"pci-bridge,id=bridge{bridge},bus=dmi,chassis_nr={100 + bridge},addr={bridge + 1:#x}")
        return f"bridge{bridge},addr={slot + 1:#x}"


def storage(m):
    for i, image in enumerate(("gpt0.img", "ext0.img", "swap.img", "luks.img")):
        m.device(f"virtio-blk-pci,drive={m.drive(image)},bus={m.pcie()},serial=vblk{i}")
    for i, image in enumerate(("gpt1.img", "blank0.img", "ext1.img", "blank1.img")):
        m.device(f"nvme,id=nvme{i},serial=nvme{i},bus={m.pcie()}")
        m.device(f"nvme-ns,drive={m.drive(image)},bus=nvme{i},nsid=1")
    m.device(f"nvme-ns,drive={m.drive('blank2.img')},bus=nvme0,nsid=2")

    for i, image in enumerate(("gpt2.img", "mbr0.img", "ext2.img", "blank3.img")):
        m.device(f"ide-hd,drive={m.drive(image)},bus=ide.{i},serial=ahci{i}")
    m.device(f"ide-cd,drive={m.cd()},bus=ide.4")
    m.device(f"ich9-ahci,id=ahci,bus={m.pci()}")
    for i in range(3):
        m.device(f"ide-hd,drive={m.drive(f'blank{4 + i}.img')},bus=ahci.{i},serial=ahcib{i}")

    m.device(f"virtio-scsi-pci,id=vscsi,bus={m.pcie()}")
    for i, image in enumerate(("mbr1.img", "blank7.img", "blank8.img")):
        m.device(f"scsi-hd,bus=vscsi.0,scsi-id={i},drive={m.drive(image)},serial=vscsi{i}")
    m.device(f"scsi-cd,bus=vscsi.0,scsi-id=7,drive={m.cd()}")
    # Not am53c974: its driver panicked the guest. lsi53c895a's (sym53c8xx) scans for 3 s, and every load in the
    # system waits for that: the results depend on it.
    for model, bus, disks in (("megasas", m.pci, 2), ("megasas-gen2", m.pcie, 1), ("mptsas1068", m.pci, 2),
                              ("lsi53c895a", m.pci, 2), ("pvscsi", m.pcie, 2)):
        m.device(f"{model},id=hba-{model},bus={bus()}")
        for i in range(disks):
            m.device(f"scsi-hd,bus=hba-{model}.0,scsi-id={i},drive={m.null()},serial={model}{i}")

    m.device(f"sdhci-pci,bus={m.pci()}")
    m.device(f"sd-card,drive={m.drive('blank9.img')},bus=sd-bus")


def usb(m):
    m.device("ich9-usb-ehci1,id=ehci,bus=pcie.0,addr=0x1d.7,multifunction=on")
    for i in range(3):
        multi = ",multifunction=on" if i == 0 else ""
        m.device(f"ich9-usb-uhci{i + 1},masterbus=ehci.0,firstport={2 * i},bus=pcie.0,addr=0x1d.{i}{multi}")
    m.device(f"qemu-xhci,id=xhci,bus={m.pcie()},p2=8,p3=8")
    m.device(f"nec-usb-xhci,id=xhci2,bus={m.pcie()}")
    m.device(f"pci-ohci,id=ohci,bus={m.pci()},num-ports=4")

    m.device("usb-kbd,bus=xhci.0,port=1")
    m.device("usb-mouse,bus=xhci.0,port=2")
    m.device("usb-tablet,bus=xhci.0,port=3")
    m.device("usb-hub,bus=xhci.0,port=4")
    m.device("usb-kbd,bus=xhci.0,port=4.1")
    m.device("usb-mouse,bus=xhci.0,port=4.2")
    m.device("usb-wacom-tablet,bus=xhci.0,port=4.3")
    m.device("usb-mouse,bus=ohci.0,port=2")

    m.device(f"usb-storage,bus=xhci.0,port=5,drive={m.drive('fat.img')},serial=usb0")
    m.device(f"usb-storage,bus=ehci.0,port=1,drive={m.drive('gpt3.img')},serial=usb1")
    m.device(f"usb-storage,bus=xhci2.0,port=1,drive={m.drive('blank10.img')},serial=usb2")
    m.device("usb-uas,id=uas,bus=xhci2.0,port=2")
    m.device(f"scsi-hd,bus=uas.0,scsi-id=0,lun=0,drive={m.drive('blank11.img')}")

    m.device("usb-audio,bus=xhci2.0,port=3,audiodev=audio")
    m.device("usb-ccid,bus=xhci2.0,port=4")
    m.device(f"usb-serial,chardev={m.chardev()},bus=ohci.0,port=1")
    m.device(f"usb-serial,chardev={m.chardev()},bus=xhci.0,port=6")
    m.device(f"usb-net,netdev={m.netdev()},bus=xhci.0,port=7")


def network(m):
    for model, bus, count in (("virtio-net-pci", m.pcie, 2), ("e1000", m.pci, 4), ("e1000e", m.pcie, 2),
                              ("rtl8139", m.pci, 2), ("ne2k_pci", m.pci, 1), ("pcnet", m.pci, 2),
                              ("vmxnet3", m.pcie, 2), ("tulip", m.pci, 1), ("i82559er", m.pci, 2),
                              ("i82550", m.pci, 1)):
        for _ in range(count):
            m.device(f"{model},netdev={m.netdev()},bus={bus()},romfile=")


def virtio(m):
    m.device(f"virtio-rng-pci,bus={m.pcie()}")
    m.device(f"virtio-balloon-pci,bus={m.pcie()}")
    m.device(f"virtio-serial-pci,id=vserial,bus={m.pcie()}")
    m.device(f"virtconsole,chardev={m.chardev()},bus=vserial.0")
    m.device(f"virtserialport,chardev={m.chardev()},bus=vserial.0,name=org.example.0")
    m.device(f"virtio-keyboard-pci,bus={m.pcie()}")
    m.device(f"virtio-mouse-pci,bus={m.pcie()}")
    m.device(f"virtio-tablet-pci,bus={m.pcie()}")
    m.add("-object", "cryptodev-backend-builtin,id=crypto")
    m.device(f"virtio-crypto-pci,cryptodev=crypto,bus={m.pcie()}")
    m.add("-fsdev", f"local,id=share,path={os.path.join(m.disks, 'share')},security_model=none")
    m.device(f"virtio-9p-pci,fsdev=share,mount_tag=share,bus={m.pcie()}")


def graphics_and_sound(m):
    # Several graphics devices: fbcon is kept off them by the kernel command line, because whichever driver takes
    # the console over first pays, and bochs pays a second.
    m.device("VGA,bus=pcie.0,addr=0x1")
    m.device(f"virtio-gpu-pci,bus={m.pcie()}")
    m.device(f"bochs-display,bus={m.pcie()}")

    for i in range(2):
        m.device(f"intel-hda,id=hda{i},bus={m.pci()}")
        m.device(f"hda-duplex,bus=hda{i}.0,audiodev=audio")
    m.device("ich9-intel-hda,id=hda2,bus=pcie.0,addr=0x1b")
    m.device("hda-micro,bus=hda2.0,audiodev=audio")
    m.device("hda-output,bus=hda2.0,audiodev=audio")
    m.device(f"AC97,bus={m.pci()},audiodev=audio")
    m.device(f"ES1370,bus={m.pci()},audiodev=audio")


def others(m):
    for model in ("i6300esb", "pvpanic-pci", "edu", "pci-testdev"):
        m.device(f"{model},bus={m.pci()}")
    m.device(f"pci-serial,bus={m.pci()},chardev={m.chardev()}")
    for ports in (2, 4):
        chardevs = "".join(f",chardev{i + 1}={m.chardev()}" for i in range(ports))
        m.device(f"pci-serial-{ports}x,bus={m.pci()}{chardevs}")
    m.add("-object", "memory-backend-ram,id=ivshmem,size=1M,share=on")
    m.device(f"ivshmem-plain,memdev=ivshmem,bus={m.pci()}")
    m.add("-object", "can-bus,id=can")
    m.device(f"kvaser_pci,canbus=can,bus={m.pci()}")
    m.device(f"ctucan_pci,canbus0=can,canbus1=can,bus={m.pci()}")
    m.device(f"tpci200,bus={m.pci()}")
    m.add("-object", "memory-backend-file,id=erst,size=64K,share=off,"
          f"mem-path={os.path.join(m.disks, 'erst.img')}")
    m.device("acpi-erst,memdev=erst,bus=pcie.0,addr=0x3")
    m.device("ipmi-bmc-sim,id=bmc")
    m.device("isa-ipmi-kcs,bmc=bmc")
    for model in ("pvpanic", "vmgenid", "vmcoreinfo"):
        m.device(model)
    m.device(f"isa-parallel,chardev={m.chardev()}")


def rich(m):
    m.add("-audiodev", "none,id=audio")
    for group in (storage, usb, network, virtio, graphics_and_sound, others):
        group(m)


def small(m):
    m.device(f"virtio-blk-pci,drive={m.drive('gpt0.img')},bus={m.pcie()},serial=vblk0")
    m.device(f"ide-hd,drive={m.drive('ext2.img')},bus=ide.0,serial=ahci0")
    m.device(f"e1000e,netdev={m.netdev()},bus={m.pcie()},romfile=")
    m.device(f"qemu-xhci,id=xhci,bus={m.pcie()}")
    m.device("usb-kbd,bus=xhci.0,port=1")


PROFILES = {"rich": rich, "small": small}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=PROFILES, required=True)
    parser.add_argument("--smp", type=int, default=1)
    parser.add_argument("--memory", type=int, default=3072, help="in MiB")
    parser.add_argument("--disks", required=True, help="directory of the disk images")
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--initrd", required=True)
    parser.add_argument("--append", required=True, help="the kernel command line")
    parser.add_argument("--results", required=True, help="image of the disk that the guest writes results to")
    parser.add_argument("--root", help="image of a disk more, with a root file system; never written to")
    parser.add_argument("--console", required=True, help="file for the serial console")
    options = parser.parse_args()

    m = Machine(options.disks)
    m.add("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none",
          "-machine", "q35,usb=off,vmport=off", "-m", f"{options.memory}M", "-no-reboot", "-boot", "strict=on",
          "-smp", str(options.smp), "-serial", f"file:{options.console}")
    # Fast string operations cost by the byte when instructions are counted.
    m.add("-cpu", "max,erms=off,fsrm=off")
    if options.smp == 1:
        m.add("-accel", "tcg", "-icount", "shift=1,sleep=off")
    else:
        m.add("-accel", "tcg,thread=multi,tb-size=1024")
    m.add("-kernel", options.kernel, "-initrd", options.initrd, "-append", options.append)
    # The only one with a boot index: with -boot strict=on the firmware looks at nothing else, which saves 5 s.
    results = m.drive(os.path.abspath(options.results))
    m.device(f"virtio-blk-pci,drive={results},bus={m.pcie()},serial=results,bootindex=1")
    # How many ms the firmware waits at each USB port for a device, which it does not need: a number in one byte.
    m.add("-fw_cfg", "name=etc/usb-time-sigatt,string=\x01")
    if options.root:
        root = m.drive(os.path.abspath(options.root), ",snapshot=on")
        m.device(f"virtio-blk-pci,drive={root},bus={m.pcie()},serial=root")
    PROFILES[options.profile](m)
    os.execvp(m.args[0], m.args)


if __name__ == "__main__":
    main()
