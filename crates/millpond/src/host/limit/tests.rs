//! Limits as files say them: the hosts in `tests/hosts`, each a text with what is to be found and the files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

/// A host of the folder, its files below a folder of its own.
pub(in crate::host) struct Host {
    pub(in crate::host) root: tempfile::TempDir,
    expected: Vec<(String, String)>,
}

impl Host {
    pub(in crate::host) fn of(text: &str) -> Host {
        let root = tempfile::tempdir().unwrap();
        let mut parts = text.split("\n--- ");
        let head = parts.next().unwrap();
        for part in parts {
            let (path, content) = part.split_once('\n').unwrap_or((part, ""));
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let lines = head.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(": "));
        let expected = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Host {
            root,
            expected: expected.collect(),
        }
    }

    fn expected(&self, name: &str) -> &str {
        let found = self.expected.iter().find(|(known, _)| known == name);
        &found.unwrap().1
    }

    pub(in crate::host) fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.root.path()).unwrap().display().to_string()
    }
}

#[test]
fn every_host_has_the_limit_and_the_free_memory_that_its_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let host = Host::of(&fs::read_to_string(&path).unwrap());
        let limit = limit_below(host.root.path());
        let limit = limit.map(|limit| format!("{} {}", limit.bytes, host.name(&limit.file)));
        assert_eq!(
            limit.as_deref().unwrap_or("none"),
            host.expected("limit"),
            "{}",
            path.display()
        );
        let free = match free_memory_below(host.root.path(), u64::MAX) {
            None => "none".into(),
            Some(Notice::MemoryShort {
                free, group: None, ..
            }) => free.to_string(),
            Some(Notice::MemoryShort {
                free,
                group: Some(group),
                ..
            }) => format!("{free} {}", host.name(&group)),
            Some(other) => panic!("{other}"),
        };
        assert_eq!(free, host.expected("free"), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 12, "only {seen} hosts");
}

#[test]
fn a_budget_within_free_memory_gives_no_warning() {
    let host = Host::of(include_str!("../../../tests/hosts/v2_namespace.txt"));
    assert_eq!(free_memory_below(host.root.path(), 260_046_848), None);
    let notice = free_memory_below(host.root.path(), 260_046_849).unwrap();
    assert!(
        notice.cause().contains("260046849 bytes") && notice.cause().contains("has 260046848 bytes free"),
        "{}",
        notice.cause()
    );
}

#[test]
fn a_budget_above_all_memory_of_the_machine_is_refused_unless_allowed() {
    let host = Host::of(include_str!("../../../tests/hosts/no_groups.txt"));
    let machine = 16_384_000 << 10;
    assert!(check_machine(host.root.path(), machine, false).is_ok());
    let refused = check_machine(host.root.path(), machine + 1, false);
    let refused = crate::Error::from(refused.unwrap_err());
    assert!(
        refused.to_string().contains("this machine's 16777216000"),
        "{refused}"
    );
    assert!(check_machine(host.root.path(), machine + 1, true).is_ok());
}

#[test]
fn a_container_sees_its_part_of_the_tree() {
    let mount = tempfile::tempdir().unwrap();
    fs::create_dir(mount.path().join("job")).unwrap();
    let dirs = upwards(mount.path(), Path::new("/box/17"), Path::new("/box/17/job"));
    assert_eq!(dirs, [mount.path().join("job"), mount.path().to_owned()]);
    // A path that this mount does not show: only the mount itself is left.
    let dirs = upwards(mount.path(), Path::new("/box/17"), Path::new("/elsewhere/job"));
    assert_eq!(dirs, [mount.path()]);
}

#[test]
fn this_host_can_be_asked() {
    let groups = control_groups();
    for group in &groups {
        assert!(group.path.is_dir(), "{group:?}");
    }
    if groups.is_empty() {
        println!("skipped: this host shows no control groups");
    }
    assert!(memory_available().is_some_and(|free| free > 0));
}
