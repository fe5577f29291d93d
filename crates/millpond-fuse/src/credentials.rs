//! Credentials of callers, and files created with them.
//!
//! A mount made by root serves many users. The kernel has checked their permissions (`default_permissions`) from the
//! attributes of the underlying file system. A new file, however, must belong to the caller, take the group of a
//! directory that passes its group on, and count for the caller's quota. So the creating thread takes the caller's user
//! and group during the call, which kernels keep per thread. It keeps the right to bypass permissions, which were
//! checked with groups that it does not have.

use procfs::process::{Process, Status};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_thread_res_gid, set_thread_res_uid};
use std::io::Write;

/// The caller of a system call, as FUSE tells of it.
#[derive(Clone, Copy)]
pub(crate) struct Credentials {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// As this process sees it; 0 from outside its PID name space.
    pub(crate) thread: u32,
}

impl Credentials {
    /// Whether the caller may let a file run as this group: it is in the group, or may do so for any (`in_group_or_capable`,
    /// Linux 6.18). FUSE tells its first group only, /proc the others. A caller that is not found there may not.
    pub(crate) fn may_set_group(&self, group: u32) -> bool {
        if self.group == group {
            return true;
        }
        let Some(status) = status(self.thread) else {
            return self.user == 0;
        };
        let is_in_it = status.groups.contains(&group);
        let may_for_any = CapabilitySet::from_bits_retain(status.capeff).contains(CapabilitySet::FSETID);
        // Capabilities in another user name space are none here.
        is_in_it || (may_for_any && is_of_our_user_namespace(self.thread))
    }

    /// Whether files that the caller changes keep their set-user-ID and set-group-ID bits (`CAP_FSETID`).
    pub(crate) fn may_keep_ids(&self) -> bool {
        match status(self.thread) {
            Some(status) => {
                CapabilitySet::from_bits_retain(status.capeff).contains(CapabilitySet::FSETID)
                    && is_of_our_user_namespace(self.thread)
            }
            None => self.user == 0,
        }
    }
}

fn status(thread: u32) -> Option<Status> {
    let thread = i32::try_from(thread).ok().filter(|&thread| thread > 0)?;
    Process::new(thread).and_then(|process| process.status()).ok()
}

fn is_of_our_user_namespace(thread: u32) -> bool {
    let space = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/user"));
    match (space("self"), space(&thread.to_string())) {
        (Ok(ours), Ok(theirs)) => ours == theirs,
        _ => false,
    }
}

/// Until it is dropped, this thread creates files with the credentials of a caller.
pub(crate) struct ActingAs {
    user: bool,
    group: bool,
}

impl ActingAs {
    /// `None` changes nothing.
    pub(crate) fn caller(caller: Option<Credentials>) -> rustix::io::Result<ActingAs> {
        let (user, group) = caller.map_or((0, 0), |caller| (caller.user, caller.group));
        let mut acting = ActingAs {
            user: false,
            group: false,
        };
        if group != 0 {
            set_thread_res_gid(None, Gid::from_raw(group), None)?;
            acting.group = true;
        }
        if user != 0 {
            set_thread_res_uid(None, Uid::from_raw(user), None)?;
            acting.user = true;
            let mut sets = capabilities(None)?;
            let kept = CapabilitySet::DAC_OVERRIDE
                | CapabilitySet::DAC_READ_SEARCH
                | CapabilitySet::FOWNER
                | CapabilitySet::FSETID
                | CapabilitySet::MKNOD;
            sets.effective = sets.permitted & kept;
            set_capabilities(None, sets)?;
        }
        Ok(acting)
    }
}

impl Drop for ActingAs {
    fn drop(&mut self) {
        let root = (Uid::ROOT, Gid::ROOT);
        let user = !self.user || set_thread_res_uid(None, root.0, None).is_ok();
        let group = !self.group || set_thread_res_gid(None, root.1, None).is_ok();
        if !(user && group) {
            // What this thread did from now on would be done as the wrong user.
            let message = "millpond: a thread can't become root again; what was synced is on the disk";
            let _ = writeln!(std::io::stderr(), "{message}");
            std::process::abort();
        }
    }
}
