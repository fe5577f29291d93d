"""What programs do with databases, their files and settings."""

import contextlib
import itertools
import os
import shutil
import sqlite3

from common import LIBRARY, MODES, Sqlite, ask, check, fails, is_root, load, load_and_give_up_writing, ours, plain


def the_usual_things_work(folder):
    load()
    path = f"{folder}/all.db"
    for mode in MODES:
        connection = ours(path, "&memory=8M")
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("pragma auto_vacuum=incremental")
        connection.execute("vacuum")
        connection.execute("drop table if exists t")
        connection.execute("create table t(a integer primary key, b blob, c text)")
        connection.execute("create index i on t(c)")
        connection.execute("begin")
        for n in range(3000):
            connection.execute("insert into t values(?, randomblob(1000), ?)", (n, f"text {n}"))
        connection.execute("savepoint s")
        connection.execute("delete from t where a%2=0")
        connection.execute("rollback to s")
        connection.execute("commit")
        assert ask(connection, "select count(*) from t") == 3000

        # A cursor has pages lent while the same connection, and another, change the table.
        writer = ours(path, timeout=60)
        seen = 0
        for n, a in enumerate(connection.execute("select a from t order by a")):
            seen += 1
            if n % 500 == 0 and mode == "wal":
                writer.execute("update t set b=randomblob(1000), c=c||'!' where a=?", (2999 - n,))
                writer.execute("pragma wal_checkpoint")
            elif n % 500 == 0:
                connection.execute("update t set b=randomblob(1000), c=c||'!' where a=?", (2999 - n,))
        assert seen == 3000
        writer.execute("pragma wal_checkpoint(truncate)")
        writer.close()

        # Two databases in one transaction, with a journal over both.
        connection.execute("attach ? as b", (f"file:{folder}/{mode}-b.db?vfs=millpond",))
        connection.execute("create table b.t as select * from main.t where a<100")
        connection.execute("begin")
        connection.execute("delete from main.t where a<100")
        connection.execute("update b.t set c='moved'")
        connection.execute("commit")
        assert ask(connection, "select count(*) from b.t where c='moved'") == 100
        connection.execute("detach b")

        connection.execute("delete from t where a%3=0")
        connection.execute("pragma incremental_vacuum")
        connection.execute("create temp table u as select * from t")
        connection.execute("vacuum")
        check(connection)
        copy = plain(f"{folder}/{mode}-copy.db")
        connection.backup(copy)
        check(copy)
        copy.close()
        connection.execute("pragma journal_mode=delete")
        connection.close()
    read_only = ours(path, "&mode=ro")
    assert ask(read_only, "select count(*) from t") > 0
    fails("readonly", lambda: read_only.execute("delete from t"))
    read_only.close()
    fails("unable to open", lambda: ours(f"{folder}/missing.db", "&mode=rw").execute("select 1 from t"))
    left = [name for name in os.listdir(folder) if not name.endswith(".db")]
    assert not left, left


def a_journal_is_its_databases_owners_and_no_link_is_followed(folder):
    if not is_root("owners of files"):
        return
    load()
    for mode, ending in [("delete", "-journal"), ("wal", "-wal")]:
        path = f"{folder}/{mode}.db"
        connection = ours(path)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("create table t(a)")
        connection.close()
        os.chown(path, 65534, 65533)
        os.chmod(path, 0o664)
        before = os.umask(0o077)
        connection = ours(path)
        connection.execute("begin")
        connection.execute("insert into t values(1)")
        found = os.stat(path + ending)
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (65534, 65533, 0o664), found
        connection.execute("commit")
        connection.close()
        os.umask(before)

        # In a folder of another's, a link is where the journal would be.
        others = f"{folder}/others"
        os.symlink(others, path + ending)
        connection = ours(path)
        fails("unable to open", lambda: connection.execute("insert into t values(2)"))
        connection.close()
        assert not os.path.exists(others)
        os.unlink(path + ending)
        connection = ours(path)
        assert ask(connection, "select count(*) from t") == 1
        connection.close()
    # A database may be reached by one.
    os.symlink(f"{folder}/wal.db", f"{folder}/link.db")
    connection = ours(f"{folder}/link.db")
    assert ask(connection, "select count(*) from t") == 1
    connection.close()


