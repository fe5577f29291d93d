//! The machine as a whole: on every system, with either kind of swap, nothing is lost and nothing stops.

use super::{Machine, MachineOptions};
use crate::linux::anon::System;
use millpond_core::page::PageKind;
use millpond_core::units::{Bytes, Nanos};
use millpond_sim::disk::{ModelParameters, SsdParameters};
use millpond_sim::swap::Swap;
use millpond_sim::task::{Op, Ops};

const EACH: Nanos = Nanos(100);

/// Two tasks in turn over 96 MB of memory and 32 MB of a file, with 64 MB of frames.
fn run(options: MachineOptions) -> Machine {
    let mut machine = Machine::new(options).expect("the disks can be");
    let pages = 24_576;
    let memory = machine.add_pages(PageKind::Anonymous, pages + 256);
    let file = machine.add_pages(PageKind::File, 8_192);
    let touch = |first, pages, write| Op::Touch {
        first,
        pages,
        write,
        each: EACH,
    };
    let copy = Op::Copy {
        from: memory + 2_000,
        to: memory + pages as u32,
        pages: 256,
        each: EACH,
    };
    let read = Op::ReadFile {
        first: file,
        pages: 8_192,
        each: EACH,
    };
    let all = touch(memory, pages, true);
    let half = touch(memory + 6_000, pages / 2, false);
    machine.add_task(Box::new(Ops::new(vec![all, half, copy, half, all])));
    machine.add_task(Box::new(Ops::new(vec![read, half, read, half, read])));
    assert!(machine.run(10_000_000), "it ends");
    machine.validate();
    machine
}

fn disk() -> Swap {
    Swap::Disk(ModelParameters::SataSsd(SsdParameters::default()))
}

#[test]
fn on_every_system_all_that_is_asked_for_is_done() {
    for system in System::all() {
        for swap in [disk(), Swap::Memory(Nanos(5_000))] {
            let machine = run(MachineOptions {
                swap,
                ..MachineOptions::new(system, Bytes::from_mib(64))
            });
            let counted = machine.counters();
            assert!(
                counted.pswpin > 4_000 && counted.pswpout > 4_000,
                "{system:?}: {counted:?}"
            );
            assert!(machine.lengths().all() <= 16_384);
        }
    }
}

#[test]
fn swappiness_0_reads_files_again_rather_than_memory() {
    let ins = |swappiness| {
        let machine = run(MachineOptions {
            swappiness,
            ..MachineOptions::new(System::Linux5_9, Bytes::from_mib(64))
        });
        machine.counters().file_reads
    };
    assert!(ins(0) >= ins(200), "{} and {}", ins(0), ins(200));
}
