#!/usr/bin/env bash
# Programs and suites that nobody has changed, on `millpond mount`: each must do its work and find its data right, at the
# mount and afterwards in the source. Says what it skipped and why; ends with 1 if anything failed.
#
#   scripts/mount-programs.sh                          in a folder below the one for temporary files
#   DIR=/on/some/xfs scripts/mount-programs.sh         on another file system
#   STORE=file:///on/some/disk scripts/mount-programs.sh    a store, by `millpond store mount`; s3://bucket/prefix as well
#   ONLY="fio sqlite" SCALE=10 MEMORY=512M scripts/mount-programs.sh
#   ONLY=postgres KILLS=20 scripts/mount-programs.sh   so many kills of its server, of the mount, or of both
#
# MILLPOND names the program; else it is built for release. SCALE=1 (the default) takes a few minutes. A store is left as
# it is when this ends. `cargo install pjdfstest fsx` brings these two suites.

set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scale=${SCALE:-1}
memory=${MEMORY:-64M}
kills=${KILLS:-3}
store=${STORE:-}
only=${ONLY:-pjdfstest fsx fio fsmark sqlite postgres git compile rsync}
if [ -z "${MILLPOND:-}" ]; then
    target=${CARGO_TARGET_DIR:-$here/target}
    (cd "$here" && cargo build --release -p millpond-cli) || exit 1
    if [ -n "$store" ]; then
        (cd "$here/crates/millpond-volumes" && cargo build --release -p millpond-store --target-dir "$target") || exit 1
    fi
    MILLPOND=$target/release/millpond
fi
room=$(mktemp -d -p "${DIR:-${TMPDIR:-/tmp}}")
chmod 755 "$room"
source=$room/src
point=$room/mnt
mkdir "$source" "$point"
chmod 777 "$source"
failed=()
skipped=()

# In the background, by whose process $room/pid has the id.
on() {
    local how=(mount "$source" "$point")
    if [ -n "$store" ]; then how=(store mount "$store" "$point" --take-over); fi
    if [ "$(id -u)" = 0 ]; then how+=(--allow-other); fi
    "$MILLPOND" "${how[@]}" --memory "$memory" --daemon --log "$room/log" --pid-file "$room/pid" >/dev/null 2>>"$room/log"
}
off() { "$MILLPOND" umount "$point" 2>>"$room/log"; }
finish() {
    cd /
    off 2>/dev/null
    umount "$source" 2>/dev/null
    rm -rf "$room"
}
trap finish EXIT

has() { command -v "$1" >/dev/null; }

# Runs a function; what it prints is shown only if it fails.
try() {
    local name=$1 began=$SECONDS
    shift
    if "$@" >"$room/said" 2>&1; then
        printf 'ok       %-44s %4d s\n' "$name" $((SECONDS - began))
    else
        printf 'FAILED   %-44s\n' "$name"
        sed 's/^/         /' "$room/said" | tail -30
        failed+=("$name")
    fi
}
skip() {
    printf 'skipped: %s: %s\n' "$1" "$2"
    skipped+=("$1")
}

# Ends the mount, does something with the source, and mounts again. Of a store, the source is what a reader of it sees.
below() {
    local status=0
    off || status=1
    if [ -n "$store" ]; then
        "$MILLPOND" store mount "$store" "$source" --read-only --memory "$memory" --daemon >/dev/null 2>>"$room/log" || status=1
    fi
    "$@" || status=1
    if [ -n "$store" ]; then "$MILLPOND" umount "$source" 2>>"$room/log" || status=1; fi
    on && return $status
}
# What is at the mount now must be in the source when it has ended.
same_below() {
    (cd "$point" && find . -type f -print0 | sort -z | xargs -0 -r sha256sum) >"$room/sums" || return 1
    [ -s "$room/sums" ] && below check_sums
}
check_sums() { (cd "$source" && sha256sum --check --quiet "$room/sums"); }

