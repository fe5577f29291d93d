//! Linux 2.6 to 7.0.

pub mod anon;
pub mod balance;
pub mod dirty;
pub mod reclaim;
pub mod reference;
pub mod wbt;

use millpond_core::swap::SwapSlots;

/// Whether a swapped-in page frees its slot at once: more than half are taken.
pub(crate) fn vm_swap_full(slots: &SwapSlots) -> bool {
    slots.taken().0 * 2 > slots.len().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_core::units::PageCount;

    #[test]
    fn swap_is_full_with_more_than_half_of_its_slots_taken() {
        let mut slots = SwapSlots::new(PageCount(128));
        (0..64).for_each(|_| assert!(slots.take().is_some()));
        assert!(!vm_swap_full(&slots));
        assert!(slots.take().is_some());
        assert!(vm_swap_full(&slots));
    }
}
