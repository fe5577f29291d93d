/* Threads share a cache, a file and its pages, and each has its own last error. */

#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

enum { THREADS = 4, PAGES = 512, ROUNDS = 3000 };

static millpond_cache *cache;
static millpond_file *file;
static char folder[3000];

/* Each page is full of one number at any moment; pages do not all fit into memory. */
static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    char missing[4096], number[32];
    millpond_file *own;
    int round;

    snprintf(missing, sizeof missing, "%s/missing %d", folder, (int)seed);
    CHECK(millpond_file_clone(file, &own) == MILLPOND_OK);
    for (round = 0; round < ROUNDS; round++) {
        uint64_t at, n;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        at = (seed >> 33) % PAGES;
        if (seed >> 60 < 6) {
            struct millpond_page_mut page;
            CHECK(millpond_page_mut_get(own, at, &page) == MILLPOND_OK);
            for (n = 0; n < page.len / sizeof n; n++) ((uint64_t *)page.data)[n] = seed;
            CHECK(millpond_page_mut_put(&page) == MILLPOND_OK);
        } else {
            struct millpond_page page;
            CHECK(millpond_page_get(own, at, &page) == MILLPOND_OK);
            for (n = 1; n < page.len / sizeof n; n++)
                CHECK(((const uint64_t *)page.data)[n] == ((const uint64_t *)page.data)[0]);
            CHECK(millpond_page_put(&page) == MILLPOND_OK);
        }
        if (round % 500 == 0) {
            millpond_file *none = NULL;
            CHECK(millpond_open(cache, missing, NULL, &none) == MILLPOND_OPEN && none == NULL);
            CHECK(millpond_file_sync(own) == MILLPOND_OK); /* leaves the error as it is */
            snprintf(number, sizeof number, "missing %d", (int)((uintptr_t)argument + 1));
            CHECK(strstr(millpond_error_message(), number) != NULL && millpond_error_errno() == ENOENT);
        }
    }
    CHECK(millpond_file_close(own) == MILLPOND_OK);
    return NULL;
}

int main(int argc, char **argv) {
    struct millpond_cache_options options = {0};
    struct millpond_file_options create = {0};
    pthread_t thread[THREADS];
    char path[4096];
    uintptr_t n;

    CHECK(argc == 2 && strlen(argv[1]) < sizeof folder);
    strcpy(folder, argv[1]);
    snprintf(path, sizeof path, "%s/file", folder);
    options.size = sizeof options;
    options.memory = 2 << 20;
    CHECK(millpond_cache_new(&options, &cache) == MILLPOND_OK);
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE;
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    CHECK(millpond_file_set_len(file, PAGES * 4096) == MILLPOND_OK);
    for (n = 0; n < THREADS; n++) CHECK(pthread_create(&thread[n], NULL, work, (void *)n) == 0);
    for (n = 0; n < THREADS; n++) CHECK(pthread_join(thread[n], NULL) == 0);
    CHECK(millpond_file_close(file) == MILLPOND_OK);
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    return 0;
}
