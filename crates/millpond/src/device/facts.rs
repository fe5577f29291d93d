//! What is known of a device without measuring it.

/// What a device says of itself. The policy derives its limits from it: how many writes may be in flight
/// (seed 001, Axboe 2016: from the queue depth), whether neighbours are worth waiting for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceFacts {
    /// Commands that the device works on at a time; more wait outside it.
    pub queue_depth: u32,
    /// Whether a read somewhere else costs a seek.
    pub rotational: bool,
    /// Whether the device answers writes before they are durable, so that only a flush makes them so.
    pub write_cache: bool,
}
