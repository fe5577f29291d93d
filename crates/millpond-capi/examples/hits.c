/* How long a hit takes from C: get a page, read eight bytes, put it. See hits.rs, which runs it.
 *
 * hits FILE PAGES THREADS SECONDS: the file has so many pages; prints nanoseconds a hit, of each thread. */

#define _POSIX_C_SOURCE 200809L

#include <millpond.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(is)                                                                                                    \
    do {                                                                                                             \
        if (!(is)) {                                                                                                 \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #is, millpond_error_message());               \
            exit(1);                                                                                                 \
        }                                                                                                            \
    } while (0)

enum { BATCH = 10000 };

static millpond_file *file;
static uint64_t pages;
static double seconds;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void *hits(void *seed) {
    uint64_t random = (uint64_t)(uintptr_t)seed * 2654435761u + 1, sum = 0, count = 0;
    double begin = now(), end = begin;
    static double nanoseconds[64];
    while (end - begin < seconds) {
        int n;
        for (n = 0; n < BATCH; n++) {
            struct millpond_page page;
            uint64_t eight;
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            CHECK(millpond_page_get(file, random % pages, &page) == MILLPOND_OK);
            memcpy(&eight, page.data, sizeof eight);
            sum += eight;
            millpond_page_put(&page);
        }
        count += BATCH;
        end = now();
    }
    CHECK(sum != 1);
    nanoseconds[(uintptr_t)seed] = (end - begin) * 1e9 / (double)count;
    return &nanoseconds[(uintptr_t)seed];
}

int main(int argc, char **argv) {
    struct millpond_cache_options options = {0};
    millpond_cache *cache;
    pthread_t thread[64];
    uintptr_t threads, n;

    CHECK(argc == 5);
    pages = strtoull(argv[2], NULL, 10);
    threads = strtoull(argv[3], NULL, 10);
    seconds = strtod(argv[4], NULL);
    CHECK(threads <= 64);
    options.size = sizeof options;
    options.memory = pages * 4096 * 2 + (8 << 20);
    CHECK(millpond_cache_new(&options, &cache) == MILLPOND_OK);
    CHECK(millpond_open(cache, argv[1], NULL, &file) == MILLPOND_OK);
    for (n = 0; n < pages; n++) {
        struct millpond_page page;
        CHECK(millpond_page_get(file, n, &page) == MILLPOND_OK);
        CHECK(millpond_page_put(&page) == MILLPOND_OK);
    }
    for (n = 0; n < threads; n++) CHECK(pthread_create(&thread[n], NULL, hits, (void *)n) == 0);
    for (n = 0; n < threads; n++) {
        void *took;
        CHECK(pthread_join(thread[n], &took) == 0);
        printf("%.2f\n", *(double *)took);
    }
    CHECK(millpond_file_close(file) == MILLPOND_OK);
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    return 0;
}
