#!/bin/bash
# What the table's example measures, for the store, a cache's files, plain GETs, rclone and s3backer, all through one
# versitygw on this machine, 0, 5 and 30 ms a request:
#
#     crates/millpond-volumes/examples/table/compare.sh [MiB] [ms ...] > figures.txt
#
# Needs versitygw in PATH, or VERSITYGW; rclone and s3backer, and root for their mounts, or it says what it left out. Mounts
# are of the example's `delay` proxy, as they can't be told to wait. WHAT="store cache plain rclone s3backer" chooses.
set -u
mib=${1:-256}; shift || true
[ $# -gt 0 ] || set -- 0 5 30
what=${WHAT:-store cache plain rclone s3backer}
here=$(cd "$(dirname "$0")/../.." && pwd)
cargo build --quiet --release --manifest-path "$here/Cargo.toml" --example table || exit 1
table=$here/target/release/examples/table
work=$(mktemp -d); mkdir -p "$work/data/vol" "$work/mount" "$work/cache"
# Loopback: 127.0.0.2 is for nothing else.
server=127.0.0.2:17070; proxy=127.0.0.2:17071
unset AWS_CA_BUNDLE # rclone 1.60 refuses one
export AWS_ACCESS_KEY_ID=test1234 AWS_SECRET_ACCESS_KEY=test12345678 AWS_REGION=us-east-1 AWS_ENDPOINT_URL=http://$server
ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY "${VERSITYGW:-versitygw}" --quiet \
    --access-log "$work/log" --port $server posix "$work/data" > "$work/server.txt" 2>&1 &
versitygw=$!
delay=; mounted=
let_go() { [ -z "$mounted" ] || { umount "$work/mount" || kill "$mounted"; wait "$mounted" 2>/dev/null; mounted=; }; }
trap 'let_go; kill $versitygw $delay 2>/dev/null; rm -rf "$work"' EXIT
listens() { for _ in $(seq 100); do (: < "/dev/tcp/${1/://}") 2>/dev/null && return; sleep 0.1; done; echo "nothing listens at $1"; exit 1; }
is_mounted() { for _ in $(seq 100); do mountpoint -q "$work/mount" && return; sleep 0.1; done; echo "  not mounted"; return 1; }
listens $server

# Requests that the server has had since the last call, and the peak memory of the mount's process.
requests() {
    echo "  $1: $(grep -c . "$work/log") requests, $(grep -c -E 's3_(PutObject|UploadPart) ' "$work/log") of them puts"
    : > "$work/log"
}
peak() { echo "  $1: $(awk '/VmHWM/ { print int($2 / 1024) }' "/proc/$mounted/status") MiB at most"; }

rclone_mount() {
    rm -rf "$work/cache"
    rclone mount --config /dev/null --cache-dir "$work/cache" --dir-cache-time 1s "$@" \
        ":s3,provider=Other,access_key_id=$AWS_ACCESS_KEY_ID,secret_access_key=$AWS_SECRET_ACCESS_KEY,endpoint='http://$proxy',region=us-east-1:vol/rclone" \
        "$work/mount" 2>> "$work/rclone.txt" &
    mounted=$!; is_mounted
}

s3backer_mount() {
    s3backer -f --quiet --blockSize=64k --size="${mib}m" --prefix=s3backer/ --baseURL="http://$proxy/" \
        --accessId="$AWS_ACCESS_KEY_ID" --accessKey="$AWS_SECRET_ACCESS_KEY" --blockCacheSize=8192 --blockCacheThreads=64 \
        --readAhead=64 -o big_writes --md5CacheSize=0 --minWriteDelay=0 --md5CacheTime=0 "$@" vol "$work/mount" 2>> "$work/s3backer.txt" &
    mounted=$!; is_mounted
}

for ms in "$@"; do
    rm -rf "$work/data/vol"; mkdir "$work/data/vol"
    case " $what " in *" store "*) "$table" s3://vol/store "$mib" "$ms" ;; esac
    case " $what " in *" cache "*) "$table" cache s3://vol/store "$mib" "$ms" ;; esac
    case " $what " in *" plain "*) "$table" plain s3://vol/plain "$mib" "$ms" ;; esac
    "$table" delay $proxy $server "$ms" & delay=$!
    listens $proxy; : > "$work/log"
    case " $what " in *" rclone "*)
        if command -v rclone > /dev/null; then
            echo "rclone mount, $mib MiB, $ms ms: written as a stream, read with --vfs-cache-mode full"
            rclone_mount --vfs-cache-mode off && "$table" file "$work/mount/file" "$mib" write; requests write; peak write; let_go
            rclone_mount --vfs-cache-mode full && "$table" file "$work/mount/file" "$mib" read; requests read; let_go
            rclone_mount --vfs-cache-mode full && "$table" file "$work/mount/file" "$mib" random; requests random; peak random; let_go
        else echo "rclone is not installed"; fi ;;
    esac
    case " $what " in *" s3backer "*)
        if command -v s3backer > /dev/null; then
            echo "s3backer, $mib MiB in blocks of 64 KiB, 64 threads, a cache of 512 MiB, $ms ms"
            began=$(date +%s%N)
            s3backer_mount && "$table" file "$work/mount/file" "$mib" write; let_go
            # Its sync waits for nothing; going waits for all.
            echo "  mounted, written and gone: $((mib * 1048576000 / ($(date +%s%N) - began))) MB/s"; requests write
            s3backer_mount && "$table" file "$work/mount/file" "$mib" read; requests read; peak read; let_go
            s3backer_mount && "$table" file "$work/mount/file" "$mib" random; requests random; let_go
            echo "  with --blockCacheSync, so that a sync has it stored"
            s3backer_mount --blockCacheWriteDelay=0 --blockCacheSync && "$table" file "$work/mount/file" "$mib" sync; let_go
            requests sync
        else echo "s3backer is not installed"; fi ;;
    esac
    kill $delay; wait $delay 2>/dev/null; delay=
done
