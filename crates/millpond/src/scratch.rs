//! Folders for the tests beside the code.

use tempfile::TempDir;

/// A folder on the disk where the build is. Below it, as a test that dies leaves its folder there: in the
/// sources it would end up under version control.
pub(crate) fn folder() -> TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}
