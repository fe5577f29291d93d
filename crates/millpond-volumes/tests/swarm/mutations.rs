//! Each mistake is caught: a swarm that passes says something only if it fails where the layout is wrong.

use crate::world::World;
use crate::{BUSY, number};
use millpond_volumes::mutation::{Mutation, make};

#[test]
fn each_mistake_is_caught_by_a_world() {
    let seeds = number("MILLPOND_SEEDS").unwrap_or(150);
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        let found = (0..seeds).find_map(|seed| {
            make(Some(mutation));
            let result = World::new(seed).run(BUSY);
            make(None);
            result.err().map(|broken| (seed, broken))
        });
        match found {
            Some((seed, broken)) => {
                let broken: String = broken.chars().take(140).collect();
                println!("{mutation:?}: seed {seed}: {broken}");
            }
            None => missed.push(mutation),
        }
    }
    assert!(missed.is_empty(), "no world has noticed {missed:?}");
}
