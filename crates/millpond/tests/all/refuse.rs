//! A kernel that refuses: seccomp filters on a thread of its own, which only its threads inherit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};
use std::collections::BTreeMap;

/// A system call that is answered with an error, if all of `bits` are set in argument number `argument`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) call: i64,
    pub(crate) when: Option<When>,
    pub(crate) errno: i32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Bits { argument: u8, bits: u64 },
    Equals { argument: u8, value: u64 },
}

/// The call, whatever its arguments.
pub(crate) fn always(call: i64, errno: i32) -> Refusal {
    Refusal {
        call,
        when: None,
        errno,
    }
}

/// O_DIRECT, as a file system without it answers.
pub(crate) fn direct() -> Refusal {
    let bits = libc::O_DIRECT as u64;
    Refusal {
        call: libc::SYS_openat,
        when: Some(When::Bits { argument: 2, bits }),
        errno: libc::EINVAL,
    }
}

/// RWF_DONTCACHE, as a kernel before 6.14 answers.
pub(crate) fn dont_cache() -> [Refusal; 2] {
    let bits = libc::RWF_DONTCACHE as u64;
    [libc::SYS_preadv2, libc::SYS_pwritev2].map(|call| Refusal {
        call,
        when: Some(When::Bits { argument: 5, bits }),
        errno: libc::EOPNOTSUPP,
    })
}

/// An advice about memory, as a kernel that does not know it answers.
pub(crate) fn advice(advice: i32) -> Refusal {
    let value = advice as u64;
    Refusal {
        call: libc::SYS_madvise,
        when: Some(When::Equals { argument: 2, value }),
        errno: libc::EINVAL,
    }
}

/// A request of ioctl(2), which the kernel has no memory for.
pub(crate) fn request(request: u64) -> Refusal {
    let value = request;
    Refusal {
        call: libc::SYS_ioctl,
        when: Some(When::Equals { argument: 1, value }),
        errno: libc::ENOMEM,
    }
}

/// Runs `test` where the kernel refuses these calls.
///
/// # Panics
/// If `test` does.
pub(crate) fn where_refused<T: Send>(refusals: &[Refusal], test: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            refuse(refusals);
            test()
        });
        inside
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// From here on the kernel refuses these calls of this thread and of those that it starts.
pub(crate) fn refuse(refusals: &[Refusal]) {
    for refusal in refusals {
        let rules = refusal.when.map(|when| {
            let (argument, compare, value) = match when {
                When::Bits { argument, bits } => (argument, SeccompCmpOp::MaskedEq(bits), bits),
                When::Equals { argument, value } => (argument, SeccompCmpOp::Eq, value),
            };
            let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value);
            SeccompRule::new(vec![condition.unwrap()]).unwrap()
        });
        let filter = SeccompFilter::new(
            BTreeMap::from([(refusal.call, rules.into_iter().collect())]),
            SeccompAction::Allow,
            SeccompAction::Errno(refusal.errno as u32),
            std::env::consts::ARCH.try_into().unwrap(),
        );
        let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
        apply_filter(&program).unwrap();
    }
}
