//! The goal for read latency, from what a read costs on the device at hand.

use crate::cache::Handle;
use crate::device::{self, Device, DeviceFile, Op, Request, Segments};
use millpond_core::admission::AdmissionOptions;
use millpond_core::event::Event;
use millpond_core::units::Nanos;
use std::sync::Arc;
use std::time::Duration;

impl Handle {
    /// Measures what a read costs when nothing else is asked of the device, once, and derives the goal from it: 24
    /// reads, 130 ms on a disk that rotates.
    pub(crate) fn calibrate(&self, device: &DeviceFile, len: u64) {
        const READS: u64 = 24;
        let mut calibrate = self.calibrate.lock();
        if !*calibrate || len < 1 << 20 {
            return;
        }
        *calibrate = false;
        let mut options = self.shared.core().manager.options().clone();
        let AdmissionOptions::Goal(goal) = &mut options.admission else {
            return;
        };
        let Ok(device) = device.try_clone().map(Arc::new) else {
            return;
        };
        let buffer = device::Buffer::new(4096);
        let mut took: Vec<Duration> = (0..READS)
            .filter_map(|n| {
                // Anywhere: equal steps would meet a turning disk at equal angles.
                let offset = scatter(n) % (len / 4096) * 4096;
                let segments = Segments::of(buffer.clone(), 0, 4096);
                let request = Request {
                    token: 0,
                    op: Op::Read,
                    reason: None,
                    file: device.clone(),
                    offset,
                    segments,
                };
                let began = std::time::Instant::now();
                let _dart = self.shared.dart("device");
                self.shared
                    .device
                    .transfer(&request)
                    .ok()
                    .map(|_| began.elapsed())
            })
            .collect();
        took.sort_unstable();
        let Some(median) = took.get(took.len() / 2) else {
            return;
        };
        goal.read_latency = Nanos((median.as_nanos() as u64 * 16).clamp(2_000_000, 60_000_000));
        self.shared.tell(Event::Retuned(Box::new(options)));
    }
}

/// The bits of `n`, well mixed (splitmix64).
fn scatter(n: u64) -> u64 {
    let z = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