fio_job() {
    local engine=$1 direct=$2 rw=$3 jobs=$4 depth=$5
    fio --name=verify --directory="$point" --ioengine="$engine" --direct="$direct" --rw="$rw" --numjobs="$jobs" \
        --iodepth="$depth" --size=$((24 * scale))M --bs=4k --bsrange=512-64k --bs_unaligned --verify=crc32c \
        --verify_fatal=1 --verify_state_save=0 --verify_backlog=512 --end_fsync=1 --randrepeat=0 \
        --group_reporting --output-format=terse
}
fio_aligned() {
    fio --name=aligned --directory="$point" --ioengine="$1" --direct=1 --rw="$2" --numjobs=4 --iodepth=16 \
        --size=$((24 * scale))M --bs=4k --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
        --end_fsync=1 --output-format=terse
}
# Fails if a case fails at the mount that passes, or is skipped, on the file system below; $room/figures has both sums.
pjdfstest_in() { NO_COLOR=1 pjdfstest --configuration-file "$room/pjdfstest.toml" --path "$1"; }
pjdfstest_job() {
    local others
    others=$(getent passwd daemon >/dev/null && echo '["daemon", "daemon"]') || return 1
    mkdir -p "$room/plain" || return 1
    cat >"$room/pjdfstest.toml" <<END
[features]
secondary_fs = "/dev/shm"
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
[dummy_auth]
entries = [["nobody", "$(id -gn nobody)"], $others]
END
    pjdfstest_in "$room/plain" >"$room/cases.plain"
    pjdfstest_in "$point" >"$room/cases.mount"
    { echo "below: $(tail -1 "$room/cases.plain")"; echo "mount: $(tail -1 "$room/cases.mount")"; } >"$room/figures"
    grep -q Summary "$room/cases.plain" && grep -q Summary "$room/cases.mount" || return 1
    # What failed at the mount, with the reasons.
    grep -A 3 FAILED "$room/cases.mount"
    [ -z "$(comm -13 <(failed_cases "$room/cases.plain") <(failed_cases "$room/cases.mount"))" ]
}
failed_cases() { sed -n 's/ *FAILED$//p' "$1" | sort; }
run_pjdfstest() {
    has pjdfstest || { skip pjdfstest "there is no pjdfstest"; return; }
    [ "$(id -u)" = 0 ] || { skip pjdfstest "it needs root"; return; }
    try "pjdfstest: fails nowhere that it passes below" pjdfstest_job
    sed 's/^/         /' "$room/figures"
}

# A seed replays it: `fsx -f CONFIGURATION -S SEED -N OPERATIONS FILE`.
fsx_job() {
    local seed
    cat >"$room/fsx.toml" <<END
flen = 1000000
nomsyncafterwrite = $1
[weights]
close_open = 2
invalidate = 2
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 3
punch_hole = 5
sendfile = 5
posix_fadvise = 2
copy_file_range = 5
END
    for seed in $(shuf -i 1-1000000 -n "$scale"); do
        echo "seed $seed"
        fsx -f "$room/fsx.toml" -P "$room" -S "$seed" -N 10000 "$point/fsx" || return 1
        rm -f "$point/fsx"
    done
}
run_fsx() {
    has fsx || { skip fsx "there is no fsx"; return; }
    try "fsx" fsx_job false
    try "fsx, maps not synced" fsx_job true
}

run_fio() {
    has fio || { skip fio "there is no fio"; return; }
    local rw
    for rw in write randwrite randrw; do
        try "fio psync buffered $rw" fio_job psync 0 "$rw" 1 1
        try "fio psync buffered $rw, 4 jobs" fio_job psync 0 "$rw" 4 1
        try "fio mmap $rw" fio_job mmap 0 "$rw" 2 1
        try "fio libaio direct $rw, 4 jobs" fio_aligned libaio "$rw"
        try "fio io_uring direct $rw, 4 jobs" fio_aligned io_uring "$rw"
    done
    rm -f "$point"/verify* "$point"/aligned*
}

