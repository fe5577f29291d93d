//! A flash disk on PCI Express: the mechanisms of `ssd.rs`, with more of each.
//!
//! It has 32 dies instead of eight channels, 1023 commands inside, a faster link and a larger burst buffer. The
//! parameters are our choice, for a typical consumer drive of 2020 with four lanes of PCI Express 3.0; no post measured
//! one. Not modeled are a write cache in the drive's memory, and reads that interrupt a die's write: as in `ssd.rs`, a
//! read waits for the writes before it on its die.

use super::SsdParameters;
use millpond_core::units::{Bytes, Nanos};

impl SsdParameters {
    /// A drive on PCI Express: 457,000 reads a second, 3.1 GB/s of reads of 1 MiB (each begins with 70 us), 3 GB/s
    /// written until a burst buffer of 16 GiB is full, then 1 GB/s.
    pub fn nvme() -> SsdParameters {
        SsdParameters {
            // Eight channels of four dies each, and a die works by itself.
            channels: 32,
            stripe: Bytes::from_kib(16),
            // 50 to 60 us to read a page of three bits a cell, and 10 to 20 us of controller and bus.
            read_latency: Nanos::from_micros(70),
            read_bytes_per_s: 3_400_000_000,
            write_burst_bytes_per_s: 3_000_000_000,
            write_sustained_bytes_per_s: 1_000_000_000,
            burst_buffer: Bytes::from_mib(16 << 10),
            // Four lanes of 985 MB/s each, less what the packets' heads take.
            link_bytes_per_s: 3_500_000_000,
            // Linux makes NVMe queues of 1024 entries (`io_queue_depth`), of which one stays empty.
            queue_depth: 1023,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::{assert_near, random_reads, run};
    use super::super::{Model, ModelParameters, ModelRequest};
    use super::*;
    use millpond_core::units::Instant;

    fn disk() -> Model {
        Model::new(&ModelParameters::Nvme(SsdParameters::nvme())).unwrap()
    }

    #[test]
    fn dies_work_side_by_side_up_to_the_drives_rates() {
        let clients = |count| (1..=count).map(|seed| random_reads(0, 64 << 30, seed)).collect();
        let one = run(&mut disk(), 1, clients(1));
        assert_eq!(one[0].percentile_ms(0.99), 0.07);
        let many = run(&mut disk(), 1, clients(512));
        let reads: usize = many.iter().map(|seen| seen.latencies.len()).sum();
        // 32 dies of 70 us each.
        assert_near("reads/s at 512 outstanding", reads as f64, 457_000.0);
    }

    #[test]
    fn large_transfers_take_what_the_dies_and_the_link_allow() {
        let mut disk = disk();
        for (write, mb_per_s) in [(false, 3_100.0), (true, 3_000.0)] {
            let (mut done, start) = (Vec::new(), disk.now + Nanos::from_secs(1));
            for id in 0..1000 {
                let (offset, len) = (id << 20, 1 << 20);
                disk.submit(
                    start,
                    ModelRequest {
                        id,
                        write,
                        offset,
                        len,
                    },
                );
            }
            while let Some(at) = disk.next_event() {
                disk.advance(at, &mut done);
            }
            assert_eq!(done.len(), 1000);
            let seconds = disk.now.since(start).0 as f64 / 1e9;
            assert_near("MB/s", 1000.0 * 1.048576 / seconds, mb_per_s);
            assert_eq!(
                disk.now,
                done.iter().map(|done| done.at).max().unwrap_or(Instant(0))
            );
        }
    }
}
