# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# Only workers can ask for modules, and only the manager can answer: what udevd starts has neither the socket nor
# anything else that it does not have in stock, and a loader has nothing of the manager's.
#
# Not asked here: root, who may take the socket out of a worker and send what the kernel then says is the worker's, or
# signal in the manager's name. It can load modules itself.

. /rig/guest.sh

# What a process finds when it is started, a line each, into a file: context NAME
cat >/rig/context <<'END'
#!/bin/sh
stat_field() { sed 's/.*) //' "/proc/$$/stat" | cut -d ' ' -f $(($1 - 2)); }
mkdir -p /run/context
{
    for fd in /proc/$$/fd/*; do
        target=$(readlink "$fd") || continue
        [ "$target" = "$(realpath "$0")" ] || echo "fd ${fd##*/} $target"
    done
    grep -E '^(Umask|Uid|Gid|Groups|NoNewPrivs|Seccomp|Cap...|SigBlk|SigIgn|Threads):' /proc/$$/status
    tr '\0' '\n' </proc/$$/environ | grep -vE '^(SEQNUM|USEC_INITIALIZED)=' | sed 's/^/environment /'
    sed 's/^/limit /' /proc/$$/limits
    echo "directory $(readlink /proc/$$/cwd) $(readlink /proc/$$/root)"
    echo "oom_score_adj $(cat /proc/$$/oom_score_adj)"
    echo "timer slack $(cat /proc/$$/timerslack_ns)"
    echo "dumped $(cat /proc/$$/coredump_filter)"
    echo "policy $(stat_field 41)"
    echo "nice $(stat_field 19)"
    echo "I/O priority $(ionice -p $$)"
    echo "cgroup $(cat /proc/$$/cgroup)"
    echo "arguments $*"
} | sed 's/:\[[0-9]*\]$//' | sort >"/run/context/$1"
END
# What stays behind when udevd believes its program to have ended.
cat >/rig/daemon <<'END'
#!/bin/sh
setsid sh -c "while kill -0 $$ 2>/dev/null; do usleep 1000; done; exec /rig/context daemon" </dev/null >/dev/null 2>&1 &
END
# Loaders die of it, and so the worker runs it by itself.
cat >/rig/own <<'END'
#!/bin/sh
loaders=$(grep -lxF '(udev-loader)' /proc/[0-9]*/comm | cut -d / -f 3)
[ -n "$loaders" ] || exec /rig/context own
# shellcheck disable=SC2086
kill -KILL $loaders
END
# Waits until it may go on, and then does nothing.
cat >/rig/hold <<'END'
#!/bin/sh
touch /run/held
until [ -e /run/go ]; do usleep 5000; done
END
# The pid is that of the program which it becomes.
cat >/rig/ask <<'END'
#!/bin/sh
echo $$ >/run/asked
exec stranger "$1" 0 request
END
cat >/rig/see <<'END'
#!/bin/sh
touch /run/seen
END
chmod +x /rig/context /rig/daemon /rig/own /rig/hold /rig/ask /rig/see

mkdir -p /etc/modprobe.d /etc/udev/rules.d
cat >/etc/modprobe.d/test.conf <<'END'
install request_context /rig/context install
install request_own /rig/own
install request_hold /rig/hold
END

rule() { echo "ACTION==\"change\", SUBSYSTEM==\"mem\", KERNEL==\"null\", $1" >>/etc/udev/rules.d/00-test.rules; }

change() { udevadm trigger --action=change /sys/class/mem/null && udevadm settle --timeout=60 2>/dev/null; }

# Of a process: what kinds of files it has open, how many of each.
files_of() {
    for fd in "/proc/$1"/fd/*; do
        echo "$(readlink "$fd" | sed 's/:\[[0-9]*\]$//; s|^/dev/pts/.*|output|; s|^/dev/[a-z]*$|output|; s|^/run/out/.*|output|; s|^pipe$|output|')"
    done | sort | uniq -c | awk '{ print $1, $2 }' | paste -sd ,
}

# What udevd starts, in stock and with the queue.
rule 'PROGRAM="/rig/context program"'
rule 'IMPORT{program}="/rig/context import"'
rule 'RUN+="/rig/context run"'
rule 'RUN+="/rig/daemon"'
rule 'RUN{builtin}+="kmod load request_context"'
rule 'RUN+="/bin/true"'
rule 'RUN{builtin}+="kmod load request_own"'
rule 'RUN+="/bin/true"'
# Before the file of a daemon is there, that of another one may be.
contexts_of() {
    udevd_restart "module_queue=$1"
    rm -rf /run/context
    change
    wait_until [ -s /run/context/daemon ] || :
    mv /run/context "/run/context-$1"
    files_of "$(pids_of '(udev-worker)' | head -n 1)" >"/run/worker-$1"
}
# A service has these two; to lower the score is not everybody's.
export NOTIFY_SOCKET=/run/nowhere
echo 300 >/proc/$$/oom_score_adj
contexts_of no
contexts_of yes
contexts_of wait
unset NOTIFY_SOCKET
echo 0 >/proc/$$/oom_score_adj

cp -r /run/context-no /run/context-yes /run/worker-no /run/worker-yes "$OUT/"

# What is different: different MODE WHAT
different() {
    [ -s "/run/context-no/$2" ] || echo "stock does not run it"
    [ -s "/run/context-$1/$2" ] || echo "it is not run"
    grep -vxF -f "/run/context-no/$2" "/run/context-$1/$2" || :
    grep -vxF -f "/run/context-$1/$2" "/run/context-no/$2" | sed 's/^/in stock: /' || :
} 2>/dev/null

blocked() { sed -n 's/^SigBlk:[^0-9a-f]*//p' "/run/context-$1/own"; }

for mode in yes wait; do
    for what in run daemon; do
        judge "request: as in stock, module_queue=$mode: $what" "$(different $mode $what)"
    done
    # With one CPU the rules of what is not urgent have less of it.
    for what in program import; do
        judge "request: as in stock but for the nice level, module_queue=$mode: $what" \
            "$(different $mode $what | grep -vE '^(in stock: )?nice ' || :)"
    done
    # These are the class's.
    judge "request: as in stock but for nice level and I/O priority, module_queue=$mode: install line" \
        "$(different $mode install | grep -vE '^(in stock: )?(nice|I/O priority) ' || :)"
    # What a worker waits with for answers.
    judge "request: as in stock but for SIGUSR2, which is blocked, module_queue=$mode: install line that a worker runs" \
        "$(
            different $mode own | grep -vE '^(in stock: )?SigBlk:' || :
            [ $((0x$(blocked $mode) ^ 0x$(blocked no))) -eq 2048 ] ||
                echo "blocked: $(blocked $mode), in stock $(blocked no)"
        )"
