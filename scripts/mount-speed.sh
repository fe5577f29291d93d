#!/usr/bin/env bash
# What `millpond mount` costs and brings, by fio as it is, on a machine that does nothing else. About seven minutes.
#
#   cached   4 KiB random reads of what is in memory: through the mount, and through the same mount without a cache,
#            which passes each call on to the kernel's page cache: what FUSE itself costs. Both are mounted, and are
#            read for a second each in turn, 5 times a round. A read is two switches between processes, and takes twice
#            as long where the kernel wakes the other one on another processor than where it stays, which it decides by
#            what else goes on. So the reader and both servers are on one processor (same), the servers on the next one
#            (other), and wherever the kernel likes (free); the verdict is the median of what each pair came to
#   stream   1 MiB reads and writes, one after the other, up to the end of a sync: the mount beside the directory below,
#            there past the kernel's cache with 8 requests at a time, and through it
#   calm     a reader of random 4 KiB beside two writers of new files: the mount beside the directory below, where the
#            kernel's cache has as much memory (a memory group)
#
#   scripts/mount-speed.sh                                 in a folder below /var/tmp, which should be on a disk
#   DIR=/on/a/disk ROUNDS=5 ONLY="cached calm" scripts/mount-speed.sh
#
# Each pair is measured in turn, ROUNDS times (3); the table has the median, the least and the most. MILLPOND names the
# program; else it is built for release. Needs fio, python3, 12 GiB of room; for the last part root
# and memory control groups, of either version (with the first, writers are not held to the group's memory).

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=${ROUNDS:-3}
only=${ONLY:-cached stream calm}
memory=${MEMORY:-256M}
for tool in fio python3; do
    command -v "$tool" >/dev/null || { echo "there is no $tool"; exit 3; }
done
if [ -z "${MILLPOND:-}" ]; then
    (cd "$here" && cargo build --release -p millpond-cli)
    MILLPOND=${CARGO_TARGET_DIR:-$here/target}/release/millpond
fi
room=$(mktemp -d -p "${DIR:-/var/tmp}")
source=$room/src
point=$room/mnt
mkdir "$source" "$point"
results=$room/results
: >"$results"
group=

finish() {
    cd /
    "$MILLPOND" umount --force "$point" >/dev/null 2>&1 || true
    "$MILLPOND" umount --force "$room/pass" >/dev/null 2>&1 || true
    if [ -n "$group" ]; then rmdir "$group" 2>/dev/null || true; fi
    rm -rf "$room"
}
trap finish EXIT

on() { "$MILLPOND" mount "$source" "$point" --daemon --log "$room/log" "$@" >/dev/null 2>>"$room/log"; }
off() { "$MILLPOND" umount "$point" 2>>"$room/log" || { cat "$room/log"; exit 1; }; }
note() { printf '%s\t%s\n' "$1" "$2" >>"$results"; }

# One number of what fio says of a job, as an expression.
number() {
    python3 -c '
import json, sys
said = json.load(open(sys.argv[1]))
job = next(job for job in said["jobs"] if job["jobname"] == sys.argv[2])
print(eval(sys.argv[3], {"job": job}))' "$room/fio.json" "$1" "$2"
}
quiet_fio() { fio --output-format=json --output="$room/fio.json" --group_reporting "$@" >/dev/null; }

cached_job() {
    local pin=()
    if [ -n "$3" ]; then pin=(--cpus_allowed="$3"); fi
    quiet_fio --name=cached --filename="$1/small" --size=128M --bs=4k --rw=randread --ioengine=psync --invalidate=0 \
        --ramp_time=200ms --time_based --runtime=1 --numjobs="$2" --norandommap ${pin[@]+"${pin[@]}"}
    number cached 'job["read"]["iops"]'
}
# Puts the threads of both processes that serve on these processors.
serve_on() {
    local kind
    for kind in mount pass; do taskset -apc "$1" "$(cat "$room/$kind.pid")" >/dev/null; done
}
run_cached() {
    fio --name=small --filename="$source/small" --size=128M --bs=1M --rw=write --end_fsync=1 >/dev/null
    # Both are there at the same time, so that what is compared is a second apart.
    local pass=$room/pass all first second how kind pair kinds
    mkdir -p "$pass"
    on --memory 512M --pid-file "$room/mount.pid"
    "$MILLPOND" mount "$source" "$pass" --daemon --log "$room/log" --no-cache --pid-file "$room/pass.pid" \
        >/dev/null 2>>"$room/log"
    cat "$point/small" "$pass/small" >/dev/null
    all=$(python3 -c 'import os; print(",".join(map(str, sorted(os.sched_getaffinity(0)))))')
    first=${all%%,*} second=$(cut -d, -f2 <<<"$all,$all")
    local ways=("1 same:1:$first:$first" "1 other:1:$first:$second" "1 free:1::$all" "4 free:4::$all")
    if ! command -v taskset >/dev/null; then
        echo "skipped: cached on given processors: there is no taskset"
        ways=("1 free:1::" "4 free:4::")
    fi
    for pair in $(seq $((rounds * 5))); do
        kinds=(mount pass)
        if [ $((pair % 2)) = 0 ]; then kinds=(pass mount); fi
        for how in "${ways[@]}"; do
            local name jobs reader server
            IFS=: read -r name jobs reader server <<<"$how"
            if [ -n "$server" ]; then serve_on "$server"; fi
            for kind in "${kinds[@]}"; do
                local at=$pass
                if [ $kind = mount ]; then at=$point; fi
                note "cached $name $kind" "$(cached_job "$at" "$jobs" "$reader")"
            done
        done
    done
    for pair in $(seq "$rounds"); do note "cached 1 kernel" "$(cached_job "$source" 1 "$first")"; done
    off
    "$MILLPOND" umount "$pass" 2>>"$room/log"
    rm -f "$source/small"
}

