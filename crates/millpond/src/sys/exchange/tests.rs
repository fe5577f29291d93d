//! What the kernel moved and did not tell of.

use super::*;
use millpond_core::units::{Bytes, PageSize};

const PAGES: u64 = 4;

/// Pages 0 to 3 of a region, in the frames of the same numbers, each with its number in it. `None`, and said why, where
/// nothing can be moved.
fn exchange() -> Option<(Exchange, RegionBytes)> {
    let memory = Bytes(64 * 4096);
    let (table, mut turn) = Table::new(Arena::new(memory, PageSize::KIB_4, true).unwrap()).unwrap();
    table.locked(&mut turn).grow(64).unwrap();
    table.memory().populate(0..64);
    let exchange = match Exchange::new(Arc::new(table)) {
        Ok(exchange) => exchange,
        Err(why) => {
            std::println!("skipped: {why}");
            return None;
        }
    };
    exchange.add_frames(0..64).unwrap();
    let region = RegionBytes::new(PAGES as usize * kernel_page(), Touch::Sleeps).unwrap();
    exchange.add_region(region.memory()).unwrap();
    for n in 0..PAGES {
        let frame = exchange.table.memory().pointer(FrameNo(n as u32)).as_ptr();
        // SAFETY: the frame's memory is in the arena, and nobody else's.
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

/// Moves pages as the kernel does that does not tell.
fn move_untold(exchange: &Exchange, pages: &[InHand<'_>], is_in: bool) {
    for page in pages {
        let (region, frame) = (page.memory.page(page.page), exchange.frame(page.frame));
        let (to, from) = if is_in { (region, frame) } else { (frame, region) };
        // SAFETY: the page is nobody else's.
        let (_, moved) = unsafe { exchange.uffd.move_pages(to, from, kernel_page()) };
        moved.unwrap();
    }
}

fn content(region: &RegionBytes) -> Vec<u8> {
    region.bytes().chunks(kernel_page()).map(|page| page[0]).collect()
}

/// The process ended, or the page was taken for one that is in its frame, where whoever came to it next found zeros.
#[test]
fn pages_that_the_kernel_has_moved_into_a_region_without_telling_are_there() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    let pages = in_hand(&region);
    move_untold(&exchange, &pages[..2], true);
    exchange.move_in(&pages[0]);
    assert_eq!(exchange.move_in_run(&pages), 2, "the others were not moved");
    assert_eq!(exchange.move_in_run(&pages[2..]), 2);
    assert_eq!(content(&region), [0, 1, 2, 3]);
}

#[test]
fn pages_that_the_kernel_has_moved_out_of_a_region_without_telling_are_out() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    let pages = in_hand(&region);
    assert_eq!(exchange.move_in_run(&pages), 4);
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

/// Whose content is it then? That must never be guessed.
#[test]
fn a_page_that_is_in_both_places_is_refused() {
    let Some((exchange, region)) = exchange() else {
        return;
    };
    let pages = in_hand(&region);
    exchange.restore(region.memory(), 1);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| exchange.move_in(&pages[1])));
    let said = *panic.unwrap_err().downcast::<String>().unwrap();
    assert!(
        said.contains("to page 1") && said.contains("File exists"),
        "{said}"
    );
}
