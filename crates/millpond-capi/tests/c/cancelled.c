/* A thread that is cancelled while it is in calls ends between two of them: the process goes on, and so do the cache and
   its other threads. */

#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { ROUNDS = 30, PAGES = 2048 };

static millpond_file *file;
static volatile int is_working;

/* Writes, reads, syncs and holds pages, for ever: each call may wait in the kernel. */
static void *work(void *argument) {
    static char bytes[65536];
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;

    for (;;) {
        struct millpond_page page;
        uint64_t at;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        at = (seed >> 33) % PAGES;
        CHECK(millpond_file_write_at(file, bytes, sizeof bytes, at * 4096) == MILLPOND_OK);
        CHECK(millpond_page_get(file, (at + PAGES / 2) % PAGES, &page) == MILLPOND_OK);
        CHECK(millpond_page_put(&page) == MILLPOND_OK);
        if (seed >> 61 == 0) CHECK(millpond_file_sync(file) == MILLPOND_OK);
        is_working = 1;
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct millpond_cache_options options = {0};
    struct millpond_file_options create = {0};
    millpond_cache *cache;
    char path[4096];
    uintptr_t n;

    CHECK(argc == 2);
    snprintf(path, sizeof path, "%s/file", argv[1]);
    options.size = sizeof options;
    options.memory = 4 << 20;
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE;
    CHECK(millpond_cache_new(&options, &cache) == MILLPOND_OK);
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    CHECK(millpond_file_set_len(file, (uint64_t)PAGES * 4096) == MILLPOND_OK);

    for (n = 0; n < ROUNDS; n++) {
        pthread_t thread;
        void *answer;
        is_working = 0;
        CHECK(pthread_create(&thread, NULL, work, (void *)n) == 0);
        while (!is_working) sched_yield();
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &answer) == 0);
        CHECK(answer == PTHREAD_CANCELED);
    }
    CHECK(millpond_file_sync(file) == MILLPOND_OK);
    CHECK(millpond_file_close(file) == MILLPOND_OK);
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    return 0;
}