run_fsmark() {
    has fs_mark || { skip fs_mark "there is no fs_mark (Debian: fsmark)"; return; }
    # It takes short paths only.
    cd "$point" && mkdir -p marks || return
    try "fs_mark, small files, synced" fs_mark -d marks -n $((1000 * scale)) -s 10240 -S 1 -t 2 -k
    try "fs_mark, not synced" fs_mark -d marks -n $((3000 * scale)) -s 4096 -S 0 -t 2 -D 16 -k
    cd /
    try "fs_mark: the files are in the source" same_below
    rm -rf "$point/marks"
}

sqlite_job() {
    local journal=$1 rows=$((50000 * scale)) said
    said=$(sqlite3 "$point/db-$journal" "
        pragma journal_mode=$journal; pragma mmap_size=268435456; pragma cache_size=200;
        create table t(n integer primary key, s text, r blob);
        begin;
        with recursive c(n) as (select 1 union all select n + 1 from c where n < $rows)
            insert into t select n, hex(n * 7919), randomblob(200) from c;
        commit;
        create index i on t(s); update t set s = hex(n) where n % 3 = 0; delete from t where n % 5 = 0;
        vacuum; pragma integrity_check; select count(*) from t;") || return 1
    printf '%s\n' "$said"
    [ "$(printf '%s\n' "$said" | tail -2 | tr '\n' ' ')" = "ok $((rows - rows / 5)) " ]
}
sqlite_whole() {
    local journal
    for journal in delete wal; do
        # A reader's mount takes no file of shared memory beside it.
        [ "$(sqlite3 "file:$source/db-$journal?immutable=1" 'pragma integrity_check')" = ok ] || return 1
    done
}
run_sqlite() {
    has sqlite3 || { skip sqlite "there is no sqlite3"; return; }
    try "SQLite, rollback journal" sqlite_job delete
    try "SQLite, write-ahead log" sqlite_job wal
    try "SQLite: both are whole in the source" below sqlite_whole
}

postgres_tools() {
    local folder
    for folder in "$(dirname "$(command -v initdb || echo /none)")" /usr/lib/postgresql/*/bin; do
        if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then echo "$folder"; fi
    done | tail -1
}
as_postgres() {
    if [ "$(id -u)" = 0 ]; then setpriv --reuid="$user" --regid="$user" --clear-groups "$@"; else "$@"; fi
}
postgres_up() {
    (
        cd "$point/pg" || exit
        # Little of its own memory, and much to checkpoint: it is the mount that is tried.
        set -- "$tools/postgres" -D "$point/pg/data" -k "$point/pg" -c listen_addresses= -c max_connections=20 \
            -c shared_buffers=16MB -c max_wal_size=64MB -c checkpoint_timeout=30s
        if [ "$(id -u)" = 0 ]; then set -- setpriv --reuid="$user" --regid="$user" --clear-groups "$@"; fi
        exec "$@"
    ) >>"$room/pg.log" 2>&1 &
    server=$!
    local n
    # Two minutes: after a kill it replays its log first.
    for n in $(seq 1200); do
        as_postgres "$tools/pg_isready" -q -h "$point/pg" -d postgres && return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$room/pg.log"
    return 1
}
sql() { as_postgres "$tools/psql" -X -A -t -h "$point/pg" -d postgres -c "$1"; }
bench() {
    # Without -n it would empty the history, which is to agree with the rest.
    (cd "$point/pg" && as_postgres "$pgbench" -n -h "$point/pg" -d postgres -c 4 -j 2 -T "$1")
}
# Each transaction of pgbench changes all four tables by the same amount.
balanced() {
    local said
    said=$(sql "select (select sum(abalance) from pgbench_accounts) = (select sum(tbalance) from pgbench_tellers)
        and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)
        and (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers)") || return 1
    [ "$said" = t ]
}
postgres_setup() {
    mkdir "$point/pg" && chmod 700 "$point/pg" || return 1
    if [ "$(id -u)" = 0 ]; then chown "$user:$user" "$point/pg" || return 1; fi
    (cd "$point/pg" && as_postgres "$tools/initdb" -D "$point/pg/data" --data-checksums -A trust -U "$user") &&
        postgres_up && as_postgres "$pgbench" -i -s $((4 * scale)) -q -h "$point/pg" -d postgres
}
# Rows whose numbers are in $room/known once the server has said that they are committed.
note_rows() {
    seq "$1" $(($1 + 99999)) | sed "s/.*/insert into noted values (&, repeat(md5('&'), 20)) returning n;/" |
        as_postgres "$tools/psql" -q -X -A -t -h "$point/pg" -d postgres >>"$room/known" 2>/dev/null
}
noted() {
    local said
    said=$(sql "create temporary table known (n bigint);
        copy known from stdin;
        select count(*) from known left join noted using (n) where noted.t is distinct from repeat(md5(n::text), 20)" \
        <"$room/known" | tail -1) && [ "$said" = 0 ] || { echo "$said rows of those that were committed are not there"; return 1; }
}
# Every page's and every index's order, and that each row is in its indexes.
indexes_agree() {
    if [ ! -x "$tools/pg_amcheck" ]; then return 0; fi
    as_postgres "$tools/pg_amcheck" --install-missing --heapallindexed --parent-check --rootdescend -h "$point/pg" -d postgres
}
# Kills at random moments under load: of the server, of the mount's process, of both. Without its mount the server is of no
# use, so it goes too.
postgres_killed() {
    local n load rows kind
    sql "create table noted (n bigint primary key, t text)" || return 1
    : >"$room/known"
    for n in $(seq "$kills"); do
        bench 60 >/dev/null 2>&1 &
        load=$!
        note_rows $((n * 100000)) &
        rows=$!
        sleep $((RANDOM % 6)).$((RANDOM % 1000))
        kind=$((RANDOM % 3))
        if [ "$kind" = 1 ]; then
            kill -KILL "$(cat "$room/pid")"
            sleep 0.$((RANDOM % 1000))
        fi
        # The server as a whole, as by the kernel when memory is out.
        kill -STOP "$server"
        pkill -KILL -P "$server"
        kill -KILL "$server"
        if [ "$kind" = 2 ]; then kill -KILL "$(cat "$room/pid")"; fi
        wait "$load" "$rows" "$server" 2>/dev/null
        if [ "$kind" != 0 ]; then
            # Until it is gone it has its pid file.
            while kill -0 "$(cat "$room/pid")" 2>/dev/null; do sleep 0.1; done
            on || { tail -3 "$room/log"; return 1; }
        fi
        rm -f "$point/pg/data/postmaster.pid" "$point"/pg/.s.PGSQL*
        postgres_up && balanced && noted && indexes_agree ||
            { echo "kill $n of $kills, of $(echo server, mount and server, server and mount | cut -d , -f $((kind + 1)))"; return 1; }
    done
    [ -s "$room/known" ]
}
postgres_end() {
    kill -INT "$server" && wait "$server"
    if [ -x "$tools/pg_checksums" ]; then as_postgres "$tools/pg_checksums" --check -D "$point/pg/data" || return 1; fi
    same_below
}
run_postgres() {
    tools=$(postgres_tools)
    pgbench=$(ls "$tools/pgbench" 2>/dev/null || command -v pgbench)
    user=$(id -un)
    if [ -z "$tools" ] || [ -z "$pgbench" ]; then skip postgres "there is no initdb, postgres or pgbench"; return; fi
    if [ "$(id -u)" = 0 ]; then
        has setpriv || { skip postgres "there is no setpriv, and it does not run as root"; return; }
        user=$(id -un postgres 2>/dev/null || id -un nobody)
    fi
    try "PostgreSQL: initdb and the tables of pgbench" postgres_setup
    try "pgbench" bench $((10 * scale))
    try "PostgreSQL: balances agree" balanced
    try "PostgreSQL: killed $kills times under load" postgres_killed
    printf '         %d rows were known to be committed\n' "$(wc -l <"$room/known")"
    try "PostgreSQL: checksums of all pages" postgres_end
    rm -rf "$point/pg"
}

# In a shell of its own: who stands in the mount keeps it from being unmounted.
git_job() (
    git clone --quiet --no-hardlinks "$here" "$point/clone" && cd "$point/clone" && git gc --quiet --aggressive &&
        git fsck --full --strict --no-dangling && git checkout --quiet HEAD~1 && git checkout --quiet - &&
        [ -z "$(git status --porcelain)" ]
)
git_whole() { (cd "$source/clone" && git fsck --full --no-dangling && [ -z "$(git status --porcelain)" ]); }
run_git() {
    has git || { skip git "there is no git"; return; }
    git -C "$here" rev-parse HEAD~1 >/dev/null 2>&1 || { skip git "this is no clone with a history"; return; }
    try "git clone, gc, fsck, checkout" git_job
    try "git: whole in the source" below git_whole
    rm -rf "$point/clone"
}

compile_job() (
    mkdir -p "$point/build" && cd "$point/build" || return 1
    local n
    for n in $(seq 60); do
        printf '#include <stdio.h>\n#include "all.h"\nint f%d(int x) { return x * %d + N; }\n' "$n" "$n" >"f$n.c"
    done
    { echo '#define N 7'; for n in $(seq 60); do echo "int f$n(int);"; done; } >all.h
    { echo '#include <stdio.h>'; echo '#include "all.h"'; echo 'int main(void) { int s = 0;'
      for n in $(seq 60); do echo "s += f$n($n);"; done; echo 'printf("%d\n", s); return 0; }'; } >main.c
    printf 'O := $(patsubst %%.c,%%.o,$(wildcard *.c))\nall: $(O)\n\tcc -o all $(O)\n%%.o: %%.c all.h\n\tcc -O1 -g -c $<\n' >Makefile
    # 60 * 61 * 121 / 6 + 60 * 7; a second make has nothing to do, for times are in order.
    make -j4 && [ "$(./all)" = 74230 ] && [ "$(make)" = "make: 'all' is up to date." ] &&
        touch all.h && [ "$(make -j4 | grep -c 'cc -O1')" = 61 ]
)
run_compile() {
    has cc && has make || { skip compile "there is no cc or make"; return; }
    try "a compile with make, and what it made runs" compile_job
    rm -rf "$point/build"
}

rsync_job() {
    rsync -a --exclude target --exclude .git "$here/" "$point/copy/" &&
        [ -z "$(rsync -a --exclude target --exclude .git --checksum --itemize-changes "$here/" "$point/copy/")" ] &&
        [ -z "$(rsync -a --exclude target --exclude .git --itemize-changes "$here/" "$point/copy/")" ]
}
rsync_same() {
    [ -z "$(rsync -a --exclude target --exclude .git --checksum --itemize-changes "$here/" "$source/copy/")" ] &&
        [ -z "$(rsync -a --exclude target --exclude .git --itemize-changes "$here/" "$source/copy/")" ]
}
run_rsync() {
    has rsync || { skip rsync "there is no rsync"; return; }
    try "rsync: content, modes and times" rsync_job
    try "rsync: the same in the source" below rsync_same
    rm -rf "$point/copy"
}

if ! on; then
    cat "$room/log"
    echo "skipped: everything: nothing can be mounted here"
    exit 1
fi
echo "at $point, $(stat -f -c %T "$source") below, memory $memory"
for program in $only; do "run_$program"; cd /; done
off || failed+=("the end: $(tail -1 "$room/log")")
echo "${#failed[@]} failed, ${#skipped[@]} skipped${skipped[*]:+ (${skipped[*]})}"
[ ${#failed[@]} = 0 ]
