//! A file system's reaction when reclaim asks it to write one page (`writepage`).
//!
//! Gorman 2011: "filesystems respond very differently to requests from reclaim": xfs writes if the requester is kswapd,
//! ext4 ignores the request for a page without a place on the disk (delayed allocation), btrfs ignores it entirely, ext3
//! just writes. These answers decide what the patches can change: on btrfs nothing.

use millpond_core::reclaim::trace::Caller;

/// The file system of a simulated file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// Writes for kswapd, and what follows the page with it; refuses allocating tasks.
    Xfs,
    /// Writes that one page for either.
    Ext3,
    /// Refuses pages whose place on the disk is not chosen yet, which a newly written page's never is.
    Ext4,
    /// Refuses always.
    Btrfs,
}

/// The result of a request to write a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is being written, with up to this many dirty pages that follow it in the file.
    Writes {
        /// The maximum number of dirty neighbours after the page that go with it.
        behind_pages_max: u64,
    },
    /// It was marked dirty again and nothing else happened.
    Redirties,
}

/// How far `xfs_cluster_write` of Linux 3.0 goes on behind the page: reclaim asks for `SWAP_CLUSTER_MAX` pages
/// (`wbc.nr_to_write` of `pageout`), and xfs counts each neighbour against that. From memory of 3.0.
pub const XFS_CLUSTER_PAGES_MAX: u64 = 31;

impl FileSystem {
    /// All of them.
    pub const ALL: [FileSystem; 4] = [
        FileSystem::Xfs,
        FileSystem::Ext3,
        FileSystem::Ext4,
        FileSystem::Btrfs,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            FileSystem::Xfs => "xfs",
            FileSystem::Ext3 => "ext3",
            FileSystem::Ext4 => "ext4",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<FileSystem> {
        FileSystem::ALL.into_iter().find(|f| f.name() == name)
    }

    /// The answer to reclaim. `has_place`: the page's place on the disk has been chosen; `false` for one that was appended
    /// since the last write-back.
    pub fn writepage(self, caller: Caller, has_place: bool) -> Answer {
        let alone = Answer::Writes { behind_pages_max: 0 };
        match (self, caller) {
            (FileSystem::Xfs, Caller::Kswapd) => Answer::Writes {
                behind_pages_max: XFS_CLUSTER_PAGES_MAX,
            },
            (FileSystem::Ext3, _) => alone,
            (FileSystem::Ext4, _) if has_place => alone,
            (FileSystem::Xfs | FileSystem::Ext4 | FileSystem::Btrfs, _) => Answer::Redirties,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_system_answers_reclaim_in_its_own_way() {
        let writes = |fs: FileSystem, caller, has_place| fs.writepage(caller, has_place) != Answer::Redirties;
        let table = [
            // kswapd and direct, without a place; then with one
            (FileSystem::Xfs, [true, false, true, false]),
            (FileSystem::Ext3, [true, true, true, true]),
            (FileSystem::Ext4, [false, false, true, true]),
            (FileSystem::Btrfs, [false, false, false, false]),
        ];
        for (fs, expected) in table {
            let mut answers = [false; 4];
            for (n, answer) in answers.iter_mut().enumerate() {
                let caller = [Caller::Kswapd, Caller::Direct][n % 2];
                *answer = writes(fs, caller, n >= 2);
            }
            assert_eq!(answers, expected, "{fs:?}");
            assert_eq!(FileSystem::from_name(fs.name()), Some(fs));
        }
        assert_eq!(FileSystem::from_name("reiser4"), None);
    }

    #[test]
    fn only_xfs_takes_the_neighbours_along() {
        let behind = |fs: FileSystem| match fs.writepage(Caller::Kswapd, true) {
            Answer::Writes { behind_pages_max } => behind_pages_max,
            Answer::Redirties => 0,
        };
        assert_eq!(behind(FileSystem::Xfs), 31);
        assert_eq!(behind(FileSystem::Ext3), 0);
    }
}
