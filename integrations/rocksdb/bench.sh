#!/usr/bin/env bash
# RocksDB on the kernel's page cache, with direct I/O, and on Millpond, at equal memory, in turn.
#
#   bench.sh FOLDER               all parts, in order; a part that is complete is left out, so it may be stopped and begun again
#   bench.sh FOLDER PART...       these parts
#   bench.sh FOLDER parts|tables  the names of the parts; the tables of what there is so far
#
# As root, on a disk, on a machine that does nothing else: every figure is of the whole machine's disk. Variables: ROUNDS (3;
# each runs all rows once), SECONDS_EACH (60, of a run that has no end of its own), KEYS (3000000, of 1 KB), READERS (2),
# LIMIT (no limit: seconds after which no further run begins), LIBRARY (librocksdb_millpond.so). A part takes ROUNDS times
# its rows times SECONDS_EACH and some 15 seconds; all of them 4 hours, and another 10 minutes at first for the databases.
set -euo pipefail

folder=${1:?usage: bench.sh FOLDER [PART... | parts | tables]}
shift
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-60} keys=${KEYS:-3000000} readers=${READERS:-2} limit=${LIMIT:-0}
library=${LIBRARY:-librocksdb_millpond.so}
bytes() { numfmt --from=iec "$1"; }

# name  benchmark  memory of the group  skew (0: uniform)  writer in MB/s (0: as fast as it can)  rows
parts() {
    local memory skew rate
    for memory in 800M 2G; do
        for skew in 15 0; do
            for rate in 40 0; do
                echo "read-$memory-skew$skew-rate$rate readwhilewriting $memory $skew $rate all"
            done
        done
    done
    echo "seek seekrandomwhilewriting 800M 15 40 all"
    echo "fillseq fillseq 800M 0 0 all"
    echo "fillsync fillsync 800M 0 0 all"
    echo "compact compact 800M 0 0 all"
    echo "open open 800M 0 0 all"
    echo "cache readwhilewriting 800M 15 40 caches"
}

rows_of() {
    case $1 in
    all) printf '%s\n' "page cache" "page cache, direct compaction" "all direct, block cache" "Millpond" ;;
    caches) printf '%s\n' "Millpond, no block cache" "Millpond" "Millpond, block cache of an eighth" \
        "Millpond, block cache of half" ;;
    esac
}

# Sets `options` and `preload`: in a group of `memory`, five eighths of it are for caches.
options_of() {
    local all=$(($(bytes "$2") * 5 / 8)) small=$((8 << 20)) block pond
    preload="" block=$small pond=0
    options=()
    case $1 in
    "page cache") ;;
    "page cache, direct compaction") options=(--use_direct_io_for_flush_and_compaction=1) ;;
    "all direct, block cache") block=$all options=(--use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1) ;;
    "Millpond") pond=$((all - small)) ;;
    "Millpond, no block cache") pond=$all block=0 ;;
    "Millpond, block cache of an eighth") pond=$((all * 7 / 8)) block=$((all / 8)) ;;
    "Millpond, block cache of half") pond=$((all / 2)) block=$((all / 2)) ;;
    esac
    options+=(--cache_size="$block")
    if [ "$pond" -gt 0 ]; then
        preload=$library
        options+=("--fs_uri=millpond://?memory=$pond")
    fi
}

# A group of its own for each run: what the last one has left is not its memory.
enter_group() {
    if [ -e /sys/fs/cgroup/memory/cgroup.procs ]; then
        version=1 group=/sys/fs/cgroup/memory/rocksdb-bench
        mkdir -p "$group"
        bytes "$1" >"$group/memory.limit_in_bytes"
    elif grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
        version=2 group=/sys/fs/cgroup/rocksdb-bench
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control
        mkdir -p "$group"
        bytes "$1" >"$group/memory.max"
    else
        echo "bench.sh: there is no memory group to be had: mount a cgroup file system" >&2
        exit 1
    fi
}

