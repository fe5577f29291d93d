//! Deliberate bugs for testing the tests: with the feature `mutations` a thread can enable one. A swarm that passes says
//! something only if it would fail with a wrong layout.

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// A writer that has not known for long whether it is the newest believes a commit that was created.
    SleeperBelieved,
    /// A commit of which no answer came counts as stored.
    OutcomeGuessed,
    /// A commit that another has created counts as one's own.
    FenceIgnored,
    /// A sync does not wait for chunks in transit.
    SyncForgetsTransit,
    /// What is superseded is deleted at once.
    GraceIgnored,
    /// What a reader has pinned is deleted.
    PinsIgnored,
    /// What a snapshot has is deleted.
    SnapshotsIgnored,
    /// A page that lands late takes the place of a newer one.
    OldPageWins,
    /// A page that was in transit when its file was cut is there again.
    CutForgotten,
    /// A commit names a checkpoint that is not in the store yet.
    CheckpointUnproven,
    /// A page that was changed while it was cleaned is as it was.
    CleanedOverWrite,
    /// Cleaning ends after a batch, however much garbage there is.
    CleaningCapped,
    /// A store that has lost its commits is opened as an empty or an older one.
    LossIgnored,
    /// An object that is there under a name of ours counts as ours.
    NameBelieved,
    /// What a writer finds dead when it opens a store is dead since then.
    GraceAnew,
    /// As many chunks are in transit at a time, however slow the link is.
    WindowFixed,
    /// A writer that commits without a pause does not look for a claim.
    ClaimIgnored,
    /// What a slot of a disk tier has is believed.
    TierChecksumIgnored,
    /// A page is read from a slot of a disk tier before it was written there.
    TierComingRead,
    /// A page that was fetched once replaces one in a full disk tier.
    TierFirstUseAdmitted,
    /// A page in a disk tier that was used is replaced as one that was not.
    TierUsedReplaced,
    /// A page that was fetched long ago replaces one in a full disk tier.
    TierReachIgnored,
}

impl Mutation {
    /// Those of the layout.
    pub const OF_LAYOUT: [Mutation; 17] = [
        Mutation::SleeperBelieved,
        Mutation::OutcomeGuessed,
        Mutation::FenceIgnored,
        Mutation::SyncForgetsTransit,
        Mutation::GraceIgnored,
        Mutation::PinsIgnored,
        Mutation::SnapshotsIgnored,
        Mutation::OldPageWins,
        Mutation::CutForgotten,
        Mutation::CheckpointUnproven,
        Mutation::CleanedOverWrite,
        Mutation::CleaningCapped,
        Mutation::LossIgnored,
        Mutation::NameBelieved,
        Mutation::GraceAnew,
        Mutation::WindowFixed,
        Mutation::ClaimIgnored,
    ];

    /// Those of a disk tier.
    pub const OF_TIER: [Mutation; 5] = [
        Mutation::TierChecksumIgnored,
        Mutation::TierComingRead,
        Mutation::TierFirstUseAdmitted,
        Mutation::TierUsedReplaced,
        Mutation::TierReachIgnored,
    ];
}

#[cfg(feature = "mutations")]
mod of_thread {
    use super::Mutation;
    use std::cell::Cell;

    thread_local!(static MADE: Cell<Option<Mutation>> = const { Cell::new(None) });

    /// Makes the mistake from now on, on this thread.
    pub fn make(mutation: Option<Mutation>) {
        MADE.set(mutation);
    }

    /// Whether this thread makes the mistake.
    pub fn is(mutation: Mutation) -> bool {
        MADE.get() == Some(mutation)
    }
}

#[cfg(feature = "mutations")]
pub use of_thread::{is, make};

/// Whether this thread makes the mistake: never, without the feature `mutations`.
#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub const fn is(_: Mutation) -> bool {
    false
}
