// The README's example, in C++20: c++ -std=c++20 first.cpp -lmillpond -o first && ./first first.pond

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <millpond.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

static int run(const std::string &path) {
    millpond::faults disk(1);
    millpond::cache_options options;
    options.memory = 64 << 20; // one budget: pages, metadata, transfers
    options.faults = disk.get();
    millpond::cache cache(options);
    millpond::file file = cache.open(path, MILLPOND_OPEN_CREATE);

    std::vector<std::byte> sevens(1'000'000, std::byte{7});
    file.write_at(sevens, 0); // in memory; reaches the disk in the background
    std::memcpy(file.change_page(3).bytes().data(), "pond!", 5); // page 3, changed in place
    file.sync(); // on the disk, or it throws: what was not written stays in memory

    millpond::page page = file.get_page(3); // pinned while it is read: no copy, no lock
    if (std::memcmp(page.bytes().data(), "pond!", 5) != 0) return 1;
    millpond::page moved = std::move(page);
    if (page || moved.bytes().size() != 4096) return 1;
    moved.put();

    std::vector<std::byte> read(8192);
    if (file.read_at(read, 990'000) != 8192 || read[0] != std::byte{7}) return 1;
    if (!file.try_get_page(3) || file.append(std::span(read).first(1)) != 1'000'000) return 1;

    disk.add(millpond::fault(millpond_fault_target::MILLPOND_FAULT_WRITES, EIO));
    try {
        file.close();
        return 1;
    } catch (const millpond::error &failed) { // the file is open still, and nothing was dropped
        if (failed.code() != MILLPOND_WRITE || failed.number() != EIO) return 1;
    }
    disk.clear();
    file.close(); // says whether all is durable; the destructor can't

    try {
        cache.set("dirty.background", "101%");
        return 1;
    } catch (const millpond::error &failed) {
        if (failed.code() != MILLPOND_INVALID) return 1;
    }
    cache.set("dirty.background", "5%");
    return cache.stats().pages_dirty != 0;
}

int main(int argc, char **argv) {
    std::string path = argc > 1 ? argv[1] : "first.pond";
    try {
        return run(path) != 0 || std::remove(path.c_str()) != 0;
    } catch (const std::exception &failed) {
        std::fprintf(stderr, "%s\n", failed.what());
        return 1;
    }
}
