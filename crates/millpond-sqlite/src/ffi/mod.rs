//! The functions that SQLite calls, and those of it that are called; all `unsafe` code.
//!
//! | file | what |
//! |---|---|
//! | `types` | the used parts of SQLite's structs |
//! | `api` | functions of the SQLite that has loaded this |
//! | `load` | the entry point |
//! | `vfs` | methods of the VFS |
//! | `folders` | those that are others for databases on no disk |
//! | `methods` `control` | methods of its files |
//! | `read_lock` | a lock of a range of a file |

mod api;
mod control;
mod folders;
mod load;
mod methods;
pub(crate) mod read_lock;
mod types;
mod vfs;

pub use load::{load_with_folders, sqlite3_millpondsqlite_init};
pub use types::{Routines, Sqlite};

use millpond::internal::CancelHeldOff;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Makes a call for SQLite, from which no panic gets out, and in which the thread is not cancelled (`pthread_cancel`): either
/// would end the process.
fn whole<T>(call: impl FnOnce() -> T) -> thread::Result<T> {
    let _whole = CancelHeldOff::now();
    catch_unwind(AssertUnwindSafe(call))
}
