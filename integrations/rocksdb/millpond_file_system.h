// RocksDB on Millpond: a FileSystem whose tables, blobs and logs are in a Millpond cache.
//
// Loading librocksdb_millpond.so registers it, so `--fs_uri=millpond://?memory=1G`, Env::CreateFromUri and OPTIONS files find
// it. A program that links the library may also make one itself.

#pragma once

#include <rocksdb/file_system.h>

#include <memory>
#include <string>

struct millpond_faults;

namespace rocksdb_millpond {

// The file system of a URI, `millpond://[?name=value[&name=value ...]]`. Equal URIs share one cache, and its budget, for as
// long as one of their file systems or files lives.
//
//   memory        the budget: bytes, 512M, 10%, auto:256M..4G; default 256M
//   read_latency  what 99 of 100 reads beside writers should not exceed, as 2ms; default: measured
//   name          what `millpond top` and `millpond stat` call the cache; default rocksdb
//   any setting   of docs/CONTROL.md, as dirty.background=64M
//
// InvalidArgument says which part of the URI is wrong, and what is allowed. `faults`, for tests: a disk that fails
// (millpond_faults_new); the cache is no one else's then.
ROCKSDB_NAMESPACE::IOStatus NewFileSystem(const std::string& uri,
                                          std::unique_ptr<ROCKSDB_NAMESPACE::FileSystem>* file_system,
                                          const millpond_faults* faults = nullptr);

}  // namespace rocksdb_millpond
