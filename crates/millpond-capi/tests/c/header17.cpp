// The header alone, in C++17, and a struct of each kind.

#include <millpond.h>

int main() {
    millpond_cache_options options{};
    struct millpond_file_options create = {};
    millpond_page page{};
    millpond_code code = millpond_page_put(&page);
    options.size = sizeof options;
    create.size = sizeof create;
    return code == MILLPOND_HANDLE && millpond_version()[0] != 0 ? 0 : 1;
}