stream_job() {
    local how=$1 rw=$2 where=$source
    local options=(--ioengine=psync --direct=0)
    if [ "$how" = mount ]; then where=$point; fi
    if [ "$how" = direct ]; then options=(--ioengine=libaio --direct=1 --iodepth=8); fi
    if [ "$rw" = write ]; then rm -f "$source/new"; fi
    local file=big
    if [ "$rw" = write ]; then file=new; options+=(--end_fsync=1 --fallocate=none); fi
    quiet_fio --name=stream --filename="$where/$file" --size=1G --bs=1M --rw="$rw" "${options[@]}"
    number stream "job['$rw']['bw_bytes'] / 1e6"
}
run_stream() {
    fio --name=big --filename="$source/big" --size=1G --bs=1M --rw=write --end_fsync=1 >/dev/null
    local round rw how
    for round in $(seq "$rounds"); do
        for rw in read write; do
            for how in direct mount buffered; do
                if [ $how = mount ]; then on --memory "$memory"; fi
                note "$rw $how" "$(stream_job $how $rw)"
                if [ $how = mount ]; then off; fi
            done
        done
    done
    rm -f "$source/big" "$source/new"
}

# The reader's own file is eight times the memory, so that most of its reads have to go to the disk.
calm_job() {
    local where=$1
    fio --output-format=json --output="$room/fio.json" --directory="$where" --time_based --runtime=15 --ioengine=psync \
        --name=reader --filename=read --size=2G --bs=4k --rw=randread --norandommap --invalidate=1 \
        --name=writers --new_group --numjobs=2 --group_reporting --filename_format='new.$jobnum' --size=4G --bs=1M --rw=write \
        --fallocate=none --unlink_each_loop=1 --invalidate=0 >/dev/null
}
calm_numbers() {
    local kind=$1
    note "calm p99.9 $kind" "$(number reader 'job["read"]["clat_ns"]["percentile"]["99.900000"] / 1e3')"
    note "calm p50 $kind" "$(number reader 'job["read"]["clat_ns"]["percentile"]["50.000000"] / 1e3')"
    note "calm reads $kind" "$(number reader 'job["read"]["iops"]')"
    note "calm written $kind" "$(number writers 'job["write"]["bw_bytes"] / 1e6')"
}
run_calm() {
    local groups=/sys/fs/cgroup limit=memory.max round
    if [ -d $groups/memory ]; then groups=$groups/memory limit=memory.limit_in_bytes; fi
    group=$groups/millpond-mount-speed-$$
    if ! mkdir "$group" 2>/dev/null || [ ! -w "$group/$limit" ]; then
        echo "skipped: calm: needs root and memory control groups"
        return
    fi
    echo "$memory" >"$group/$limit"
    fio --name=read --filename="$source/read" --size=2G --bs=1M --rw=write --end_fsync=1 >/dev/null
    for round in $(seq "$rounds"); do
        (echo 0 >"$group/cgroup.procs" && calm_job "$source")
        calm_numbers kernel
        rm -f "$source"/new.*
        on --memory "$memory"
        calm_job "$point"
        calm_numbers mount
        rm -f "$point"/new.*
        off
    done
    rm -f "$source/read"
}

for part in $only; do "run_$part"; done

python3 - "$results" <<'PYTHON'
import statistics, sys

runs = {}
for line in open(sys.argv[1]):
    name, value = line.rstrip("\n").split("\t")
    runs.setdefault(name, []).append(float(value))
median = {name: statistics.median(values) for name, values in runs.items()}
print(f"{'':28}{'median':>12}{'least':>12}{'most':>12}")
for name, values in runs.items():
    print(f"{name:28}{median[name]:12.0f}{min(values):12.0f}{max(values):12.0f}")
print("cached: reads a second by so many jobs; read, write: MB/s; calm: us, reads a second, MB/s")


def pairs(text, how, asked):
    mount, other = runs.get(f"cached {how} mount"), runs.get(f"cached {how} pass")
    if not mount or not other:
        return
    ratios = sorted(a / b for a, b in zip(mount, other))
    middle = statistics.median(ratios)
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    print(f"{'ok      ' if middle >= asked else 'MISSED  '}{text}: {middle:.2f}, the middle of {len(ratios)} pairs,"
          f" half of them {low:.2f} to {high:.2f}; asked at least {asked}")


def against(text, name, other, asked, at_most=False):
    if name in median and other in median:
        ratio = median[name] / median[other]
        good = ratio <= asked if at_most else ratio >= asked
        word = "at most" if at_most else "at least"
        print(f"{'ok      ' if good else 'MISSED  '}{text}: {ratio:.2f}, asked {word} {asked}")


passes = "of FUSE that only passes on"
pairs(f"cached reads by 1 job, one processor, {passes}", "1 same", 0.8)
pairs(f"cached reads by 1 job, two processors, {passes}", "1 other", 0.8)
pairs(f"cached reads by 1 job, wherever, {passes}", "1 free", 0.8)
pairs(f"cached reads by 4 jobs, wherever, {passes}", "4 free", 0.8)
for rw in ("read", "write"):
    against(f"streaming {rw}, of the device", f"{rw} mount", f"{rw} direct", 0.7)
    against(f"streaming {rw}, of the kernel's cache", f"{rw} mount", f"{rw} buffered", 0.7)
against("p99.9 of a reader beside writers, of the kernel's", "calm p99.9 mount", "calm p99.9 kernel", 0.25, True)
PYTHON
