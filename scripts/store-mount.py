#!/usr/bin/env python3
"""Mounts of one S3 server beside each other: `millpond store mount` without and with `--disk`, `rclone mount --vfs-cache-mode full`
and s3fs with a cache, and plain requests, which show what the server allows. All go through one proxy, which holds each request back
for 0, 5 and 30 ms, and counts requests and bytes.

    scripts/store-mount.py                                   needs versitygw, rclone, s3fs, git, and a right to mount
    ONLY="millpond plain" DELAYS="0 30" PARTS=data scripts/store-mount.py
    MIB=16 FILES=50 ROUNDS=1 CAP=3 scripts/store-mount.py    small, to try the script

MILLPOND_STORE and VERSITYGW name the programs. The server's folder is in SERVER_DIR (/dev/shm), the disk caches in DIR (/var/tmp).
The part `data` has one file of MIB (512) and runs ROUNDS times (3), as far as MINUTES (25) last; `files` has FILES files (2000) and a
clone of this repository, and runs once, or as often as FILE_ROUNDS says. Everything is measured in turn. Work of many steps ends after
CAP seconds (15), a clone after three times that; what was done until then counts. Millpond's budget is MEMORY_MIB (64), a disk cache
has a quarter more than the file.
"Stored" is when the server has everything. Before a file is read again, the kernel drops what it has of it and of the disk cache.
"""
import collections, datetime, hashlib, hmac, http.client, json, mmap, os, random, re, shutil, signal, socket, statistics, struct
import subprocess, sys, tempfile, threading, time, urllib.parse
from concurrent.futures import ThreadPoolExecutor

PROGRAM = os.path.abspath(os.environ.get("MILLPOND_STORE", "crates/millpond-volumes/target/release/millpond-store"))
SERVER = os.environ.get("VERSITYGW", "versitygw")
DELAYS = [float(ms) for ms in os.environ.get("DELAYS", "0 5 30").split()]
PARTS = os.environ.get("PARTS", "data files").split()
ROUNDS = int(os.environ.get("ROUNDS", "3"))
FILE_ROUNDS = int(os.environ.get("FILE_ROUNDS", "1"))
FILES = int(os.environ.get("FILES", "2000"))
CAP = float(os.environ.get("CAP", "15"))
MINUTES = float(os.environ.get("MINUTES", "25"))
KIB, MIB = 1 << 10, 1 << 20
SIZE = int(os.environ.get("MIB", "512")) * MIB
MEMORY = int(os.environ.get("MEMORY_MIB", "64")) * MIB
DISK = SIZE + SIZE // 4
READS, WRITES = 300, 200
REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOST, KEY, SECRET, REGION = "127.0.0.2", "pondkey1", "pondsecret12", "us-east-1"
KINDS = ["PUT", "GET", "LIST", "HEAD", "DELETE", "up", "down"]
DOLLARS = {"PUT": 5e-6, "LIST": 5e-6, "GET": 4e-7, "HEAD": 4e-7}  # S3 standard; bytes cost nothing within a region
PART = 8 * MIB  # of plain requests


