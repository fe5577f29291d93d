//! What kernels do where Millpond has rules of its own: Linux 2.6 to 7.0 and FreeBSD 4 to 13.
//!
//! Rows of modules. A file names `crate::x` only if `x` is its own module or stands in a lower row; modules side by side in
//! a row don't know one another. A test of the lab reads this table and the sources.
//!
//! ```text
//!   2  linux/anon     anonymous pages, their shadows and swap
//!   1  linux/reclaim  linux/dirty  linux/wbt   dirty pages at the cold end; limits and pauses; writes held back beside reads
//!   0  linux  freebsd   what Linux' rules share; laundering and its queue
//! ```
//!
//! Gorman 2011 is about `linux/reclaim`, Axboe 2016 about `linux/wbt`, Kim 2020 about `linux/anon`, Dillon 2000 about
//! `freebsd`, Hills 2015 about `linux/dirty`.
//!
//! What happens to a page, how much is scanned, which thread waits: pure functions over closed sets of systems, as the
//! core's are. Beside them is the machine that carries them out, in virtual time on a modelled disk. Nothing here is in a
//! Millpond cache: the experiments run the machines on the posts' loads, and `millpond doctor --kernel` says with the
//! arithmetic what a kernel does with its settings.

#![forbid(unsafe_code)]

pub mod freebsd;
pub mod linux;
