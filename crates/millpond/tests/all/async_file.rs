//! Files for tasks of tokio. In a runtime of one thread what a task waits for must be done by others, so that a call that
//! waits on that thread hangs here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Call, Draw, Hooked, Kind, Place, What, bounded, linger, number, until};
use millpond::{AsyncFile, Error, File, OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::runtime::{Builder, Runtime};

const PAGE: u64 = 4096;
const SIZE: usize = PAGE as usize;

/// How long calls that do nothing keep their threads.
const PARKED: std::time::Duration = std::time::Duration::from_millis(100);

fn one_thread() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

/// The call's result on its own.
fn polled<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Reads of the device, which wait until they may go on.
#[derive(Default)]
struct Gate {
    waiting: AtomicU64,
    most: AtomicU64,
    is_open: AtomicBool,
}

fn gated() -> (Arc<Gate>, PageCache) {
    let gate = Arc::new(Gate::default());
    let seen = gate.clone();
    let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
        if matches!(call.what, What::OwnRead) {
            let waiting = seen.waiting.fetch_add(1, Ordering::SeqCst) + 1;
            seen.most.fetch_max(waiting, Ordering::SeqCst);
            until("it may go on", || seen.is_open.load(Ordering::SeqCst));
            seen.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    });
    let builder = PageCache::builder().memory(8 << 20).device(device);
    (gate, builder.build().unwrap())
}

fn open(cache: &PageCache, path: &Path, pages: usize) -> AsyncFile {
    std::fs::write(path, vec![7; pages * SIZE]).unwrap();
    let file = cache.open(path, OpenOptions::new().write(true)).unwrap();
    file.advise(millpond::Advice::Random).unwrap();
    AsyncFile::new(file)
}

#[test]
fn pages_in_memory_are_read_at_once_even_without_a_runtime() {
    let folder = Place::Disk.folder();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = open(&cache, &folder.path().join("data"), 10);
    file.get_ref().read_at(&mut [0; 10 * SIZE], 0).unwrap();
    let mut buf = vec![0; 3 * SIZE];
    assert_eq!(polled(file.read_at(&mut buf, 100)).unwrap().unwrap(), 3 * SIZE);
    assert_eq!(polled(file.read_at(&mut buf, 9 * PAGE)).unwrap().unwrap(), SIZE);
    assert_eq!(polled(file.read_at(&mut buf, u64::MAX)).unwrap().unwrap(), 0);
    assert_eq!(polled(file.page(3)).unwrap().unwrap()[..], [7; SIZE]);
    polled(file.page_mut(3)).unwrap().unwrap().fill(8);
    polled(file.write_at(vec![9; 3 * SIZE], PAGE + 1))
        .unwrap()
        .unwrap();
    polled(file.read_exact_at(&mut buf, PAGE + 1)).unwrap().unwrap();
    assert!(buf.iter().all(|&byte| byte == 9));
    let error = polled(file.read_exact_at(&mut buf, 8 * PAGE))
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, Error::EndOfFile { .. }), "{error}");
}

#[test]
fn a_task_that_finds_all_in_memory_lets_others_have_their_turn() {
    let folder = Place::Disk.folder();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = open(&cache, &folder.path().join("data"), 1);
    drop(file.get_ref().page(0).unwrap());
    one_thread().block_on(async {
        let ran = Arc::new(AtomicBool::new(false));
        let other = ran.clone();
        tokio::spawn(async move { other.store(true, Ordering::SeqCst) });
        for _ in 0..1000 {
            assert_eq!(file.page(0).await.unwrap()[0], 7);
        }
        assert!(ran.load(Ordering::SeqCst));
    });
}

/// More tasks than places want pages that a device does not answer for; beside them one that finds its page in memory.
#[test]
fn reads_that_wait_are_bounded_and_hold_up_none_that_need_not() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (gate, cache) = gated();
        let file = open(&cache, &folder.path().join("data"), 200);
        gate.is_open.store(true, Ordering::SeqCst);
        drop(file.get_ref().page(0).unwrap());
        gate.is_open.store(false, Ordering::SeqCst);
        one_thread().block_on(async {
            let read = |page| {
                let file = file.clone();
                tokio::spawn(async move { file.page(page).await.unwrap()[0] })
            };
            let reads: Vec<_> = (1..200).map(read).collect();
            while gate.waiting.load(Ordering::SeqCst) < 64 {
                assert_eq!(file.page(0).await.unwrap()[0], 7);
                tokio::task::yield_now().await;
            }
            linger(|| gate.most.load(Ordering::SeqCst) > 64);
            gate.is_open.store(true, Ordering::SeqCst);
            for read in reads {
                assert_eq!(read.await.unwrap(), 7);
            }
        });
        assert_eq!(gate.most.load(Ordering::SeqCst), 64);
    });
}

