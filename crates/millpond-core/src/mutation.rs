//! Deliberate bugs for testing the tests. With the feature `mutations`, one can be enabled at a time.
//!
//! A passing suite means something only if it would fail with a broken engine. Each of these is a plausible bug, placed
//! where it would be made, in one line that asks [`is`]. The variable `MILLPOND_MUTATION` names the bug a process runs
//! with. `crates/millpond-lab/tests/mutations.rs` runs the suites with each one and prints which test noticed it.
//!
//! Without the feature, [`is`] is a constant `false` and nothing of this remains in the build. With it, only builds
//! with debug assertions compile, so no release can contain it. The feature is the only thing that lets this crate read
//! the environment.

#[cfg(all(feature = "mutations", not(debug_assertions)))]
compile_error!("the feature `mutations` is for tests of the tests: no release has it");

macro_rules! mutations {
    ($($(#[doc = $doc:literal])* $mutation:ident = $name:literal,)*) => {
        /// A mistake.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutation {
            $($(#[doc = $doc])* $mutation,)*
        }

        impl Mutation {
            /// All of them.
            pub const ALL: &[Mutation] = &[$(Mutation::$mutation,)*];

            /// Its name in the variable.
            pub fn name(self) -> &'static str {
                match self {
                    $(Mutation::$mutation => $name,)*
                }
            }

            /// The mistake.
            pub fn what(self) -> &'static str {
                match self {
                    $(Mutation::$mutation => concat!($($doc,)*).trim_ascii(),)*
                }
            }
        }
    };
}

mutations! {
    /// A page whose write has failed counts as written.
    DropDirtyPage = "drop-dirty-page",
    /// A sync ends before anything is written.
    SyncBeforeWrites = "sync-before-writes",
    /// A sync does not wait for writes that were on their way when it began.
    SyncForgetsTransit = "sync-forgets-transit",
    /// A sync ends before the device has made anything durable.
    SyncWithoutDevice = "sync-without-device",
    /// A sync ends well though a write of its pages has failed.
    SyncHidesError = "sync-hides-error",
    /// A failed device sync is forgotten by the next one.
    SyncErrorForgotten = "sync-error-forgotten",
    /// The odd tail of a file is not written.
    SkipTail = "skip-tail",
    /// The rest of a write that the device did in part is not asked for.
    ShortWriteIsWhole = "short-write-is-whole",
    /// A page that is changed while it is being written is not written again.
    ForgetRedirtied = "forget-redirtied",
    /// Reclaim takes dirty pages.
    EvictDirty = "evict-dirty",
    /// Reclaim takes pages that are being read.
    EvictPinned = "evict-pinned",
    /// A frame is still free when it has been given out.
    FrameTwice = "frame-twice",
    /// Ordinary allocations use the reserve.
    ReserveForAll = "reserve-for-all",
    /// A pool that is to shrink keeps its frames.
    ShrinkForgotten = "shrink-forgotten",
    /// Bytes in transit are not all taken off when a write ends.
    TransitLeaks = "transit-leaks",
    /// Bytes in transit to one device are counted for all.
    OneControllerForAll = "one-controller-for-all",
    /// A device that has a limit in bytes is held to the goal of a disk.
    DeviceLimitIsTheForms = "device-limit-is-the-forms",
    /// Once a dirtier has paused, none goes on.
    ThrottleForever = "throttle-forever",
    /// A caller that waits for a page is not woken when its load, its write or its owner's turn ends.
    LoseWakeup = "lose-wakeup",
    /// A sync is not told that the last of its pages was cut off.
    SyncNotEndedByCut = "sync-not-ended-by-cut",
    /// A page in other hands is not checked again for a sync.
    PassNotResumed = "pass-not-resumed",
    /// Data past a cut in its page reappears when the file grows.
    OldBytesBehindCut = "old-bytes-behind-cut",
    /// A cut does not wait for a write of the page that it cuts.
    CutBeforeWrites = "cut-before-writes",
    /// Pages leave memory before the device has agreed to give up its part.
    ForgottenBeforeDevice = "forgotten-before-device",
    /// Pages that the device is giving up are written meanwhile.
    HoleIsWritten = "hole-is-written",
    /// A caller that waits is not told that the cache is poisoned.
    PoisonWakesNobody = "poison-wakes-nobody",
    /// A page of a region that is written after it was read is taken for one that was not.
    OldTwinIsKept = "old-twin-is-kept",
    /// The outcome of pages admitted by bimodal insertion does not influence how many are admitted.
    BimodalShareIsFixed = "bimodal-share-is-fixed",
    /// A refault of a page that was active moves the target of the inactive list up, too.
    TargetOnlyRises = "target-only-rises",
    /// A mapping keeps its version of a page when a call changes the page.
    MappedCopyIsKept = "mapped-copy-is-kept",
    /// A page that a thread writes in a mapping is dirty, and the core is not told.
    OpenedPageIsUnknown = "opened-page-is-unknown",
    /// A page is written in a mapping while a reader has it by a hazard slot.
    OpenedWhilePinned = "opened-while-pinned",
    /// Data stored in a mapping past the end of its file stays there.
    MappedTailIsKept = "mapped-tail-is-kept",
    /// The last page of a file is written in a mapping while the file becomes longer.
    TailIsOpened = "tail-is-opened",
}

/// Whether this process makes the mistake.
///
/// # Panics
/// With the feature, if the variable names none.
#[cfg(feature = "mutations")]
pub fn is(mutation: Mutation) -> bool {
    use std::sync::OnceLock;
    static OF_PROCESS: OnceLock<Option<Mutation>> = OnceLock::new();
    let of_process = OF_PROCESS.get_or_init(|| {
        let name = std::env::var("MILLPOND_MUTATION").ok()?;
        let named = Mutation::ALL.iter().find(|mutation| mutation.name() == name);
        Some(*named.unwrap_or_else(|| panic!("MILLPOND_MUTATION={name}: there is no such mutation")))
    });
    *of_process == Some(mutation)
}

/// Whether this process makes the mistake: never, without the feature `mutations`.
#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub const fn is(_: Mutation) -> bool {
    false
}
