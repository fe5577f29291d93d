/* A program that links SQLite, with a database in a store:
 *
 *     cc app.c libmillpond_volumes_sqlite.a -lsqlite3 -pthread -ldl -lm -o app
 *     ./app s3://bucket/prefix
 */
#include <sqlite3.h>
#include <stdio.h>

extern int sqlite3_millpondvolumessqlite_init(sqlite3 *, char **, const void *);

static int print(void *to, int columns, char **values, char **names) {
    (void)to, (void)columns, (void)names;
    return printf("%s\n", values[0]) < 0;
}

int main(int count, char **arguments) {
    sqlite3 *db;
    char name[500];
    const char *sql = "pragma journal_mode=wal; create table if not exists t(x);"
                      "insert into t values(42); select count(*) from t;";
    if (count != 2) return 2;
    sqlite3_auto_extension((void (*)(void))sqlite3_millpondvolumessqlite_init);
    /* The first connection registers the VFS. */
    if (sqlite3_open(":memory:", &db) != SQLITE_OK || sqlite3_close(db) != SQLITE_OK) return 1;
    snprintf(name, sizeof name, "file:%s//data.db?vfs=millpond-store", arguments[1]);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    if (sqlite3_open_v2(name, &db, flags, NULL) != SQLITE_OK || sqlite3_exec(db, sql, print, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s\n", sqlite3_errmsg(db));
        return 1;
    }
    return sqlite3_close(db) != SQLITE_OK;
}
