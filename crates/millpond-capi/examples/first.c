/* The README's example, in C: cc first.c -lmillpond -o first && ./first first.pond */

#include <millpond.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Ends the program with the thread's last error. */
static void check(millpond_code code) {
    if (code != MILLPOND_OK) {
        fprintf(stderr, "%s\n", millpond_error_message());
        _exit(1);
    }
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "first.pond";
    static char sevens[1000000];
    struct millpond_cache_options options = {0};
    struct millpond_file_options create = {0};
    struct millpond_page_mut change;
    struct millpond_page page;
    millpond_cache *cache;
    millpond_file *file;

    options.size = sizeof options;
    options.memory = 64 << 20; /* one budget: pages, metadata, transfers */
    check(millpond_cache_new(&options, &cache));
    create.size = sizeof create;
    create.flags = MILLPOND_OPEN_CREATE;
    check(millpond_open(cache, path, &create, &file));

    memset(sevens, 7, sizeof sevens);
    check(millpond_file_write_at(file, sevens, sizeof sevens, 0)); /* in memory; reaches the disk in the background */
    check(millpond_page_mut_get(file, 3, &change)); /* page 3, changed in place */
    memcpy(change.data, "pond!", 5);
    check(millpond_page_mut_put(&change));
    check(millpond_file_sync(file)); /* on the disk, or an error: what was not written stays in memory */

    check(millpond_page_get(file, 3, &page)); /* pinned while it is read: no copy, no lock */
    if (memcmp(page.data, "pond!", 5) != 0) return 1;
    check(millpond_page_put(&page));

    check(millpond_file_close(file)); /* says whether all is durable; millpond_file_drop can't */
    check(millpond_cache_close(cache));
    return unlink(path);
}
