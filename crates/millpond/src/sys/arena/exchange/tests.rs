//! What the kernel moved without reporting it; pages that are in two places.

use super::*;
use crate::frames::table::Memory;
use crate::sys::addresses::RegionBytes;
use millpond_core::units::{Bytes, PageSize};

const PAGES: u64 = 4;
const FRAMES: u32 = 64;

/// An exchange of an arena with memory for frames, but no frames yet. `None`, with a message, if nothing can
/// be moved.
fn without_frames(populate: bool) -> Option<Exchange> {
    let memory = Bytes(u64::from(FRAMES) * 4096);
    let (table, mut token) = Table::new(Arena::new(memory, PageSize::KIB_4, true).unwrap()).unwrap();
    table.locked(&mut token).grow(FRAMES).unwrap();
    match Exchange::new(Arc::new(table), populate) {
        Ok(exchange) => Some(exchange),
        Err(why) => {
            std::println!("skipped: {why}");
            None
        }
    }
}

/// Pages 0 to 3 of a region, in the frames of the same numbers, each with its number in it.
fn exchange() -> Option<(Exchange, RegionBytes)> {
    let exchange = without_frames(true)?;
    exchange.add_frames(FRAMES).unwrap();
    let region = RegionBytes::new(PAGES as usize * kernel_page(), OnTouch::Sleeps).unwrap();
    exchange.add_region(region.memory()).unwrap();
    for n in 0..PAGES {
        let frame = exchange.table.memory().pointer(FrameNo(n as u32)).as_ptr();
        // SAFETY: the frame's memory is in the arena, and only this test uses it.
        unsafe { frame.cast::<u64>().write(n) };
    }
    Some((exchange, region))
}

fn in_hand(region: &RegionBytes) -> Vec<InHand<'_>> {
    let page = |page| InHand {
        memory: region.memory(),
        page,
        frame: FrameNo(page as u32),
    };
    (0..PAGES).map(page).collect()
}

/// Moves pages as a kernel does that does not report them.
fn move_untold(exchange: &Exchange, pages: &[InHand<'_>], is_in: bool) {
    for page in pages {
        let (region, frame) = (page.memory.page(page.page), exchange.frame(page.frame));
        let (to, from) = if is_in { (region, frame) } else { (frame, region) };
        // SAFETY: only this test uses the page.
        let (_, moved) = unsafe { exchange.uffd.move_pages(to, from, kernel_page()) };
        moved.unwrap();
    }
}

fn content(region: &RegionBytes) -> Vec<u8> {
    region.bytes().chunks(kernel_page()).map(|page| page[0]).collect()
}

/// The process ended, or the page was taken for one that is in its frame, where the next thread to touch it
/// found zeros.
#[test]
fn pages_that_the_kernel_has_moved_into_a_region_without_telling_are_there() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    let pages = in_hand(&region);
    move_untold(&exchange, &pages[..3], true);
    exchange.move_in(&pages[0]);
    assert_eq!(exchange.move_in_run(&pages[1..]), 2, "the last was not moved");
    assert_eq!(exchange.move_in_run(&pages[3..]), 1);
    assert_eq!(content(&region), [0, 1, 2, 3]);
}

#[test]
fn pages_that_the_kernel_has_moved_out_of_a_region_without_telling_are_out() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    let pages = in_hand(&region);
    assert_eq!(exchange.move_in_run(&pages), 4);
    assert_eq!(exchange.run(&pages), 1, "they are nowhere in the arena");
    exchange.put_together(&pages);
    move_untold(&exchange, &pages[1..3], false);
    assert_eq!(exchange.move_out(&pages), (4, None));
    assert!(
        pages
            .iter()
            .all(|page| u64::from(exchange.bytes(page)[0]) == page.page)
    );
    assert_eq!(exchange.move_in_run(&pages), 4);
    assert_eq!(content(&region), [0, 1, 2, 3]);
}

