/* A small store with a log: accounts in pages, and no page on the disk before the record that changed it.
 *
 * A transfer appends a record to the log, changes two pages and gives them the record's end as their order. The log is a
 * file of the same cache; when pages have to be written the cache asks for it by `flush`. A commit is a sync of the log
 * alone. After a crash the log is played again from its beginning; here the "crash" reads both files as the disk has them,
 * past the cache, after each round.
 *
 * cc log_store.c -lmillpond -o log_store && ./log_store FOLDER */

#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <millpond.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ACCOUNTS = 4096, PER_PAGE = 256, PAGES = ACCOUNTS / PER_PAGE, ROUNDS = 40, TRANSFERS = 50, START = 1000 };

#define CHECK(is)                                                                                                    \
    do {                                                                                                             \
        if (!(is)) {                                                                                                 \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #is, millpond_error_message());               \
            exit(1);                                                                                                 \
        }                                                                                                            \
    } while (0)

/* What an account has, and up to which byte of the log that is known. */
struct account {
    int64_t balance;
    uint64_t record;
};

struct record {
    uint32_t from, to;
    int64_t amount;
};

static uint64_t seed = 42;

static uint32_t draw(uint32_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* Called by the cache, on a thread of its own: "durable up to byte `wanted`, please". */
static int flush(void *kept_user, uint64_t wanted, uint64_t *durable) {
    millpond_file *log_file = kept_user;
    uint64_t len;
    (void)wanted;
    if (millpond_file_len(log_file, &len) != MILLPOND_OK || millpond_file_sync(log_file) != MILLPOND_OK)
        return millpond_error_errno();
    *durable = len;
    return 0;
}

static void add(millpond_file *accounts, uint32_t number, int64_t amount, uint64_t order) {
    struct millpond_page_mut page;
    struct account *account;
    CHECK(millpond_page_mut_get(accounts, number / PER_PAGE, &page) == MILLPOND_OK);
    account = (struct account *)page.data + number % PER_PAGE;
    account->balance += amount;
    account->record = order;
    CHECK(millpond_page_set_order(&page, order) == MILLPOND_OK);
    CHECK(millpond_page_mut_put(&page) == MILLPOND_OK);
}

static void transfer(millpond_file *accounts, millpond_file *log_file) {
    struct record record = {draw(ACCOUNTS), draw(ACCOUNTS), (int64_t)draw(100)};
    uint64_t at;
    CHECK(millpond_file_append(log_file, &record, sizeof record, &at) == MILLPOND_OK);
    add(accounts, record.from, -record.amount, at + sizeof record);
    add(accounts, record.to, record.amount, at + sizeof record);
}

/* All of a file as the disk has it. */
static char *on_disk(const char *path, size_t *len) {
    int fd = open(path, O_RDONLY);
    off_t end = lseek(fd, 0, SEEK_END);
    char *bytes = malloc((size_t)end + 1);
    CHECK(fd >= 0 && bytes != NULL && pread(fd, bytes, (size_t)end, 0) == end);
    close(fd);
    *len = (size_t)end;
    return bytes;
}

/* What a crash now would leave: each account is as of a record that the log has, and playing the rest gives the sum. */
static void recover(const char *accounts_path, const char *log_path) {
    size_t accounts_len, log_len, at;
    int64_t sum = 0;
    char *pages = on_disk(accounts_path, &accounts_len); /* first: the log may only be newer */
    char *log_bytes = on_disk(log_path, &log_len);
    struct account *account = (struct account *)pages;
    CHECK(accounts_len == ACCOUNTS * sizeof *account);
    for (at = 0; at < ACCOUNTS; at++) CHECK(account[at].record <= log_len);
    for (at = 0; at + sizeof(struct record) <= log_len; at += sizeof(struct record)) {
        struct record record;
        uint64_t end = at + sizeof record;
        memcpy(&record, log_bytes + at, sizeof record);
        if (account[record.from].record < end) account[record.from].balance -= record.amount;
        if (account[record.to].record < end) account[record.to].balance += record.amount;
    }
    for (at = 0; at < ACCOUNTS; at++) sum += account[at].balance;
    CHECK(sum == (int64_t)ACCOUNTS * START);
    free(pages);
    free(log_bytes);
}

int main(int argc, char **argv) {
    char accounts_path[4096], log_path[4096];
    struct millpond_cache_options options = {0};
    struct millpond_file_options create = {0};
    millpond_file *accounts, *log_file, *flusher;
    millpond_cache *cache;
    millpond_log *log;
    uint64_t len, durable;
    int round, n;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER    (makes the files accounts and log there)\n", argv[0]);
        return 2;
    }
    snprintf(accounts_path, sizeof accounts_path, "%s/accounts", argv[1]);
    snprintf(log_path, sizeof log_path, "%s/log", argv[1]);
    options.size = sizeof options;
    options.memory = 4 << 20;
    CHECK(millpond_cache_new(&options, &cache) == MILLPOND_OK);

    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE | MILLPOND_OPEN_TRUNCATE;
    CHECK(millpond_open(cache, log_path, &create, &log_file) == MILLPOND_OK);
    CHECK(millpond_file_clone(log_file, &flusher) == MILLPOND_OK);
    CHECK(millpond_log_new(flush, flusher, &log) == MILLPOND_OK);
    create.log = log;
    CHECK(millpond_open(cache, accounts_path, &create, &accounts) == MILLPOND_OK);

    CHECK(millpond_file_set_len(accounts, ACCOUNTS * sizeof(struct account)) == MILLPOND_OK);
    for (n = 0; n < ACCOUNTS; n++) {
        struct account account = {START, 0};
        CHECK(millpond_file_write_at(accounts, &account, sizeof account, (uint64_t)n * sizeof account) ==
              MILLPOND_OK);
    }
    CHECK(millpond_file_sync(accounts) == MILLPOND_OK);

    for (round = 0; round < ROUNDS; round++) {
        for (n = 0; n < TRANSFERS; n++) transfer(accounts, log_file);
        if (round % 2 == 0) CHECK(millpond_file_sync(log_file) == MILLPOND_OK); /* a commit */
        if (round % 8 == 7) CHECK(millpond_file_sync(accounts) == MILLPOND_OK); /* a checkpoint: asks for the log */
        if (round % 3 == 1) CHECK(millpond_file_write_out(log_file) == MILLPOND_OK);
        recover(accounts_path, log_path);
    }
    CHECK(millpond_file_close(accounts) == MILLPOND_OK);
    CHECK(millpond_file_len(log_file, &len) == MILLPOND_OK);
    CHECK(millpond_log_durable(log, &durable) == MILLPOND_OK && durable == len);
    recover(accounts_path, log_path);

    CHECK(millpond_log_drop(log) == MILLPOND_OK);
    CHECK(millpond_file_close(flusher) == MILLPOND_OK);
    CHECK(millpond_file_close(log_file) == MILLPOND_OK);
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    printf("%d transfers, and the log was ahead of the pages all the time\n", ROUNDS * TRANSFERS);
    return 0;
}
