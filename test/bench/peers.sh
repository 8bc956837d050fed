# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Load a list of modules by other means, then do what coldplug.sh does. /rig/peer says by which: a word, and a number of
# processes; /rig/modules has the names of the modules and their files, in an order in which they can be loaded.

read -r peer processes </rig/peer
n=$(wc -l </rig/modules)

case $peer in
    insmod)
        while read -r _ file; do
            insmod "$file" || :     # the kernel itself may have loaded it meanwhile
        done </rig/modules
        ;;
    modprobe)
        cut -d ' ' -f 1 /rig/modules | xargs -P "$processes" -n $(((n + processes - 1) / processes)) modprobe -a || :
        ;;
    # As Alpine's mdev does it. Most MODALIASes lead to no module, of which it complains.
    mdev) find /sys -name modalias -type f -exec cat {} + | sort -u | tr '\n' '\0' | xargs -0 modprobe -b -a || : ;;
    modules-load)
        export LD_LIBRARY_PATH=/rig/modules-load SYSTEMD_MODULES_LOAD_NUM_THREADS="$processes" SYSTEMD_LOG_TARGET=console
        /rig/modules-load/systemd-modules-load || :
        unset LD_LIBRARY_PATH SYSTEMD_LOG_TARGET
        ;;
esac
stamp loaded
# shellcheck source=test/guest/coldplug.sh
. /rig/coldplug.sh
