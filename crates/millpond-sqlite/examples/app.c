/* A program with SQLite, Millpond inside, and threads: transfers between accounts, each a transaction, while others sum them up.
 *
 * cc app.c libmillpond_sqlite.a -lsqlite3 -pthread -ldl -lm -o app && ./app FOLDER SECONDS */

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ACCOUNTS = 500, START = 100, THREADS = 4 };

int sqlite3_millpondsqlite_init(sqlite3 *, char **, const struct sqlite3_api_routines *);

static char uri[4096];
static time_t end;

static void fail(sqlite3 *db, const char *what) {
    fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
}

static sqlite3 *open_it(void) {
    sqlite3 *db;
    if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, NULL) != SQLITE_OK)
        fail(db, "open");
    sqlite3_busy_timeout(db, 60000);
    return db;
}

static void run(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail(db, sql);
}

static sqlite3_int64 ask(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    sqlite3_int64 answer;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) fail(db, sql);
    if (sqlite3_step(statement) != SQLITE_ROW) fail(db, sql);
    answer = sqlite3_column_int64(statement, 0);
    if (sqlite3_finalize(statement) != SQLITE_OK) fail(db, sql);
    return answer;
}

static void *work(void *argument) {
    int number = (int)(intptr_t)argument;
    unsigned seed = (unsigned)number + 1;
    sqlite3 *db = open_it();
    long done = 0;
    do {
        if (number % 2 == 0) {
            char sql[256];
            int amount = (int)(rand_r(&seed) % 10), from = (int)(rand_r(&seed) % ACCOUNTS), to = (int)(rand_r(&seed) % ACCOUNTS);
            run(db, "begin immediate");
            snprintf(sql, sizeof sql, "update t set amount=amount-%d, pad=randomblob(3000) where n=%d", amount, from);
            run(db, sql);
            snprintf(sql, sizeof sql, "update t set amount=amount+%d where n=%d", amount, to);
            run(db, sql);
            run(db, rand_r(&seed) % 5 == 0 ? "rollback" : "commit");
        } else if (ask(db, "select sum(amount) from t") != ACCOUNTS * START) {
            fail(db, "a transaction was seen in part");
        }
        done++;
    } while (time(NULL) < end);
    sqlite3_close(db);
    return (void *)(intptr_t)done;
}

int main(int argc, char **argv) {
    const char *modes[] = {"wal", "delete", "truncate"};
    pthread_t thread[THREADS];
    sqlite3 *db;
    size_t mode;
    intptr_t n;
    long all = 0;

    if (argc != 3) return 2;
    /* The VFS is there when a connection was opened. */
    sqlite3_auto_extension((void (*)(void))sqlite3_millpondsqlite_init);
    if (sqlite3_open(":memory:", &db) != SQLITE_OK) fail(db, "the first connection");
    sqlite3_close(db);
    for (mode = 0; mode < sizeof modes / sizeof *modes; mode++) {
        char sql[64];
        snprintf(uri, sizeof uri, "file:%s/%s.db?vfs=millpond&memory=4M", argv[1], modes[mode]);
        db = open_it();
        snprintf(sql, sizeof sql, "pragma journal_mode=%s", modes[mode]);
        run(db, sql);
        run(db, "pragma synchronous=normal");
        run(db, "create table t(n integer primary key, amount integer, pad blob)");
        snprintf(sql, sizeof sql, "begin");
        run(db, sql);
        for (n = 0; n < ACCOUNTS; n++) {
            snprintf(sql, sizeof sql, "insert into t values(%d, %d, randomblob(9000))", (int)n, START);
            run(db, sql);
        }
        run(db, "commit");
        end = time(NULL) + atoi(argv[2]);
        for (n = 0; n < THREADS; n++) pthread_create(&thread[n], NULL, work, (void *)n);
        for (n = 0; n < THREADS; n++) {
            void *done;
            pthread_join(thread[n], &done);
            all += (long)(intptr_t)done;
        }
        if (ask(db, "select sum(amount) from t") != ACCOUNTS * START) fail(db, "the sum");
        if (ask(db, "select integrity_check='ok' from pragma_integrity_check") != 1) fail(db, "integrity");
        sqlite3_close(db);
    }
    printf("%ld transactions\n", all);
    return 0;
}