class Proxy:
    """Hands bytes on, in a process of its own. A request waits for the delay before the server sees its first byte."""

    def __init__(self, server_port):
        self.shared = mmap.mmap(-1, 8 * (len(KINDS) + 1))
        self.server_port, self.lock = server_port, threading.Lock()
        listener = socket.create_server((HOST, 0), backlog=512)
        self.port = listener.getsockname()[1]
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                while True:
                    client, server = listener.accept()[0], socket.create_connection((HOST, server_port))
                    threading.Thread(target=self.connection, args=(client, server), daemon=True).start()
            except OSError as error:
                print(f"the proxy ends: {error}", file=sys.stderr)
            os._exit(1)
        listener.close()

    def delay(self, ms):
        struct.pack_into("d", self.shared, 0, ms / 1000)

    def counts(self):
        return collections.Counter(dict(zip(KINDS, struct.unpack_from(f"{len(KINDS)}q", self.shared, 8))))

    def add(self, kind, count):
        with self.lock:
            at = 8 + 8 * KINDS.index(kind)
            struct.pack_into("q", self.shared, at, struct.unpack_from("q", self.shared, at)[0] + count)

    def connection(self, client, server):
        for end in client, server:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = threading.Thread(target=self.half, args=(self.answers, client, server), daemon=True)
        answers.start()
        self.half(self.requests, client, server)
        answers.join()
        client.close()
        server.close()

    def half(self, work, client, server):
        """One direction, until either end has gone: then both go."""
        pipe = os.pipe()
        try:
            work(client, server, pipe)
        except OSError:
            pass
        for fd in pipe:
            os.close(fd)
        for end in client, server:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def requests(self, client, server, pipe):
        read = b""
        while True:
            while b"\r\n\r\n" not in read:
                more = client.recv(1 << 16)
                if not more:
                    return
                read += more
            head, _, read = read.partition(b"\r\n\r\n")
            first, *fields = head.decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
            if "transfer-encoding" in fields:
                print(f"the proxy can't count a body of no given length: {first}", file=sys.stderr)
                return
            length = int(fields.get("content-length", 0))
            self.add(kind_of(*first.split()[:2]), 1)
            self.add("up", len(head) + 4 + length)
            time.sleep(struct.unpack_from("d", self.shared, 0)[0])
            server.sendall(head + b"\r\n\r\n" + read[:length])
            length, read = length - len(read[:length]), read[length:]
            while length > 0:
                moved = moved_on(client, pipe, server, min(length, MIB))
                if not moved:
                    return
                length -= moved

    def answers(self, client, server, pipe):
        while moved := moved_on(server, pipe, client, MIB):
            self.add("down", moved)


def moved_on(source, pipe, target, most):
    """How many bytes went from a socket to another, without a copy in this process."""
    moved = left = os.splice(source.fileno(), pipe[1], most)
    while left:
        left -= os.splice(pipe[0], target.fileno(), left)
    return moved


def kind_of(method, target):
    query = urllib.parse.urlparse(target).query
    names = {name for name, _, _ in (word.partition("=") for word in query.split("&"))}
    if method == "GET" and (names & {"list-type", "prefix", "delimiter", "uploads"} or target.strip("/").count("/") == 0):
        return "LIST"
    if method == "POST":
        return "DELETE" if "delete" in names else "PUT"
    return method if method in KINDS else "GET"


