//! Where the admin socket is. The place depends on the user and the process only, so that commands find it without the environment
//! of the server.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The folders that may contain the sockets of a user, the preferred one first.
fn folders(uid: u32) -> [PathBuf; 3] {
    // systemd creates the first one with `RuntimeDirectory=rudy`.
    let temporary = format!("/tmp/rudy-{uid}").into();
    ["/run/rudy".into(), format!("/run/user/{uid}/rudy").into(), temporary]
}

/// Returns the folder for the socket of this process, which exists then. `None` if no folder can be created.
#[must_use]
pub fn default_folder() -> Option<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    folders(uid).into_iter().find(|folder| {
        // Only the last part is created: `/run/user/1000` belongs to the session of the user.
        let has_parent = folder.parent().is_some_and(Path::is_dir);
        has_parent
            && DirBuilder::new().recursive(true).mode(0o700).create(folder).is_ok()
            && is_safe(folder, uid)
    })
}

/// Returns the folders of a user that exist and that only this user can write to.
pub fn safe_folders(uid: u32) -> impl Iterator<Item = PathBuf> {
    folders(uid).into_iter().filter(move |folder| is_safe(folder, uid))
}

/// Returns whether only this user can create files in a folder. A folder in `/tmp` may be that of another user.
fn is_safe(folder: &Path, uid: u32) -> bool {
    fs::symlink_metadata(folder)
        .is_ok_and(|data| data.is_dir() && data.uid() == uid && data.mode() & 0o022 == 0)
}

/// Returns the name of the socket of a process.
#[must_use]
pub fn socket_file_name(pid: u32) -> String {
    format!("admin-{pid}.sock")
}
