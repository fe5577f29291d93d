// A database on Millpond: written, compacted, opened again, copied, killed, and on a disk that fails.
//
//   test FOLDER            all of it
//   test FOLDER kills N    programs that are killed, so many times
//   test FOLDER writer     writes until it is killed, and says what is durable

#include "millpond_file_system.h"

#include <millpond.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/utilities/backup_engine.h>
#include <rocksdb/utilities/checkpoint.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

using namespace ROCKSDB_NAMESPACE;

namespace {

constexpr char kUri[] = "millpond://?memory=16M&name=test";

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                  \
    }                                                                                \
  } while (false)

#define OK(call)                                                                              \
  do {                                                                                        \
    const auto status = (call);                                                               \
    if (!status.ok()) {                                                                       \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, status.ToString().c_str()); \
      std::exit(1);                                                                           \
    }                                                                                         \
  } while (false)

std::string Key(int n) {
  char key[16];
  std::snprintf(key, sizeof key, "key%08d", n);
  return key;
}

Options SmallOptions(Env* env) {
  Options options;
  options.env = env;
  options.create_if_missing = true;
  options.write_buffer_size = 256 << 10;
  options.target_file_size_base = 256 << 10;
  options.max_bytes_for_level_base = 1 << 20;
  options.compression = kNoCompression;
  options.recycle_log_file_num = 2;
  options.bytes_per_sync = 64 << 10;
  return options;
}

std::unique_ptr<DB> Open(const Options& options, const std::string& path) {
  DB* db = nullptr;
  OK(DB::Open(options, path, &db));
  return std::unique_ptr<DB>(db);
}

// By reads of a user and of a background task.
void CheckContent(DB* db, const std::map<std::string, std::string>& expected) {
  for (Env::IOPriority priority : {Env::IO_TOTAL, Env::IO_LOW}) {
    ReadOptions options;
    options.rate_limiter_priority = priority;
    std::unique_ptr<Iterator> it(db->NewIterator(options));
    auto at = expected.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++at) {
      CHECK(at != expected.end());
      CHECK(it->key() == at->first);
      CHECK(it->value() == at->second);
    }
    OK(it->status());
    CHECK(at == expected.end());
  }
}

// Bytes that the files with this ending have blocks for.
uint64_t Allocated(const std::string& path, const std::string& end) {
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(path)) {
    struct stat found {};
    if (file.path().extension() == end && stat(file.path().c_str(), &found) == 0) bytes += found.st_blocks * 512;
  }
  return bytes;
}

// A log has its blocks before it is written, and gives back what it does not need.
void Preallocation(Options options, const std::string& path) {
  options.recycle_log_file_num = 0;
  options.write_buffer_size = 8 << 20;
  OK(DestroyDB(path, options));
  std::unique_ptr<DB> db = Open(options, path);
  OK(db->Put(WriteOptions(), Key(0), "value"));
  CHECK(Allocated(path, ".log") >= 8 << 20);
  db.reset();
  CHECK(Allocated(path, ".log") < 1 << 20);
}

