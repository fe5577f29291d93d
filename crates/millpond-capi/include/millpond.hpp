// Millpond for C++20: classes over millpond.h, in one header. A handle closes with its object, a failed call throws
// millpond::error, bytes are std::span. millpond.h and docs/SEMANTICS.md say what each call promises.
//
//   millpond::cache cache(64 << 20);
//   millpond::file file = cache.open("data", MILLPOND_OPEN_CREATE);
//   file.write_at("some bytes", 0);
//   file.close(); // says whether all is durable; the destructor can't
//
// Calls without a class, such as those of millpond_check and millpond_recording, are made as in C, with get().

#ifndef MILLPOND_HPP
#define MILLPOND_HPP

#if __cplusplus < 201709L
#error "millpond.hpp needs C++20: compile with -std=c++20, or include millpond.h, which is for C99, C++11 and later"
#else

#include "millpond.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#if defined(__SANITIZE_THREAD__)
#define MILLPOND_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MILLPOND_TSAN 1
#endif
#endif
#ifdef MILLPOND_TSAN
extern "C" void __tsan_acquire(void *address);
extern "C" void __tsan_release(void *address);
#endif

namespace millpond {

// The thread sanitizer does not see the library's locks: these calls show it the order of a page's holders.
namespace detail {
#ifdef MILLPOND_TSAN
inline void got(const void *data) noexcept { __tsan_acquire(const_cast<void *>(data)); }
inline void putting(const void *data) noexcept { __tsan_release(const_cast<void *>(data)); }
#else
inline void got(const void *) noexcept {}
inline void putting(const void *) noexcept {}
#endif
} // namespace detail

// A failed call: what() names the value, what is allowed and the way out.
class error : public std::runtime_error {
  public:
    explicit error(millpond_code code)
        : std::runtime_error(millpond_error_message()), code_(code), number_(millpond_error_errno()) {}
    millpond_code code() const noexcept { return code_; }
    // A number of errno.h.
    int number() const noexcept { return number_; }

  private:
    millpond_code code_;
    int number_;
};

inline void check(millpond_code code) {
    if (code != MILLPOND_OK) throw error(code);
}

// An owned handle: moved, not copied, and closed with the object.
template <typename T, millpond_code (*End)(T *)> class owned {
  public:
    owned() noexcept = default;
    explicit owned(T *handle) noexcept : handle_(handle) {}
    owned(owned &&other) noexcept : handle_(other.release()) {}
    owned &operator=(owned &&other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    ~owned() { reset(nullptr); }
    // For the calls of millpond.h.
    T *get() const noexcept { return handle_; }
    T *release() noexcept { return std::exchange(handle_, nullptr); }
    void reset(T *handle) noexcept {
        if (T *old = std::exchange(handle_, handle)) End(old);
    }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

  private:
    T *handle_ = nullptr;
};

// A page held for reading. It must end before its file does: outliving the file's last handle is undefined behaviour.
class page {
  public:
    page() noexcept = default;
    page(page &&other) noexcept : held_(other.held_) { other.held_.data = nullptr; }
    page &operator=(page &&other) noexcept {
        if (this != &other) {
            put();
            held_ = other.held_;
            other.held_.data = nullptr;
        }
        return *this;
    }
    ~page() { put(); }
    void put() noexcept {
        if (!held_.data) return;
        detail::putting(held_.data);
        millpond_page_put(&held_);
    }
    std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte *>(held_.data), held_.data ? held_.len : 0};
    }
    explicit operator bool() const noexcept { return held_.data != nullptr; }

  private:
    friend class file;
    millpond_page held_{};
};

// A page held for changing. It must end before its file does, too.
class page_mut {
  public:
    page_mut() noexcept = default;
    page_mut(page_mut &&other) noexcept : held_(other.held_) { other.held_.data = nullptr; }
    page_mut &operator=(page_mut &&other) noexcept {
        if (this != &other) {
            put();
            held_ = other.held_;
            other.held_.data = nullptr;
        }
        return *this;
    }
    ~page_mut() { put(); }
    void put() noexcept {
        if (!held_.data) return;
        detail::putting(held_.data);
        millpond_page_mut_put(&held_);
    }
    std::span<std::byte> bytes() noexcept {
        return {static_cast<std::byte *>(held_.data), held_.data ? held_.len : 0};
    }
    void set_order(std::uint64_t order) { check(millpond_page_set_order(&held_, order)); }
    explicit operator bool() const noexcept { return held_.data != nullptr; }

