// A rocksdb::FileSystem on the C library of Millpond.
//
//   tables (.sst), blobs (.blob), logs (.log) ──► the cache: one budget, calm reads, writes in the background
//   everything else, and all names            ──► the file system below
//
// The rest is MANIFEST, CURRENT, IDENTITY, OPTIONS, LOG, LOCK: small, written once or appended to by few bytes, so a cache
// gains nothing. One process has a database; a second cache of the same files would not see this one's changes.

#include "millpond_file_system.h"

#include <millpond.h>
#include <rocksdb/utilities/object_registry.h>
#include <rocksdb/version.h>
#include <sys/stat.h>

#ifdef ROCKSDB_MILLPOND_TEST_HOOKS
// A hook by which one of RocksDB's own tests keeps what its files have allocated.
#include <test_util/sync_point.h>
#else
#define TEST_SYNC_POINT_CALLBACK(name, value)
#endif

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace rocksdb_millpond {
namespace {

using namespace ROCKSDB_NAMESPACE;

constexpr char kScheme[] = "millpond";

// What the last call of this thread has said. RocksDB resumes by itself after an error that is retryable, and after one of
// room once there is some.
IOStatus Failed(millpond_code code) {
  const char* message = millpond_error_message();
  switch (code) {
    case MILLPOND_OK:
      return IOStatus::OK();
    case MILLPOND_CHECK:
      return IOStatus::Corruption(message);
    case MILLPOND_INVALID:
    case MILLPOND_RANGE:
    case MILLPOND_READ_ONLY:
      return IOStatus::InvalidArgument(message);
    default:
      break;
  }
  const int number = millpond_error_errno();
  if (number == ENOENT) return IOStatus::PathNotFound(message);
  if (number == ENOSPC || number == EDQUOT) {
    IOStatus status = IOStatus::NoSpace(message);
    status.SetRetryable(true);
    return status;
  }
  IOStatus status = IOStatus::IOError(message);
  // A refused write stays in memory and is tried again; what a failed flush of the device has lost is not known.
  status.SetRetryable(code == MILLPOND_WRITE || code == MILLPOND_READ || code == MILLPOND_NO_FRAMES);
  status.SetDataLoss(code == MILLPOND_SYNC || code == MILLPOND_LOST);
  return status;
}

struct Cache {
  millpond_cache* handle = nullptr;
  Cache() = default;
  Cache(const Cache&) = delete;
  ~Cache() {
    if (handle != nullptr) millpond_cache_close(handle);
  }
};

// A handle of a file, which keeps its cache.
struct File {
  std::shared_ptr<Cache> cache;
  millpond_file* handle = nullptr;
  File() = default;
  File(const File&) = delete;
  ~File() { Drop(); }

  // After the last handle of a file its pages are written and leave memory.
  void Drop() {
    if (handle != nullptr) millpond_file_drop(handle);
    handle = nullptr;
  }
};

using FilePtr = std::shared_ptr<File>;

// A read of low priority is a compaction's, unless writers wait for it, or one that its caller wants to be so
// (ReadOptions::rate_limiter_priority).
bool IsBackground(const IOOptions& options) {
  return options.rate_limiter_priority == Env::IO_LOW || options.rate_limiter_priority == Env::IO_MID;
}

IOStatus ReadAt(const File& file, uint64_t offset, size_t n, Slice* result, char* scratch) {
  size_t read = 0;
  millpond_code code = millpond_file_read_at(file.handle, scratch, n, offset, &read);
  *result = Slice(scratch, code == MILLPOND_OK ? read : 0);
  return Failed(code);
}

class RandomAccessFile : public FSRandomAccessFile {
 public:
  explicit RandomAccessFile(FilePtr file) : file_(std::move(file)) {
    background_.cache = file_->cache;
    millpond_file_background(file_->handle, &background_.handle);
  }

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext*) const override {
    return ReadAt(IsBackground(options) ? background_ : *file_, offset, n, result, scratch);
  }

  // All of them are on their way before the first is waited for, unless others go first.
  IOStatus MultiRead(FSReadRequest* requests, size_t count, const IOOptions& options, IODebugContext*) override {
    const bool background = IsBackground(options);
    for (size_t i = 1; i < count && !background; i++) {
      millpond_file_prefetch(file_->handle, requests[i].offset, requests[i].len);
    }
    for (size_t i = 0; i < count; i++) {
      FSReadRequest& request = requests[i];
      request.status = ReadAt(background ? background_ : *file_, request.offset, request.len, &request.result,
                              request.scratch);
    }
    return IOStatus::OK();
  }

  // Background reads bring what follows by themselves, when it is their turn.
  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions& options, IODebugContext*) override {
    if (IsBackground(options)) return IOStatus::OK();
    return Failed(millpond_file_prefetch(file_->handle, offset, n));
  }

  void Hint(AccessPattern pattern) override {
    millpond_advice advice = pattern == kRandom       ? MILLPOND_ADVICE_RANDOM
                             : pattern == kSequential ? MILLPOND_ADVICE_SEQUENTIAL
                                                      : MILLPOND_ADVICE_NORMAL;
    millpond_file_advise(file_->handle, static_cast<uint32_t>(advice));
  }

  // Pages leave by replacement, which keeps what others still read.
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  FilePtr file_;
  // The same file, for reads that others go before.
  File background_;
};