class Plain:
    """Requests as a program would make them that has no file system: parts of 8 MiB, eight at a time; a file is an object."""

    name, memory, disk = "plain requests", 0, 0
    is_mount = False

    def __init__(self, proxy):
        self.address, self.local = (HOST, proxy.port), threading.local()
        self.pool = ThreadPoolExecutor(8)

    def ask(self, method, key, body=b"", span=None, query=""):
        """A request signed by its address (signature version 4, its bytes not hashed)."""
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection(*self.address)
            self.local.connection.connect()
            self.local.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{now[:8]}/{REGION}/s3/aws4_request"
        host = "%s:%d" % self.address
        asked = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{KEY}/{scope}", "X-Amz-Date": now,
                 "X-Amz-Expires": "600", "X-Amz-SignedHeaders": "host"}
        query = "&".join(f"{name}={urllib.parse.quote(value, safe='')}" for name, value in sorted(asked.items()))
        canonical = f"{method}\n/plain/{key}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
        signing = f"AWS4{SECRET}".encode()
        for word in scope.split("/"):
            signing = hmac.new(signing, word.encode(), "sha256").digest()
        signed = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.new(signing, signed.encode(), "sha256").hexdigest()
        fields = {"Range": f"bytes={span[0]}-{span[1] - 1}"} if span else {}
        self.local.connection.request(method, f"/plain/{key}?{query}&X-Amz-Signature={signature}", body or None, fields)
        answer = self.local.connection.getresponse()
        read = answer.read()
        if answer.status >= 300:
            raise OSError(f"{method} {key}: {answer.status} {read[:300]}")
        return read

    def all(self, work, items):
        deadline, done = time.monotonic() + CAP, 0
        for many in (items[at:at + 64] for at in range(0, len(items), 64)):
            done += len(list(self.pool.map(work, many)))
            if time.monotonic() > deadline:
                break
        return done

    def write(self):
        self.all(lambda n: self.ask("PUT", f"file.{n}", BLOCK * (PART // MIB)), range(SIZE // PART))
        return {"bytes": SIZE}

    def read(self):
        self.all(lambda n: self.ask("GET", f"file.{n}"), range(SIZE // PART))
        return {"bytes": SIZE}

    def random_reads(self):
        def read(at):
            self.ask("GET", f"file.{at // PART}", span=(at % PART, at % PART + 4096))
        return {"each": each(read, places(READS, 1))}

    def random_writes(self):
        return {"each": each(lambda at: self.ask("PUT", f"page.{at >> 12}", BLOCK[:4096]), places(WRITES, 2))}

    def make(self):
        return {"count": self.all(lambda n: self.ask("PUT", f"tree.{n}", content(n)), range(FILES))}

    def read_files(self):
        return {"count": self.all(lambda n: self.ask("GET", f"tree.{n}"), range(FILES))}


class Mount:
    is_mount, disk = True, 0

    def __init__(self, proxy, room):
        self.endpoint = f"http://{HOST}:{proxy.port}"
        self.bucket = self.name.split()[0] + ("-disk" if self.disk else "")
        self.point, self.cache, self.log = f"{room}/mnt", f"{room}/{self.bucket}.cache", open(f"{room}/{self.bucket}.log", "a")
        self.process, self.memory_most, self.disk_most = None, 0, 0
        os.makedirs(self.point, exist_ok=True)

    def on(self, keep_disk=False):
        keep_disk or shutil.rmtree(self.cache, ignore_errors=True)
        os.makedirs(self.cache, exist_ok=True)
        self.forget()
        self.process = subprocess.Popen(self.command(), env=ENVIRONMENT, stdout=self.log, stderr=self.log)
        until(lambda: os.path.ismount(self.point) or self.process.poll() is not None, 30)
        if self.process.poll() is not None:
            raise OSError(f"{self.name} did not mount: see {self.log.name}")
        self.watched = threading.Event()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def off(self):
        if not self.process:
            return
        self.watched.set()
        self.watcher.join()
        try:
            # Whoever has just closed a file may not be gone.
            until(lambda: not subprocess.run(["fusermount3", "-u", self.point], stderr=self.log).returncode, 10, pause=0.1)
            if self.process.wait(60):
                raise OSError(f"{self.name} ended with {self.process.returncode}")
        finally:
            self.kill()

    def kill(self):
        """Also where a call of it hangs."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        subprocess.run(["fusermount3", "-uz", self.point], stderr=subprocess.DEVNULL)
        self.process = None

    def watch(self):
        pid = self.process.pid
        while not self.watched.wait(0.25):
            try:
                with open(f"/proc/{pid}/status") as status:
                    said = re.search(r"VmHWM:\s*(\d+)", status.read())
                self.memory_most = max(self.memory_most, int(said[1]) << 10 if said else 0)
                self.disk_most = max(self.disk_most, sum(os.stat(path).st_blocks << 9 for path in files_below(self.cache)))
            except OSError:
                pass  # a file of the cache went meanwhile

    def forget(self, *paths):
        """The kernel drops what it has of these and of the disk cache."""
        for path in [*paths, *files_below(self.cache)]:
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)

    def stored(self):
        """Returns when the server has everything. For most it has when `fsync` or `close` returns."""

    def write(self):
        with open(f"{self.point}/file", "wb", buffering=0) as file:
            for n in range(SIZE // MIB):
                file.write(struct.pack("q", n) + BLOCK[8:])
            os.fsync(file.fileno())
        self.stored()
        return {"bytes": SIZE}

    def read(self):
        expected, buffer = memoryview(BLOCK)[8:], bytearray(MIB)
        with open(f"{self.point}/file", "rb", buffering=0) as file:
            for n in range(SIZE // MIB):
                at = 0
                while at < MIB and (more := file.readinto(memoryview(buffer)[at:])):
                    at += more
                if buffer[:8] != struct.pack("q", n) or memoryview(buffer)[8:] != expected:
                    raise OSError(f"block {n} is not what was written")
        return {"bytes": SIZE}

    def random_reads(self):
        fd = os.open(f"{self.point}/file", os.O_RDONLY)
        return {"each": each(lambda at: os.pread(fd, 4096, at), places(READS, 1))}

    def random_writes(self):
        fd = os.open(f"{self.point}/file", os.O_RDWR)
        def write(at):
            os.pwrite(fd, BLOCK[at % 4096:][:4096], at)
            os.fsync(fd)
        taken = each(write, places(WRITES, 2))
        os.close(fd)
        self.stored()
        return {"each": taken}

    def make(self):
        deadline = time.monotonic() + CAP
        for n in range(FILES):
            if n % 100 == 0:
                os.makedirs(f"{self.point}/tree/{n // 100}")
            with open(f"{self.point}/tree/{n // 100}/{n}", "wb", buffering=0) as file:
                file.write(content(n))
                if n == FILES - 1 or time.monotonic() > deadline:
                    os.fsync(file.fileno())
                    break
        self.stored()
        return {"count": n + 1}

    def read_files(self):
        deadline, count = time.monotonic() + CAP, 0
        for folder in sorted(os.listdir(f"{self.point}/tree"), key=int):
            for name in os.listdir(f"{self.point}/tree/{folder}"):
                with open(f"{self.point}/tree/{folder}/{name}", "rb", buffering=0) as file:
                    if file.read(MIB) != content(int(name)):
                        raise OSError(f"file {name} is not what was written")
                count += 1
                if time.monotonic() > deadline:
                    return {"count": count}
        return {"count": count}

    def clone(self):
        run("git", "clone", "-q", f"file://{REPOSITORY}", f"{self.point}/clone", timeout=3 * CAP)
        self.stored()
        return {}

    def status(self):
        said = run("git", "-C", f"{self.point}/clone", "status", "--porcelain", timeout=3 * CAP)
        if said:
            raise OSError(f"git status finds changes: {said[:200]}")
        return {}


class Millpond(Mount):
    name, memory = "millpond", MEMORY

    def command(self):
        disk = ["--disk", f"{self.cache}/tier:{self.disk}"] if self.disk else []
        return [PROGRAM, "mount", f"s3://{self.bucket}", self.point, "--memory", str(MEMORY), *disk]


class MillpondDisk(Millpond):
    name, disk = "millpond --disk", DISK


class Rclone(Mount):
    name, disk = "rclone", DISK

    def command(self):
        return ["rclone", "mount", f"pond:{self.bucket}", self.point, "--config", "/dev/null", "--cache-dir", self.cache,
                "--vfs-cache-mode", "full", "--vfs-cache-max-size", str(self.disk), "--vfs-write-back", "100ms"]

    def stored(self):
        """Its close returns before it begins to upload, and its fsync stores nothing."""
        def is_dirty():
            for path in files_below(f"{self.cache}/vfsMeta"):
                try:
                    with open(path) as file:
                        # It may be half written.
                        if not re.search(r'"Dirty":\s*false', file.read()):
                            return True
                except FileNotFoundError:
                    return True  # renamed meanwhile
            return False
        until(lambda: not is_dirty(), 10 * CAP, pause=0.05)


class S3fs(Mount):
    name = "s3fs"

    def command(self):
        secret = f"{os.path.dirname(self.point)}/s3fs.secret"
        with open(os.open(secret, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(f"{KEY}:{SECRET}\n")
        return ["s3fs", self.bucket, self.point, "-f", "-o", f"url={self.endpoint},use_path_request_style,endpoint={REGION}",
                "-o", f"passwd_file={secret},use_cache={self.cache}"]


SYSTEMS = [Millpond, MillpondDisk, Rclone, S3fs, Plain]
BLOCK = random.Random(0).randbytes(MIB)


def content(n):
    return BLOCK[n % 4096:][:random.Random(n).choice([200, 1000, 4000, 20000])]


def places(count, seed):
    draw = random.Random(seed)
    return [draw.randrange(SIZE >> 12) << 12 for _ in range(count)]


def each(work, items):
    """Seconds that each took, until CAP."""
    taken, deadline = [], time.monotonic() + CAP / 2
    for item in items:
        began = time.monotonic()
        work(item)
        taken.append(time.monotonic() - began)
        if began + taken[-1] > deadline:
            break
    return taken


def run(*words, timeout):
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        said = child.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(10)
        raise
    if child.returncode:
        raise OSError(f"{words[0]} {words[1]}: {said[-300:]}")
    return said


def files_below(folder):
    return [f"{path}/{name}" for path, _, names in os.walk(folder) for name in names]


def until(condition, seconds, pause=0.01):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(pause)


class Bench:
    def __init__(self, room, folder):
        self.room, self.folder = room, folder
        with socket.create_server((HOST, 0)) as free:
            port = free.getsockname()[1]
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        self.server_log = open(f"{room}/server.log", "w")
        self.server = subprocess.Popen([SERVER, "--quiet", "--port", f"{HOST}:{port}", "posix", folder], env=os.environ | keys,
                                       stdout=self.server_log, stderr=self.server_log)
        until(lambda: not socket.socket().connect_ex((HOST, port)), 10)
        self.proxy = Proxy(port)
        ENVIRONMENT["AWS_ENDPOINT_URL"] = ENVIRONMENT["RCLONE_CONFIG_POND_ENDPOINT"] = f"http://{HOST}:{self.proxy.port}"
        self.results, self.memory, self.disk, self.system = {}, {}, {}, None

    def measure(self, ms, row, work):
        """Runs the work in a child, which a call that hangs can't hold for long."""
        before, (outcome, answer), began = self.proxy.counts(), os.pipe(), time.monotonic()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(outcome)
            try:
                figures = work() | {"seconds": time.monotonic() - began}
            except BaseException as error:
                figures = {"failed": f"{type(error).__name__}: {error}"}
            with os.fdopen(answer, "w") as file:
                json.dump(figures, file)
            os._exit(0)
        os.close(answer)
        timer = threading.Timer(14 * CAP, os.kill, (child, signal.SIGKILL))
        timer.start()
        with os.fdopen(outcome) as file:
            said = file.read()
        timer.cancel()
        os.waitpid(child, 0)
        figures = json.loads(said or '{"failed": "killed: it took too long"}')
        figures["asked"] = dict(self.proxy.counts() - before)
        self.results.setdefault((row, self.system.name, ms), []).append(figures)
        taken = figures.get("failed") or f"{figures['seconds']:.2f} s"
        print(f"  {ms:g} ms, {self.system.name}, {row}: {taken}, {figures['asked']}", file=sys.stderr)
        if "failed" in figures:
            raise OSError(f"{row}: what follows is left out")

    def remount(self, keep_disk=False):
        if self.system.is_mount:
            self.system.off()
            self.system.on(keep_disk)

    def data(self, ms):
        system = self.system
        self.measure(ms, "write", system.write)
        self.remount()
        self.measure(ms, "read, cold", system.read)
        if system.is_mount:
            system.forget(f"{system.point}/file")
            self.measure(ms, "read again", system.read)
            self.remount(keep_disk=True)
            self.measure(ms, "read, remounted", system.read)
        self.remount()
        self.measure(ms, "random read", system.random_reads)
        self.measure(ms, "random write, fsync", system.random_writes)

    def files(self, ms):
        system = self.system
        self.measure(ms, "files made", system.make)
        self.remount()
        self.measure(ms, "files read, cold", system.read_files)
        if system.is_mount:
            self.measure(ms, "git clone", system.clone)
            self.measure(ms, "git status", system.status)
            self.remount(keep_disk=True)
            self.measure(ms, "git status, remounted", system.status)

    def one(self, part, ms, kind):
        bucket = None
        self.proxy.delay(0)
        self.system = system = kind(self.proxy, self.room) if kind.is_mount else kind(self.proxy)
        bucket = f"{self.folder}/{system.bucket if system.is_mount else 'plain'}"
        shutil.rmtree(bucket, ignore_errors=True)
        os.mkdir(bucket)
        self.proxy.delay(ms)
        try:
            if system.is_mount:
                system.on()
            getattr(self, part)(ms)
            if system.is_mount:
                system.off()
        except Exception as error:
            print(f"{system.name} at {ms:g} ms: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            self.proxy.delay(0)
            if system.is_mount:
                system.kill()
                self.memory[system.name] = max(self.memory.get(system.name, 0), system.memory_most)
                self.disk[system.name] = max(self.disk.get(system.name, 0), system.disk_most)
                shutil.rmtree(system.cache, ignore_errors=True)
            shutil.rmtree(bucket, ignore_errors=True)

    def close(self):
        os.kill(self.proxy.pid, signal.SIGKILL)
        self.server.kill()
        self.server.wait()


def number(value):
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2g}" if value < 10 else f"{value:.3g}"


def runs_of(bench, row, system, ms):
    """Those that ended well; and whether one was cut off."""
    runs = bench.results.get((row, system, ms), [])
    return [run for run in runs if "failed" not in run], any("TimeoutExpired" in run.get("failed", "") for run in runs)


def cell(bench, row, system, of):
    """A median for each delay."""
    if not any((row, system, ms) in bench.results for ms in DELAYS):
        return "–"
    cells = []
    for ms in DELAYS:
        runs, is_cut = runs_of(bench, row, system, ms)
        cells.append(number(statistics.median(map(of, runs))) if runs else f"> {3 * CAP:.0f}" if is_cut else "failed")
    return ", ".join(cells)


def price(bench, row, system, ms):
    """Requests, bytes and dollars: of each read or write at random, else of all; scaled where not all files were made or read."""
    runs, is_cut = runs_of(bench, row, system, ms)
    if not runs and not is_cut:
        return "failed" if (row, system, ms) in bench.results else "–"
    runs, sign = (runs, "") if runs else (bench.results[(row, system, ms)], "> ")
    parts = [len(run["each"]) if "each" in run else run.get("count", FILES) / FILES for run in runs]
    sign = "~ " if "count" in runs[0] and min(parts) < 1 else sign
    asked = {kind: statistics.median(run["asked"].get(kind, 0) / part for run, part in zip(runs, parts)) for kind in KINDS}
    dollars = sum(asked[kind] * each for kind, each in DOLLARS.items())
    unit = KIB if "each" in runs[0] else MIB
    return (sign + ", ".join(number(asked[kind]) for kind in KINDS[:4])
            + f"; {number(asked['up'] / unit)}, {number(asked['down'] / unit)}; {number(1e6 * dollars)}")


def percentile(taken, share):
    return sorted(taken)[min(len(taken) - 1, int(share * len(taken)))]


def tables(bench, systems):
    rate = lambda figures: figures["bytes"] / MIB / figures["seconds"]
    per_second = lambda figures: figures["count"] / figures["seconds"]
    seconds = lambda figures: figures["seconds"]
    of_each = lambda share: lambda figures: 1000 * percentile(figures["each"], share)
    rows = [("write", "MiB/s until stored", rate), ("read, cold", "MiB/s", rate), ("read again", "MiB/s", rate),
            ("read, remounted", "MiB/s", rate)]
    rows += [(row, f"{name}, ms", of_each(share)) for row in ["random read", "random write, fsync"]
             for name, share in [("p50", 0.5), ("p99", 0.99)]]
    rows += [("files made", "files/s until stored", per_second), ("files read, cold", "files/s", per_second)]
    rows += [(row, "s", seconds) for row in ["git clone", "git status", "git status, remounted"]]
    rows = [row for row in rows if any(row[0] == key[0] for key in bench.results)]
    head = "| | " + " | ".join(system.name for system in systems) + " |\n|---|" + "---|" * len(systems)
    print(f"\n{' '.join(f'{ms:g}' for ms in DELAYS)} ms more a request\n\n{head}")
    for row, unit, of in rows:
        print(f"| {row}, {unit} | " + " | ".join(cell(bench, row, system.name, of) for system in systems) + " |")
    ms = DELAYS[-1]
    print(f"\nAt {ms:g} ms: PUT, GET, LIST, HEAD; MiB up, down; millionths of a dollar. At random: for each, and KiB.\n\n{head}")
    for row in dict.fromkeys(row for row, _, _ in rows):
        print(f"| {row} | " + " | ".join(price(bench, row, system.name, ms) for system in systems) + " |")
    print("\n| at most, MiB | " + " | ".join(system.name for system in systems) + " |\n|---|" + "---|" * len(systems))
    for what, most in [("memory of the process", bench.memory), ("disk cache", bench.disk)]:
        print(f"| {what} | " + " | ".join(number(most[s.name] / MIB) if most.get(s.name) else "–" for s in systems) + " |")
    for (row, system, ms), runs in bench.results.items():
        for figures in runs:
            if "failed" in figures:
                print(f"\nfailed: {system} at {ms:g} ms, {row}: {figures['failed']}")


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}  # rclone 1.60 refuses one
ENVIRONMENT |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
ENVIRONMENT |= {f"RCLONE_CONFIG_POND_{name}": value for name, value in
                {"TYPE": "s3", "PROVIDER": "Other", "ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "REGION": REGION}.items()}


def main():
    chosen = os.environ.get("ONLY", "millpond millpond-disk rclone s3fs plain").split()
    names = dict(zip(["millpond", "millpond-disk", "rclone", "s3fs", "plain"], SYSTEMS))
    systems = [names[name] for name in chosen]
    for program in [SERVER, "git", "fusermount3", *(name for name in ["rclone", "s3fs"] if name in chosen)]:
        shutil.which(program) or sys.exit(f"there is no {program}")
    if any("millpond" in name for name in chosen) and not os.path.exists(PROGRAM):
        sys.exit(f"there is no {PROGRAM}: cargo build --release --manifest-path crates/millpond-volumes/Cargo.toml -p millpond-store")
    room = tempfile.mkdtemp(prefix="store-mount-", dir=os.environ.get("DIR", "/var/tmp"))
    folder = tempfile.mkdtemp(prefix="store-mount-", dir=os.environ.get("SERVER_DIR", "/dev/shm"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    bench = None
    try:
        bench = Bench(room, folder)
        began, took = time.monotonic(), {}
        # Rounds of the first part that are left come last, as far as there is time for them.
        for turn, part in enumerate(["data"] + ["files"] * FILE_ROUNDS + ["data"] * (ROUNDS - 1)):
            started = time.monotonic()
            if part not in PARTS or started + took.get(part, 0) > began + 60 * MINUTES:
                continue
            for ms in DELAYS:
                for n in range(len(systems)):
                    bench.one(part, ms, systems[(n + turn) % len(systems)])
            took[part] = time.monotonic() - started
            print(f"{part}: {took[part]:.0f} s", file=sys.stderr)
        tables(bench, systems)
        if path := os.environ.get("JSON"):
            with open(path, "w") as file:
                json.dump([[*key, runs] for key, runs in bench.results.items()], file)
    finally:
        if bench:
            bench.system and bench.system.is_mount and bench.system.kill()
            bench.close()
        shutil.rmtree(room, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


main()
