/* What the examples leave out: each call does what it says. */

#include "check.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static unsigned char sum(const unsigned char *bytes, size_t len) {
    unsigned char all = 0;
    while (len-- > 1) all = (unsigned char)(all + *bytes++);
    return all;
}

/* The last byte of a page is the sum of the others. */
static void stamp(void *kept_user, uint64_t page, void *data, size_t len) {
    unsigned char *bytes = data;
    (void)page;
    ++*(int *)kept_user;
    bytes[len - 1] = sum(bytes, len);
}

static int verify(void *kept_user, uint64_t page, const void *data, size_t len, char *why) {
    const unsigned char *bytes = data;
    (void)kept_user;
    if (bytes[len - 1] == sum(bytes, len)) return 0;
    snprintf(why, MILLPOND_CHECK_WHY, "page %d has another sum", (int)page);
    return 1;
}

static void told(void *kept_user, const char *text) {
    (void)text;
    ++*(int *)kept_user;
}

static void files(millpond_cache *cache, const char *folder) {
    char path[4096], text[16384];
    struct millpond_file_options create = {0};
    struct millpond_page page;
    struct millpond_page_mut change;
    struct millpond_stats stats = {0};
    millpond_file *file, *other;
    millpond_recording *recording;
    const char *name = "dirty.background", *value = "32%";
    uint64_t number, lost, memory;
    size_t read, needed;
    int fd, is, n;

    snprintf(path, sizeof path, "%s/trace", folder);
    CHECK(millpond_recording_start(cache, path, &recording) == MILLPOND_OK);
    snprintf(path, sizeof path, "%s/file", folder);
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE_NEW | MILLPOND_OPEN_EXCLUSIVE;
    create.mode = 0600;
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    CHECK(millpond_file_append(file, "some", 4, NULL) == MILLPOND_OK);
    CHECK(millpond_file_append(file, "more", 4, &number) == MILLPOND_OK && number == 4);
    CHECK(millpond_file_read_at(file, text, 100, 2, &read) == MILLPOND_OK && read == 6);
    CHECK(memcmp(text, "memore", 6) == 0);
    CHECK(millpond_file_set_len(file, 10000) == MILLPOND_OK);
    CHECK(millpond_file_len(file, &number) == MILLPOND_OK && number == 10000);
    CHECK(millpond_page_mut_get_or_grow(file, 9, &change) == MILLPOND_OK && change.len == 4096);
    memset(change.data, 9, change.len);
    CHECK(millpond_page_mut_put(&change) == MILLPOND_OK);
    CHECK(millpond_file_page_size(file, &number) == MILLPOND_OK && number == 4096);
    CHECK(millpond_page_try_get(file, 9, &page) == MILLPOND_OK && page.len == 4096);
    CHECK(*(const char *)page.data == 9);
    CHECK(millpond_page_put(&page) == MILLPOND_OK);
    CHECK(millpond_page_mut_try_get(file, 9, &change) == MILLPOND_OK);
    CHECK(millpond_page_mut_put(&change) == MILLPOND_OK);
    CHECK(millpond_file_write_out(file) == MILLPOND_OK);
    CHECK(millpond_file_invalidate(file, 0, UINT64_MAX, &number) == MILLPOND_OK && number == 0);
    CHECK(millpond_file_is_resident(file, 0, &is) == MILLPOND_OK && is == 0);
    CHECK(millpond_page_try_get(file, 9, &page) == MILLPOND_NOT_NOW);
    CHECK(millpond_file_advise(file, MILLPOND_ADVICE_RANDOM) == MILLPOND_OK);
    CHECK(millpond_file_prefetch(file, 0, 40960) == MILLPOND_OK);
    CHECK(millpond_file_read_exact_at(file, text, 4096, 36864) == MILLPOND_OK && text[4095] == 9);
    CHECK(millpond_file_is_resident(file, 36864, &is) == MILLPOND_OK && is == 1);
    CHECK(millpond_file_punch(file, 36864, 4096) == MILLPOND_OK);
    CHECK(millpond_file_read_exact_at(file, text, 4096, 36864) == MILLPOND_OK && text[4095] == 0);
    CHECK(millpond_file_discard_unwritten(file, &number) == MILLPOND_OK && number == 0);

    fd = open(path, O_RDWR);
    CHECK(fd >= 0 && millpond_open_fd(cache, fd, NULL, &other) == MILLPOND_OK);
    CHECK(millpond_file_read_exact_at(other, text, 8, 0) == MILLPOND_OK && memcmp(text, "somemore", 8) == 0);
    CHECK(millpond_file_write_at(other, "x", 1, 0) == MILLPOND_READ_ONLY);
    CHECK(millpond_file_close(other) == MILLPOND_OK && close(fd) == 0);
    CHECK(millpond_cache_sync_all(cache) == MILLPOND_OK);
    CHECK(millpond_file_close(file) == MILLPOND_OK);
    CHECK(millpond_recording_stop(recording, &number, &lost) == MILLPOND_OK && number > 10 && lost == 0);

    CHECK(millpond_cache_set(cache, &name, &value, 1) == MILLPOND_OK);
    CHECK(millpond_cache_setting(cache, name, text, sizeof text, &needed) == MILLPOND_OK);
    CHECK(strcmp(text, value) == 0 && needed == 3);
    for (n = 0; millpond_setting_name((size_t)n) != NULL; n++) {
        CHECK(millpond_cache_setting(cache, millpond_setting_name((size_t)n), text, sizeof text, NULL) ==
              MILLPOND_OK);
    }
    CHECK(n > 10);
    CHECK(millpond_cache_set_memory(cache, 8 << 20) == MILLPOND_OK);
    CHECK(millpond_cache_memory(cache, &memory) == MILLPOND_OK && memory == 8 << 20);
    stats.size = sizeof stats;
    CHECK(millpond_cache_stats(cache, &stats) == MILLPOND_OK);
    CHECK(stats.memory_bytes == memory && stats.pages_written >= 2 && stats.pages_dirty == 0);
    CHECK(stats.size == sizeof stats);
    CHECK(millpond_cache_stats_text(cache, text, sizeof text, NULL) == MILLPOND_OK);
    CHECK(strstr(text, "nr_dirty 0\n") != NULL);
}

