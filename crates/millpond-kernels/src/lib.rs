//! What kernels do where Millpond has rules of its own: Linux 2.6 to 7.0 and FreeBSD 4 to 13.
//!
//! ```text
//!   linux/reclaim   dirty pages at the end of the list         Gorman 2011
//!   linux/anon      anonymous pages, their shadows and swap    Kim 2020
//!   linux/dirty     limits on dirty pages, pauses              Hills 2015
//!   linux/wbt       writes held back beside reads              Axboe 2016
//!   freebsd         laundering; the laundry queue              Dillon 2000
//! ```
//!
//! What happens to a page, how much is scanned, which thread waits: pure functions over closed sets of systems, as the
//! core's are. Beside them is the machine that carries them out, in virtual time on a modelled disk. Nothing here is in a
//! Millpond cache: the experiments run the machines on the posts' loads, and `millpond doctor --kernel` says with the
//! arithmetic what a kernel does with its settings.

#![forbid(unsafe_code)]

pub mod freebsd;
pub mod linux;
