/* Millpond: a page cache and memory manager that lives in your process. Its interface for C and C++.
 *
 * Made by cbindgen from crates/millpond-capi: change it there. C99 and later, C++11 and later; millpond.hpp has classes.
 * docs/C.md is the introduction, docs/SEMANTICS.md what each call promises when it returns, fails, or the machine stops.
 *
 *   struct millpond_cache_options options = {0};      // = {} in C++
 *   millpond_cache *cache;
 *   options.size = sizeof options;
 *   options.memory = 64 << 20;
 *   if (millpond_cache_new(&options, &cache) != MILLPOND_OK)
 *       fprintf(stderr, "%s\n", millpond_error_message());
 *
 * For all calls:
 *
 * Result   MILLPOND_OK or what went wrong, as a millpond_code. After an error the thread finds the full text in
 *          millpond_error_message() and a number of errno.h in millpond_error_errno(), and no output argument is
 *          written, unless a call says so.
 * Handles  are the caller's until the call that closes or drops them. Any thread may use them at any time, but no thread may
 *          close one that another thread's call uses. A closed one is MILLPOND_HANDLE, as long as the library can tell.
 * Memory   behind a pointer is used during the call only; what is kept longer has `kept` in its name or says so.
 *          Texts are UTF-8, paths are bytes; both end with a zero byte.
 * Structs  that begin with `size` may grow: set them to zero, then `size` to sizeof. An older library takes a larger one
 *          as long as what it does not know is zero.
 * Waiting  The table in docs/SEMANTICS.md says what each call can wait for, and what ends the wait.
 * Signals  Make no call in a signal handler. A forked child may make no call with its parent's handles.
 * Cancel   A cancelled thread (pthread_cancel) ends before a call or after it, never within: each call is a cancellation
 *          point at its start, except millpond_page_get and millpond_page_put. What it holds then stays held: put pages in
 *          a handler of pthread_cleanup_push. Asynchronous cancellation is not for threads that make calls.
 * Panics   do not leave the library: MILLPOND_PANIC. A callback must not leave by longjmp or an exception.
 *
 * Hits, which are reads of pages in memory, take no lock, make no system call and allocate nothing. */


#ifndef MILLPOND_H
#define MILLPOND_H

#include <stddef.h>
#include <stdint.h>

/* Handles. */
typedef struct millpond_cache millpond_cache;         /* a budget and its contents */
typedef struct millpond_file millpond_file;           /* a file in a cache */
typedef struct millpond_map millpond_map;             /* a mapped file */
typedef struct millpond_region millpond_region;       /* memory beyond RAM, with a swap file */
typedef struct millpond_log millpond_log;             /* how far a log is durable */
typedef struct millpond_check millpond_check;         /* checksums of pages */
typedef struct millpond_faults millpond_faults;       /* a disk that fails, for tests */
typedef struct millpond_recording millpond_recording; /* a trace being written */


// The version of this header, for `#if`; `millpond_version` has that of the running library.
#define MILLPOND_VERSION_MAJOR 0

// The second number of this header's version.
#define MILLPOND_VERSION_MINOR 1

// The third number of this header's version.
#define MILLPOND_VERSION_PATCH 0

// The version of this header as one number: 10000 for each MAJOR, 100 for each MINOR, 1 for each PATCH.
#define MILLPOND_VERSION_NUMBER 100

// millpond_cache_options.flags: frames get their memory at first use, rather than when the cache is made.
#define MILLPOND_CACHE_LAZY 1

// millpond_cache_options.flags: allow a budget above what a control group or the machine allows.
#define MILLPOND_CACHE_BEYOND_LIMIT 2

// millpond_cache_options.flags: `millpond stat`, `top`, `set` and `record` of the same user find the cache, through a
// socket among the user's run-time files. Costs a thread, which sleeps.
#define MILLPOND_CACHE_CONTROL 4

// millpond_cache_options.flags: the swap file has no name, and is gone with the cache.
#define MILLPOND_CACHE_SWAP_UNLINKED 8

// millpond_cache_options.flags: files can be mapped, with millpond_map_new. Frames are in small pages then, and hits over more
// than 1 GiB take longer.
#define MILLPOND_CACHE_MAPPINGS 16

// millpond_file_options.flags: for writing as well.
#define MILLPOND_OPEN_WRITE 1

// millpond_file_options.flags: for writing, and a file that is missing is made.
#define MILLPOND_OPEN_CREATE 2

// millpond_file_options.flags: for writing, and the file must be missing and is made.
#define MILLPOND_OPEN_CREATE_NEW 4

// millpond_file_options.flags: a file that exists is cut to no bytes.
#define MILLPOND_OPEN_TRUNCATE 8

// millpond_file_options.flags: the file is locked (F_OFD_SETLK) until its last handle is closed.
#define MILLPOND_OPEN_EXCLUSIVE 16

// millpond_file_options.flags: also if another cache of the process writes the file. The program keeps the two apart.
#define MILLPOND_OPEN_BESIDE_OTHER_CACHES 32