def all_databases_of_a_process_have_one_budget_and_settings_by_name(folder):
    load()  # with MILLPOND_SQLITE=memory=24M
    first = ours(f"{folder}/first.db")
    assert ask(first, "pragma millpond=memory") == "24M"
    second = ours(f"{folder}/second.db", "&memory=12M&dirty.background=20%25")
    assert ask(first, "pragma millpond=memory") == "12M"
    assert ask(first, "pragma millpond('dirty.background')") == "20%"
    second.execute("pragma millpond='memory = 16M'")
    assert ask(first, "pragma millpond=memory") == ask(first, "pragma millpond=' memory '") == "16M"
    assert "\nnr_dirty " in ask(first, "pragma millpond")
    fails("must be", lambda: first.execute("pragma millpond='dirty.background=900%'"))
    fails("no.such", lambda: first.execute("pragma millpond='no.such=1'"))
    fails("unable to open", lambda: ours(f"{folder}/third.db", "&memory=1"))
    # SQLite's own cache is small, and pages are lent to it.
    assert ask(first, "pragma cache_size") == -512
    assert ask(first, "pragma mmap_size") > 0
    assert ask(first, "pragma journal_mode=wal") == "wal"
    first.execute("create table t(a)")
    first.execute("insert into t values(randomblob(3000))")
    first.execute("pragma wal_checkpoint")

    def requests():
        return int(ask(first, "pragma millpond").split("page_requests ")[1].split()[0])

    before = requests()
    for _ in range(100):
        ask(first, "select length(a) from t")
    assert requests() >= before + 100
    assert os.path.exists(f"{folder}/first.db-wal") and not os.path.exists(f"{folder}/first.db-shm")


def settings_of_a_uri_count_when_the_database_is_opened_and_no_more(folder):
    load()
    connection = ours(f"{folder}/data.db", "&memory=12M")
    connection.execute("create table t(a)")
    connection.execute("pragma millpond='memory=16M'")
    for _ in range(3):
        connection.execute("insert into t values(1)")  # opens a journal
    assert ask(connection, "pragma millpond=memory") == "16M"
    connection.close()


def it_can_be_the_vfs_of_every_database(folder):
    load()  # with MILLPOND_SQLITE=default=1
    connection = sqlite3.connect(f"{folder}/data.db")
    assert "nr_dirty " in ask(connection, "pragma millpond")
    connection.execute("create table t(a)")
    connection.commit()
    connection.close()
    memory = sqlite3.connect(":memory:")
    memory.execute("create table t(a)")


