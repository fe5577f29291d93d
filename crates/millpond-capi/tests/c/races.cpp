// Threads that read and change the same pages by guards of millpond.hpp: for the thread sanitizer.

#include <cstdio>
#include <cstring>
#include <millpond.hpp>
#include <thread>
#include <vector>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    millpond::cache cache(16 << 20);
    millpond::file file = cache.open(argv[1], MILLPOND_OPEN_CREATE);
    file.set_len(4 * 4096);
    std::vector<std::thread> threads;
    std::vector<int> torn(3);
    for (int n = 0; n < 3; n++) {
        threads.emplace_back([&, n] {
            for (int round = 0; round < 3000; round++) {
                if ((round + n) % 3 == 0) {
                    millpond::page_mut page = file.change_page(round % 4);
                    std::memset(page.bytes().data(), round, page.bytes().size());
                } else {
                    millpond::page page = file.get_page(round % 4);
                    torn[n] += page.bytes().front() != page.bytes().back();
                }
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    file.close();
    std::printf("%d torn\n", torn[0] + torn[1] + torn[2]);
    return torn[0] + torn[1] + torn[2] != 0;
}
