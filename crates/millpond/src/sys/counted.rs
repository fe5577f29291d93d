//! The allocator of this crate's own tests: the system's, with a count of what each thread asks of it.
//!
//! Millpond promises that what is on its way to the device needs no memory that is not there already. A
//! profile of a quiet machine shows no allocation; here every one is counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Allocations of this thread so far, including those that grow something.
pub(crate) fn allocations() -> u64 {
    COUNT.get()
}

struct Counted;

impl Counted {
    fn note(&self) {
        // A thread that is ending has no count left.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

// SAFETY: all of it is the system's allocator; the count allocates nothing.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.note();
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.note();
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.note();
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(old, layout) }
    }
}

#[test]
fn allocations_are_counted_for_their_thread_alone() {
    let before = allocations();
    let kept = vec![1_u8; 100];
    assert_eq!(allocations() - before, 1);
    std::thread::spawn(|| drop(vec![0_u8; 1000])).join().unwrap();
    let own = allocations() - before;
    drop(kept);
    assert_eq!(allocations() - before, own, "freeing is none");
}