class SequentialFile : public FSSequentialFile {
 public:
  explicit SequentialFile(FilePtr file) : file_(std::move(file)) {}

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) override {
    IOStatus status = ReadAt(*file_, position_, n, result, scratch);
    position_ += result->size();
    return status;
  }

  IOStatus Skip(uint64_t n) override {
    position_ += n;
    return IOStatus::OK();
  }

  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  FilePtr file_;
  uint64_t position_ = 0;
};

class WritableFile : public FSWritableFile {
 public:
  WritableFile(FilePtr file, uint64_t size, const FileOptions& options)
      : FSWritableFile(options), file_(std::move(file)), size_(size), allocates_(options.allow_fallocate) {}

  // A caller that forgets to close it has no answer.
  ~WritableFile() override = default;

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    millpond_code code = millpond_file_write_at(file_->handle, data.data(), data.size(), size_);
    if (code == MILLPOND_OK) size_ += data.size();
    return Failed(code);
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }

  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    millpond_code code = millpond_file_set_len(file_->handle, size);
    if (code == MILLPOND_OK) size_ = size;
    return Failed(code);
  }

  // What is in the cache is written by its flusher; here it is handed over so that an error has somebody to hear of it.
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    if (file_->handle == nullptr) return IOStatus::OK();
    IOStatus status = Failed(millpond_file_write_out(file_->handle));
    size_t allocated = allocated_;
    TEST_SYNC_POINT_CALLBACK("PosixWritableFile::Close", &allocated);
    // The length that it has: what was allocated behind it is freed. A file that keeps it has lost nothing.
    if (allocated > size_) millpond_file_set_len(file_->handle, size_);
    file_->Drop();
    return status;
  }

  // Into the cache, where other handles see it: done with each append.
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

  IOStatus Sync(const IOOptions&, IODebugContext*) override { return Failed(millpond_file_sync(file_->handle)); }
  bool IsSyncThreadSafe() const override { return true; }

  // The flusher paces writes so that readers stay calm, which is what bytes_per_sync is for.
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

  // Blocks for what will be appended, so that a full disk is an error before it is.
  IOStatus Allocate(uint64_t offset, uint64_t len, const IOOptions&, IODebugContext*) override {
    if (!allocates_) return IOStatus::OK();
    IOStatus status = Failed(millpond_file_allocate(file_->handle, offset, len));
    if (status.ok()) allocated_ = std::max(allocated_, offset + len);
    return status;
  }

  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }

 private:
  FilePtr file_;
  uint64_t size_;
  const bool allocates_;
  // The end of what was allocated.
  uint64_t allocated_ = 0;
};

class RandomRWFile : public FSRandomRWFile {
 public:
  explicit RandomRWFile(FilePtr file) : file_(std::move(file)) {}

  IOStatus Write(uint64_t offset, const Slice& data, const IOOptions&, IODebugContext*) override {
    return Failed(millpond_file_write_at(file_->handle, data.data(), data.size(), offset));
  }
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    return ReadAt(*file_, offset, n, result, scratch);
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return Failed(millpond_file_sync(file_->handle)); }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    if (file_->handle == nullptr) return IOStatus::OK();
    IOStatus status = Failed(millpond_file_write_out(file_->handle));
    file_->Drop();
    return status;
  }

 private:
  FilePtr file_;
};

class MillpondFileSystem : public FileSystemWrapper {
 public:
  MillpondFileSystem(std::string uri, std::shared_ptr<Cache> cache)
      : FileSystemWrapper(FileSystem::Default()), uri_(std::move(uri)), cache_(std::move(cache)) {}

  static const char* kClassName() { return kScheme; }
  const char* Name() const override { return kClassName(); }
  // As OPTIONS files have it.
  std::string GetId() const override { return uri_; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* file, IODebugContext* debug) override {
    if (!IsCached(path, options)) return target()->NewSequentialFile(path, options, file, debug);
    return Opened<SequentialFile>(path, 0, file);
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* file, IODebugContext* debug) override {
    if (!IsCached(path, options)) return target()->NewRandomAccessFile(path, options, file, debug);
    return Opened<RandomAccessFile>(path, 0, file);
  }