/// They were among the free places all the same: memory that no budget had, and a panic when a page was to be put there.
#[test]
fn frames_that_could_not_be_made_exchangeable_are_not_there_and_are_tried_again() {
    let Some(exchange) = without_frames(true) else {
        return;
    };
    let arena = exchange.table.memory();
    arena.populate(0..FRAMES);
    let (start, len) = arena.birthplace(&(0..FRAMES));
    let another = Userfault::new(OnTouch::Sleeps).unwrap();
    another.register(start, len).unwrap();
    let refused = exchange.add_frames(FRAMES).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY), "{refused}");
    assert_eq!(
        (exchange.places().frames(), exchange.own_memory.has(start)),
        (0, false)
    );
    drop(another);
    exchange.add_frames(FRAMES).unwrap();
    assert_eq!(
        (exchange.places().frames(), exchange.own_memory.has(start)),
        (FRAMES, true)
    );
    // Fewer are wanted meanwhile, or as many: then there is nothing to do.
    exchange.add_frames(FRAMES / 2).unwrap();
    assert_eq!(exchange.places().frames(), FRAMES);
}

#[test]
fn frames_that_are_not_populated_get_their_memory_when_they_are_granted_and_no_sooner() {
    let Some(exchange) = without_frames(false) else {
        return;
    };
    exchange.add_frames(FRAMES).unwrap();
    let arena = exchange.table.memory();
    let has = |frame| exchange.own_memory.has(exchange.frame(FrameNo(frame)));
    assert!((0..FRAMES).all(|frame| !has(frame)));
    let granted = [3, 4, 5, 9].map(FrameNo);
    arena.granted(&granted, || None);
    let have: Vec<u32> = (0..FRAMES).filter(|&frame| has(frame)).collect();
    assert_eq!(have, [3, 4, 5, 9]);
    // SAFETY: the frame was granted, and only this test uses it.
    assert_eq!(unsafe { arena.pointer(FrameNo(9)).as_ptr().read() }, 0);
}

/// It is then unknown which page the content belongs to. That must never be guessed.
#[test]
fn a_page_that_is_in_both_places_is_refused() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    let pages = in_hand(&region);
    assert!(exchange.restore(region.memory(), 1));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| exchange.move_in(&pages[1])));
    let said = *panic.unwrap_err().downcast::<String>().unwrap();
    assert!(
        said.contains("to page 1") && said.contains("File exists"),
        "{said}"
    );
}

/// What is in a frame, which has memory.
fn in_frame(exchange: &Exchange, page: &InHand<'_>) -> u8 {
    exchange.bytes(page)[0]
}

fn are_there(exchange: &Exchange, page: &InHand<'_>) -> (bool, bool) {
    (
        exchange.own_memory.has(page.memory.page(page.page)),
        exchange.places().of(page.frame).is_some() && exchange.own_memory.has(exchange.frame(page.frame)),
    )
}

#[test]
fn a_copy_is_in_both_places_until_one_of_them_is_given_back() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    let pages = in_hand(&region);
    for page in &pages {
        assert_eq!(exchange.copy_in(page, page.page < 2), Some(page.page < 2));
        assert_eq!(are_there(&exchange, page), (true, true));
    }
    let copies = [
        Copy::InRegion(pages[0]),
        Copy::InRegion(pages[1]),
        Copy::InFrame(pages[2]),
        Copy::InFrame(pages[3]),
    ];
    exchange.drop_copies(copies.into_iter());
    let there: Vec<_> = pages.iter().map(|page| are_there(&exchange, page)).collect();
    assert_eq!(
        there,
        [(false, true), (false, true), (true, false), (true, false)]
    );
    assert_eq!([0, 1].map(|n: usize| in_frame(&exchange, &pages[n])), [0, 1]);
    assert_eq!(exchange.move_out(&pages[2..]), (2, None));
    assert_eq!(
        exchange.move_in_run(&pages),
        4,
        "they are beside those that stayed"
    );
    assert_eq!(content(&region), [0, 1, 2, 3]);
}