leave_group() {
    [ ! -e "$group/memory.force_empty" ] || echo 0 >"$group/memory.force_empty" || true
    rmdir "$group" 2>/dev/null || true
}

common=(--num="$keys" --value_size=1000 --key_size=16 --compression_type=none --block_size=4096 --block_align=1 --bloom_bits=10
    --open_files=-1 --max_background_jobs=2 --write_buffer_size=33554432 --target_file_size_base=33554432
    --max_bytes_for_level_base=134217728 --bytes_per_sync=1048576 --histogram=1 --statistics=1 --seed=7)

# Made once: one database in order, one that is still to be compacted. Each run begins with links to its tables.
base_of() {
    case $1 in
    compact) kind=loose fill=(--benchmarks=fillrandom --num=$((keys / 3)) --disable_auto_compactions=1
        --level0_slowdown_writes_trigger=1000 --level0_stop_writes_trigger=1000) ;;
    fillseq | fillsync) kind=none ;;
    *) kind=base fill=(--benchmarks=fillrandom,compact,waitforcompaction) ;;
    esac
    if [ "$kind" != none ] && [ ! -e "$folder/$kind.filled" ]; then
        rm -rf "${folder:?}/$kind"
        db_bench --db="$folder/$kind" "${common[@]}" --disable_wal=1 "${fill[@]}" >"$folder/$kind.txt" 2>&1
        touch "$folder/$kind.filled"
    fi
}

# Megabytes that the disk of the folder has written since the machine started.
written() {
    sync
    local number
    number=$(stat -c %Hd:%Ld "$folder")
    awk '{ printf "%d\n", $7 * 512 / 1e6 }' "/sys/dev/block/$number/stat"
}

# Megabytes that the children of this script have had read from disks.
read_so_far() { awk '/^read_bytes/ { printf "%d\n", $2 / 1e6 }' "/proc/$$/io"; }

