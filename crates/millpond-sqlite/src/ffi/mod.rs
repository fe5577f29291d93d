//! What SQLite calls and what is called of it; all `unsafe` code.
//!
//! | file | what |
//! |---|---|
//! | `types` | SQLite's structs, as far as they are used |
//! | `api` | functions of the SQLite that has loaded this |
//! | `load` | the entry point |
//! | `vfs` | methods of the VFS |
//! | `methods` `control` | methods of its files |
//! | `read_lock` | a lock of a range of a file |

mod api;
mod control;
mod load;
mod methods;
pub(crate) mod read_lock;
mod types;
mod vfs;