static void checks(millpond_cache *cache, const char *folder) {
    char path[4096], bytes[4096] = {1, 2, 3};
    struct millpond_check_options options = {0};
    struct millpond_file_options create = {0};
    millpond_check *check;
    millpond_file *file;
    int stamps = 0, fd;

    snprintf(path, sizeof path, "%s/checked", folder);
    options.size = sizeof options;
    options.before_write = stamp;
    options.after_read = verify;
    options.kept_user = &stamps;
    CHECK(millpond_check_new(&options, &check) == MILLPOND_OK);
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE;
    create.check = check;
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    CHECK(millpond_file_write_at(file, bytes, sizeof bytes, 0) == MILLPOND_OK);
    CHECK(millpond_file_close(file) == MILLPOND_OK && stamps > 0);
    fd = open(path, O_RDWR);
    CHECK(pread(fd, bytes, 1, 4095) == 1 && bytes[0] == 6);
    CHECK(pwrite(fd, "?", 1, 1) == 1 && close(fd) == 0);
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    CHECK(millpond_file_read_exact_at(file, bytes, 1, 0) == MILLPOND_CHECK);
    CHECK(strstr(millpond_error_message(), "page 0 has another sum") != NULL);
    CHECK(millpond_check_drop(check) == MILLPOND_OK);
    CHECK(millpond_file_close(file) == MILLPOND_OK);
}

static void adds(void *user, const void *data, size_t len) {
    const uint64_t *numbers = data;
    uint64_t *sum = user;
    size_t n;

    for (n = 0; n < len / sizeof *numbers; n++) *sum += numbers[n];
}

