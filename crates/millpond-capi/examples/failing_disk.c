/* A disk that has no room, seen at the sync: nothing is lost, and the program goes on when there is room.
 *
 * cc failing_disk.c -lmillpond -o failing_disk && ./failing_disk failing.pond */

#include <errno.h>
#include <millpond.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHECK(is)                                                                                                    \
    do {                                                                                                             \
        if (!(is)) {                                                                                                 \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #is, millpond_error_message());               \
            _exit(1);                                                                                                \
        }                                                                                                            \
    } while (0)

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "failing.pond";
    struct millpond_cache_options options = {0};
    struct millpond_file_options create = {0};
    struct millpond_fault full = {0};
    struct millpond_stats stats = {0};
    millpond_faults *disk;
    millpond_cache *cache;
    millpond_file *file;
    uint64_t happened;
    char bytes[9] = {0};

    CHECK(millpond_faults_new(1, &disk) == MILLPOND_OK);
    options.size = sizeof options;
    options.memory = 4 << 20;
    options.faults = disk;
    CHECK(millpond_cache_new(&options, &cache) == MILLPOND_OK);
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE;
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);

    full.size = sizeof full;
    full.target = MILLPOND_FAULT_WRITES;
    full.error = ENOSPC;
    CHECK(millpond_faults_add(disk, &full) == MILLPOND_OK);
    CHECK(millpond_file_write_at(file, "precious", 8, 0) == MILLPOND_OK); /* in memory */
    CHECK(millpond_file_sync(file) == MILLPOND_WRITE);
    CHECK(millpond_error_errno() == ENOSPC);
    CHECK(strstr(millpond_error_message(), path) != NULL); /* says which file, why, and what became of it */
    CHECK(millpond_file_sync(file) == MILLPOND_WRITE);     /* and says so again */
    CHECK(millpond_file_close(file) == MILLPOND_WRITE);    /* the handle is open still */
    CHECK(millpond_file_read_exact_at(file, bytes, 8, 0) == MILLPOND_OK);
    CHECK(strcmp(bytes, "precious") == 0); /* nothing was dropped */
    stats.size = sizeof stats;
    CHECK(millpond_cache_stats(cache, &stats) == MILLPOND_OK);
    CHECK(stats.pages_failed == 1);

    CHECK(millpond_faults_clear(disk) == MILLPOND_OK); /* there is room again */
    CHECK(millpond_faults_count(disk, &happened) == MILLPOND_OK && happened > 0);
    CHECK(millpond_file_close(file) == MILLPOND_OK);

    /* What the last handle can't write when it is dropped is lost, and told. */
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    CHECK(millpond_faults_add(disk, &full) == MILLPOND_OK);
    CHECK(millpond_file_write_at(file, "forsaken", 8, 0) == MILLPOND_OK);
    CHECK(millpond_file_drop(file) == MILLPOND_OK);
    CHECK(millpond_cache_take_lost(cache) == MILLPOND_WRITE);
    CHECK(millpond_error_errno() == ENOSPC);
    CHECK(strstr(millpond_error_message(), "its unwritten changes are lost") != NULL);
    CHECK(millpond_cache_take_lost(cache) == MILLPOND_OK);

    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    CHECK(millpond_faults_drop(disk) == MILLPOND_OK);
    return unlink(path);
}
