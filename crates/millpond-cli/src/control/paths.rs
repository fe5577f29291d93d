//! Paths of a cache's files as users know them: below the mount, and not in its source directory.

use super::shown;
use millpond::internal::{MountEntry, mounts};
use serde_json::{Value, json};
use std::path::Path;

/// A cache's answer to `about`, with the source directory if it is a mount's.
pub(crate) fn with_source(mut about: Value) -> Value {
    if let Some(name) = about["name"].as_str() {
        let mounts = mounts().unwrap_or_default();
        let is_it = |mount: &&MountEntry| mount.fs_type == "fuse.millpond" && mount.point == Path::new(name);
        if let Some(mount) = mounts.iter().rev().find(is_it) {
            about["source"] = json!(mount.source.to_string_lossy());
        }
    }
    about
}

/// The path of a file in a cache's answer, for display. `about`: the cache's answer to that.
pub(crate) fn path_shown(about: &Value, file: &Value) -> String {
    let Some(path) = file["path"].as_str() else {
        return "(anonymous memory)".into();
    };
    let below = about["source"]
        .as_str()
        .and_then(|source| path.strip_prefix(source.trim_end_matches('/')))
        .filter(|below| below.starts_with('/'));
    match (about["name"].as_str(), below) {
        (Some(point), Some(below)) => shown(&format!("{}{below}", point.trim_end_matches('/'))),
        _ => shown(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_mount_is_below_the_mount_and_any_other_where_it_is() {
        let mount = json!({ "name": "/mnt/pond", "source": "/srv/data" });
        let path = |about: &Value, path: &str| path_shown(about, &json!({ "path": path }));
        assert_eq!(path(&mount, "/srv/data/db/main"), "/mnt/pond/db/main");
        assert_eq!(path(&mount, "/srv/data2/db"), "/srv/data2/db");
        assert_eq!(path(&json!({ "name": "/", "source": "/" }), "/a"), "/a");
        assert_eq!(path(&json!({ "name": "orders" }), "/srv/data/db"), "/srv/data/db");
        assert_eq!(path_shown(&mount, &json!({ "path": null })), "(anonymous memory)");
    }
}
