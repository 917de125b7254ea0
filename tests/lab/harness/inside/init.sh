#!/bin/busybox sh
# First process of a guest: load the few modules that the root needs, lay a writable layer over the read-only image,
# mount what a node has, start the agent. No udev and no service manager: they are what makes guests slow to start.
b=/bin/busybox
say() { echo "lab init: $*" >/dev/console; }

$b mkdir -p /proc /sys /dev /image /layer /root
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
online= cgroup=v2 init=plain
for word in $($b cat /proc/cmdline); do
    case $word in
        lab.online=*) online=${word#lab.online=} ;;
        lab.cgroup=*) cgroup=${word#lab.cgroup=} ;;
        lab.init=*) init=${word#lab.init=} ;;
    esac
done

while read -r module; do
    $b insmod "/modules/$module" || say "insmod $module failed"
done </modules/order
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 600 ]; do
    $b sleep 0.05
    tries=$((tries + 1))
done
$b mount -t ext4 -o ro,noload /dev/vda /image || { say "no root image"; $b poweroff -f; }
$b mount -t tmpfs -o size=60% layer /layer
$b mkdir /layer/upper /layer/work
$b mount -t overlay -o lowerdir=/image,upperdir=/layer/upper,workdir=/layer/work overlay /root

$b mkdir -p /root/opt/lab
$b cp /agent.py /wire.py /root/opt/lab/
$b mount --move /proc /root/proc
$b mount --move /sys /root/sys
$b mount --move /dev /root/dev
cd /root || exit 1
$b mount -t tmpfs run run
$b mount -t tmpfs -o mode=1777 tmp tmp
$b mkdir -p dev/pts dev/shm run/lock
$b mount -t devpts devpts dev/pts
$b mount -t tmpfs shm dev/shm
$b ln -sf /proc/self/fd dev/fd
$b mount -t debugfs debugfs sys/kernel/debug
$b mount -t tracefs tracefs sys/kernel/tracing
$b mount -t bpf bpf sys/fs/bpf
$b ip link set lo up
$b hostname lab
export PATH=/usr/local/bin:/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 PYTHONPATH=/opt/python
# What requests import, loaded once before the snapshot: under emulation these imports take seconds.
export LAB_IMPORTS="bcc click concurrent.futures ctypes json prometheus_client psutil pydantic pyudev tabulate yaml"
if [ "$init" = systemd ]; then
    # It mounts the cgroups and starts the agent by its unit (harness/flavours.py).
    echo "$LAB_IMPORTS" >run/lab-imports
    exec $b switch_root /root /usr/lib/systemd/systemd </dev/console >/dev/console 2>&1
fi

if [ "$cgroup" = v2 ]; then
    $b mount -t cgroup2 cgroup2 sys/fs/cgroup
    slice=sys/fs/cgroup/system.slice
    for controller in $($b cat sys/fs/cgroup/cgroup.controllers); do
        echo "+$controller" >sys/fs/cgroup/cgroup.subtree_control
    done
else
    # The layout that systemd calls hybrid: v1 controllers, and a v2 tree without any.
    $b mount -t tmpfs -o mode=755 cgroup sys/fs/cgroup
    for controllers in cpuset cpu,cpuacct memory pids hugetlb freezer; do
        $b mkdir "sys/fs/cgroup/$controllers"
        $b mount -t cgroup -o "$controllers" cgroup "sys/fs/cgroup/$controllers"
    done
    $b ln -s cpu,cpuacct sys/fs/cgroup/cpu
    $b ln -s cpu,cpuacct sys/fs/cgroup/cpuacct
    $b mkdir sys/fs/cgroup/unified
    $b mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
    slice=sys/fs/cgroup/unified/system.slice
fi
# Like everything on a node that is not a pod, commands run in a cgroup of their own and not in the root.
$b mkdir "$slice"
# Loads that take every CPU are what many tests want; under emulation what watches them would starve. Three to one:
# with a hundred to one it was loads and canaries on the same CPU that did not run for seconds.
weight=sys/fs/cgroup/cpu/system.slice/cpu.shares heavy=3072
if [ "$cgroup" = v2 ]; then
    weight=$slice/cpu.weight heavy=300
else
    $b mkdir sys/fs/cgroup/cpu/system.slice
    echo $$ >sys/fs/cgroup/cpu/system.slice/cgroup.procs
fi
echo "$heavy" >"$weight"
echo $$ >"$slice/cgroup.procs"

if [ -n "$online" ]; then
    for cpu in $(echo "$online" | $b tr ',' ' '); do
        for id in $($b seq "${cpu%-*}" "${cpu#*-}"); do
            file=sys/devices/system/cpu/cpu$id/online
            [ "$id" = 0 ] || echo 1 >"$file" || say "cpu $id does not come online"
        done
    done
fi

# PID 1 stays a shell that reaps: busybox init's job, without an inittab.
exec $b switch_root /root /bin/sh -c '
    /usr/bin/python3 /opt/lab/agent.py $LAB_IMPORTS &
    while :; do wait; sleep 1; done' </dev/console >/dev/console 2>&1
