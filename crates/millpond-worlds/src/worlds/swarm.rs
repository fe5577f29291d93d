//! A world of the swarm, by its seed.

use super::millpond::Millpond;
use crate::world::Figure;
use millpond_core::admission::Configured;
use millpond_sim::swarm;

/// The world of `seed` at its beginning.
pub fn world(seed: u64) -> Millpond<Configured> {
    Millpond::new(swarm::world(seed), &[], |world| {
        let stats = world.manager().stats();
        vec![
            Figure::count("pgmajfault", stats.pgmajfault),
            Figure::count("pgscan", stats.pgscan()),
            Figure::count("pgsteal", stats.pgsteal()),
            Figure::count("nr_dirtied", stats.nr_dirtied),
            Figure::count("nr_written", stats.nr_written),
            Figure::count("nr_write_failed", stats.nr_write_failed),
            Figure::count("balance_dirty_pauses", stats.balance_dirty_pauses),
        ]
    })
}
