//! Is the page at the cold end in use? (`page_check_references`, Linux 3.0 to 7.0.)
//!
//! A page has two bits. *Young* is set by the processor when a mapping of the page is used, and cleared when the page is
//! looked at. *Referenced* is set by `read` and `write`, and by this very function as its memory of having seen the page
//! young.
//!
//! ```text
//!   young     anonymous, to 5.8                  activate
//!             was referenced before, or shared   activate
//!             executable                         activate
//!             else                               keep, and remember it as referenced
//!   not young referenced file page               free it only if it is clean
//!             else                               reclaim
//! ```

use millpond_core::page::PageKind;

/// The meaning of the bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Reference {
    /// Not in use.
    Reclaim,
    /// A use by `read` or `write` since it was met last: not worth a write.
    ReclaimClean,
    /// One more lap.
    Keep,
    /// To the active list.
    Activate,
}

/// The bits of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bits {
    /// Mappings that were used since the last look: 0, 1 or more.
    pub young: u8,
    /// The referenced bit.
    pub referenced: bool,
    /// It is mapped executable.
    pub executable: bool,
}

/// Looks at a page of `kind`: the answer, and the referenced bit that it has from now on (young is cleared).
/// `any_use_rescues_anonymous`: Linux to 5.8.
pub fn check(kind: PageKind, bits: Bits, any_use_rescues_anonymous: bool) -> (Reference, bool) {
    if bits.young > 0 {
        if kind == PageKind::Anonymous && any_use_rescues_anonymous {
            return (Reference::Activate, bits.referenced);
        }
        if bits.referenced || bits.young > 1 || (bits.executable && kind == PageKind::File) {
            return (Reference::Activate, true);
        }
        return (Reference::Keep, true);
    }
    if bits.referenced && kind == PageKind::File {
        return (Reference::ReclaimClean, false);
    }
    (Reference::Reclaim, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Bits = Bits {
        young: 0,
        referenced: false,
        executable: false,
    };

    #[test]
    fn a_mapped_file_page_is_activated_at_its_second_use() {
        let young = Bits { young: 1, ..NONE };
        let (first, referenced) = check(PageKind::File, young, true);
        assert_eq!((first, referenced), (Reference::Keep, true));
        let (second, _) = check(PageKind::File, Bits { referenced, ..young }, true);
        assert_eq!(second, Reference::Activate);
        let shared = Bits { young: 2, ..NONE };
        assert_eq!(check(PageKind::File, shared, true).0, Reference::Activate);
        let code = Bits {
            executable: true,
            ..young
        };
        assert_eq!(check(PageKind::File, code, true).0, Reference::Activate);
    }

    #[test]
    fn a_page_that_was_written_once_is_freed_only_if_clean_the_first_time() {
        let referenced = Bits {
            referenced: true,
            ..NONE
        };
        assert_eq!(
            check(PageKind::File, referenced, true),
            (Reference::ReclaimClean, false)
        );
        assert_eq!(check(PageKind::File, NONE, true), (Reference::Reclaim, false));
    }

    #[test]
    fn any_use_rescued_an_anonymous_page_until_5_8() {
        let young = Bits { young: 1, ..NONE };
        assert_eq!(check(PageKind::Anonymous, young, true).0, Reference::Activate);
        assert_eq!(check(PageKind::Anonymous, young, false), (Reference::Keep, true));
        let code = Bits {
            executable: true,
            ..young
        };
        assert_eq!(
            check(PageKind::Anonymous, code, false).0,
            Reference::Keep,
            "the rule for code is for files"
        );
    }
}
