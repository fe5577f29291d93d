#!/usr/bin/env bash
# A reader beside a writer: RocksDB on the kernel's page cache, with direct I/O, and on Millpond, at equal memory, in turn.
#
#   bench.sh FOLDER [ROUNDS]
#
# As root, on a disk, on a machine that does nothing else. Variables: KEYS (3000000, of 1 KB), SECONDS_EACH (60), MEMORY
# (800M, of the memory group), CACHE (512M, within it), RATE (MB/s of the writer, 0: as fast as it can), READERS (2), SKEW
# (15; 0: uniform), BENCHMARK (readwhilewriting), LIBRARY (librocksdb_millpond.so).
set -euo pipefail

folder=${1:?usage: bench.sh FOLDER [ROUNDS]} rounds=${2:-5}
keys=${KEYS:-3000000} seconds=${SECONDS_EACH:-60} memory=${MEMORY:-800M} cache=${CACHE:-512M}
rate=${RATE:-40} readers=${READERS:-2} skew=${SKEW:-15} benchmark=${BENCHMARK:-readwhilewriting}
library=${LIBRARY:-librocksdb_millpond.so}
bytes() { numfmt --from=iec "$1"; }

group() {
    if [ -e /sys/fs/cgroup/memory/cgroup.procs ]; then
        version=1 group=/sys/fs/cgroup/memory/rocksdb-bench
        mkdir -p "$group"
        bytes "$memory" >"$group/memory.limit_in_bytes"
    elif grep -q memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
        version=2 group=/sys/fs/cgroup/rocksdb-bench
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control
        mkdir -p "$group"
        bytes "$memory" >"$group/memory.max"
    else
        echo "bench.sh: there is no memory group to be had: mount a cgroup file system" >&2
        exit 1
    fi
    trap 'rmdir "$group" 2>/dev/null || true; rm -rf "$folder/database"' EXIT
}

common=(--num="$keys" --value_size=1000 --key_size=16 --compression_type=none --block_size=4096 --bloom_bits=10
    --open_files=-1 --max_background_jobs=2 --write_buffer_size=33554432 --target_file_size_base=33554432
    --max_bytes_for_level_base=134217728 --bytes_per_sync=1048576 --histogram=1 --seed=7)

# Made once, and each run begins with links to its tables.
prepare() {
    [ -e "$folder/base/CURRENT" ] || db_bench --db="$folder/base" --benchmarks=fillrandom,compact,waitforcompaction \
        "${common[@]}" --disable_wal=1 >"$folder/fill.txt" 2>&1
}

row() {
    local how=$1 preload="" options=()
    case $how in
    "page cache") options=(--cache_size=8388608) ;;
    "page cache, direct compaction") options=(--cache_size=8388608 --use_direct_io_for_flush_and_compaction=1) ;;
    "all direct, block cache") options=(--cache_size="$(bytes "$cache")" --use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1) ;;
    "Millpond") options=(--cache_size=8388608 "--fs_uri=millpond://?memory=$cache") preload=$library ;;
    esac
    rm -rf "$folder/database"
    mkdir "$folder/database"
    for file in "$folder"/base/*; do
        case $file in
        *.sst) ln "$file" "$folder/database/" ;;
        *) cp "$file" "$folder/database/" ;;
        esac
    done
    sync
    echo 3 >/proc/sys/vm/drop_caches
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        exec env LD_PRELOAD="$preload" db_bench --db="$folder/database" --use_existing_db=1 --benchmarks="$benchmark" \
            "${common[@]}" "${options[@]}" --duration="$seconds" --threads="$readers" --read_random_exp_range="$skew" \
            --benchmark_write_rate_limit=$((rate << 20))
    ) >"$folder/run.txt" 2>&1 || { tail -5 "$folder/run.txt"; exit 1; }
    # Reads a second, and of the histogram p50, p99, p99.9, p99.99 and the slowest, in microseconds.
    tr '\r' '\n' <"$folder/run.txt" | awk -v how="$how" -v benchmark="$benchmark" '
        $1 == benchmark { for (n = 1; n <= NF; n++) if ($n == "ops/sec" || $n == "ops/sec;") rate = $(n - 1) }
        /^Min:/ { slowest = $6 }
        /^Percentiles:/ { p50 = $3; p99 = $7; p999 = $9; p9999 = $11 }
        END { printf "%s\t%d\t%.1f\t%.0f\t%.2f\t%.2f\t%.1f\n", how, rate, p50, p99, p999 / 1000, p9999 / 1000, slowest / 1000 }'
}

mkdir -p "$folder"
group
prepare
results=$folder/results.tsv
: >"$results"
for round in $(seq "$rounds"); do
    for how in "page cache" "page cache, direct compaction" "all direct, block cache" "Millpond"; do
        row "$how" | tee -a "$results"
    done
done
echo
echo "$benchmark, $keys keys of 1 KB, $readers readers, writer at ${rate:-0} MB/s, version $version group of $memory, median (least..most) of $rounds:"
echo
echo "| | reads/s | p50 us | p99 us | p99.9 ms | p99.99 ms | slowest ms |"
echo "|---|---|---|---|---|---|---|"
awk -F'\t' '
    { if (!($1 in seen)) { order[++rows] = $1; seen[$1] } count[$1]++; for (n = 2; n <= NF; n++) value[$1, n, count[$1]] = $n; columns = NF }
    function column(how, n,   i, j, k, v) {
        k = count[how]
        for (i = 1; i <= k; i++) v[i] = value[how, n, i] + 0
        for (i = 1; i < k; i++) for (j = i + 1; j <= k; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
        return v[int((k + 1) / 2)] " (" v[1] ".." v[k] ")"
    }
    END { for (r = 1; r <= rows; r++) { printf "| %s |", order[r]; for (n = 2; n <= columns; n++) printf " %s |", column(order[r], n); print "" } }' "$results"