#[test]
fn writers_that_wait_take_no_readers_place_and_no_syncs() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let cache = PageCache::builder().memory(8 << 20).build().unwrap();
        let file = open(&cache, &folder.path().join("data"), 100);
        let other = open(&cache, &folder.path().join("other"), 100);
        let held = file.get_ref().page_owned(1).unwrap();
        one_thread().block_on(async {
            // More writes than the pool has threads.
            let write = |n| {
                let file = file.clone();
                tokio::spawn(async move { file.write_at([n; SIZE], PAGE).await })
            };
            let writes: Vec<_> = (0..50).map(write).collect();
            tokio::task::yield_now().await;
            for page in 2..100 {
                assert_eq!(file.page(page).await.unwrap()[0], 7);
            }
            other.sync_data().await.unwrap();
            assert!(writes.iter().all(|write| !write.is_finished()));
            drop(held);
            for write in writes {
                write.await.unwrap().unwrap();
            }
        });
    });
}

#[test]
fn a_call_that_is_dropped_leaves_no_guard_and_no_half_of_a_page() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let (gate, cache) = gated();
        let file = open(&cache, &path, 10);
        let runtime = one_thread();
        runtime.block_on(async {
            let mut buf = [0; 2 * SIZE];
            assert!(polled(file.read_at(&mut buf, 0)).is_none());
            assert!(polled(file.page(2)).is_none());
            assert!(polled(file.page_mut(3)).is_none());
            // A part of a page that has to be read first: on its way.
            assert!(polled(file.write_at([8; SIZE], 4 * PAGE + 1)).is_none());
            assert!(polled(file.append([9; 5])).is_none());
        });
        gate.is_open.store(true, Ordering::SeqCst);
        let sync = || runtime.block_on(file.sync_data()).unwrap();
        until("what was on its way is done", || {
            file.get_ref().len() == 10 * PAGE + 5
        });
        until("the write", || {
            file.get_ref()
                .try_page(5)
                .unwrap()
                .is_some_and(|page| page[0] == 8)
        });
        for page in 0..4 {
            until("no guard is left", || {
                drop(file.get_ref().page(page).unwrap());
                file.get_ref().try_page_mut(page).unwrap().is_some()
            });
        }
        runtime.block_on(async { assert!(polled(file.sync_data()).is_none()) });
        sync();
        let mut whole = vec![7; 10 * SIZE];
        whole[4 * SIZE + 1..5 * SIZE + 1].fill(8);
        whole.extend([9; 5]);
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    });
}

#[test]
fn a_file_is_closed_on_the_blocking_pool_and_given_back_if_that_fails() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let builder = PageCache::builder().memory(2 << 20).device(device.clone());
        let cache = builder.build().unwrap();
        let runtime = one_thread();
        runtime.block_on(async {
            let file = open(&cache, &path, 1);
            file.write_at("kept", 0).await.unwrap();
            device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
            let failed = file.close().await.unwrap_err();
            assert_eq!(failed.error.errno(), libc::ENOSPC);
            device.clear();
            AsyncFile::new(failed.file).close().await.unwrap();
            assert_eq!(std::fs::read(&path).unwrap()[..5], *b"kept\x07");
            // Converted, it gives the changes up, whatever thread does that.
            let file = AsyncFile::new(cache.open(&path, OpenOptions::new().write(true)).unwrap());
            device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
            file.write_at("lost", 0).await.unwrap();
            let error = Error::from(file.close().await.unwrap_err());
            assert!(matches!(error, Error::Write { is_kept: false, .. }), "{error}");
            until("it is given up", || cache.take_lost().len() == 1);
            device.clear();
            // It is closed: another cache may have it.
            let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
            let builder = PageCache::builder().memory(2 << 20).device(device.clone());
            let other = builder.build().unwrap();
            let again = other.open(&path, OpenOptions::new().write(true)).unwrap();
            again.write_at(b"K", 0).unwrap();
            device.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
            let guard = AsyncFile::new(again).page(0).await.unwrap();
            // The last of the file: this thread does not wait for the device, which does not answer.
            drop(guard);
            until("it is asked to write", || device.held() > 0);
            assert_eq!(std::fs::read(&path).unwrap()[0], b'k');
            device.clear();
            device.release().unwrap();
        });
        until("it is written", || std::fs::read(&path).unwrap()[0] == b'K');
    });
}

