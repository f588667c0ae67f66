//! Small disks.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::skip;

/// Returns a script for the shell that starts the server, which limits `folder` to 64 KiB. Returns `None` after [`skip`].
pub fn small_disk(folder: &Path) -> Option<String> {
    // A file system in a user namespace, which does not need root where the system allows it.
    let mount = format!("mount -t tmpfs -o size=64k tmpfs '{}'", folder.display());
    let mut try_it = Command::new("unshare");
    try_it.args(["-rm", "sh", "-c", &mount]).stdout(Stdio::null()).stderr(Stdio::null());
    if !try_it.status().is_ok_and(|status| status.success()) {
        skip("this user may not mount anything in a name space of their own (`unshare -rm`)");
        return None;
    }
    Some(format!("exec unshare -rm sh -c \"{mount} && exec \\\"\\$@\\\"\" sh \"$@\""))
}
