//! Scripts for the processes of a [`World`](crate::World).

pub mod axboe2016;
pub mod hills2015;
pub(crate) mod random;
pub mod stream;