// millpond_map_new: the memory can be written, and what is stored there is the file's.
#define MILLPOND_MAP_WRITABLE 1

// millpond_map_new: the thread that touches a page serves its fault, in a SIGBUS handler. System calls that get absent
// memory then fail with EFAULT; without the flag they fail only if a notice says so.
#define MILLPOND_MAP_IN_THREAD 2

// millpond_region_new: the thread that touches a page serves its fault, in a SIGBUS handler.
#define MILLPOND_REGION_IN_THREAD 1

// The size of the buffer for a check's text, in bytes.
#define MILLPOND_CHECK_WHY 256

// What every call returns: MILLPOND_OK, or what went wrong. millpond_error_message() says more, millpond_error_errno() is
// the number that a system call would have given. Codes may be added; the numbers of these stay.
enum millpond_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done.
    MILLPOND_OK = 0,
    // A bad argument: NULL, the size of a struct, an option or setting out of its range (EINVAL).
    MILLPOND_INVALID = 1,
    // A handle that is already closed, or of another kind; a page that is not held (EBADF).
    MILLPOND_HANDLE = 2,
    // The budget is above a limit, or too small (ENOMEM, EINVAL).
    MILLPOND_MEMORY = 3,
    // The file can't be opened (the system's number).
    MILLPOND_OPEN = 4,
    // An offset, page or range that is impossible, or outside the file or region (EINVAL, EFBIG).
    MILLPOND_RANGE = 5,
    // The file ends before the requested bytes do (ENODATA). The buffer is undefined.
    MILLPOND_END_OF_FILE = 6,
    // The file can't have this length (EFBIG, ENOSPC, EINVAL). Nothing was changed.
    MILLPOND_TOO_LONG = 7,
    // The handle or mapping is for reading only (EBADF).
    MILLPOND_READ_ONLY = 8,
    // The device could not read (its number). A later read tries again.
    MILLPOND_READ = 9,
    // The device could not write (its number, such as ENOSPC or EIO). The changes stay in memory and are tried again, and
    // every sync fails until they are written or discarded.
    MILLPOND_WRITE = 10,
    // Bytes are lost that could not be kept in memory (the device's number).
    MILLPOND_LOST = 11,
    // A page differs from what was written, according to the file's check (EBADMSG).
    MILLPOND_CHECK = 12,
    // The log that pages wait for can't be made durable (the callback's number). The changes stay in memory.
    MILLPOND_LOG = 13,
    // The device could not make durable what it had taken (its number): close the file, open it again and check it.
    MILLPOND_SYNC = 14,
    // No frame became free, because too many pages are held (ENOMEM).
    MILLPOND_NO_FRAMES = 15,
    // The call would wait for a page that the calling thread has got and not put (EDEADLK).
    MILLPOND_OWN_GUARD = 16,
    // The cache is unusable, because one of its threads has died (EIO).
    MILLPOND_POISONED = 17,
    // The cache belongs to the parent of this forked process (EIO).
    MILLPOND_FORKED = 18,
    // There is no swap file, or it can't be used, or is too small (EINVAL, ENOMEM, the system's number).
    MILLPOND_SWAP = 19,
    // The system refused a thread, memory, or a socket (the system's number).
    MILLPOND_SETUP = 20,
    // The recording failed (the system's number).
    MILLPOND_TRACE = 21,
    // Not at once: the page is not in memory, or another thread has it (EAGAIN).
    MILLPOND_NOT_NOW = 22,
    // The buffer for a text is too small (ERANGE).
    MILLPOND_BUFFER = 23,
    // A bug in the library; its work may be done, in part or not at all (EIO). Please report the message.
    MILLPOND_PANIC = 24,
    // Anything else (EIO, or the system's number).
    MILLPOND_OTHER = 25,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum millpond_code millpond_code;
#else
typedef uint32_t millpond_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What happens when a page is changed while it is being written.
enum millpond_stable_pages
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // As the file needs it: COPY with a log or a check, else OFF.
    MILLPOND_STABLE_DEFAULT = 0,
    // The device may get a mixture, which a later write replaces.
    MILLPOND_STABLE_OFF = 1,
    // The device gets a copy.
    MILLPOND_STABLE_COPY = 2,
    // The changer waits for the write.
    MILLPOND_STABLE_WAIT = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum millpond_stable_pages millpond_stable_pages;
#else
typedef uint32_t millpond_stable_pages;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a file will be used: speed, nothing else.
enum millpond_advice
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Find out.
    MILLPOND_ADVICE_NORMAL = 0,
    // Never read ahead.
    MILLPOND_ADVICE_RANDOM = 1,
    // Read ahead with the largest window at once.
    MILLPOND_ADVICE_SEQUENTIAL = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum millpond_advice millpond_advice;
#else
typedef uint32_t millpond_advice;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a part of a mapping will be used. millpond_file_advise is for the whole file.
enum millpond_map_advice
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Needed soon: it is read in the background.
    MILLPOND_MAP_WILL_NEED = 0,
    // Not needed soon: the mapping gives the memory back. Stored data and the content stay.
    MILLPOND_MAP_DONT_NEED = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum millpond_map_advice millpond_map_advice;