  IOStatus NewRandomRWFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSRandomRWFile>* file, IODebugContext* debug) override {
    if (!IsCached(path, options)) return target()->NewRandomRWFile(path, options, file, debug);
    return Opened<RandomRWFile>(path, MILLPOND_OPEN_WRITE, file);
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) override {
    if (!IsCached(path, options)) return target()->NewWritableFile(path, options, file, debug);
    return OpenedToWrite(path, MILLPOND_OPEN_CREATE | MILLPOND_OPEN_TRUNCATE, false, options, file);
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) override {
    if (!IsCached(path, options)) return target()->ReopenWritableFile(path, options, file, debug);
    return OpenedToWrite(path, MILLPOND_OPEN_CREATE, true, options, file);
  }

  // A recycled log: its blocks are there, and are written over from the start.
  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path, const FileOptions& options,
                             std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) override {
    if (!IsCached(path, options)) return target()->ReuseWritableFile(path, old_path, options, file, debug);
    IOStatus status = RenameFile(old_path, path, options.io_options, debug);
    if (!status.ok()) return status;
    return OpenedToWrite(path, MILLPOND_OPEN_CREATE, false, options, file);
  }

  IOStatus Truncate(const std::string& path, size_t size, const IOOptions& options, IODebugContext* debug) override {
    if (!IsOurs(path)) return target()->Truncate(path, size, options, debug);
    FilePtr file;
    IOStatus status = Open(path, MILLPOND_OPEN_WRITE, &file);
    return status.ok() ? Failed(millpond_file_set_len(file->handle, size)) : status;
  }

  // With what is not written yet.
  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size,
                       IODebugContext* debug) override {
    if (FilePtr file = Writing(path)) {
      if (millpond_file_len(file->handle, size) == MILLPOND_OK) return IOStatus::OK();
    }
    return target()->GetFileSize(path, options, size, debug);
  }

  IOStatus GetChildrenFileAttributes(const std::string& directory, const IOOptions& options,
                                     std::vector<FileAttributes>* result, IODebugContext* debug) override {
    // By GetFileSize of this one.
    return FileSystem::GetChildrenFileAttributes(directory, options, result, debug);
  }

  // Data before names: who finds the file by its new name, in this process or after its end, finds its bytes.
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    IOStatus status = WriteOut(from);
    if (status.ok()) status = target()->RenameFile(from, to, options, debug);
    if (!status.ok()) return status;
    std::lock_guard<std::mutex> lock(mutex_);
    auto writing = writing_.find(from);
    if (writing != writing_.end()) {
      writing_[to] = std::move(writing->second);
      writing_.erase(from);
    }
    return status;
  }

  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* debug) override {
    IOStatus status = WriteOut(from);
    return status.ok() ? target()->LinkFile(from, to, options, debug) : status;
  }

#if ROCKSDB_MAJOR >= 8
  // Requests that a caller polls for are the file system's below, and these files are not.
  void SupportedOps(int64_t& supported) override {
    target()->SupportedOps(supported);
    supported &= ~(int64_t{1} << FSSupportedOps::kAsyncIO);
  }
#endif

 private:
  // A program that wants a map of a file has the kernel's.
  static bool IsCached(const std::string& path, const FileOptions& options) {
    return !options.use_mmap_reads && !options.use_mmap_writes && IsOurs(path);
  }

  static bool IsOurs(const std::string& path) {
    for (const char* end : {".sst", ".blob", ".log"}) {
      const Slice suffix(end);
      if (path.size() > suffix.size() && Slice(path).ends_with(suffix)) return true;
    }
    return false;
  }

  IOStatus Open(const std::string& path, uint32_t flags, FilePtr* file) {
    millpond_file_options options{};
    options.size = sizeof options;
    options.flags = flags;
    options.mode = 0644;
    auto opened = std::make_shared<File>();
    opened->cache = cache_;
    millpond_code code = millpond_open(cache_->handle, path.c_str(), &options, &opened->handle);
    if (code == MILLPOND_OK) *file = std::move(opened);
    return Failed(code);
  }

  template <typename Mine, typename Theirs>
  IOStatus Opened(const std::string& path, uint32_t flags, std::unique_ptr<Theirs>* file) {
    FilePtr opened;
    IOStatus status = Open(path, flags, &opened);
    if (status.ok()) *file = std::make_unique<Mine>(std::move(opened));
    return status;
  }

  IOStatus OpenedToWrite(const std::string& path, uint32_t flags, bool at_end, const FileOptions& options,
                         std::unique_ptr<FSWritableFile>* file) {
    FilePtr opened;
    uint64_t size = 0;
    IOStatus status = Open(path, flags, &opened);
    if (status.ok() && at_end) status = Failed(millpond_file_len(opened->handle, &size));
    if (!status.ok()) return status;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (auto it = writing_.begin(); it != writing_.end();) {
        it = it->second.expired() ? writing_.erase(it) : std::next(it);
      }
      writing_[path] = opened;
    }
    *file = std::make_unique<WritableFile>(std::move(opened), size, options);
    return status;
  }

  // The file, as somebody writes it at present. Another handle, for its writer may close its own meanwhile.
  FilePtr Writing(const std::string& path) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      auto writing = writing_.find(path);
      if (writing == writing_.end() || writing->second.expired()) return nullptr;
    }
    FilePtr file;
    return Open(path, 0, &file).ok() ? file : nullptr;
  }

  IOStatus WriteOut(const std::string& path) {
    FilePtr file = Writing(path);
    if (file == nullptr) return IOStatus::OK();
    file.reset();
    IOStatus status = Open(path, MILLPOND_OPEN_WRITE, &file);
    return status.ok() ? Failed(millpond_file_write_out(file->handle)) : status;
  }

  const std::string uri_;
  const std::shared_ptr<Cache> cache_;
  std::mutex mutex_;
  // Files that are open for writing, by name.
  std::map<std::string, std::weak_ptr<File>> writing_;
};