#[test]
fn pages_of_frames_in_any_order_leave_side_by_side_and_come_back_at_once() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    // Frames 0 to 3 of pages 3 to 0.
    let pages: Vec<_> = (0..PAGES)
        .map(|page| InHand {
            memory: region.memory(),
            page,
            frame: FrameNo((PAGES - 1 - page) as u32),
        })
        .collect();
    assert_eq!(exchange.run(&pages), 1);
    assert!(pages.iter().all(|page| exchange.move_in(page)));
    assert_eq!(content(&region), [3, 2, 1, 0]);
    assert_eq!(exchange.move_out(&pages), (4, None));
    assert_eq!((exchange.run(&pages), exchange.run(&pages[3..])), (4, 1));
    assert_eq!(exchange.bytes(&pages[1])[0], 2);
    assert_eq!(exchange.move_in_run(&pages), 4);
    assert_eq!(content(&region), [3, 2, 1, 0]);
}

/// Memory of the whole process that is locked is filled where nothing was, and so was the place for a page that left.
#[test]
fn a_place_that_got_memory_behind_our_back_is_used_all_the_same() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    let pages = in_hand(&region);
    assert_eq!(exchange.move_in_run(&pages), 4);
    exchange.put_together(&pages);
    exchange
        .uffd
        .zero(exchange.frame(pages[1].frame), kernel_page())
        .unwrap();
    assert_eq!(exchange.move_out(&pages), (4, None));
    assert_eq!(
        pages
            .iter()
            .map(|page| in_frame(&exchange, page))
            .collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
}

#[test]
fn a_write_protected_page_can_be_copied_out_again_and_takes_writes_when_that_is_lifted() {
    let Some((exchange, mut region)) = exchange() else {
        return;
    };
    let memory = region.memory().clone();
    let page = InHand {
        memory: &memory,
        page: 1,
        frame: FrameNo(1),
    };
    assert_eq!(exchange.copy_in(&page, true), Some(true));
    exchange.drop_copies([Copy::InFrame(page)].into_iter());
    assert!(exchange.copy_out(&page));
    assert_eq!(are_there(&exchange, &page), (true, true));
    exchange.drop_copies([Copy::InFrame(page)].into_iter());
    exchange.open(&memory, 1);
    // Would wait for ever.
    region.bytes_mut()[kernel_page()] = 77;
    assert_eq!(exchange.move_out(&[page]), (1, None));
    assert_eq!(in_frame(&exchange, &page), 77);
}

#[test]
fn more_pages_than_fit_into_one_call_are_given_back() {
    let Some((exchange, _region)) = exchange() else {
        return;
    };
    let all: Vec<_> = (0..64).map(|n| exchange.frame(FrameNo(n))).collect();
    for count in [1, 63, 64] {
        (0..64).for_each(|n| exchange.fill(FrameNo(n)));
        let mut drops = Drops::new();
        for &address in all[..count].iter().chain(&all[..1]) {
            // SAFETY: there is no reference to the frames.
            unsafe { drops.push(address) };
        }
        drop(drops);
        let there = all
            .iter()
            .filter(|&&address| exchange.own_memory.has(address))
            .count();
        assert_eq!(there, 64 - count);
    }
}

/// The copy waited for the thread that made it.
#[test]
fn a_page_dropped_by_the_kernel_on_request_is_not_copied_out_and_reads_as_zeros() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    let page = in_hand(&region)[1];
    assert_eq!(exchange.copy_in(&page, true), Some(true));
    exchange.drop_copies([Copy::InFrame(page)].into_iter());
    assert!(!exchange.restore(region.memory(), 1), "it is there");
    // SAFETY: there is no reference to the page.
    unsafe { region.memory().mapping.discard(kernel_page()..2 * kernel_page()) };
    assert!(!exchange.copy_out(&page));
    assert!(exchange.restore(region.memory(), 1));
    assert_eq!(region.bytes()[kernel_page()], 0);
}