run() {
    local benchmark=$1 memory=$2 skew=$3 rate=$4 row=$5 before read file asked=()
    options_of "$row" "$memory"
    base_of "$benchmark"
    rm -rf "$folder/database"
    mkdir "$folder/database"
    if [ "$kind" != none ]; then
        for file in "$folder/$kind"/*; do
            case $file in
            *.sst) ln "$file" "$folder/database/" ;;
            *) cp "$file" "$folder/database/" ;;
            esac
        done
        asked=(--use_existing_db=1)
    fi
    case $benchmark in
    *whilewriting) asked+=(--benchmarks="$benchmark" --duration="$seconds" --threads="$readers"
        --read_random_exp_range="$skew" --benchmark_write_rate_limit=$((rate << 20)) --seek_nexts=10) ;;
    fillsync) asked+=(--benchmarks=fillsync --duration="$seconds") ;;
    open) asked+=(--benchmarks=readrandom --reads=1) ;;
    *) asked+=(--benchmarks="$benchmark") ;;
    esac
    before=$(written) read=$(read_so_far)
    echo 3 >/proc/sys/vm/drop_caches
    enter_group "$memory"
    TIMEFORMAT='took %R %U %S'
    { time {
        (
            echo "$BASHPID" >"$group/cgroup.procs"
            exec env LD_PRELOAD="$preload" db_bench --db="$folder/database" "${common[@]}" "${options[@]}" "${asked[@]}"
        ) >"$folder/run.txt" 2>&1
    }; } 2>"$folder/took.txt" || { tail -5 "$folder/run.txt" >&2; exit 1; }
    local peak after
    peak=$(cat "$group/memory.max_usage_in_bytes" 2>/dev/null || cat "$group/memory.peak" 2>/dev/null || echo 0)
    leave_group
    after=$(written)
    # The benchmark's own histogram is the first; those of the statistics follow.
    tr '\r' '\n' <"$folder/run.txt" | cat "$folder/took.txt" - | awk -v row="$row" -v peak="$peak" \
        -v written=$((after - before)) -v read=$(($(read_so_far) - read)) '
        $1 == "took" { took = $2; cpu = $3 + $4 }
        / ops\/sec/ && !rate { for (n = 1; n <= NF; n++) if ($n ~ /^ops\/sec/) rate = $(n - 1) }
        /^Min:/ && !slowest { slowest = $6 }
        /^Percentiles:/ && !p50 { p50 = $3; p99 = $7; p999 = $9; p9999 = $11 }
        $1 == "rocksdb.bytes.written" { user = $4 / 1e6 }
        $1 == "rocksdb.stall.micros" { stall = $4 / 1e6 }
        END {
            amplification = user > 0 ? written / user : 0
            printf "%s\t%d\t%.1f\t%.0f\t%.2f\t%.2f\t%.1f\t%.1f\t%d\t%d\t%.1f\t%.1f\t%.1f\t%d\n", row, rate, p50, p99, p999 / 1000,
                p9999 / 1000, slowest / 1000, took, read, written, amplification, stall, cpu, peak / 1048576
        }'
}

table() {
    local name=$1 benchmark=$2 memory=$3 skew=$4 rate=$5 file=$folder/results/$1.tsv
    [ -s "$file" ] || return 0
    echo
    echo "**$name**: $benchmark, $keys keys of 1 KB, a group of $memory; median (least..most)"
    echo
    echo "| | operations/s | p50 us | p99 us | p99.9 ms | p99.99 ms | slowest ms | seconds | MB read | MB written | write amplification | stalled s | processor s | memory MiB |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    awk -F'\t' '
        { if (!($1 in seen)) { order[++rows] = $1; seen[$1] } count[$1]++; for (n = 2; n <= NF; n++) value[$1, n, count[$1]] = $n; columns = NF }
        function column(row, n,   i, j, k, v) {
            k = count[row]
            for (i = 1; i <= k; i++) v[i] = value[row, n, i] + 0
            for (i = 1; i < k; i++) for (j = i + 1; j <= k; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
            return k == 1 ? v[1] : v[int((k + 1) / 2)] " (" v[1] ".." v[k] ")"
        }
        END { for (r = 1; r <= rows; r++) { printf "| %s |", order[r]; for (n = 2; n <= columns; n++) printf " %s |", column(order[r], n); print "" } }' "$file"
}

mkdir -p "$folder/results"
case ${1:-} in
parts) parts | cut -d' ' -f1; exit ;;
tables) parts | while read -r part; do table $part; done; exit ;;
esac
for wanted in "$@"; do
    parts | cut -d' ' -f1 | grep -qx -- "$wanted" || {
        echo "bench.sh: there is no part $wanted; there are: $(parts | cut -d' ' -f1 | paste -sd' ')" >&2
        exit 2
    }
done
group=/nowhere
trap 'leave_group; rm -rf "$folder/database"' EXIT
while read -r name benchmark memory skew rate which <&3; do
    [ $# -eq 0 ] || printf '%s\n' "$@" | grep -qx -- "$name" || continue
    file=$folder/results/$name.tsv
    touch "$file"
    mapfile -t rows < <(rows_of "$which")
    # As many runs as there are lines: it goes on where it was stopped.
    while done=$(wc -l <"$file"); [ "$done" -lt $((rounds * ${#rows[@]})) ]; do
        if [ "$limit" -gt 0 ] && [ "$SECONDS" -ge "$limit" ]; then
            echo "bench.sh: stopped after $limit s within $name; the same command goes on there" >&2
            exit 0
        fi
        run "$benchmark" "$memory" "$skew" "$rate" "${rows[done % ${#rows[@]}]}" >"$folder/line.tsv"
        cat "$folder/line.tsv" >>"$file"
        printf '%s: ' "$name"
        cat "$folder/line.tsv"
    done
    table "$name" "$benchmark" "$memory" "$skew" "$rate"
done 3< <(parts)
