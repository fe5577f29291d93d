//! What is exported, and all `unsafe` code.
//!
//! | file | what |
//! |---|---|
//! | `handle` `memory` | what C gives: handles, bytes, texts, structs |
//! | `page` | guards in structs of the caller's |
//! | `error` `cache` `figures` `file` `mapping` `region` `order` `check` `faults` `recording` | the calls |

mod handle;
mod memory;

// In the order of the header, which rustfmt leaves to lines that are apart.
mod error;

mod cache;

mod figures;

mod file;

mod page;

mod mapping;

mod region;

mod order;

mod check;

mod faults;

mod recording;

use handle::kinds;

kinds! {
    millpond_cache: cache::Cache, 0x6d70_0001;
    millpond_file: millpond::File, 0x6d70_0002;
    millpond_region: region::Shared, 0x6d70_0003;
    millpond_log: millpond::LogOrder, 0x6d70_0004;
    millpond_check: check::Check, 0x6d70_0005;
    millpond_faults: faults::Faults, 0x6d70_0006;
    millpond_recording: millpond::trace::Recording, 0x6d70_0007;
    millpond_map: millpond::Mapping, 0x6d70_0008;
}
