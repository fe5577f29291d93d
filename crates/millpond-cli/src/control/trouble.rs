//! What is wrong with a running cache, in sentences: a device that does not answer, writes that it refuses, a detached
//! mount. Every command that asks a cache reports it, whatever it asks.

use super::{count, shown, text};
use millpond::internal::quantity::size;
use millpond_core::units::Bytes;
use millpond_fuse::MountKind;
use serde_json::Value;
use std::path::PathBuf;

/// The troubles in an answer to `about`.
pub(super) fn troubles(about: &Value) -> Vec<String> {
    let mut troubles = Vec::new();
    let overdue = &about["overdue"];
    if overdue.is_object() {
        let requests = match count(overdue, "requests") {
            1 => String::new(),
            requests => format!(" ({requests} requests wait)"),
        };
        troubles.push(format!(
            "{}{requests}: its disk does not answer",
            shown(text(overdue, "longest"))
        ));
    }
    match count(about, "failed_bytes") {
        0 => {}
        failed => troubles.push(format!(
            "the disk refuses {}: it is kept in memory and tried again, and every sync of these files fails; `millpond top` \
             and the log name them",
            size(Bytes(failed))
        )),
    }
    if is_without_name(about) {
        troubles
            .push("it is no longer mounted: it still serves open files, or writes its remaining data".into());
    }
    troubles
}

/// Where the mount is that has this cache, and what it shows. The cache of a directory's mount has the name of its mount point;
/// that of a store's is `s3://bucket/prefix at /mnt/pond (rw)`.
pub(super) fn mount_of(about: &Value) -> Option<(PathBuf, MountKind)> {
    let name = about["name"].as_str()?;
    if name.starts_with('/') {
        return Some((PathBuf::from(name), MountKind::Directory));
    }
    let (place, kind) = match name.strip_suffix(" (rw)") {
        Some(place) => (place, MountKind::Store),
        None => (name.strip_suffix(" (ro)")?, MountKind::StoreReader),
    };
    let at = place.find(" at /")?;
    Some((PathBuf::from(&place[at + " at ".len()..]), kind))
}

/// Whether it is a mount's cache and nothing is mounted. From another mount namespace this can't be seen.
pub(super) fn is_without_name(about: &Value) -> bool {
    let Some((point, _)) = mount_of(about) else {
        return false;
    };
    let Ok(process) = u32::try_from(count(about, "pid")) else {
        return false;
    };
    let space = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let is_ours = space("self").is_some() && space("self") == space(&process.to_string());
    is_ours
        && text(about, "program").starts_with("millpond")
        && !millpond_fuse::served_by(process).contains(&point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn troubles_are_reported_and_a_healthy_cache_has_none() {
        assert_eq!(
            troubles(&json!({ "name": "a", "overdue": null, "failed_bytes": 0 })),
            Vec::<String>::new()
        );
        let said = troubles(&json!({
            "overdue": { "requests": 3, "waited_s": 14.2, "longest": "a write of /srv/a has been waiting for 14.2 s" },
            "failed_bytes": 4 << 20,
        }));
        assert_eq!(said.len(), 2);
        assert!(
            said[0].contains("/srv/a") && said[0].contains("(3 requests wait)"),
            "{said:?}"
        );
        assert!(said[1].contains("refuses 4 MiB"), "{said:?}");
    }
}
