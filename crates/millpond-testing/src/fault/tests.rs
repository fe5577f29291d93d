//! Each fault on its own, and rules that choose what they meet.

use super::*;
use millpond::device::{Buffer, Segments, Threads};
use rustix::io::Errno;

fn device() -> (Faulty, Arc<DeviceFile>) {
    let file = Arc::new(DeviceFile::memory("file", 1 << 20).unwrap());
    (Faulty::new(Arc::new(Threads::new("a test")), 1), file)
}

fn request(token: u64, op: Op, file: &Arc<DeviceFile>, page: u64) -> Request {
    let segments = Segments::of(Buffer::new(4096), 0, 4096);
    Request {
        token,
        op,
        reason: None,
        file: file.clone(),
        offset: page * 4096,
        segments,
    }
}

fn finish(device: &Faulty, requests: Vec<Request>) -> Vec<Completion> {
    let count = requests.len();
    let mut done = Vec::new();
    device.submit(&mut { requests }).unwrap();
    while done.len() < count {
        device.wait(&mut done, None).unwrap();
    }
    done.sort_by_key(|done| done.token);
    done
}

#[test]
fn chosen_writes_fail_so_many_times() {
    let (device, file) = device();
    let fault = Fault::Fail(Errno::IO.raw_os_error());
    device.add(FaultRule {
        offsets: 4096..8192,
        times: 2,
        ..FaultRule::always(FaultTarget::Writes, fault)
    });
    let pages = |op| (0..3).map(|page| request(page, op, &file, page)).collect();
    let errors = |done: Vec<Completion>| -> Vec<u64> {
        done.iter()
            .filter(|done| done.result.is_err())
            .map(|done| done.token)
            .collect()
    };
    assert!(errors(finish(&device, pages(Op::Read))).is_empty());
    assert_eq!(errors(finish(&device, pages(Op::Write))), [1]);
    let error = device.transfer(&request(0, Op::Write, &file, 1)).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    let errors = errors(finish(&device, pages(Op::Write)));
    assert!(errors.is_empty(), "twice, and no more: {errors:?}");
    assert_eq!(device.faults(), 2);
}

#[test]
fn cut_read_is_short_and_cut_write_fails_in_the_middle() {
    let (device, file) = device();
    device.add(FaultRule::always(FaultTarget::Reads, Fault::Cut(1000)));
    device.add(FaultRule::always(FaultTarget::Writes, Fault::Cut(1000)));
    let results = [
        device.transfer(&request(0, Op::Read, &file, 0)),
        finish(&device, vec![request(0, Op::Read, &file, 0)])
            .remove(0)
            .result,
    ];
    assert!(
        results
            .iter()
            .all(|result| result.as_ref().is_ok_and(|&bytes| bytes == 1000))
    );
    file.set_len(0).unwrap();
    assert!(device.transfer(&request(0, Op::Write, &file, 0)).is_err());
    assert_eq!(file.len().unwrap(), 1000, "so much of it reached the file");
    assert!(
        finish(&device, vec![request(0, Op::Write, &file, 1)])[0]
            .result
            .is_err()
    );
    assert_eq!(file.len().unwrap(), 5096);
}

#[test]
fn held_transfers_go_on_when_released() {
    let (device, file) = device();
    device.add(FaultRule {
        times: 3,
        ..FaultRule::always(FaultTarget::Reads, Fault::Hold)
    });
    device
        .submit(&mut (0..2).map(|n| request(n, Op::Read, &file, n)).collect())
        .unwrap();
    thread::scope(|scope| {
        let blocked = scope.spawn(|| device.transfer(&request(2, Op::Read, &file, 2)));
        while device.held() < 3 {
            thread::yield_now();
        }
        let passing = finish(&device, vec![request(9, Op::Read, &file, 9)]);
        assert_eq!((passing[0].token, passing.len()), (9, 1));
        assert!(!blocked.is_finished());
        device.release().unwrap();
        assert_eq!(blocked.join().unwrap().unwrap(), 4096);
    });
    let mut done = Vec::new();
    while done.len() < 2 {
        device.wait(&mut done, None).unwrap();
    }
    assert_eq!(device.held(), 0);
}

#[test]
fn delayed_transfer_is_completed_no_earlier() {
    let (device, file) = device();
    let delay = Duration::from_millis(5);
    device.add(FaultRule {
        times: 1,
        ..FaultRule::always(FaultTarget::Reads, Fault::Delay(delay))
    });
    let started = Instant::now();
    finish(&device, vec![request(0, Op::Read, &file, 0)]);
    assert!(started.elapsed() >= delay);
}

#[test]
fn sync_can_fail() {
    let (device, file) = device();
    device.add(FaultRule {
        times: 1,
        ..FaultRule::always(FaultTarget::Syncs, Fault::Fail(Errno::NOSPC.raw_os_error()))
    });
    let error = device.sync(&file).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC));
    device.sync(&file).unwrap();
}

#[test]
fn same_seed_same_faults() {
    let faults = |seed| {
        let file = Arc::new(DeviceFile::memory("file", 1 << 20).unwrap());
        let device = Faulty::new(Arc::new(Threads::new("a test")), seed);
        let rule = FaultRule::always(FaultTarget::Reads, Fault::Fail(Errno::IO.raw_os_error()));
        device.add(FaultRule {
            chance: Ratio::percent(30),
            ..rule
        });
        let tries = (0..200).map(|n| device.transfer(&request(0, Op::Read, &file, n)).is_err());
        tries.collect::<Vec<_>>()
    };
    assert_eq!(faults(7), faults(7));
    assert_ne!(faults(7), faults(8));
    let count = faults(7).iter().filter(|&&failed| failed).count();
    assert!((40..80).contains(&count), "30 % of 200: {count}");
}
