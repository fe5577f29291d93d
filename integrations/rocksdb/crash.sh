#!/usr/bin/env bash
# Programs on Millpond that are killed: none loses a write that it was told is durable.
#
#   crash.sh FOLDER [MINUTES]
#
# First KILLS (100) kills of the test's own writers, then MINUTES (20) of RocksDB's db_crashtest.py: a quarter kills programs
# from outside that sync each write, a quarter such as do not (what is left must be a prefix of the writes), and half kill
# themselves within RocksDB, which takes a debug build of db_stress. Each is opened and verified after each kill. Variables:
# TEST (rocksdb_millpond_test), STRESS (db_stress), SOURCE (the source of RocksDB), LIBRARY (librocksdb_millpond.so), MEMORY
# (32M, of a cache). Ends with an error at the first write that is missing or wrong; FOLDER/*.txt says more.
set -euo pipefail

folder=$(realpath "${1:?usage: crash.sh FOLDER [MINUTES]}") minutes=${2:-20}
test=${TEST:-rocksdb_millpond_test} stress=${STRESS:-db_stress} source=${SOURCE:?the folder of the source of RocksDB}
library=${LIBRARY:-librocksdb_millpond.so} memory=${MEMORY:-32M} kills=${KILLS:-100}

mkdir -p "$folder/run"
if [ "$kills" -gt 0 ]; then
    "$test" "$folder/run/kills" kills "$kills" | tee "$folder/kills.txt"
fi
[ "$minutes" -gt 0 ] || exit 0

# In the place of db_stress: Python itself needs no library of RocksDB.
cat >"$folder/stress" <<END
#!/bin/sh
export LD_PRELOAD="$library"
exec "$stress" "\$@"
END
chmod +x "$folder/stress"

# name  seconds  kind  arguments
crash() {
    local name=$1 seconds=$2 kind=$3 log=$folder/$1.txt
    shift 3
    rm -rf "$folder/run/$name" "$folder/run/$name".*
    mkdir "$folder/run/$name"
    # Memory maps go past Millpond, and no library of compression is needed. One that is far over its time has stopped.
    TEST_TMPDIR=$folder/run/$name timeout $((seconds + 1200)) python3 "$source/tools/db_crashtest.py" "$kind" \
        --stress_cmd="$folder/stress" --duration="$seconds" --fs_uri="millpond://?memory=$memory&name=$name" --mmap_read=0 \
        --max_key=100000 --disable_wal=0 --compression_type=none --bottommost_compression_type=none --secondary_cache_uri= "$@" >"$log" 2>&1 || {
        tail -30 "$log" >&2
        echo "crash.sh: $name has failed: $log" >&2
        exit 1
    }
    echo "$name: $(grep -cE '^KILLED|kill option=[0-9]+, exitcode=-' "$log") kills in $seconds s, all verified"
}

quarter=$((minutes * 60 / 4))
crash blackbox-synced $quarter blackbox --interval=20 --sync=1 --sync_fault_injection=0 --manual_wal_flush_one_in=0
crash blackbox-unsynced $quarter blackbox --interval=20 --sync=0 --sync_fault_injection=0 --manual_wal_flush_one_in=1000
crash whitebox $((quarter * 2)) whitebox --ops_per_thread=1000 --sync=1 --sync_fault_injection=0 \
    --manual_wal_flush_one_in=0 --random_kill_odd=20000
