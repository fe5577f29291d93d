//! Links, hard and symbolic.

use super::{Case, all, said, told};
use rustix::fs::{AtFlags, CWD};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

fn link(d: &Path, from: &str, to: &str) -> String {
    said(rustix::fs::linkat(
        CWD,
        d.join(from),
        CWD,
        d.join(to),
        AtFlags::empty(),
    ))
}

fn count(d: &Path, name: &str) -> u64 {
    fs::symlink_metadata(d.join(name)).map_or(0, |metadata| metadata.nlink())
}

pub(super) const CASES: &[Case] = &[
    ("link", |d| {
        fs::write(d.join("a"), "text").unwrap();
        fs::create_dir(d.join("dir")).unwrap();
        let pairs = [
            ("a", "b"),
            ("a", "b"),
            ("none", "c"),
            ("dir", "e"),
            ("a", "none/c"),
        ];
        let linked = pairs.map(|(from, to)| link(d, from, to));
        all([all(linked), format!("{} {}", count(d, "a"), count(d, "b"))])
    }),
    ("linked_names_are_one_file", |d| {
        fs::write(d.join("a"), "text").unwrap();
        link(d, "a", "b");
        fs::write(d.join("b"), "other").unwrap();
        let same = fs::metadata(d.join("a")).unwrap().ino() == fs::metadata(d.join("b")).unwrap().ino();
        fs::remove_file(d.join("a")).unwrap();
        format!(
            "{same} {} {}",
            fs::read_to_string(d.join("b")).unwrap(),
            count(d, "b")
        )
    }),
    ("link_to_a_symlink", |d| {
        symlink("nowhere", d.join("a")).unwrap();
        let linked = link(d, "a", "b");
        all([
            linked,
            format!("{:?} {}", fs::read_link(d.join("b")).ok(), count(d, "a")),
        ])
    }),
    ("symlink", |d| {
        let (long, longer) = ("x".repeat(4000), "x".repeat(5000));
        let targets = [
            ("target", "a"),
            ("target", "a"),
            ("", "b"),
            (&long, "c"),
            (&longer, "e"),
        ];
        all([
            all(targets.map(|(target, name)| told(symlink(target, d.join(name))))),
            format!("{:?}", fs::read_link(d.join("a")).ok()),
            format!(
                "{:?}",
                fs::read_link(d.join("c"))
                    .map(|target| target.as_os_str().len())
                    .ok()
            ),
            format!("{}", fs::symlink_metadata(d.join("a")).unwrap().len()),
            told(fs::read_link(d)),
        ])
    }),
    ("a_symlink_leads_to_its_target", |d| {
        fs::create_dir(d.join("dir")).unwrap();
        fs::write(d.join("dir/file"), "text").unwrap();
        symlink("dir", d.join("a")).unwrap();
        symlink("../dir/file", d.join("dir/b")).unwrap();
        all([
            fs::read_to_string(d.join("a/file")).unwrap(),
            fs::read_to_string(d.join("a/b")).unwrap(),
            told(fs::remove_dir(d.join("a"))),
            told(fs::remove_file(d.join("a"))),
            format!("{}", d.join("dir/file").exists()),
        ])
    }),
];