done
judge "request: noticed: the nice level of an install line" \
    "$(different yes install | grep -q '^nice' || echo "it is the same")"

count() { awk -v RS=, -v kind="$2" '$2 == kind { n = $1 } END { print n + 0 }' "$1"; }
judge "request: a worker has one socket more than in stock, and nothing else" "$(
    [ "$(count /run/worker-yes socket)" -eq $(($(count /run/worker-no socket) + 1)) ] &&
        [ "$(sed 's/[0-9]* socket/socket/' /run/worker-yes)" = "$(sed 's/[0-9]* socket/socket/' /run/worker-no)" ] ||
        echo "stock: $(cat /run/worker-no), queue: $(cat /run/worker-yes)"
)"

# Loaders: at work and idle.
udevd_restart module_queue=yes
manager=$(pids_of systemd-udevd)
rm /etc/udev/rules.d/00-test.rules
rule 'RUN{builtin}+="kmod load request_hold", RUN+="/rig/see"'
udevadm control --reload
# held: a worker waits for a load
held() {
    rm -f /run/held /run/go /run/seen
    udevadm trigger --action=change /sys/class/mem/null
    wait_until [ -e /run/held ] || echo "the load did not start"
}
release() {
    touch /run/go
    udevadm settle --timeout=60 2>/dev/null || echo "settle failed"
    [ -e /run/seen ] || echo "the program behind the load was not run"
}
loader_files() {
    files_of "$(pids_of '(udev-loader)' | head -n 1)" | grep -vxE '3 output,1 socket|1 socket,3 output' || :
}
judge "request: a loader at work has its socket and nothing else" "$(held; loader_files; release)"
judge "request: an idle loader has its socket and nothing else" "$(loader_files)"

# Answers: only from the manager.
judge "request: SIGUSR2 from elsewhere is no answer" "$(
    held
    usleep 50000
    worker=$(pids_of '(udev-worker)' | head -n 1)
    kill -USR2 "$worker"
    usleep 200000
    [ ! -e /run/seen ] || echo "the worker took it for one"
    [ -d "/proc/$worker" ] || echo "the worker is gone"
    release
)"

# Requests: not from what a worker has started, not with files, whoever sends it; and no message stays open.
idle() { [ -z "$(pids_of '(udev-worker)')$(pids_of '(udev-loader)')" ]; }
idle_files() {
    wait_until idle || echo "workers or loaders do not leave"
    files_of "$manager"
}

before=$(idle_files)
rm /etc/udev/rules.d/00-test.rules
rule "RUN+=\"/rig/ask $manager\""
udevadm control --reload
judge "request: a program of a worker is no worker" "$(
    log_start
    change
    log | grep -qF "Ignoring a module request from process $(cat /run/asked), which is no worker." ||
        echo "the log does not say so"
    [ ! -d /sys/module/ifb ] || echo "the module was loaded"
)"
rm /etc/udev/rules.d/00-test.rules
udevadm control --reload
for sender in stranger worker; do
    for what in file files; do
        judge "request: $what in a message from a $sender" "$(
            change
            pid=0
            [ $sender = stranger ] || pid=$(pids_of '(udev-worker)' | head -n 1)
            log_start
            stranger "$manager" "$pid" $what
            udevadm control --ping || echo "udevd does not answer"
            log | grep -q "Ignoring a module request from process [0-9]* with more ancillary data than it may have" ||
                echo "the log does not say so"
            [ ! -d /sys/module/ifb ] || echo "the module was loaded"
        )"
    done
done
judge "request: the manager has no more files open than before" "$(
    after=$(idle_files)
    [ "$after" = "$before" ] || echo "before: $before, after: $after"
)"