  private:
    friend class file;
    millpond_page_mut held_{};
};

// Options with their size set and everything else at its default.
struct cache_options : millpond_cache_options {
    cache_options() : millpond_cache_options{} { size = sizeof(millpond_cache_options); }
};

struct file_options : millpond_file_options {
    explicit file_options(std::uint32_t open_flags = 0) : millpond_file_options{} {
        size = sizeof(millpond_file_options);
        flags = open_flags;
    }
};

struct fault : millpond_fault {
    fault(millpond_fault_target what, int errno_value) : millpond_fault{} {
        size = sizeof(millpond_fault);
        target = static_cast<std::uint32_t>(what);
        error = errno_value;
    }
};

// A mapped file.
class map : public owned<millpond_map, millpond_map_drop> {
  public:
    using owned::owned;

    // Write to them only if the mapping is MILLPOND_MAP_WRITABLE.
    std::span<std::byte> bytes() const {
        void *data = nullptr;
        std::size_t len = 0;
        check(millpond_map_data(get(), &data, &len));
        return {static_cast<std::byte *>(data), len};
    }
    // The whole values that it contains.
    template <typename T> std::span<T> as() const {
        static_assert(std::is_trivially_copyable_v<T>, "a file has bytes, and no objects with constructors");
        std::span<std::byte> all = bytes();
        return {reinterpret_cast<T *>(all.data()), all.size() / sizeof(T)};
    }
    void sync() { sync(0, bytes().size()); }
    void sync(std::size_t offset, std::size_t len) { check(millpond_map_sync(get(), offset, len)); }
    // Returns the number of bytes read: fewer than requested only where the mapping or the file ends. Throws where
    // touching the memory would give SIGBUS.
    std::size_t copy_to(std::span<std::byte> to, std::size_t offset) const {
        std::size_t read = 0;
        check(millpond_map_copy_to(get(), to.data(), to.size(), offset, &read));
        return read;
    }
    void copy_from(std::span<const std::byte> from, std::size_t offset) {
        check(millpond_map_copy_from(get(), from.data(), from.size(), offset));
    }
    bool is_resident(std::size_t offset) const {
        int is = 0;
        check(millpond_map_is_resident(get(), offset, &is));
        return is != 0;
    }
    void advise(std::size_t offset, std::size_t len, millpond_map_advice advice) {
        check(millpond_map_advise(get(), offset, len, static_cast<std::uint32_t>(advice)));
    }
    // Syncs and closes; throws if that fails, and the mapping stays.
    void close() {
        check(millpond_map_close(get()));
        release();
    }
};

// A file in a cache. The destructor drops it: cache::take_lost reports what could not be written then.
class file : public owned<millpond_file, millpond_file_drop> {
  public:
    using owned::owned;