/// If the page was the same as its slot, the cache would not have known that it no longer is.
#[test]
fn pages_of_a_region_dropped_by_the_kernel_on_request_read_as_zeros_or_as_they_were() {
    let folder = crate::scratch::folder();
    let swap = crate::SwapFile::new(folder.path().join("swap"), 32 << 20);
    let cache = match crate::PageCache::builder().memory(4 << 20).swap(swap).build() {
        Err(error @ crate::Error::Setup { .. }) => return println!("skipped: {error}"),
        cache => cache.unwrap(),
    };
    let mut region = cache.region(16 << 20).unwrap();
    region.as_mut_slice().fill(1);
    let (bytes, mut n) = (region.as_slice(), 1_u64);
    for round in 0..30_000 {
        // Knuth's multiplier. Of every two pages one is of a set that is used again and again.
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let page = (n >> 33) as usize % [4096, 500][round % 2];
        let byte = &bytes[page << 12];
        assert!(*byte <= 1, "page {page}: {byte}");
        if round % 5 == 1 {
            let address = std::ptr::from_ref(byte).cast_mut().cast();
            // SAFETY: what is read there is a byte in any case.
            let answer = unsafe { libc::madvise(address, kernel_page(), libc::MADV_DONTNEED) };
            assert_eq!(answer, 0);
        }
    }
}

/// The reader of the pipe got bytes of other pages: the kernel's reference to a page is no pin, so the page
/// was moved, and its memory became another page's.
#[test]
fn bytes_given_to_a_pipe_stay_the_same_whatever_their_memory_is_needed_for() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let swap = crate::SwapFile::new(folder.path().join("swap"), 16 << 20).unlinked(true);
    let cache = match crate::PageCache::builder().memory(2 << 20).swap(swap).build() {
        Ok(cache) => cache,
        Err(why) => return std::println!("skipped: {why}"),
    };
    let (mut region, mut others) = (cache.region(64 << 10).unwrap(), cache.region(8 << 20).unwrap());
    region.as_mut_slice().fill(0xAA);
    let (mut from, to) = std::io::pipe().unwrap();
    let given = libc::iovec {
        iov_base: region.as_ptr().cast(),
        iov_len: region.len(),
    };
    // SAFETY: one range, which the region has for longer than the pipe has it.
    let spliced = unsafe { libc::vmsplice(std::os::fd::AsRawFd::as_raw_fd(&to), &raw const given, 1, 0) };
    assert_eq!(spliced, 64 << 10);
    for round in 1..4 {
        others.as_mut_slice().fill(round);
    }
    let mut got = vec![0; 64 << 10];
    io::Read::read_exact(&mut from, &mut got).unwrap();
    let wrong = got.iter().filter(|&&byte| byte != 0xAA).count();
    assert_eq!(wrong, 0, "bytes of {} that are another's", got.len());
    assert!(region.as_slice().iter().all(|&byte| byte == 0xAA));
}

/// The process was killed: the cache broke, and had a region.
#[test]
fn without_system_memory_for_a_page_a_toucher_waits_until_there_is() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (heard, hears) = std::sync::mpsc::channel();
    let cache = crate::PageCache::builder()
        .memory(2 << 20)
        .swap(crate::SwapFile::new(folder.path().join("swap"), 8 << 20))
        .on_warning(move |warning: &crate::device::Warning| heard.send(warning.to_string()).unwrap())
        .build();
    let cache = match cache {
        Ok(cache) => cache,
        Err(why) => return std::println!("skipped: {why}"),
    };
    let mut region = cache.region(6 << 20).unwrap();
    let pages = |region: &mut crate::Region| {
        let pages = region.as_mut_slice().chunks_mut(4096).enumerate();
        pages.for_each(|(n, page)| page.fill(n as u8));
    };
    pages(&mut region);
    let spaces = cache.handle.engine.spaces.as_ref().unwrap();
    let is_short = &spaces.exchange.uffd().is_short;
    is_short.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        // Most of it is in swap or in frames: pages that are read, and pages that come back.
        let touching = scope.spawn(|| {
            let all = region.as_slice().chunks(4096).enumerate();
            all.filter(|(n, page)| page.iter().any(|&byte| byte != *n as u8))
                .count()
        });
        let said = hears.recv().unwrap();
        assert!(said.contains("no memory to bring back page"), "{said}");
        assert!(!touching.is_finished());
        is_short.store(false, Ordering::Relaxed);
        assert_eq!(touching.join().unwrap(), 0);
    });
    assert!(hears.try_recv().is_err());
}