/* 16 MiB of numbers in a file, through 8 MiB of memory. */
static void maps(const char *folder) {
    char path[4096];
    struct millpond_cache_options options = {0};
    struct millpond_file_options create = {0};
    millpond_cache *cache, *plain;
    millpond_file *file;
    millpond_map *map;
    millpond_code code;
    uint64_t *numbers, n, sum = 0, seven = 7;
    void *data;
    size_t len, read;
    int is, notices = 0;

    options.size = sizeof options;
    options.memory = 8 << 20;
    options.flags = MILLPOND_CACHE_LAZY;
    options.on_notice = told;
    options.on_warning = told;
    options.kept_user = &notices;
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE;
    snprintf(path, sizeof path, "%s/numbers", folder);
    CHECK(millpond_cache_new(&options, &plain) == MILLPOND_OK);
    CHECK(millpond_open(plain, path, &create, &file) == MILLPOND_OK);
    CHECK(millpond_file_set_len(file, 16 << 20) == MILLPOND_OK);
    CHECK(millpond_map_new(file, 0, 0, 0, &map) == MILLPOND_SETUP);
    CHECK(strstr(millpond_error_message(), "MILLPOND_CACHE_MAPPINGS"));
    CHECK(millpond_file_close(file) == MILLPOND_OK);
    CHECK(millpond_cache_close(plain) == MILLPOND_OK);

    options.flags |= MILLPOND_CACHE_MAPPINGS;
    code = millpond_cache_new(&options, &cache);
    if (code == MILLPOND_SETUP) {
        printf("skipped: mappings in C: %s\n", millpond_error_message());
        return;
    }
    CHECK(code == MILLPOND_OK);
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    CHECK(millpond_file_advise_records(file, 65536) == MILLPOND_OK);
    CHECK(millpond_file_advise_records(file, 8 << 20) == MILLPOND_RANGE);
    CHECK(millpond_map_new(file, 0, 0, 4, &map) == MILLPOND_INVALID);
    CHECK(millpond_map_new(file, 32 << 20, 0, 0, &map) == MILLPOND_RANGE);
    CHECK(millpond_map_new(file, 0, 0, MILLPOND_MAP_WRITABLE, &map) == MILLPOND_OK);
    /* A later one has the addresses of the first. */
    millpond_map *later;
    CHECK(millpond_map_new_with_room(file, 0, (uint64_t)4 << 30, 0, (uint64_t)8 << 30, &later) == MILLPOND_RANGE);
    CHECK(strstr(millpond_error_message(), "millpond_map_new_with_room") != NULL);
    CHECK(millpond_map_drop(map) == MILLPOND_OK);
    CHECK(millpond_map_new_with_room(file, 0, 0, MILLPOND_MAP_WRITABLE, (uint64_t)8 << 30, &map) == MILLPOND_OK);
    CHECK(millpond_map_new(file, ((uint64_t)4 << 30) - 4096, 4096, 0, &later) == MILLPOND_OK);
    CHECK(millpond_map_drop(later) == MILLPOND_OK);
    /* It keeps the file open. */
    CHECK(millpond_file_close(file) == MILLPOND_OK);
    CHECK(millpond_map_data(map, &data, &len) == MILLPOND_OK && len == 16 << 20);
    numbers = data;
    for (n = 0; n < len / sizeof *numbers; n++) numbers[n] = n;
    CHECK(millpond_map_sync(map, 0, len) == MILLPOND_OK);
    CHECK(millpond_map_sync(map, 1, len) == MILLPOND_RANGE);
    CHECK(millpond_map_try_read(map, 8, 80000, adds, &sum) == MILLPOND_OK && sum == 50005000);
    CHECK(millpond_map_try_read(map, 0, len, adds, &sum) == MILLPOND_RANGE);
    CHECK(millpond_map_try_read(map, 0, 8, NULL, NULL) == MILLPOND_INVALID);
    CHECK(millpond_map_copy_from(map, &seven, sizeof seven, 8 << 20) == MILLPOND_OK);
    CHECK(numbers[1 << 20] == 7);
    CHECK(millpond_map_copy_to(map, &n, sizeof n, len - 4, &read) == MILLPOND_OK && read == 4);
    CHECK(millpond_map_is_resident(map, 8 << 20, &is) == MILLPOND_OK && is == 1);
    CHECK(millpond_map_advise(map, 0, len, MILLPOND_MAP_DONT_NEED) == MILLPOND_OK);
    CHECK(millpond_map_advise(map, 0, 1 << 20, MILLPOND_MAP_WILL_NEED) == MILLPOND_OK);
    CHECK(millpond_map_advise(map, 0, 1 << 20, 2) == MILLPOND_INVALID);
    CHECK(numbers[0] == 0 && numbers[1] == 1 && numbers[1 << 20] == 7);
    CHECK(millpond_map_close(map) == MILLPOND_OK);
    CHECK(millpond_map_drop(map) == MILLPOND_HANDLE);
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
}

