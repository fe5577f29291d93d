#!/usr/bin/env python3
"""What programs see of the mount beside the directory below: with pages lent to the kernel (the default), with none (`--lend none`),
and without a cache (`--no-cache`, what FUSE itself costs).

    scripts/mount-lend.py                       in a folder below /var/tmp, with the program that is built for release
    DIR=/on/a/disk ROUNDS=5 scripts/mount-lend.py
    MILLPOND=target/debug/millpond MEMORY_MIB=64 SECONDS=2 FILES=300 scripts/mount-lend.py     small, to try the script

All four are measured in turn, ROUNDS times (3); a table has the median, the least and the most. The budget is MEMORY_MIB (512).
`cat` reads a file of half of it, 4 KiB are read at random from a file of an eighth. The working set has a quarter, and is read at
random for SECONDS (10) while another process reads a file of SCAN (16) times the budget once. There the directory below and
`--no-cache` are in a memory group of the same size, where root may make one. With a shorter SCAN the file is read over and over:
then each of its pages may be used more often than a page of the set. Hits are
reads of the set that needed no read of the disk: at the mount as the cache counts them, below by what of the file is in memory.
"""
import ctypes, json, os, random, shutil, signal, socket, statistics, subprocess, sys, tempfile, time

PROGRAM = os.path.abspath(os.environ.get("MILLPOND", "target/release/millpond"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
MIB = 1 << 20
MEMORY = int(os.environ.get("MEMORY_MIB", "512")) * MIB
SECONDS = float(os.environ.get("SECONDS", "10"))
READS = int(os.environ.get("READS", "100000"))
FILES = int(os.environ.get("FILES", "4000"))
REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZES = {"small": MEMORY // 8, "set": MEMORY // 4, "large": MEMORY // 2, "scan": int(os.environ.get("SCAN", "16")) * MEMORY}
WAYS = [
    ("directory below", None),
    ("mount", []),
    ("mount, `--lend none`", ["--lend", "none"]),
    ("mount, `--no-cache`", ["--no-cache"]),
]
IS_V1 = os.path.isdir("/sys/fs/cgroup/memory")
GROUP = f"/sys/fs/cgroup/{'memory/' if IS_V1 else ''}millpond-mount-lend"
LIMIT = f"{GROUP}/{'memory.limit_in_bytes' if IS_V1 else 'memory.max'}"
libc = ctypes.CDLL(None, use_errno=True)


def timed(work):
    began = time.monotonic()
    work()
    return time.monotonic() - began


def run(*words, **options):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, **options)


def reads(folder):
    """4 KiB of what is in memory, a second."""
    draw, fd = random.Random(1), os.open(f"{folder}/small", os.O_RDONLY)
    places = [draw.randrange(SIZES["small"] >> 12) << 12 for _ in range(READS)]
    for at in [*range(0, SIZES["small"], MIB)] * 2:
        os.pread(fd, MIB, at)
    took = timed(lambda: [os.pread(fd, 4096, at) for at in places])
    os.close(fd)
    return READS / took


def cat(folder):
    """The third time, MB/s."""
    took = [timed(lambda: run("cat", f"{folder}/large")) for _ in range(3)]
    return SIZES["large"] / 1e6 / took[-1]


def small_files(folder):
    """Seconds to make, read, read again by grep, find and remove a tree."""
    tree, draw = f"{folder}/tree", random.Random(2)
    names = [f"{tree}/{n % 40}/{n}" for n in range(FILES)]
    contents = [os.urandom(draw.choice([200, 1000, 4000, 20000])) for _ in names]

    def make():
        for n in range(40):
            os.makedirs(f"{tree}/{n}")
        for name, content in zip(names, contents):
            with open(name, "wb") as file:
                file.write(content)

    def read():
        for name in names:
            with open(name, "rb") as file:
                file.read()

    grep = lambda: subprocess.run(["grep", "-r", "no such thing", tree], stdout=subprocess.DEVNULL)
    return [timed(make), timed(read), timed(grep), timed(lambda: run("find", tree, "-type", "f", "-size", "+1k")),
            timed(lambda: run("rm", "-r", tree))]


def clone(folder):
    """Seconds to clone this repository, and to have git look at every file of it."""
    target = f"{folder}/clone"
    took = timed(lambda: run("git", "clone", "-q", f"file://{REPOSITORY}", target, stderr=subprocess.DEVNULL))
    status = timed(lambda: run("git", "-C", target, "status"))
    run("rm", "-rf", target)
    return [took, status]


def resident(path):
    """The share of a file that the kernel has in memory."""
    fd = os.open(path, os.O_RDONLY)
    range_, figures = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    failed = libc.syscall(451, fd, ctypes.byref(range_), ctypes.byref(figures), 0)
    os.close(fd)
    return float("nan") if failed else figures[0] / (os.path.getsize(path) >> 12)


def set_misses(point):
    """Pages of the working set that the mount has read from the disk."""
    caches = subprocess.run([PROGRAM, "caches", "--json"], check=True, capture_output=True, text=True).stdout.splitlines()
    path = next(cache["socket"] for cache in map(json.loads, caches) if cache["name"] == point)
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(path)
        asked.sendall(b"files 1000\n")
        answer = json.loads(asked.makefile().readline())
    return sum(file["misses"] for file in answer["files"] if (file["path"] or "").endswith("/set"))


def in_group(pid):
    with open(f"{GROUP}/cgroup.procs", "w") as file:
        file.write(str(pid))


def in_child(work, join):
    child = os.fork()
    if child == 0:
        try:
            join and join()
            work()
        except BaseException as error:
            print(error, file=sys.stderr)
        os._exit(0)
    return child


def set_beside_scan(folder, has_cache, is_grouped):
    """Reads of 4 KiB a second of a working set beside a scan, and the share of hits."""
    join = (lambda: in_group(os.getpid())) if is_grouped else None
    outcome, answer = os.pipe()

    def scan():
        fd = os.open(f"{folder}/scan", os.O_RDONLY)
        while True:
            for at in range(0, SIZES["scan"], MIB):
                os.pread(fd, MIB, at)

    def read():
        draw, fd = random.Random(3), os.open(f"{folder}/set", os.O_RDONLY)
        pages = SIZES["set"] >> 12
        # It becomes a working set by use, before the scan begins.
        for page in 3 * draw.sample(range(pages), pages):
            os.pread(fd, 4096, page << 12)
        os.write(answer, b"warm\n")
        began = time.monotonic()
        while time.monotonic() < began + SECONDS / 2:
            os.pread(fd, 4096, draw.randrange(pages) << 12)
        before = set_misses(folder) if has_cache else 0
        count, parts, began = 0, [], time.monotonic()
        while time.monotonic() < began + SECONDS:
            for _ in range(1000):
                os.pread(fd, 4096, draw.randrange(pages) << 12)
            count += 1000
            has_cache or parts.append(resident(f"{folder}/set"))
        took = time.monotonic() - began
        hits = 1 - (set_misses(folder) - before) / count if has_cache else statistics.mean(parts)
        os.write(answer, json.dumps([count / took, 100 * hits]).encode())

    reader = in_child(read, join)
    os.close(answer)
    with os.fdopen(outcome) as file:
        file.readline()
        child = in_child(scan, join)
        figures = json.loads(file.read() or "[NaN, NaN]")
    os.waitpid(reader, 0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return figures


COLUMNS = [
    ("reads of 4 KiB a second", lambda folder, way: [reads(folder)]),
    ("`cat`, MB/s", lambda folder, way: [cat(folder)]),
    (f"{FILES} files made, s|read, s|`grep -r`, s|`find`, s|removed, s", lambda folder, way: small_files(folder)),
    ("`git clone`, s|`git status`, s", lambda folder, way: clone(folder)),
    ("reads of a set beside a scan, 1/s|hits, %", lambda folder, way: set_beside_scan(folder, *way)),
]


def shown(values):
    number = lambda value: f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{number(statistics.median(values))} ({number(min(values))}..{number(max(values))})"


room = tempfile.mkdtemp(dir=os.environ.get("DIR", "/var/tmp"))
source, point, log = f"{room}/src", f"{room}/mnt", open(f"{room}/log", "w")
has_group = False
try:
    os.mkdir(source)
    os.mkdir(point)
    try:
        os.mkdir(GROUP)
        has_group = True
        with open(LIMIT, "w") as file:
            file.write(str(MEMORY))
    except OSError as error:
        print(f"no memory group ({error}): below and without a cache the scan has the memory of the machine", file=sys.stderr)
        has_group = has_group and os.rmdir(GROUP)
    for name, size in SIZES.items():
        with open(f"{source}/{name}", "wb") as file:
            block = os.urandom(MIB)
            for _ in range(size // MIB):
                file.write(block)
            os.fsync(file.fileno())
    results = {}
    for _ in range(ROUNDS):
        for way, options in WAYS:
            is_grouped = bool(has_group) and (options is None or "--no-cache" in options)
            if options is not None:
                memory = [] if "--no-cache" in options else ["--memory", str(MEMORY)]
                mount = [PROGRAM, "mount", source, point, "--daemon", "--quiet", "--log", f"{room}/mount.log", *memory, *options]
                subprocess.run(mount, check=True, preexec_fn=(lambda: in_group(os.getpid())) if is_grouped else None)
            folder = source if options is None else point
            for columns, measure in COLUMNS:
                has_cache = options is not None and "--no-cache" not in options
                for column, figure in zip(columns.split("|"), measure(folder, (has_cache, is_grouped))):
                    results.setdefault(column, {}).setdefault(way, []).append(figure)
            if options is not None:
                subprocess.run([PROGRAM, "umount", point], check=True, stderr=log)
    print("| | " + " | ".join(way for way, _ in WAYS) + " |\n|---|" + "---|" * len(WAYS))
    for column, of_ways in results.items():
        print(f"| {column} | " + " | ".join(shown(of_ways[way]) for way, _ in WAYS) + " |")
finally:
    subprocess.run([PROGRAM, "umount", "--force", point], stdout=log, stderr=log)
    if has_group:
        os.rmdir(GROUP)
    shutil.rmtree(room)