/// The first pages were written at once, and are cut off before the rest has its turn on the pool: the whole call comes after
/// the cut, or the bytes in front would be zeros in spite of its Ok.
#[test]
fn a_write_beside_a_cut_is_all_there_or_none() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (gate, cache) = gated();
        let runtime = one_thread();
        runtime.block_on(async {
            let file = open(&cache, &folder.path().join("data"), 16);
            // Half of the written range is in memory, and the page after it is not.
            gate.is_open.store(true, Ordering::SeqCst);
            for page in 0..8 {
                drop(file.page(page).await.unwrap());
            }
            gate.is_open.store(false, Ordering::SeqCst);
            let parked = |_: &File| {
                std::thread::park_timeout(PARKED);
                Ok(())
            };
            let places: Vec<_> = (0..32)
                .map(|_| file.clone())
                .map(|file| tokio::spawn(async move { file.blocking(parked).await }))
                .collect();
            tokio::task::yield_now().await;
            let mut write = pin!(file.write_at(vec![b'x'; 16 * SIZE], 0));
            assert!(
                write
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            );
            file.get_ref().set_len(0).unwrap();
            gate.is_open.store(true, Ordering::SeqCst);
            write.await.unwrap();
            let mut bytes = vec![0; 16 * SIZE];
            file.read_exact_at(&mut bytes, 0).await.unwrap();
            assert!(bytes.iter().all(|&byte| byte == b'x'));
            for place in places {
                place.await.unwrap().unwrap();
            }
        });
    });
}

/// The calls at random, beside a vector of bytes, with less memory than the file needs.
#[test]
fn a_file_of_a_task_is_as_a_vector_of_bytes_says() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let cache = PageCache::builder().memory(800 << 10).build().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let calls = number("MILLPOND_ROUNDS").unwrap_or(600);
        let model = runtime.block_on(async {
            let file = open(&cache, &path, 400);
            let mut model = vec![7; 400 * SIZE];
            let mut draw = Draw(1);
            for _ in 0..calls {
                let at = draw.below(model.len() as u64) as usize;
                let longest = [6_000, 6_000, 6_000, 200_000][draw.below(4) as usize];
                let len = draw.below(longest) as usize;
                let end = model.len().min(at + len);
                let byte = draw.bits() as u8;
                match draw.below(8) {
                    0..3 => {
                        let mut buf = vec![0; len];
                        let read = file.read_at(&mut buf, at as u64).await.unwrap();
                        assert!(buf[..read] == model[at..end]);
                    }
                    3..5 => {
                        file.write_at(vec![byte; end - at], at as u64).await.unwrap();
                        model[at..end].fill(byte);
                    }
                    5 => {
                        let page = at / SIZE;
                        let there = file.page(page as u64).await.unwrap();
                        assert!(there[..] == model[page * SIZE..model.len().min((page + 1) * SIZE)]);
                    }
                    6 => {
                        let page = at / SIZE;
                        file.page_mut(page as u64).await.unwrap().fill(byte);
                        let end = model.len().min((page + 1) * SIZE);
                        model[page * SIZE..end].fill(byte);
                    }
                    _ if model.len() > 300 * SIZE => {
                        let len = model.len() - SIZE - 1;
                        file.blocking(move |file| file.set_len(len as u64)).await.unwrap();
                        model.truncate(len);
                    }
                    _ => {
                        let at = file.append(vec![byte; len]).await.unwrap();
                        assert_eq!(at, model.len() as u64);
                        model.extend(vec![byte; len]);
                    }
                }
            }
            file.close().await.unwrap();
            model
        });
        assert!(std::fs::read(&path).unwrap() == model);
    });
}
