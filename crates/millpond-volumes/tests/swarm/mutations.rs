//! Each mistake is caught: a swarm that passes says something only if it fails where the layout is wrong.

use crate::world::World;
use crate::{BUSY, number};
use millpond_volumes::mutation::{Mutation, make};

/// Of these a world is too rare.
const IN_HISTORIES: [Mutation; 2] = [Mutation::ClaimIgnored, Mutation::NameBelieved];

#[test]
fn each_mistake_is_caught_by_a_history_that_a_world_is_too_rare_for() {
    make(Some(Mutation::ClaimIgnored));
    let taken = crate::links::takeover();
    make(Some(Mutation::NameBelieved));
    let believed = std::panic::catch_unwind(crate::lost::taken_name);
    make(Some(Mutation::GraceAnew));
    let kept = crate::links::short_lives();
    make(Some(Mutation::WindowFixed));
    let stuck = crate::links::slow_link();
    make(None);
    assert!(taken.is_err() && believed.is_err() && kept.is_err() && stuck.is_err());
}

#[test]
fn each_mistake_is_caught_by_a_world() {
    let seeds = number("MILLPOND_SEEDS").unwrap_or(150);
    let mut missed = Vec::new();
    for mutation in Mutation::OF_LAYOUT
        .into_iter()
        .filter(|mutation| !IN_HISTORIES.contains(mutation))
    {
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