// What a URI says, in its order.
IOStatus Settings(const std::string& uri, std::vector<std::pair<std::string, std::string>>* settings) {
  const std::string start = std::string(kScheme) + "://";
  if (uri != kScheme && uri.compare(0, start.size(), start) != 0) {
    return IOStatus::InvalidArgument(uri, "a URI of Millpond begins with " + start);
  }
  std::string rest = uri.size() > start.size() ? uri.substr(start.size()) : "";
  if (rest.empty()) return IOStatus::OK();
  if (rest[0] != '?') {
    return IOStatus::InvalidArgument(uri, "after " + start + " comes ?name=value, and no path: the database's own is taken");
  }
  rest += '&';
  for (size_t from = 1, to; (to = rest.find('&', from)) != std::string::npos; from = to + 1) {
    const std::string part = rest.substr(from, to - from);
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return IOStatus::InvalidArgument(uri, "\"" + part + "\" is not name=value, such as memory=1G");
    }
    settings->emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return IOStatus::OK();
}

IOStatus NewCache(const std::string& uri, const millpond_faults* faults, std::shared_ptr<Cache>* cache) {
  std::vector<std::pair<std::string, std::string>> settings;
  IOStatus status = Settings(uri, &settings);
  if (!status.ok()) return status;
  std::string name = "rocksdb";
  uint64_t memory = uint64_t{256} << 20;
  std::vector<const char*> names, values;
  for (const auto& [key, value] : settings) {
    // It is set below, from the least that a cache has.
    if (key == "memory") memory = uint64_t{2} << 20;
    if (key == "name") {
      name = value;
      continue;
    }
    names.push_back(key == "read_latency" ? "admission.read_latency" : key.c_str());
    values.push_back(value.c_str());
  }
  millpond_cache_options options{};
  options.size = sizeof options;
  options.memory = memory;
  options.flags = MILLPOND_CACHE_CONTROL;
  options.name = name.c_str();
  options.faults = faults;
  auto made = std::make_shared<Cache>();
  millpond_code code = millpond_cache_new(&options, &made->handle);
  if (code == MILLPOND_OK && !names.empty()) {
    code = millpond_cache_set(made->handle, names.data(), values.data(), names.size());
  }
  if (code != MILLPOND_OK) return IOStatus::InvalidArgument(uri, millpond_error_message());
  *cache = std::move(made);
  return IOStatus::OK();
}

}  // namespace

IOStatus NewFileSystem(const std::string& uri, std::unique_ptr<FileSystem>* file_system,
                       const millpond_faults* faults) {
  static std::mutex mutex;
  static auto* caches = new std::map<std::string, std::weak_ptr<Cache>>();
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Cache> cache = faults == nullptr ? (*caches)[uri].lock() : nullptr;
  if (cache == nullptr) {
    IOStatus status = NewCache(uri, faults, &cache);
    if (!status.ok()) return status;
    if (faults == nullptr) (*caches)[uri] = cache;
  }
  *file_system = std::make_unique<MillpondFileSystem>(uri, std::move(cache));
  return IOStatus::OK();
}

namespace {

__attribute__((constructor)) void Register() {
  ObjectLibrary::Default()->AddFactory<FileSystem>(
      ObjectLibrary::PatternEntry(kScheme).AddSeparator("://", false),
      [](const std::string& uri, std::unique_ptr<FileSystem>* guard, std::string* message) -> FileSystem* {
        IOStatus status = NewFileSystem(uri, guard);
        if (!status.ok()) *message = status.ToString();
        return guard->get();
      });
}

}  // namespace
}  // namespace rocksdb_millpond