#else
typedef uint32_t millpond_map_advice;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a part of a region will be used.
enum millpond_region_advice
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Needed soon: it is read in the background.
    MILLPOND_REGION_WILL_NEED = 0,
    // Its content may be discarded until it is next touched.
    MILLPOND_REGION_FREE = 1,
    // It reads as zeros from now on, and takes neither memory nor swap.
    MILLPOND_REGION_DONT_NEED = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum millpond_region_advice millpond_region_advice;
#else
typedef uint32_t millpond_region_advice;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The operations that a fault affects.
enum millpond_fault_target
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Reads.
    MILLPOND_FAULT_READS = 0,
    // Writes.
    MILLPOND_FAULT_WRITES = 1,
    // Syncs.
    MILLPOND_FAULT_SYNCS = 2,
    // Changes of a file's length.
    MILLPOND_FAULT_LENGTHS = 3,
    // Ranges that are allocated ahead.
    MILLPOND_FAULT_ALLOCATIONS = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum millpond_fault_target millpond_fault_target;
#else
typedef uint32_t millpond_fault_target;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Receives a message of the cache: one sentence without a line break, valid during the call. It may be called by
// any thread, and by several at once; it should note the text and return, and must neither use the cache nor wait for a
// thread that is in a call of the library.
typedef void (*millpond_hook)(void *kept_user, const char *text);

// How a cache is made. Set all of it to zero, then `size` and what differs from the default:
// `struct millpond_cache_options o = {0}; o.size = sizeof o; o.memory = 256 << 20;`, with `= {}` in C++.
struct millpond_cache_options {
    // sizeof(struct millpond_cache_options).
    size_t size;
    // The budget in bytes, for pages, metadata and transfers together. 0: 64 MiB.
    uint64_t memory;
    // If not 0, the budget follows the host's memory between `memory` and this many bytes. Costs a thread.
    uint64_t memory_max;
    // The page size in bytes: a power of two from 4096 to 65536. 0: 4096.
    uint64_t page_size;
    // The latency that 99 of 100 reads should not exceed beside writers, in nanoseconds, 50 us to 10 s. 0: measured.
    uint64_t read_latency_goal_ns;
    // MILLPOND_CACHE_... flags.
    uint32_t flags;
    // 0.
    uint32_t reserved;
    // A named set of options, such as "millpond" or "linux-5". NULL: "millpond".
    const char *preset;
    // The cache's name where several are listed. NULL: none.
    const char *name;
    // The swap file, for pages of regions that memory has no room for. NULL: the cache has no regions.
    const char *swap_path;
    // The size of the swap file in bytes.
    uint64_t swap_bytes;
    // Receives what a user should know though no call fails, such as a device that does not answer. NULL: standard
    // error.
    millpond_hook on_warning;
    // Receives what the cache must do without on this host, each message once. NULL: standard error.
    millpond_hook on_notice;
    // Passed to both hooks, and kept as long as the cache: until the handles of the cache and of all its files and
    // regions are closed. The last of these calls waits for a running hook, and no hook begins once it has returned.
    void *kept_user;
    // Faults for tests, which the cache keeps until it is closed. NULL: none.
    const millpond_faults *faults;
};

// How full a cache is, and what it has done, at one moment. Counters only grow: read them twice and subtract.
// Set `size`, then call millpond_cache_stats. millpond_cache_stats_text has all figures.
struct millpond_stats {
    // sizeof(struct millpond_stats), set by the caller and left as it is.
    size_t size;
    // The budget, in bytes.
    uint64_t memory_bytes;
    // Bytes of metadata within the budget.
    uint64_t metadata_bytes;
    // Frames of the pool, each of one page.
    uint64_t frames;
    // Frames that hold nothing.
    uint64_t frames_free;
    // Pages that the device lacks.
    uint64_t pages_dirty;
    // Pages being written.
    uint64_t pages_writing;
    // Dirty pages that the device has refused.
    uint64_t pages_failed;
    // Pages of files that calls have requested.
    uint64_t page_requests;
    // Pages of files that were read from their device, read ahead or not.
    uint64_t page_misses;
    // Pages that became dirty.
    uint64_t pages_dirtied;
    // Pages written to the device.
    uint64_t pages_written;
    // Writes of a page that have failed.
    uint64_t page_writes_failed;
    // Calls that had to pause because too much was dirty.
    uint64_t dirty_pauses;
    // Calls that waited for a frame.
    uint64_t frame_waits;
    // The longest current wait for a page that another thread holds, in nanoseconds.
    uint64_t guard_wait_ns;
    // The longest current wait for a log, in nanoseconds.
    uint64_t log_wait_ns;
    // The median latency of the last seconds' reads that a thread waited for, in nanoseconds; 0 if there were none.
    uint64_t read_p50_ns;
    // Pages of regions in the swap file.
    uint64_t swap_pages_used;
    // Pages that the swap file can hold.
    uint64_t swap_pages;
    // Warnings given.
    uint64_t warnings;
};

