/* What a callback uses may be freed once the last call that could have it called has returned. */

#include "check.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

static void rest(int millis) {
    struct timespec time;
    time.tv_sec = 0;
    time.tv_nsec = millis * 1000000L;
    nanosleep(&time, NULL);
}

/* Read by the program only while a call is under way, to know that one is. */
static int is_under_way;

static int is_called(void) { return __atomic_load_n(&is_under_way, __ATOMIC_SEQ_CST); }

/* Both take their time, and use what the program has given them at the end of it. */
static int flush(void *kept_user, uint64_t wanted, uint64_t *durable) {
    __atomic_store_n(&is_under_way, 1, __ATOMIC_SEQ_CST);
    rest(200);
    *(uint64_t *)kept_user = wanted;
    *durable = wanted;
    return 0;
}

static void warned(void *kept_user, const char *text) {
    __atomic_store_n(&is_under_way, 1, __ATOMIC_SEQ_CST);
    rest(200);
    *(uint64_t *)kept_user = strlen(text);
}

static void change(millpond_file *file, uint64_t record) {
    struct millpond_page_mut page;
    CHECK(millpond_page_mut_get_or_grow(file, 0, &page) == MILLPOND_OK);
    ((char *)page.data)[0] = 1;
    if (record != 0) CHECK(millpond_page_set_order(&page, record) == MILLPOND_OK);
    CHECK(millpond_page_mut_put(&page) == MILLPOND_OK);
}

static void *write_out(void *file) {
    CHECK(millpond_file_write_out(file) == MILLPOND_OK);
    return NULL;
}

static void a_log(millpond_cache *cache, const char *path, int log_first) {
    struct millpond_file_options create = {0};
    uint64_t *user = calloc(1, sizeof *user);
    millpond_log *log;
    millpond_file *file;
    pthread_t thread;

    is_under_way = 0;
    CHECK(user != NULL && millpond_log_new(flush, user, &log) == MILLPOND_OK);
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE;
    create.log = log;
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    change(file, 7);
    CHECK(pthread_create(&thread, NULL, write_out, file) == 0);
    while (!is_called()) rest(1);
    /* It has come so far by other means: nothing waits for the call any more. */
    CHECK(millpond_log_advance(log, 7) == MILLPOND_OK);
    CHECK(pthread_join(thread, NULL) == 0);
    if (log_first) CHECK(millpond_log_drop(log) == MILLPOND_OK);
    CHECK(millpond_file_close(file) == MILLPOND_OK);
    if (!log_first) CHECK(millpond_log_drop(log) == MILLPOND_OK);
    CHECK(*user == 7); /* the call has ended */
    free(user);
}

static void a_hook(const char *path) {
    struct millpond_cache_options options = {0};
    struct millpond_file_options create = {0};
    struct millpond_fault held = {0};
    uint64_t *user = calloc(1, sizeof *user);
    const char *name = "hung_io_timeout", *value = "20ms";
    millpond_faults *disk;
    millpond_cache *cache;
    millpond_file *file;
    pthread_t thread;

    is_under_way = 0;
    CHECK(user != NULL && millpond_faults_new(1, &disk) == MILLPOND_OK);
    options.size = sizeof options;
    options.memory = 4 << 20;
    options.faults = disk;
    options.on_warning = warned;
    options.kept_user = user;
    CHECK(millpond_cache_new(&options, &cache) == MILLPOND_OK);
    CHECK(millpond_cache_set(cache, &name, &value, 1) == MILLPOND_OK);
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE;
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    held.size = sizeof held;
    held.target = MILLPOND_FAULT_WRITES;
    CHECK(millpond_faults_add(disk, &held) == MILLPOND_OK);
    change(file, 0);
    CHECK(pthread_create(&thread, NULL, write_out, file) == 0);
    while (!is_called()) rest(1);
    CHECK(millpond_faults_clear(disk) == MILLPOND_OK && millpond_faults_release(disk) == MILLPOND_OK);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(millpond_file_close(file) == MILLPOND_OK);
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    CHECK(*user > 0); /* the call has ended */
    free(user);
    CHECK(millpond_faults_drop(disk) == MILLPOND_OK);
}

int main(int argc, char **argv) {
    millpond_cache *cache;
    char path[4096];

    CHECK(argc == 2 && strlen(argv[1]) < 3000);
    snprintf(path, sizeof path, "%s/file", argv[1]);
    CHECK(millpond_cache_new(NULL, &cache) == MILLPOND_OK);
    a_log(cache, path, 0);
    a_log(cache, path, 1);
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    a_hook(path);
    return 0;
}
