/* What can be seen of a caller's mistakes is an error, and ends nothing. */

#include "check.h"
#include <errno.h>
#include <string.h>

/* The call fails with this code and number, and its message has this text. */
#define FAILS(call, wanted, number, text)                                                                            \
    do {                                                                                                             \
        CHECK((call) == (wanted));                                                                                   \
        CHECK(millpond_error_errno() == (number));                                                                   \
        CHECK(strstr(millpond_error_message(), text) != NULL);                                                       \
    } while (0)

int main(int argc, char **argv) {
    char path[4096], small[4], byte;
    struct millpond_cache_options options = {0};
    struct millpond_file_options create = {0};
    struct millpond_page page;
    struct millpond_page_mut change;
    struct millpond_stats stats = {0};
    struct millpond_fault fault = {0};
    const char *names[2] = {"dirty.background", "dirty.hard"}, *values[2] = {"1%", "900%"};
    millpond_cache *cache = NULL;
    millpond_file *file = NULL;
    millpond_log *log = NULL;
    millpond_faults *faults = NULL;
    millpond_region *region = NULL;
    size_t len;

    CHECK(argc == 2);
    snprintf(path, sizeof path, "%s/file", argv[1]);
    CHECK(strcmp(millpond_error_message(), "") == 0 && millpond_error_errno() == 0);

    /* A struct without its size, one of a newer header, and values that can't be. */
    FAILS(millpond_cache_new(&options, &cache), MILLPOND_INVALID, EINVAL, "sizeof(struct millpond_cache_options)");
    {
        struct {
            struct millpond_cache_options known;
            uint64_t more;
        } newer;
        memset(&newer, 0, sizeof newer);
        newer.known.size = sizeof newer;
        newer.known.memory = 4 << 20;
        newer.more = 1;
        FAILS(millpond_cache_new(&newer.known, &cache), MILLPOND_INVALID, EINVAL, "does not know");
        newer.more = 0;
        CHECK(millpond_cache_new(&newer.known, &cache) == MILLPOND_OK);
        CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    }
    options.size = sizeof options;
    options.page_size = 5000;
    FAILS(millpond_cache_new(&options, &cache), MILLPOND_INVALID, EINVAL, "5000");
    options.page_size = 0;
    options.flags = 1u << 31;
    FAILS(millpond_cache_new(&options, &cache), MILLPOND_INVALID, EINVAL, "0x80000000");
    options.flags = 0;
    options.memory = 1;
    FAILS(millpond_cache_new(&options, &cache), MILLPOND_MEMORY, EINVAL, "too small");
    options.memory = UINT64_C(1) << 60;
    FAILS(millpond_cache_new(&options, &cache), MILLPOND_MEMORY, ENOMEM, "MILLPOND_CACHE_BEYOND_LIMIT");
    options.memory = 4 << 20;
    options.swap_bytes = 8 << 20;
    FAILS(millpond_cache_new(&options, &cache), MILLPOND_INVALID, EINVAL, "swap_bytes is 8388608 and swap_path NULL");
    options.swap_bytes = 0;
    FAILS(millpond_cache_new(&options, NULL), MILLPOND_INVALID, EINVAL, "NULL");
    CHECK(millpond_cache_new(&options, &cache) == MILLPOND_OK);

    /* NULL, and files that can't be had. */
    FAILS(millpond_open(NULL, path, NULL, &file), MILLPOND_INVALID, EINVAL, "millpond_cache is NULL: none was opened");
    FAILS(millpond_open(cache, NULL, NULL, &file), MILLPOND_INVALID, EINVAL, "path is NULL");
    FAILS(millpond_open(cache, "", NULL, &file), MILLPOND_INVALID, EINVAL, "the path is empty");
    FAILS(millpond_open(cache, path, NULL, &file), MILLPOND_OPEN, ENOENT, path);
    FAILS(millpond_open(cache, argv[1], NULL, &file), MILLPOND_OPEN, EISDIR, argv[1]);
    FAILS(millpond_open_fd(cache, -1, NULL, &file), MILLPOND_INVALID, EINVAL, "-1");
    FAILS(millpond_open_fd(cache, 1000, NULL, &file), MILLPOND_OPEN, EBADF, "1000");
    CHECK(file == NULL);
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE;
    create.stable_pages = 9;
    FAILS(millpond_open(cache, path, &create, &file), MILLPOND_INVALID, EINVAL, "millpond_stable_pages");
    create.stable_pages = MILLPOND_STABLE_DEFAULT;
    CHECK(millpond_open(cache, path, &create, &file) == MILLPOND_OK);
    FAILS(millpond_file_write_at(file, NULL, 1, 0), MILLPOND_INVALID, EINVAL, "buffer is NULL");
    CHECK(millpond_file_write_at(file, NULL, 0, 0) == MILLPOND_OK);
    FAILS(millpond_file_write_at(file, "x", SIZE_MAX, 0), MILLPOND_INVALID, EINVAL, "no buffer has");
    FAILS(millpond_file_write_at(file, "x", 1, UINT64_MAX), MILLPOND_RANGE, EFBIG, "out of range");
    FAILS(millpond_file_read_at(file, &byte, 1, 0, NULL), MILLPOND_INVALID, EINVAL, "read is NULL");
    FAILS(millpond_file_read_exact_at(file, &byte, 1, 0), MILLPOND_END_OF_FILE, ENODATA, "ends at byte 0");
    FAILS(millpond_file_invalidate(file, 9, 3, NULL), MILLPOND_RANGE, EINVAL, "begins at 9 and ends at 3");
    FAILS(millpond_file_allocate(file, UINT64_MAX, 5), MILLPOND_RANGE, EINVAL, "offset 18446744073709551615");
    FAILS(millpond_file_allocate(file, 5, UINT64_MAX), MILLPOND_RANGE, EFBIG, "offset 5");
    FAILS(millpond_file_punch(file, UINT64_MAX, 5), MILLPOND_RANGE, EINVAL, "offset 18446744073709551615");
    FAILS(millpond_file_prefetch(file, UINT64_MAX, 5), MILLPOND_RANGE, EINVAL, "must be 0 to 9223372036854775807");
    CHECK(millpond_file_punch(file, 5, UINT64_MAX) == MILLPOND_OK);
    FAILS(millpond_file_advise(file, 3), MILLPOND_INVALID, EINVAL, "millpond_advice");

    /* Pages that are not there, and that are put twice. */
    FAILS(millpond_page_get(file, 0, &page), MILLPOND_RANGE, EINVAL, "the file is empty");
    CHECK(millpond_file_write_at(file, "pond", 4, 0) == MILLPOND_OK);
    FAILS(millpond_page_get(file, 0, NULL), MILLPOND_INVALID, EINVAL, "page is NULL");
    CHECK(millpond_page_get(file, 0, &page) == MILLPOND_OK && page.len == 4);
    CHECK(millpond_page_mut_try_get(file, 0, &change) == MILLPOND_NOT_NOW && millpond_error_errno() == EAGAIN);
    CHECK(millpond_page_put(&page) == MILLPOND_OK);
    FAILS(millpond_page_put(&page), MILLPOND_HANDLE, EBADF, "or a copy of it was");
    CHECK(millpond_page_mut_get(file, 0, &change) == MILLPOND_OK);
    FAILS(millpond_page_set_order(&change, 1), MILLPOND_INVALID, EINVAL, "millpond_file_options.log");
    CHECK(millpond_page_mut_put(&change) == MILLPOND_OK);
    FAILS(millpond_page_mut_put(&change), MILLPOND_HANDLE, EBADF, "not held");
    FAILS(millpond_page_set_order(&change, 1), MILLPOND_HANDLE, EBADF, "not held");

    /* Settings: all or none. */
    FAILS(millpond_cache_set(cache, names, values, 2), MILLPOND_INVALID, EINVAL, "900 %");
    CHECK(millpond_cache_setting(cache, names[0], path, sizeof path, NULL) == MILLPOND_OK);
    CHECK(strcmp(path, "1%") != 0);
    FAILS(millpond_cache_set(cache, NULL, NULL, 1), MILLPOND_INVALID, EINVAL, "list");
    FAILS(millpond_cache_set(cache, NULL, NULL, 0), MILLPOND_INVALID, EINVAL, "count is 0");
    FAILS(millpond_cache_setting(cache, "no.such", path, sizeof path, NULL), MILLPOND_INVALID, EINVAL, "no.such");
    FAILS(millpond_cache_stats_text(cache, small, sizeof small, &len), MILLPOND_BUFFER, ERANGE, "buffer 4");
    CHECK(len > sizeof small);
    FAILS(millpond_cache_stats(cache, &stats), MILLPOND_INVALID, EINVAL, "sizeof(struct millpond_stats)");
    FAILS(millpond_region_new(cache, 4096, 0, &region), MILLPOND_SWAP, EINVAL, "swap_path");
    CHECK(millpond_faults_new(1, &faults) == MILLPOND_OK);
    fault.size = sizeof fault;
    fault.percent = 101;
    FAILS(millpond_faults_add(faults, &fault), MILLPOND_INVALID, EINVAL, "101");
    CHECK(millpond_faults_drop(faults) == MILLPOND_OK);
    FAILS(millpond_faults_clear(faults), MILLPOND_HANDLE, EBADF, "closed already");

    /* Handles that are closed, or of another kind. */
    CHECK(millpond_log_new(NULL, NULL, &log) == MILLPOND_OK);
    FAILS(millpond_file_sync((millpond_file *)(void *)log), MILLPOND_HANDLE, EBADF, "another kind");
    CHECK(millpond_log_drop(log) == MILLPOND_OK);
    CHECK(millpond_file_close(file) == MILLPOND_OK);
    FAILS(millpond_file_close(file), MILLPOND_HANDLE, EBADF, "millpond_file is closed already");
    FAILS(millpond_file_drop(file), MILLPOND_HANDLE, EBADF, "closed already");
    FAILS(millpond_page_get(file, 0, &page), MILLPOND_HANDLE, EBADF, "closed already");
    CHECK(millpond_cache_close(cache) == MILLPOND_OK);
    FAILS(millpond_cache_sync_all(cache), MILLPOND_HANDLE, EBADF, "closed already");
    return 0;
}