/* 16 MiB of numbers in 8 MiB of memory. */
static void regions(const char *folder) {
    char path[4096];
    struct millpond_cache_options options = {0};
    millpond_cache *cache;
    millpond_region *region;
    millpond_code code;
    uint64_t *numbers, n;
    void *data;
    size_t len;
    int notices = 0;

    snprintf(path, sizeof path, "%s/swap", folder);
    options.size = sizeof options;
    options.memory = 8 << 20;
    options.swap_path = path;
    options.swap_bytes = 32 << 20;
    options.flags = MILLPOND_CACHE_SWAP_UNLINKED;
    options.on_notice = told;
    options.on_warning = told;
    options.kept_user = &notices;
    code = millpond_cache_new(&options, &cache);
    if (code == MILLPOND_SETUP) {
        printf("skipped: regions in C: %s\n", millpond_error_message());
        return;
    }
    CHECK(code == MILLPOND_OK);
    CHECK(millpond_region_new(cache, 16 << 20, 0, &region) == MILLPOND_OK);
    CHECK(millpond_region_data(region, &data, &len) == MILLPOND_OK && len == 16 << 20);
    numbers = data;
    for (n = 0; n < len / sizeof *numbers; n++) numbers[n] = n;
    CHECK(millpond_region_advise(region, 0, 1 << 20, MILLPOND_REGION_WILL_NEED) == MILLPOND_OK);
    for (n = 0; n < len / sizeof *numbers; n++) CHECK(numbers[n] == n);
    CHECK(millpond_region_advise(region, 0, 1 << 20, MILLPOND_REGION_DONT_NEED) == MILLPOND_OK);
    CHECK(numbers[0] == 0 && numbers[1 << 17] == 1 << 17);
    CHECK(millpond_region_advise(region, 0, len + 1, MILLPOND_REGION_FREE) == MILLPOND_RANGE);
    CHECK(millpond_region_drop(region) == MILLPOND_OK);
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
}

/* The header's and the library's are one. */
#if MILLPOND_VERSION_NUMBER < 100 || MILLPOND_VERSION_MAJOR > 99
#error "the version is for the preprocessor"
#endif
static void version(void) {
    char text[40];
    snprintf(text, sizeof text, "%d.%d.%d", MILLPOND_VERSION_MAJOR, MILLPOND_VERSION_MINOR, MILLPOND_VERSION_PATCH);
    CHECK(strcmp(text, millpond_version()) == 0);
}

int main(int argc, char **argv) {
    struct millpond_cache_options options = {0};
    millpond_cache *cache;

    CHECK(argc == 2);
    version();
    options.size = sizeof options;
    options.memory = 4 << 20;
    options.flags = MILLPOND_CACHE_LAZY;
    options.name = "calls";
    options.read_latency_goal_ns = 5000000;
    CHECK(millpond_cache_new(&options, &cache) == MILLPOND_OK);
    files(cache, argv[1]);
    checks(cache, argv[1]);
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    regions(argv[1]);
    maps(argv[1]);
    return 0;
}
