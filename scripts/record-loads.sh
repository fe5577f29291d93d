#!/bin/sh
# Records what four programs ask a mount for: SQLite, a compiler, git, and the build of an index. The traces are what
# `millpond lab run policies --traces FOLDER` and `millpond replay` take.
#
#     scripts/record-loads.sh target/release/millpond FOLDER [sqlite] [compile] [git] [index]
#
# Needs FUSE, python3, git, cc and make, 1 GiB in FOLDER, and some minutes. Makes FOLDER/NAME.trace, and removes what else it makes. The pages depend on the versions of the programs, so the traces of two machines are not the same.
set -eu
program=$1
out=$2
shift 2
repository=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d -p "$out")
files=$work/files
mount=$work/mount
mkdir "$files" "$mount"

end() {
    "$program" umount "$mount" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM

# record NAME COMMAND...: runs the command in the mount and records it.
record() {
    name=$1
    shift
    "$program" mount "$files" "$mount" --daemon --quiet --log "$work/log" --memory 512M --attribute-timeout 0 >/dev/null
    rm -f "$out/$name.trace"
    "$program" record --cache "$mount" "$out/$name.trace" --max-size 512M >"$work/$name.txt" &
    recorder=$!
    # The recording has begun when its file is there.
    tries=0
    until [ -e "$out/$name.trace" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || exit 1
        sleep 0.05
    done
    (cd "$mount" && "$@" >/dev/null)
    "$program" record --cache "$mount" --stop >/dev/null
    wait "$recorder"
    "$program" umount "$mount" >/dev/null
    printf '%s: %s\n' "$name" "$(tail -n 1 "$work/$name.txt")"
}

# 200,000 rows with an index; look-ups of which some rows are asked for more often, scans of ranges, updates.
cat >"$work/sqlite.py" <<'END'
import random
import sqlite3
random.seed(1)
rows = 200_000
base = sqlite3.connect("base.db", isolation_level=None)
base.execute("pragma cache_size = -512")
base.execute("pragma synchronous = off")
base.execute("create table t (id integer primary key, k integer, v text)")
base.execute("begin")
base.executemany("insert into t values (?, ?, ?)", ((n, random.getrandbits(40), "v" * random.randint(20, 200)) for n in range(rows)))
base.execute("commit")
base.execute("create index tk on t (k)")
often = lambda: int(rows ** random.random()) * 7919 % rows
for turn in range(40_000):
    base.execute("select v from t where id = ?", (often(),)).fetchone()
    if turn % 4 == 0:
        base.execute("select count(v) from (select v from t where k > ? order by k limit 20)", (random.getrandbits(40),)).fetchone()
    if turn % 10 == 0:
        base.execute("update t set v = ? where id = ?", ("w" * random.randint(20, 200), often()))
    if turn % 10_000 == 0:
        base.execute("select sum(length(v)) from t").fetchone()
END
sqlite() {
    record sqlite python3 "$work/sqlite.py"
}

# 300 files of C that include 200 headers, compiled, half of them changed, compiled again.
cat >"$work/sources.py" <<'END'
import random
random.seed(1)
for n in range(200):
    text = "\n".join(f"static inline int f{n}_{m}(int a) {{ return a * {m} + {n}; }}" for m in range(150))
    open(f"h{n}.h", "w").write(f"#ifndef H{n}\n#define H{n}\n{text}\n#endif\n")
for n in range(300):
    used = sorted({int(200 ** random.random()) for _ in range(40)} & set(range(200)))
    head = "\n".join(f'#include "h{m}.h"' for m in used)
    open(f"c{n}.c", "w").write(f"{head}\nint g{n}(int a) {{ return {' + '.join(f'f{m}_{n % 150}(a)' for m in used)}; }}\n")
open("Makefile", "w").write("all: all.a\nall.a: " + " ".join(f"c{n}.o" for n in range(300)) + "\n\tar crs all.a *.o\n%.o: %.c\n\tcc -O1 -c $< -o $@\n")
END
compile() {
    (cd "$files" && python3 "$work/sources.py")
    record compile sh -c 'make -s && for n in 1 3 5 7 9; do touch c*$n.c; done && make -s'
}

# This repository packed anew, checked, and its last 200 changes shown.
git_gc() {
    git clone --quiet --bare --no-local "$repository" "$files/repository.git"
    record git sh -c 'cd repository.git && git gc --quiet --prune=now && git fsck --no-progress && git log -p -200'
}

# An inverted index of this repository's texts: runs of sorted pairs, their merge, and look-ups of words as they are frequent.
cat >"$work/index.py" <<'END'
import heapq
import pathlib
import random
import re
import struct
import sys
random.seed(1)
texts = sorted(p for p in pathlib.Path(sys.argv[1]).rglob("*") if p.suffix in (".rs", ".md") and "target" not in p.parts)
pairs, runs, words = [], [], {}
def spill():
    pairs.sort()
    name = f"run{len(runs)}"
    with open(name, "w", buffering=4096) as to:
        to.writelines(f"{word} {text} {at}\n" for word, text, at in pairs)
    runs.append(name)
    pairs.clear()
for number, text in enumerate(texts):
    for at, word in enumerate(re.findall(r"[a-z_]{3,}", text.read_text(errors="replace").lower())):
        pairs.append((word, number, at))
        words[word] = words.get(word, 0) + 1
        if len(pairs) == 100_000:
            spill()
spill()
split = lambda line: (lambda w, t, a: (w, int(t), int(a)))(*line.split())
places = {}
with open("index", "wb", buffering=4096) as to:
    for word, text, at in heapq.merge(*(map(split, open(run, buffering=4096)) for run in runs)):
        places.setdefault(word, [to.tell(), 0])[1] += 1
        to.write(struct.pack("<II", text, at))
names, weights = zip(*sorted(words.items()))
with open("index", "rb", buffering=0) as index:
    for word in random.choices(names, weights=[w ** 0.5 for w in weights], k=60_000):
        at, count = places[word]
        index.seek(at)
        index.read(min(8 * count, 16384))
END
index() {
    record index python3 "$work/index.py" "$repository"
}

for name in ${*:-sqlite compile git index}; do
    case $name in
    git) git_gc ;;
    sqlite | compile | index) $name ;;
    *)
        echo "no load is called $name" >&2
        exit 2
        ;;
    esac
    rm -rf "${files:?}"/*
done
