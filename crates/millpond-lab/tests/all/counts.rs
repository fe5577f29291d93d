//! Texts that say how many there are of something count right.

use millpond_lab::experiment::EXPERIMENTS;
use millpond_lab::experiment::policies;
use millpond_sim::policy::Model;

const WORDS: [&str; 13] = [
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
];

#[test]
fn experiments_and_policies_are_as_many_as_texts_say() {
    let readme = include_str!("../../../../README.md").to_lowercase();
    let with_post = EXPERIMENTS.iter().filter(|e| !e.post.starts_with("none"));
    let (all, posts) = (WORDS[EXPERIMENTS.len()], WORDS[with_post.count()]);
    let words = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = format!("{all} experiments. {posts} are each based on a mailing-list post");
    assert!(words.contains(&told), "README: {told}");
    // The optimum and Millpond's own among them.
    let models = WORDS[Model::ALL.len()];
    let help = include_str!("../../../millpond-cli/src/lab/experiments.rs");
    assert!(help.contains(&format!("misses of {models} policies")), "{models}");
    let told = format!("none: {models} policies of");
    assert!(policies::EXPERIMENT.post.starts_with(&told), "{told}");
    let page = include_str!("../../../../docs/PLAYGROUND.md");
    assert!(page.contains(&format!("{models} policies, the optimum among them")));
}
