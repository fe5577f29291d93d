//! Blocks of documents that are made from the code. A test that finds one stale fails, or writes it with MILLPOND_BLESS=1.
//!
//! ```text
//!   <!-- made from the code: NAME -->
//!   what is made
//!   <!-- end -->
//! ```

use std::fs;
use std::path::Path;
use std::sync::Mutex;

/// Two tests may write one page.
static WRITING: Mutex<()> = Mutex::new(());

/// The block `name` of `page`, a path from the root of the repository, is `made`.
pub(crate) fn block(page: &str, name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join(page))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("there is no {page}"));
    let _alone = WRITING.lock();
    let text = fs::read_to_string(&path).expect(page);
    let begin = format!("<!-- made from the code: {name} -->\n");
    let parts = text
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once("<!-- end -->")?)));
    let Some((before, (block, after))) = parts else {
        panic!("{page} has no block {begin}…\n<!-- end -->")
    };
    let made = format!("{}\n", made.trim_end());
    if block == made {
        return;
    }
    let bless = std::env::var_os("MILLPOND_BLESS").is_some();
    assert!(
        bless,
        "the block {name} of {page} is stale: MILLPOND_BLESS=1 with this test writes it. It should be\n{made}"
    );
    fs::write(&path, format!("{before}{begin}{made}<!-- end -->{after}")).expect(page);
}

/// A row for each family of a text of Prometheus whose name begins with `prefix`: its name, its labels and its help.
#[allow(dead_code, reason = "not every program with blocks has metrics")]
pub(crate) fn metrics(text: &str, prefix: &str) -> String {
    let mut table = "| name | what it is |\n|---|---|\n".to_owned();
    for help in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, about) = help.split_once(' ').expect(help);
        if !name.starts_with(prefix) {
            continue;
        }
        let samples = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.split_once('{'));
        let samples = samples.filter(|(ending, _)| matches!(*ending, "" | "_count"));
        let labels = samples.map(|(_, labels)| {
            let names = labels.split(',').filter_map(|label| label.split_once("=\""));
            names.map(|(name, _)| name).collect::<Vec<_>>().join(",")
        });
        let labels = labels
            .max_by_key(String::len)
            .map_or(String::new(), |labels| format!("{{{labels}}}"));
        table += &format!("| `{name}{labels}` | {} |\n", about.trim_end_matches('.'));
    }
    table
}