    // Returns the number of bytes read: fewer than requested only where the file ends.
    std::size_t read_at(std::span<std::byte> to, std::uint64_t offset) const {
        std::size_t read = 0;
        check(millpond_file_read_at(get(), to.data(), to.size(), offset, &read));
        return read;
    }
    void read_exact_at(std::span<std::byte> to, std::uint64_t offset) const {
        check(millpond_file_read_exact_at(get(), to.data(), to.size(), offset));
    }
    void write_at(std::span<const std::byte> from, std::uint64_t offset) {
        check(millpond_file_write_at(get(), from.data(), from.size(), offset));
    }
    void write_at(std::string_view from, std::uint64_t offset) { write_at(std::as_bytes(std::span(from)), offset); }
    // Returns the offset of the appended bytes.
    std::uint64_t append(std::span<const std::byte> from) {
        std::uint64_t offset = 0;
        check(millpond_file_append(get(), from.data(), from.size(), &offset));
        return offset;
    }
    std::uint64_t append(std::string_view from) { return append(std::as_bytes(std::span(from))); }
    millpond::page get_page(std::uint64_t number) const {
        millpond::page page;
        check(millpond_page_get(get(), number, &page.held_));
        detail::got(page.held_.data);
        return page;
    }
    // Empty if that would wait.
    millpond::page try_get_page(std::uint64_t number) const {
        millpond::page page;
        millpond_code code = millpond_page_try_get(get(), number, &page.held_);
        if (code == MILLPOND_NOT_NOW) return {};
        check(code);
        detail::got(page.held_.data);
        return page;
    }
    millpond::page_mut change_page(std::uint64_t number) {
        millpond::page_mut page;
        check(millpond_page_mut_get(get(), number, &page.held_));
        detail::got(page.held_.data);
        return page;
    }
    // Empty if that would wait.
    millpond::page_mut try_change_page(std::uint64_t number) {
        millpond::page_mut page;
        millpond_code code = millpond_page_mut_try_get(get(), number, &page.held_);
        if (code == MILLPOND_NOT_NOW) return {};
        check(code);
        detail::got(page.held_.data);
        return page;
    }
    millpond::page_mut change_page_or_grow(std::uint64_t number) {
        millpond::page_mut page;
        check(millpond_page_mut_get_or_grow(get(), number, &page.held_));
        detail::got(page.held_.data);
        return page;
    }
    void sync() { check(millpond_file_sync(get())); }
    void write_out() { check(millpond_file_write_out(get())); }
    // After an error it is still open, and no data is discarded.
    void close() {
        check(millpond_file_close(get()));
        release();
    }
    file clone() const {
        millpond_file *handle = nullptr;
        check(millpond_file_clone(get(), &handle));
        return file(handle);
    }
    // The same file for a background task: its reads leave the device and memory to others.
    file background() const {
        millpond_file *handle = nullptr;
        check(millpond_file_background(get(), &handle));
        return file(handle);
    }
    std::uint64_t len() const {
        std::uint64_t len = 0;
        check(millpond_file_len(get(), &len));
        return len;
    }
    void set_len(std::uint64_t len) { check(millpond_file_set_len(get(), len)); }
    void allocate(std::uint64_t offset, std::uint64_t len) { check(millpond_file_allocate(get(), offset, len)); }
    void punch(std::uint64_t offset, std::uint64_t len) { check(millpond_file_punch(get(), offset, len)); }
    void prefetch(std::uint64_t offset, std::uint64_t len) const {
        check(millpond_file_prefetch(get(), offset, len));
    }
    void advise(millpond_advice advice) {
        check(millpond_file_advise(get(), static_cast<std::uint32_t>(advice)));
    }
    void advise_records(std::uint64_t bytes) { check(millpond_file_advise_records(get(), bytes)); }
    // MILLPOND_MAP_... flags; `len` 0: up to the end.
    millpond::map map(std::uint64_t offset = 0, std::uint64_t len = 0, std::uint32_t flags = 0, std::uint64_t room = 0) {
        millpond_map *handle = nullptr;
        check(millpond_map_new_with_room(get(), offset, len, flags, room, &handle));
        return millpond::map(handle);
    }
    // Returns how many pages of the range stay because they are changed here.
    std::uint64_t invalidate(std::uint64_t start = 0, std::uint64_t end = UINT64_MAX) {
        std::uint64_t kept = 0;
        check(millpond_file_invalidate(get(), start, end, &kept));
        return kept;
    }
    bool is_resident(std::uint64_t offset) const {
        int is = 0;
        check(millpond_file_is_resident(get(), offset, &is));
        return is != 0;
    }
    // Returns the number of discarded pages.
    std::uint64_t discard_unwritten() {
        std::uint64_t pages = 0;
        check(millpond_file_discard_unwritten(get(), &pages));
        return pages;
    }
};

// Memory beyond RAM, with a swap file.
class region : public owned<millpond_region, millpond_region_drop> {
  public:
    using owned::owned;

    std::span<std::byte> bytes() const {
        void *data = nullptr;
        std::size_t len = 0;
        check(millpond_region_data(get(), &data, &len));
        return {static_cast<std::byte *>(data), len};
    }
    // All of it as numbers or other plain values.
    template <typename T> std::span<T> as() const {
        static_assert(std::is_trivially_copyable_v<T>, "a region begins as zeros and ends without destructors");
        std::span<std::byte> all = bytes();
        return {reinterpret_cast<T *>(all.data()), all.size() / sizeof(T)};
    }
    void advise(std::size_t offset, std::size_t len, millpond_region_advice advice) {
        check(millpond_region_advise(get(), offset, len, static_cast<std::uint32_t>(advice)));
    }
};