// Overwritten, deleted and compacted, with the database opened again now and then.
std::map<std::string, std::string> Change(const Options& options, const std::string& path) {
  std::map<std::string, std::string> expected;
  std::mt19937 random(7);
  for (int round = 0; round < 4; round++) {
    std::unique_ptr<DB> db = Open(options, path);
    CheckContent(db.get(), expected);
    for (int n = 0; n < 6000; n++) {
      std::string key = Key(static_cast<int>(random() % 5000));
      if (random() % 8 == 0) {
        OK(db->Delete(WriteOptions(), key));
        expected.erase(key);
      } else {
        std::string value(random() % 400, static_cast<char>('a' + random() % 26));
        OK(db->Put(WriteOptions(), key, value));
        expected[key] = value;
      }
    }
    std::vector<std::string> keys;
    for (int n = 0; n < 100; n++) keys.push_back(Key(static_cast<int>(random() % 5000)));
    std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<std::string> values;
    std::vector<Status> got = db->MultiGet(ReadOptions(), slices, &values);
    for (size_t n = 0; n < keys.size(); n++) {
      auto known = expected.find(keys[n]);
      CHECK(known == expected.end() ? got[n].IsNotFound() : got[n].ok() && values[n] == known->second);
    }
    if (round % 2 == 1) OK(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
    CheckContent(db.get(), expected);
  }
  return expected;
}

void Copies(const Options& options, const std::string& path, const std::map<std::string, std::string>& expected) {
  std::unique_ptr<DB> db = Open(options, path);
  Checkpoint* checkpoint = nullptr;
  OK(Checkpoint::Create(db.get(), &checkpoint));
  OK(checkpoint->CreateCheckpoint(path + "-checkpoint"));
  delete checkpoint;
  BackupEngine* backup = nullptr;
  OK(BackupEngine::Open(options.env, BackupEngineOptions(path + "-backup"), &backup));
  OK(backup->CreateNewBackup(db.get(), true));
  OK(backup->VerifyBackup(1, true));
  OK(backup->RestoreDBFromLatestBackup(path + "-restored", path + "-restored"));
  delete backup;
  db.reset();
  CheckContent(Open(options, path + "-checkpoint").get(), expected);
  CheckContent(Open(options, path + "-restored").get(), expected);
  // And by those who have no cache: all of it is in the files.
  Options plain = options;
  plain.env = Env::Default();
  CheckContent(Open(plain, path).get(), expected);
}

// Writers of the killed program: each has its own keys, and writes them in turn, again and again.
constexpr uint64_t kWriters = 4, kKeysEach = 500;

// Says which writer, and how many of its writes are durable.
struct Durable {
  uint64_t writer, count;
};

std::string KeyOf(uint64_t writer, uint64_t nth) { return Key(static_cast<int>(writer * kKeysEach + nth % kKeysEach)); }

std::string ValueOf(uint64_t writer, uint64_t nth) {
  std::mt19937_64 random(writer << 48 | nth);
  std::string value = std::to_string(nth) + ' ';
  return value + std::string(100 + random() % 2000, static_cast<char>('a' + random() % 26));
}

// The write that a value is of; 0: there is none. Ends the test if it is of no write.
uint64_t WriteOf(DB* db, uint64_t writer, uint64_t nth) {
  std::string value;
  const Status got = db->Get(ReadOptions(), KeyOf(writer, nth), &value);
  if (got.IsNotFound()) return 0;
  OK(got);
  const uint64_t found = std::stoull(value);
  CHECK(value == ValueOf(writer, found));
  return found;
}

// Goes on after the writes that are there, until it is killed.
int Writer(const Options& options, const std::string& path) {
  std::unique_ptr<DB> db = Open(options, path);
  std::vector<std::thread> threads;
  for (uint64_t writer = 0; writer < kWriters; writer++) {
    threads.emplace_back([&db, writer] {
      uint64_t nth = 0;
      for (uint64_t key = 0; key < kKeysEach; key++) nth = std::max(nth, WriteOf(db.get(), writer, key));
      WriteOptions durable;
      durable.sync = true;
      for (;;) {
        nth++;
        OK(db->Put(durable, KeyOf(writer, nth), ValueOf(writer, nth)));
        const Durable said{writer, nth};
        CHECK(write(STDOUT_FILENO, &said, sizeof said) == sizeof said);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 1;
}

// A killed program has lost no write that it was told is durable, and each value is one that was written, whole.
void Kills(const char* program, const Options& options, const std::string& path, int kills) {
  OK(DestroyDB(path, options));
  std::mt19937 random(11);
  uint64_t durable[kWriters] = {}, total = 0;
  for (int n = 0; n < kills; n++) {
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      dup2(pipes[1], STDOUT_FILENO);
      close(pipes[0]);
      close(pipes[1]);
      execl(program, program, path.c_str(), "writer", nullptr);
      _exit(127);
    }
    close(pipes[1]);
    // Some time within flushes and compactions: a log has 256 KiB, some 250 writes.
    uint64_t left = 1 + random() % 1500;
    Durable said{};
    while (read(pipes[0], &said, sizeof said) == sizeof said) {
      CHECK(said.writer < kWriters && said.count > durable[said.writer]);
      total += said.count - durable[said.writer];
      durable[said.writer] = said.count;
      if (left > 0 && --left == 0) kill(child, SIGKILL);
    }
    close(pipes[0]);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) && left == 0);
    std::unique_ptr<DB> db = Open(options, path);
    for (uint64_t writer = 0; writer < kWriters; writer++) {
      const uint64_t count = durable[writer];
      for (uint64_t key = 1; key <= kKeysEach; key++) {
        // The last write of this key among those, or the one that was under way.
        const uint64_t last = key > count ? 0 : count - (count - key) % kKeysEach;
        const uint64_t found = WriteOf(db.get(), writer, key);
        CHECK(found == last || (found == count + 1 && (found - key) % kKeysEach == 0));
        if (found > count) durable[writer] = found;
      }
    }
  }
  std::printf("%d kills, %llu durable writes, none lost\n", kills, static_cast<unsigned long long>(total));
}

// A full disk is an error of the call, and once there is room the database goes on with all that it had accepted.
void FullDisk(const std::string& path) {
  millpond_faults* faults = nullptr;
  CHECK(millpond_faults_new(1, &faults) == MILLPOND_OK);
  std::unique_ptr<FileSystem> file_system;
  OK(rocksdb_millpond::NewFileSystem(kUri, &file_system, faults));
  std::unique_ptr<Env> env = NewCompositeEnv(std::shared_ptr<FileSystem>(std::move(file_system)));
  Options options = SmallOptions(env.get());
  std::unique_ptr<DB> db = Open(options, path);
  std::map<std::string, std::string> expected;
  WriteOptions durable;
  durable.sync = true;
  auto put = [&](int n) {
    std::string value(1000, static_cast<char>('a' + n % 26));
    Status status = db->Put(durable, Key(n), value);
    if (status.ok()) expected[Key(n)] = value;
    return status;
  };
  for (int n = 0; n < 100; n++) OK(put(n));
  millpond_fault fault{};
  fault.size = sizeof fault;
  fault.target = static_cast<uint32_t>(MILLPOND_FAULT_WRITES);
  fault.error = ENOSPC;
  CHECK(millpond_faults_add(faults, &fault) == MILLPOND_OK);
  Status refused = put(100);
  CHECK(!refused.ok());
  CHECK(refused.IsNoSpace());
  CHECK(refused.ToString().find("No space left") != std::string::npos);
  CHECK(millpond_faults_clear(faults) == MILLPOND_OK);
  // Until it has resumed by itself, or now.
  Status resumed = db->Resume();
  CHECK(resumed.ok() || resumed.IsBusy());
  for (int n = 101; n < 1000; n++) {
    for (int tries = 0; !put(n).ok(); tries++) {
      CHECK(tries < 600);
      usleep(100000);
    }
  }
  // The refused one may be there or not.
  std::string value;
  if (db->Get(ReadOptions(), Key(100), &value).ok()) expected[Key(100)] = value;
  CheckContent(db.get(), expected);
  db.reset();
  db = Open(options, path);
  CheckContent(db.get(), expected);
  db.reset();
  millpond_faults_drop(faults);
}

void Uris() {
  std::unique_ptr<FileSystem> file_system;
  for (const char* wrong : {"millpond://path", "millpond://?memory", "millpond://?=1", "millpond://?memory=1Q",
                            "millpond://?memory=5", "millpond://?no.such=1"}) {
    IOStatus status = rocksdb_millpond::NewFileSystem(wrong, &file_system);
    CHECK(status.IsInvalidArgument());
    std::printf("refused: %s\n", status.ToString().c_str());
  }
  OK(rocksdb_millpond::NewFileSystem("millpond://?memory=8M&read_latency=2ms&dirty.background=1M", &file_system));
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [writer | kills N]\n", arguments[0]);
    return 2;
  }
  const std::string path = arguments[1];
  Env* env = nullptr;
  std::shared_ptr<Env> guard;
  OK(Env::CreateFromUri(ConfigOptions(), "", kUri, &env, &guard));
  Options options = SmallOptions(env);
  const std::string mode = count > 2 ? arguments[2] : "";
  if (mode == "writer") return Writer(options, path);
  if (mode == "kills") {
    Kills(arguments[0], options, path, count > 3 ? std::atoi(arguments[3]) : 100);
    return 0;
  }
  for (const char* of : {"", "-checkpoint", "-backup", "-restored", "-full"}) std::filesystem::remove_all(path + of);
  Uris();
  Preallocation(options, path);
  OK(DestroyDB(path, options));
  Copies(options, path, Change(options, path));
  Kills(arguments[0], options, path, 4);
  FullDisk(path + "-full");
  std::puts("all is well");
  return 0;
}