// How a file is opened. Set all of it to zero, then `size` and what is to be other than the default.
struct millpond_file_options {
    // sizeof(struct millpond_file_options).
    size_t size;
    // MILLPOND_OPEN_... flags. 0: for reading a file that exists.
    uint32_t flags;
    // The permissions of a file that is made, less the umask. 0: 0666.
    uint32_t mode;
    // A millpond_stable_pages. This, `log` and `check` are the file's, as its first handle gives them; later ones give
    // nothing, or the same.
    uint32_t stable_pages;
    // 0.
    uint32_t reserved;
    // The log that pages with an order wait for. The file keeps it until it is closed. NULL: none.
    const millpond_log *log;
    // Looks at every page when it is written and when it is read. The file keeps it. NULL: none.
    const millpond_check *check;
};

// A page, held for reading. It is the caller's, and its size never changes; it needs no initialisation before
// millpond_page_get. It may be moved, and put by another thread. Put it once, and no copy of it: putting two copies is
// undefined behaviour, which the library does not detect.
struct millpond_page {
    // The page's bytes, which stay where they are and as they are until millpond_page_put. NULL when it is put.
    const void *data;
    // Their number: up to the end of the file at the time of millpond_page_get.
    size_t len;
    // Private to the library.
    uint64_t held[12];
};

// A page, held for changing: no other thread sees it until it is put. Put it once, and no copy of it.
struct millpond_page_mut {
    // The page's bytes. NULL when it is put.
    void *data;
    // How many.
    size_t len;
    // Private to the library.
    uint64_t held[12];
};

// Receives bytes that stay unchanged during the call.
typedef void (*millpond_map_visit)(void *user, const void *data, size_t len);

// Makes everything durable up to record `wanted`, sets `*durable` to the last durable record, which may be later, and
// returns 0; or returns a number of errno.h, with which syncs then fail. Called on a thread of its own, one call at a
// time. It may use the cache, but not the files that wait for this log, and must not wait for a thread that is in a call of
// the library. If it drops the last handle of a file of this log, another thread closes that file soon, and may call it
// again: then `kept_user` is in use until the process ends.
typedef int (*millpond_log_flush)(void *kept_user, uint64_t wanted, uint64_t *durable);

// Page number `page` is about to be written: `data` is a private copy of the whole page, which may be stamped.
typedef void (*millpond_before_write)(void *kept_user, uint64_t page, void *data, size_t len);

// Page number `page` was read: all of it, with zeros past the end of the file and where nothing was ever written.
// Returns 0 if it is as it was written; otherwise its reader gets MILLPOND_CHECK with the text put into `why`, a
// buffer of MILLPOND_CHECK_WHY bytes.
typedef int (*millpond_after_read)(void *kept_user, uint64_t page, const void *data, size_t len, char *why);

// Callbacks for every page of a file. Both are called by whichever thread writes or reads, by several at once, and
// must not use the cache.
struct millpond_check_options {
    // sizeof(struct millpond_check_options).
    size_t size;
    // NULL: pages are written as they are.
    millpond_before_write before_write;
    // NULL: all pages are accepted.
    millpond_after_read after_read;
    // Passed to both, and kept until the check is dropped and no file has it.
    void *kept_user;
};