def a_parameter_that_is_off_is_off_in_each_form_that_sqlite_knows(folder):
    load()

    numbers = itertools.count()

    def frames(vfs, parameter):
        path = f"{folder}/{next(numbers)}.db"
        connection = sqlite3.connect(f"file:{path}?vfs={vfs}&{parameter}", uri=True, isolation_level=None)
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=full")
        connection.execute("create table t(a)")
        for n in range(3):
            connection.execute("insert into t values(1)")
        # Padded if a write may change bytes beside it; the last may be synced in part.
        return -(-(os.path.getsize(path + "-wal") - 32) // (24 + 4096))

    assert frames("millpond", "psow=0") > frames("millpond", "psow=1")
    for text in ("0", "00", "off", "OFF", "No", "FALSE", "256", "1", "2", "yes", "True", "maybe", "", "truely"):
        same = frames("unix", f"psow={text}"), frames("millpond", f"psow={text}")
        assert same[0] == same[1], (text, same)
    # What SQLite does without the VFS is done for this one too.
    connection = ours(f"{folder}/locked.db")
    connection.execute("create table t(a)")
    connection.close()
    holder = plain(f"{folder}/locked.db")
    holder.execute("begin exclusive")
    for parameter in ("nolock=TRUE", "immutable=Yes", "immutable=01"):
        reader = ours(f"{folder}/locked.db", "&mode=ro&" + parameter)
        assert ask(reader, "select count(*) from t") == 0
        reader.close()
    fails("locked", lambda: ours(f"{folder}/locked.db", "&immutable=NO&nolock=off", timeout=0).execute("select * from t"))


def refusals_have_the_numbers_of_sqlite_s_own_vfs(folder):
    load()
    os.symlink(f"{folder}/round", f"{folder}/round")
    open(f"{folder}/text.db", "w").write("no database" * 1000)
    paths = [folder, f"{folder}/none.db?mode=rw", f"{folder}/none/data.db", f"{folder}/round", f"{folder}/text.db"]
    paths += [f"{folder}/{'n' * 300}.db", f"{folder}/text.db/below.db"]

    def number(vfs, path):
        with_parameters = path + ("&" if "?" in path else "?") + f"vfs={vfs}"
        try:
            with contextlib.closing(sqlite3.connect(f"file:{with_parameters}", uri=True)) as connection:
                connection.execute("select * from sqlite_master").fetchall()
        except sqlite3.Error as error:
            return getattr(error, "sqlite_errorname", ""), str(error)

    for path in paths:
        assert number("millpond", path) == number("unix", path), (path, number("millpond", path))
    # A budget that can't be is no lack of memory.
    for memory in ("1000000G", "1", "many"):
        fails("unable to open", lambda: ours(f"{folder}/data.db", f"&memory={memory}"))


def a_journal_that_may_not_be_made_is_a_folder_that_may_only_be_read(folder):
    if not is_root("a folder that may not be written"):
        return
    os.mkdir(f"{folder}/closed")
    connection = plain(f"{folder}/closed/data.db")
    connection.execute("create table t(a)")
    connection.close()
    os.chmod(f"{folder}/closed/data.db", 0o666)
    os.chmod(f"{folder}/closed", 0o555)
    os.chown(f"{folder}/closed", 1, 1)
    os.chown(f"{folder}/closed/data.db", 1, 1)
    load_and_give_up_writing()
    said = []
    for vfs in ("unix", "millpond"):
        connection = sqlite3.connect(f"file:{folder}/closed/data.db?vfs={vfs}", uri=True, isolation_level=None)
        try:
            connection.execute("insert into t values(1)")
        except sqlite3.Error as error:
            said.append((str(error), getattr(error, "sqlite_errorname", "")))
        connection.close()
    assert len(said) == 2 and said[0] == said[1], said


def a_wal_that_may_not_be_read_can_not_be_opened(folder):
    if not is_root("a WAL that may not be read"):
        return
    connection = plain(f"{folder}/data.db")
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table t(a)")
    for vfs in ("unix", "millpond"):
        for ending in ("", "-wal"):
            shutil.copy(f"{folder}/data.db{ending}", f"{folder}/{vfs}.db{ending}")
        os.chmod(f"{folder}/{vfs}.db-wal", 0)
    load_and_give_up_writing(0)
    said = []
    for vfs in ("unix", "millpond"):
        connection = sqlite3.connect(f"file:{folder}/{vfs}.db?vfs={vfs}", uri=True)
        try:
            connection.execute("select * from t")
        except sqlite3.Error as error:
            said.append((str(error), getattr(error, "sqlite_errorname", "")))
        connection.close()
    assert len(said) == 2 and said[0] == said[1], said


def each_sqlite_of_a_process_that_loads_it_has_it(folder):
    """A copy of SQLite's library is another SQLite for the process, with a list of VFSes of its own."""
    second = Sqlite.copied_to(folder)
    if second is None:
        print("skipped: two SQLites: no library of SQLite to copy")
        return
    load()
    first = ours(f"{folder}/data.db")
    first.execute("create table t(a)")
    # The first is told of its own, and not the second, which has not loaded it.
    assert second.open(f"file:{folder}/data.db?vfs=millpond") is None
    loader = second.open(":memory:")
    second.load_extension(loader, LIBRARY)
    connection = second.open(f"file:{folder}/data.db?vfs=millpond")
    assert connection is not None
    # Texts are from the right one's memory, and so are answers of errors.
    assert second.ask(connection, "pragma millpond=memory") == "8M"
    assert "no.such" in second.ask(connection, "pragma millpond='no.such=1'")
    # They have one cache, and keep each other out as connections of one do.
    first.execute("insert into t values(1)")
    assert second.ask(connection, "select count(*) from t") == "1"
    first.execute("begin immediate")
    assert "locked" in second.ask(connection, "insert into t values(2)")
    first.execute("commit")
    assert second.ask(connection, "insert into t values(2)") == ""
    assert ask(first, "select count(*) from t") == 2
    assert second.ask(connection, "pragma cache_size") == "-512"
    # And loaded once more in each.
    load()
    second.load_extension(loader, LIBRARY)
    assert second.ask(second.open(f"file:{folder}/data.db?vfs=millpond"), "select count(*) from t") == "2"


def a_named_database_in_memory_is_one_if_it_was_opened_after_the_library_was_loaded(folder):
    named = "file:named?mode=memory&cache=shared"
    early = sqlite3.connect(named, uri=True)
    early.execute("create table t(a)")
    early.commit()
    load()  # with MILLPOND_SQLITE=default=1
    # SQLite shares it among connections with the same VFS, and asks none of them.
    fails("no such table", lambda: sqlite3.connect(named, uri=True).execute("select * from t"))
    assert ask(sqlite3.connect(named + "&vfs=unix", uri=True), "select count(*) from t") == 0
    late = sqlite3.connect("file:late?mode=memory&cache=shared", uri=True)
    late.execute("create table t(a)")
    late.commit()
    assert ask(sqlite3.connect("file:late?mode=memory&cache=shared", uri=True), "select count(*) from t") == 0
