//! `SIGBUS` of a thread that has touched a page which is not there, served by the thread itself.
//!
//! ```text
//!   touch ─► SIGBUS, on the thread's own stack ─► serve(address) ─┬─ true: back, the touch is tried again
//!                                                                 └─ false: the signal's former handler
//! ```
//!
//! One handler for the process, put in when the first region wants it and never taken out. The signal is raised by the
//! touch itself, so what it interrupts is whatever uses a region's memory: never the allocator, never this crate with a
//! lock in its hands, which touch no region. That is why a handler may do here what signal handlers otherwise must not.
//!
//! Signals from elsewhere wait until it is over: a handler of the program's that touched such memory meanwhile would wait
//! for what this very thread has in its hands. So does a cancellation (`cancel.rs`). One that ends the process, for it has no
//! handler, is let in while the touch waits for long (`signals.rs`).

use crate::sys::cancel::CancelHeldOff;
use crate::sys::signals::{Serving, from_elsewhere, set_mask};
use crate::sys::uffd::Access;
use parking_lot::Mutex;
use std::io;
use std::ptr;
use std::sync::OnceLock;

/// Serves a touch of an address; `false`: that is not its affair, or nothing can be done.
pub(crate) type Serve = fn(usize, Access) -> bool;

static SERVE: OnceLock<Serve> = OnceLock::new();
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
static INSTALLED: Mutex<bool> = Mutex::new(false);

/// Has `serve` asked at each `SIGBUS` of this process from now on; the first one for good.
///
/// # Errors
/// The system's.
pub(crate) fn install(serve: Serve) -> io::Result<()> {
    let mut installed = INSTALLED.lock();
    if *installed {
        return Ok(());
    }
    let previous = action(None)?;
    let _ = (PREVIOUS.set(previous), SERVE.set(serve));
    let mut ours = previous;
    // On the stack of the thread: another one is too small to read a page on. A touch within the handler is served as well.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    ours.sa_sigaction = caught as *const () as usize;
    ours.sa_mask = from_elsewhere();
    action(Some(&ours))?;
    *installed = true;
    Ok(())
}

/// The handler of `SIGBUS` before it was set to `new`.
fn action(new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: numbers and an optional pointer, of which zero is a value.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both are actions or null, and outlive the call; `caught` is a handler of three arguments, as the flags say.
    match unsafe { libc::sigaction(libc::SIGBUS, new, &raw mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn caught(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: each thread has its own, always.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // SAFETY: the kernel gives a handler with SA_SIGINFO the signal's description.
    let about = unsafe { &*info };
    // SAFETY: a number, whatever the signal came from.
    let address = unsafe { about.si_addr() } as usize;
    // Zero and less: a process has sent it, and the address says nothing.
    let is_served = about.si_code > 0 && {
        let _whole = CancelHeldOff::now();
        // SAFETY: the kernel gives a handler with SA_SIGINFO what the thread had blocked.
        let _serving = Serving::now(unsafe { (*context.cast::<libc::ucontext_t>()).uc_sigmask });
        SERVE.get().is_some_and(|serve| serve(address, access(context)))
    };
    // SAFETY: as above.
    unsafe { *errno = before };
    if !is_served {
        pass_on(signal, info, context);
    }
}

/// What the thread was about to do: bit 1 of the processor's word on a page fault says that it writes.
#[cfg(target_arch = "x86_64")]
fn access(context: *mut libc::c_void) -> Access {
    // SAFETY: the kernel gives a handler with SA_SIGINFO the thread's registers.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    match context.uc_mcontext.gregs[libc::REG_ERR as usize] & 2 {
        0 => Access::Read,
        _ => Access::Write,
    }
}

/// Not known.
#[cfg(not(target_arch = "x86_64"))]
fn access(_: *mut libc::c_void) -> Access {
    Access::Write
}

/// Passes the signal to its former handler.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS
        .get()
        .filter(|action| action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN);
    let Some(previous) = previous else {
        // SAFETY: the number of a signal, and the system's own way with it. Back at the touch it ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: the kernel's description of the signal.
        if unsafe { (*info).si_code } <= 0 {
            // SAFETY: takes a number.
            unsafe { libc::raise(signal) };
        }
        return;
    };
    // With the signals blocked that it has asked for, and those that were.
    // SAFETY: the kernel gives a handler with SA_SIGINFO the thread's registers, and what it had blocked.
    set_mask(libc::SIG_SETMASK, unsafe {
        &(*context.cast::<libc::ucontext_t>()).uc_sigmask
    });
    set_mask(libc::SIG_BLOCK, &previous.sa_mask);
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
        // SAFETY: with this flag what was installed is a function of these arguments.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(previous.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: without the flag, neither default nor ignored, it is a function of the signal's number.
        let handler =
            unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(previous.sa_sigaction) };
        handler(signal);
    }
}