// A fault, and when it happens. Set all of it to zero, then `size` and the rest. The operation fails with `error`, or,
// if that is 0, is done `delay_ns` later, or, if that is 0 too, does not start until millpond_faults_release.
struct millpond_fault {
    // sizeof(struct millpond_fault).
    size_t size;
    // A millpond_fault_target.
    uint32_t target;
    // A number of errno.h, such as EIO or ENOSPC.
    int error;
    // The delay in nanoseconds.
    uint64_t delay_ns;
    // The first byte of the range that the transfer must touch.
    uint64_t start;
    // The byte after the last one. 0: any.
    uint64_t end;
    // How often it happens at most. 0: always.
    uint64_t times;
    // In how many of 100 cases it happens. 0: in all.
    uint32_t percent;
    // 0.
    uint32_t reserved;
    // Only for this file, which must exist. NULL: for all.
    const char *path;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The message of this thread's last failed call: the value, what is allowed, and the way out. Never NULL.
// Valid until the thread's next failed call. A call that succeeds leaves it as it is.
const char *millpond_error_message(void);

// The number of errno.h that a system call would have given in this case: for the last call of this thread that
// failed. 0 if none has.
int millpond_error_errno(void);

// The version of the running library, such as "0.1.0". A program compiled with a header of the same
// MAJOR.MINOR can use it (from 1.0 on: of the same MAJOR, and no newer MINOR).
const char *millpond_version(void);

// Makes a cache and starts its thread. `options` may be NULL, for the defaults. The caller owns `*cache` and closes it
// with millpond_cache_close. Any thread may use it at any time.
//
// MILLPOND_INVALID and MILLPOND_MEMORY say what is possible, and take no memory; MILLPOND_SETUP, MILLPOND_SWAP.
// Takes 0.1 s for 512 MiB.
millpond_code millpond_cache_new(const struct millpond_cache_options *options,
                                 millpond_cache **cache);

// Closes the handle. The cache ends with the last of its open files and regions. No call reports what these lose from
// then on, as millpond_cache_take_lost has no handle: close the cache last, or close files by millpond_file_close.
millpond_code millpond_cache_close(millpond_cache *cache);

// Makes durable everything written to any open file before. Tries all files, and returns the first error: as
// millpond_file_sync.
millpond_code millpond_cache_sync_all(millpond_cache *cache);

// Reports data lost because the last handle of a file was dropped before it could be written: one error a call, oldest
// first, as the call's own code and message. MILLPOND_OK if none is left.
millpond_code millpond_cache_take_lost(millpond_cache *cache);

// Gives the cache another budget, in bytes. Excess memory goes back as pages can be evicted; until then the cache is
// over its budget. MILLPOND_MEMORY changes nothing.
millpond_code millpond_cache_set_memory(millpond_cache *cache,
                                        uint64_t bytes);

// The budget in bytes.
millpond_code millpond_cache_memory(const millpond_cache *cache, uint64_t *bytes);

// Changes settings while the cache runs, by name, as `millpond set` does: all of them, or with an error none.
// `names[i]` gets `values[i]`, for `count` of them: "dirty.background" and "64M".
//
// MILLPOND_INVALID says what is allowed. docs/CONTROL.md lists the settings.
millpond_code millpond_cache_set(millpond_cache *cache,
                                 const char *const *names,
                                 const char *const *values,
                                 size_t count);

// The value of a setting, as it can be set again, with a zero byte at its end. `needed`, if not NULL, gets its length
// without that byte. MILLPOND_BUFFER if it does not fit into `size` bytes. Empty for a setting of a form that was not
// chosen.
millpond_code millpond_cache_setting(const millpond_cache *cache,
                                     const char *name,
                                     char *buffer,
                                     size_t size,
                                     size_t *needed);

// The name of setting number `index`, counted from 0; NULL after the last. Valid for ever.
const char *millpond_setting_name(size_t index);

// Fills in `*stats`, whose `size` the caller has set. Takes the core's lock for a moment.
millpond_code millpond_cache_stats(const millpond_cache *cache, struct millpond_stats *stats);

// All figures as text, one line each, name and value, as in /proc/vmstat, with a zero byte at its end. `needed`, if not
// NULL, gets its length without that byte. MILLPOND_BUFFER if it does not fit into `size` bytes: 8192 are enough.
millpond_code millpond_cache_stats_text(const millpond_cache *cache,
                                        char *buffer,
                                        size_t size,
                                        size_t *needed);

// Opens a file or block device. `options` may be NULL, for reading. The caller owns `*file` and closes it with
// millpond_file_close or millpond_file_drop. All handles of a file share its pages, by whatever name it was opened. Any
// thread may use it at any time.
//
// MILLPOND_OPEN says why not; MILLPOND_INVALID, MILLPOND_MEMORY. Takes a few system calls.
millpond_code millpond_open(millpond_cache *cache,
                            const char *path,
                            const struct millpond_file_options *options,
                            millpond_file **file);

// The same of a file that is open already. The descriptor is duplicated: it stays the caller's, and its cursor is neither
// used nor moved. For writing it must be open for reading and writing, and not for appending.
millpond_code millpond_open_fd(millpond_cache *cache,
                               int fd,
                               const struct millpond_file_options *options,
                               millpond_file **file);

// Another handle of the same file, for another owner. Close each separately.
millpond_code millpond_file_clone(const millpond_file *file, millpond_file **clone);

// Another handle of the same file, as a clone, whose reads are those of a background task: a compaction, a backup, a
// verification. They leave the device to other callers that wait for it, for half of its time at most. What they find in
// memory does not count as used, and what they bring in, with pages ahead of a sequential reader, leaves memory before other
// pages. This is about millpond_file_read_at and the calls like it; pages, mappings and writes are as of any handle.
millpond_code millpond_file_background(const millpond_file *file,
                                       millpond_file **background);

// Makes what was written durable, and closes the handle. After an error the handle is open still, and nothing is given up:
// sync again when the cause is gone, or give up with millpond_file_drop. Put all pages of the handle before.
//
// Errors as millpond_file_sync.
millpond_code millpond_file_close(millpond_file *file);

// Closes the handle without an answer. The last one of a file writes what is dirty, waits for that, and gives up what can't
// be written, which millpond_cache_take_lost tells. Put all pages of the handle before.
millpond_code millpond_file_drop(millpond_file *file);

// Copies up to `len` bytes from `offset` on into `buffer`. `*read` has how many: fewer than `len` only where the file ends.
//
// MILLPOND_READ, MILLPOND_CHECK, MILLPOND_NO_FRAMES: the buffer is undefined. A hit takes no lock and no system call;
// adjacent missing pages are one request.
millpond_code millpond_file_read_at(const millpond_file *file,
                                    void *buffer,
                                    size_t len,
                                    uint64_t offset,
                                    size_t *read);

// The same for all of `len` bytes. MILLPOND_END_OF_FILE if the file ends before that.
millpond_code millpond_file_read_exact_at(const millpond_file *file,
                                          void *buffer,
                                          size_t len,
                                          uint64_t offset);

// Copies all of `len` bytes into memory, from where the device gets them in the background; the file becomes as long as that
// needs. Later reads see them. Durable with the next sync. May pause while too much is dirty.
//
// MILLPOND_WRITE, MILLPOND_READ (a page kept in part), MILLPOND_LOG, MILLPOND_NO_FRAMES: a part may have been taken.
// MILLPOND_READ_ONLY, MILLPOND_RANGE, MILLPOND_TOO_LONG: nothing was.
millpond_code millpond_file_write_at(millpond_file *file,
                                     const void *buffer,
                                     size_t len,
                                     uint64_t offset);

// The same at the end of the file; `*offset`, if not NULL, gets where that was. Appends stand one after the other, each
// whole.
millpond_code millpond_file_append(millpond_file *file,
                                   const void *buffer,
                                   size_t len,
                                   uint64_t *offset);

// Makes durable all that was written to the file before the call, by any handle, with the length: it survives a loss of
// power. Waits for pages of the file that are held for changing.
//
// MILLPOND_WRITE: kept in memory and tried again, and every sync says so until it is written. MILLPOND_SYNC: latched until
// the file is opened anew. MILLPOND_LOG.
millpond_code millpond_file_sync(millpond_file *file);

// The same for other programs and the end of the process, not for a loss of power: without the flush of the device.
millpond_code millpond_file_write_out(millpond_file *file);

// Gives up the pages that the device has refused, and their error. `*pages`, if not NULL, gets how many. They read as the
// device has them then: old, new in part, or zeros.
millpond_code millpond_file_discard_unwritten(millpond_file *file,
                                              uint64_t *pages);

// The length in bytes, with all writes that have returned. No system call.
millpond_code millpond_file_len(const millpond_file *file, uint64_t *len);

// Gives the file another length, for all handles: what was behind is gone, what is new is zeros. Waits for pages that go.
// Blocks that were allocated past the end are freed, unless the length becomes longer. MILLPOND_TOO_LONG and MILLPOND_WRITE
// change nothing.
millpond_code millpond_file_set_len(millpond_file *file,
                                    uint64_t len);

// Makes a range zeros, and gives the blocks of its whole pages back to the file system. The length stays; what is behind
// it is left out.
millpond_code millpond_file_punch(millpond_file *file,
                                  uint64_t offset,
                                  uint64_t len);

// Allocates blocks for a range, in the file and past its end, so that the device finds room for later writes to it: fallocate
// with FALLOC_FL_KEEP_SIZE. Content and length stay. Blocks past the end are freed by a millpond_file_set_len that does not
// make the file longer, others by millpond_file_punch. MILLPOND_WRITE: there is no room (ENOSPC), or the file system can't
// (EOPNOTSUPP); nothing has changed but that a part of the range may have its blocks. On a copy-on-write file system a write
// may still need room.
millpond_code millpond_file_allocate(millpond_file *file,
                                     uint64_t offset,
                                     uint64_t len);

// Begins to read a range, and waits for nothing. What can't be read, or has no room, is skipped.
millpond_code millpond_file_prefetch(const millpond_file *file, uint64_t offset, uint64_t len);

// Says how the file will be used from now on, by all handles: a millpond_advice.
millpond_code millpond_file_advise(millpond_file *file, uint32_t advice);

// Says that the file is read in records of so many bytes, rounded up to whole pages, each beginning at a multiple of that, by
// all handles: a page that is missing for a guard or a mapping is read with what is missing of its record. 4 MiB at most; 0
// is as MILLPOND_ADVICE_RANDOM.
millpond_code millpond_file_advise_records(millpond_file *file,
                                           uint64_t bytes);

// Forgets the unchanged pages of the bytes from `start` up to `end` (UINT64_MAX: up to the end), and takes the length that
// the device has: for files that others have changed. `*kept`, if not NULL, gets how many pages stay because they are
// changed here.
millpond_code millpond_file_invalidate(millpond_file *file,
                                       uint64_t start,
                                       uint64_t end,
                                       uint64_t *kept);

// Whether the page with byte `offset` is in memory at this moment: `*is` is 1 or 0. For measuring.
millpond_code millpond_file_is_resident(const millpond_file *file, uint64_t offset, int *is);

// Holds page number `number` for reading. It is read from the device if it is not in memory. Put it soon: a thread that
// wants to change it waits, and held pages take frames. A call that would wait for a page its own thread holds is
// MILLPOND_OWN_GUARD: a write to it, or an append if it is the last page.
//
// MILLPOND_RANGE past the end of the file; MILLPOND_READ, MILLPOND_CHECK, MILLPOND_NO_FRAMES. A hit takes no lock,
// allocates nothing and copies nothing.
millpond_code millpond_page_get(const millpond_file *file,
                                uint64_t number,
                                struct millpond_page *page);

// The same without waiting; MILLPOND_NOT_NOW, with nothing held, if it is not in memory or another thread has it.
millpond_code millpond_page_try_get(const millpond_file *file,
                                    uint64_t number,
                                    struct millpond_page *page);

// Releases a page. MILLPOND_HANDLE if it is not held.
millpond_code millpond_page_put(struct millpond_page *page);

// Holds page number `number` for changing: no other thread has it meanwhile. It is dirty from then on, and is not
// written before it is put; a sync waits for that. May pause while too much is dirty. MILLPOND_OWN_GUARD if the thread
// holds the page already, for reading too.
//
// Errors as millpond_page_get and millpond_file_write_at. A hit is a lock of the page.
millpond_code millpond_page_mut_get(millpond_file *file,
                                    uint64_t number,
                                    struct millpond_page_mut *page);

// The same without waiting or pausing, else MILLPOND_NOT_NOW.
millpond_code millpond_page_mut_try_get(millpond_file *file, uint64_t number, struct millpond_page_mut *page);

// The same for a whole page: from then on the file ends no earlier than the page.
millpond_code millpond_page_mut_get_or_grow(millpond_file *file,
                                            uint64_t number,
                                            struct millpond_page_mut *page);

// Releases a page held for changing. MILLPOND_HANDLE if it is not held.
millpond_code millpond_page_mut_put(struct millpond_page_mut *page);

// Makes the page depend on record `order` of the file's log: it is not written to its file before the log is durable
// up to it. Call it after the record has its number and before the page is put. MILLPOND_INVALID if the file has no
// log.
millpond_code millpond_page_set_order(struct millpond_page_mut *page,
                                      uint64_t order);

// The page size in bytes, for all files of the cache; a file's last page may be shorter.
millpond_code millpond_file_page_size(const millpond_file *file, uint64_t *bytes);

// Maps `len` bytes of the file from `offset` on, in a cache with MILLPOND_CACHE_MAPPINGS: they are at addresses that
// stay until millpond_map_close or millpond_map_drop, and the part in memory is within the budget. Any `offset` is
// allowed, and so is a `len` beyond the end of the file: that part can be touched once the file is longer. `len` 0: up
// to the end.
// `flags` are MILLPOND_MAP_... flags. All mappings of a file show it at the same addresses. The mapping keeps the file
// open, even when `file` is closed.
//
// A page that can't be read is SIGBUS for the thread that touches it, after a warning that says why; so is one past the
// end of the file. millpond_map_try_read has an error instead. A store may pause while too much is dirty. A forked child
// that touches the memory ends with SIGSEGV.
//
// MILLPOND_SETUP if the cache has no mappings, or if the kernel refuses; MILLPOND_RANGE also for `len` 0 where the file has
// nothing; MILLPOND_READ_ONLY for a writable mapping of a `file` open for reading.
millpond_code millpond_map_new(millpond_file *file,
                               uint64_t offset,
                               uint64_t len,
                               uint32_t flags,
                               millpond_map **map);

// The same, with addresses for the first `room` bytes of the file: all that later mappings can have while this one
// exists, because they share its addresses. Costs addresses only, and counts for the first mapping. 0, and
// millpond_map_new: twice the file, and at least 1 GiB.
millpond_code millpond_map_new_with_room(millpond_file *file,
                                         uint64_t offset,
                                         uint64_t len,
                                         uint32_t flags,
                                         uint64_t room,
                                         millpond_map **map);

// The mapping's address and length. Write to it only if it is MILLPOND_MAP_WRITABLE: a store into another one ends the
// program. `len` may be NULL.
millpond_code millpond_map_data(const millpond_map *map,
                                void **data,
                                size_t *len);

// Brings `len` bytes from `offset` on into memory and lends them to `visit`, which gets `user`. No thread changes them
// meanwhile, and the file is not cut below them: writers wait. At most a quarter of the cache's memory.
//
// Errors as millpond_file_read_at; MILLPOND_RANGE past the end, or if there are too many bytes.
millpond_code millpond_map_try_read(const millpond_map *map,
                                    size_t offset,
                                    size_t len,
                                    millpond_map_visit visit,
                                    void *user);

// Copies up to `len` bytes from `offset` on into `buffer`. `*read` has how many: fewer than `len` only where the mapping or
// the file ends. As with millpond_file_read_at, a concurrent write may appear torn only between pages.
millpond_code millpond_map_copy_to(const millpond_map *map,
                                   void *buffer,
                                   size_t len,
                                   size_t offset,
                                   size_t *read);

// Copies all of `len` bytes to `offset`, as millpond_file_write_at. MILLPOND_RANGE past the end of the mapping or of
// the file; then nothing is written.
millpond_code millpond_map_copy_from(millpond_map *map,
                                     const void *data,
                                     size_t len,
                                     size_t offset);

// Makes durable what was stored in `len` bytes from `offset` on, and the rest of the file with them.
//
// As millpond_file_sync: what could not be written stays in memory, and the next sync reports it again.
millpond_code millpond_map_sync(millpond_map *map, size_t offset, size_t len);

// Says how `len` bytes from `offset` on will be used: a millpond_map_advice.
millpond_code millpond_map_advise(millpond_map *map, size_t offset, size_t len, uint32_t advice);

// Whether the page with byte `offset` of the mapping is in memory at this moment: `*is` is 1 or 0.
millpond_code millpond_map_is_resident(const millpond_map *map, size_t offset, int *is);

// Makes what was stored durable and drops the mapping, which stays if that fails. No pointer into it may be used
// afterwards.
millpond_code millpond_map_close(millpond_map *map);

// Drops the mapping. What was stored stays in the cache, and is written later. No pointer into it may be used
// afterwards.
millpond_code millpond_map_drop(millpond_map *map);

// Makes a region of `len` bytes, initially zero, in a cache with a swap file. `flags` is 0 or
// MILLPOND_REGION_IN_THREAD. The caller owns `*region` and drops it with millpond_region_drop.
//
// MILLPOND_SWAP if the swap file is missing or too small, MILLPOND_MEMORY, MILLPOND_SETUP.
millpond_code millpond_region_new(millpond_cache *cache,
                                  size_t len,
                                  uint32_t flags,
                                  millpond_region **region);

// The region's address and length: memory like any other, until millpond_region_drop. `len` may be NULL.
millpond_code millpond_region_data(const millpond_region *region, void **data, size_t *len);

// Says how `len` bytes from `offset` on will be used: a millpond_region_advice. No other thread may touch them meanwhile.
// MILLPOND_RANGE if they are outside the region.
millpond_code millpond_region_advise(millpond_region *region,
                                     size_t offset,
                                     size_t len,
                                     uint32_t advice);

// Drops the region. No pointer into it may be used afterwards.
millpond_code millpond_region_drop(millpond_region *region);

// Makes a log, durable up to record 0. The log may number records freely, as long as later ones have larger numbers:
// usually by the byte at which they end. With `flush` the cache asks when pages wait; `kept_user` is passed to it, and
// kept until the log and all files opened with it are dropped: the last of these calls waits for a running `flush`,
// and no `flush` begins once it has returned. With NULL the cache waits until millpond_log_advance is called.
//
// The caller owns `*log` and drops it with millpond_log_drop. MILLPOND_SETUP if the system gives no thread.
millpond_code millpond_log_new(millpond_log_flush flush,
                               void *kept_user,
                               millpond_log **log);

// Reports that the log is durable up to `record`. A smaller number than before changes nothing. Pages that wait for it
// can be written at once.
millpond_code millpond_log_advance(millpond_log *log,
                                   uint64_t record);

// Gets the record up to which it is durable.
millpond_code millpond_log_durable(const millpond_log *log, uint64_t *record);

// Drops the handle. Files that were opened with the log keep it; if none is left, the call waits for a running `flush`,
// unless it is called from it.
millpond_code millpond_log_drop(millpond_log *log);

// Makes a check, for millpond_file_options.check. All handles of a file have the same one. The caller owns `*check`
// and drops it with millpond_check_drop.
millpond_code millpond_check_new(const struct millpond_check_options *options,
                                 millpond_check **check);

// Drops the handle. Files that were opened with the check keep it.
millpond_code millpond_check_drop(millpond_check *check);

// Makes faults on the system's best device, chosen while it runs: for millpond_cache_options.faults. With the same
// `seed` and the same calls, the same faults happen. The caller owns `*faults` and drops it with millpond_faults_drop.
millpond_code millpond_faults_new(uint64_t seed,
                                  millpond_faults **faults);

// Adds a fault. Faults are tried in the order of their addition; the first that matches decides.
millpond_code millpond_faults_add(millpond_faults *faults, const struct millpond_fault *fault);

// Removes all faults, as if the disk were repaired.
millpond_code millpond_faults_clear(millpond_faults *faults);

// Starts the transfers that a fault held.
millpond_code millpond_faults_release(millpond_faults *faults);

// The number of faults that have happened.
millpond_code millpond_faults_count(const millpond_faults *faults, uint64_t *count);

// Drops the handle. A cache that was made with the faults keeps them.
millpond_code millpond_faults_drop(millpond_faults *faults);

// Records every call from now on into a new file, which `millpond replay` reads (docs/TRACES.md). The caller owns
// `*recording` and ends it with millpond_recording_stop. A call costs about 0.2 us more meanwhile.
//
// MILLPOND_TRACE: `path` already exists or can't be made, or a recording is running.
millpond_code millpond_recording_start(millpond_cache *cache,
                                       const char *path,
                                       millpond_recording **recording);

// Ends it, and closes the handle in any case. `*accesses`, if not NULL, gets the number in the trace, `*lost` the
// number left out because the disk was too slow. MILLPOND_TRACE if not all of it could be written.
millpond_code millpond_recording_stop(millpond_recording *recording,
                                      uint64_t *accesses,
                                      uint64_t *lost);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MILLPOND_H */
