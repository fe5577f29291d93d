//! The devices of this crate keep what every device promises, and one that does not is found out.

use millpond::device;
use millpond::units::Nanos;
use millpond_testing::disk::{Model, SsdParameters};
use millpond_testing::{Crashing, Fault, FaultRule, FaultTarget, Faulty, Modelled, conformance};

#[test]
fn modelled_keeps_what_every_device_promises() {
    let fast = SsdParameters {
        read_latency: Nanos::from_micros(1),
        read_bytes_per_s: 100_000_000_000,
        write_burst_bytes_per_s: 100_000_000_000,
        link_bytes_per_s: 100_000_000_000,
        ..SsdParameters::default()
    };
    conformance::check(|| Modelled::new(device::best(), Model::ssd(fast).unwrap()).unwrap());
}

#[test]
fn faulty_without_a_rule_keeps_what_every_device_promises() {
    conformance::check(|| Faulty::new(device::best(), 1));
}

#[test]
fn crashing_keeps_what_every_device_promises() {
    conformance::check(|| Crashing::new(device::best(), 512));
}

#[test]
#[should_panic(expected = "breaks a promise: length_is_set_for_every_transfer_after_it")]
fn a_broken_promise_of_a_device_is_named() {
    conformance::check(|| {
        let disk = Faulty::new(device::best(), 1);
        disk.add(FaultRule::always(FaultTarget::Lengths, Fault::Fail(5)));
        disk
    });
}
