// The classes of millpond.hpp that the example does not use.

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <millpond.hpp>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#define CHECK(is)                                                                                                    \
    do {                                                                                                             \
        if (!(is)) {                                                                                                 \
            std::fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #is, millpond_error_message()); \
            return 1;                                                                                                \
        }                                                                                                            \
    } while (0)

static std::string read(const millpond::file &file) {
    std::string text(file.len(), '?');
    file.read_exact_at(std::as_writable_bytes(std::span(text)), 0);
    return text;
}

static int bytes(millpond::cache &cache, const std::string &path) {
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    millpond::file file = cache.open_fd(fd, MILLPOND_OPEN_WRITE);
    ::close(fd);
    file.write_at("abc", 0);
    CHECK(file.append(std::string_view("def")) == 3 && read(file) == "abcdef");
    CHECK(file.is_resident(0));
    {
        millpond::page page = file.get_page(0);
        CHECK(!file.try_change_page(0));
    }
    millpond::page_mut page = file.try_change_page(0);
    CHECK(page && page.bytes().size() == 6);
    page.bytes()[0] = std::byte{'A'};
    page.put();
    file.sync();
    CHECK(file.invalidate() == 0 && !file.is_resident(0) && read(file) == "Abcdef");
    file.close();
    try {
        file.sync();
        return 1;
    } catch (const millpond::error &failed) {
        CHECK(failed.code() == MILLPOND_INVALID && std::strstr(failed.what(), "closed or moved from"));
    }
    return 0;
}

static int figures(millpond::cache &cache) {
    CHECK(cache.memory() == 16 << 20);
    cache.set("dirty.background", "5%");
    CHECK(cache.setting("dirty.background") == "5%");
    std::string text = cache.stats_text();
    CHECK(text.find("\npgmajfault ") != std::string::npos && text.find('\0') == std::string::npos);
    millpond::faults disk(1);
    CHECK(disk.count() == 0);
    disk.release_held();
    return 0;
}

static int maps(const std::string &path) {
    millpond::cache_options options;
    options.memory = 16 << 20;
    options.flags = MILLPOND_CACHE_MAPPINGS | MILLPOND_CACHE_LAZY;
    try {
        millpond::cache cache(options);
        millpond::file file = cache.open(path, MILLPOND_OPEN_CREATE);
        file.set_len(8192);
        millpond::map map = file.map(0, 0, MILLPOND_MAP_WRITABLE);
        map.copy_from(std::as_bytes(std::span(std::string_view("pond"))), 4096);
        std::vector<std::byte> back(5000);
        CHECK(map.copy_to(back, 4096) == 4096 && std::memcmp(back.data(), "pond", 4) == 0);
        CHECK(map.is_resident(4096));
        map.sync(4096, 4);
        map.close();
        file.close();
    } catch (const millpond::error &failed) {
        if (failed.code() != MILLPOND_SETUP) throw;
        std::printf("skipped: mappings: %s\n", failed.what());
    }
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    std::string path = argv[1];
    try {
        millpond::cache cache(16 << 20);
        if (bytes(cache, path) || figures(cache) || maps(path)) return 1;
        return std::remove(path.c_str());
    } catch (const std::exception &failed) {
        std::fprintf(stderr, "%s\n", failed.what());
        return 1;
    }
}