// How far a log is durable. `flush` and `kept_user` as in millpond_log_new.
class log : public owned<millpond_log, millpond_log_drop> {
  public:
    explicit log(millpond_log_flush flush = nullptr, void *kept_user = nullptr) {
        millpond_log *handle = nullptr;
        check(millpond_log_new(flush, kept_user, &handle));
        reset(handle);
    }
    void advance(std::uint64_t record) { check(millpond_log_advance(get(), record)); }
    std::uint64_t durable() const {
        std::uint64_t record = 0;
        check(millpond_log_durable(get(), &record));
        return record;
    }
};

// A disk that fails, for tests.
class faults : public owned<millpond_faults, millpond_faults_drop> {
  public:
    explicit faults(std::uint64_t seed) {
        millpond_faults *handle = nullptr;
        check(millpond_faults_new(seed, &handle));
        reset(handle);
    }
    void add(const fault &rule) { check(millpond_faults_add(get(), &rule)); }
    void clear() { check(millpond_faults_clear(get())); }
    void release_held() { check(millpond_faults_release(get())); }
    std::uint64_t count() const {
        std::uint64_t count = 0;
        check(millpond_faults_count(get(), &count));
        return count;
    }
};

// A budget and its contents.
class cache : public owned<millpond_cache, millpond_cache_close> {
  public:
    explicit cache(const cache_options &options) { make(options); }
    explicit cache(std::uint64_t memory) {
        cache_options options;
        options.memory = memory;
        make(options);
    }
    file open(const std::string &path, const file_options &options) {
        millpond_file *handle = nullptr;
        check(millpond_open(get(), path.c_str(), &options, &handle));
        return file(handle);
    }
    // MILLPOND_OPEN_... flags; none: for reading.
    file open(const std::string &path, std::uint32_t flags = 0) { return open(path, file_options(flags)); }
    // The descriptor stays the caller's.
    file open_fd(int fd, const file_options &options) {
        millpond_file *handle = nullptr;
        check(millpond_open_fd(get(), fd, &options, &handle));
        return file(handle);
    }
    file open_fd(int fd, std::uint32_t flags = 0) { return open_fd(fd, file_options(flags)); }
    millpond::region region(std::size_t len, std::uint32_t flags = 0) {
        millpond_region *handle = nullptr;
        check(millpond_region_new(get(), len, flags, &handle));
        return millpond::region(handle);
    }
    void sync_all() { check(millpond_cache_sync_all(get())); }
    // Throws what was lost with the last handle of a file: one error a call, until none is left.
    void take_lost() { check(millpond_cache_take_lost(get())); }
    std::uint64_t memory() const {
        std::uint64_t bytes = 0;
        check(millpond_cache_memory(get(), &bytes));
        return bytes;
    }
    void set_memory(std::uint64_t bytes) { check(millpond_cache_set_memory(get(), bytes)); }
    void set(const std::string &name, const std::string &value) {
        const char *names[] = {name.c_str()}, *values[] = {value.c_str()};
        check(millpond_cache_set(get(), names, values, 1));
    }
    std::string setting(const std::string &name) const {
        return text([&](char *buffer, std::size_t size, std::size_t *needed) {
            return millpond_cache_setting(get(), name.c_str(), buffer, size, needed);
        });
    }
    std::string stats_text() const {
        return text([&](char *buffer, std::size_t size, std::size_t *needed) {
            return millpond_cache_stats_text(get(), buffer, size, needed);
        });
    }
    millpond_stats stats() const {
        millpond_stats stats{};
        stats.size = sizeof stats;
        check(millpond_cache_stats(get(), &stats));
        return stats;
    }

  private:
    template <typename Fill> static std::string text(Fill fill) {
        std::string text(8192, '\0');
        std::size_t needed = 0;
        millpond_code code;
        // Figures may have grown meanwhile.
        while ((code = fill(text.data(), text.size(), &needed)) == MILLPOND_BUFFER) text.resize(needed + 1);
        check(code);
        text.resize(needed);
        return text;
    }
    void make(const cache_options &options) {
        millpond_cache *handle = nullptr;
        check(millpond_cache_new(&options, &handle));
        reset(handle);
    }
};

} // namespace millpond

#endif // C++20
#endif // MILLPOND_HPP
