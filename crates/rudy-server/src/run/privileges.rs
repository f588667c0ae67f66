//! Drops root privileges after the start: the key `user`.
//!
//! The main thread becomes the user before it starts any other thread. In Linux, ids, capabilities and `no_new_privs` belong to a
//! thread, and new threads and processes inherit them. So all threads of logs, engine and blocking pools run as the user, and so do
//! all child processes. (`setuid` of the C library changes the ids of all threads with signals, but not their capabilities.)
//! Therefore addresses are bound before the engine starts.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use rudy_system::user::{User, may_change_user};
use rustix::process::{DumpableBehavior, Uid, geteuid, getuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_res_uid,
};

use super::exit::Failure;
use super::ownership::{transfer_ownership, transfer_state_folder};
use crate::config::Config;

/// The warning if Rudy runs as root without a configured `user`.
pub(super) const RUNS_AS_ROOT: &str = "Rudy runs as root, which is not necessary: set `user = \"www-data\"` in the configuration, `--user www-data`, or `User=` in its systemd unit";

/// The change that `user` requires of this process.
#[derive(Debug)]
pub(super) enum UserChange {
    /// No change.
    None,
    /// Become this user.
    To(User),
    /// Become this user, without the permission to do so.
    NotPermitted(User),
}

impl UserChange {
    pub(super) fn of(config: &Config) -> io::Result<Self> {
        let Some(text) = &config.user else { return Ok(Self::None) };
        let user = User::find(text)?;
        // In an upgrade, the new process already runs as the user.
        if user.is_current() {
            return Ok(Self::None);
        }
        if user.uid.is_root() {
            return Err(io::Error::other(
                "root cannot have another group; remove the group, or set another user",
            ));
        }
        Ok(if may_change_user() { Self::To(user) } else { Self::NotPermitted(user) })
    }
}

/// Whether Rudy runs as root without a configured `user`.
pub(super) fn is_root_by_default(config: &Config) -> bool {
    config.user.is_none() && geteuid().is_root()
}

/// Transfers files to the configured user, then becomes this user permanently.
pub(super) fn drop_root(config: &Config) -> Result<(), Failure> {
    let Some(text) = &config.user else { return Ok(()) };
    let dropped = UserChange::of(config).and_then(|change| match change {
        UserChange::None => Ok(()),
        UserChange::To(user) => {
            single_thread()?;
            transfer_ownership(config, &user);
            let state = config.keeps_state().then(|| transfer_state_folder(&user)).flatten();
            become_user(&user)?;
            set_environment(&user, state.as_deref());
            Ok(())
        }
        UserChange::NotPermitted(user) => Err(io::Error::other(format!(
            "this needs root (CAP_SETUID and CAP_SETGID), and Rudy was started by user {}; start it as root or as `{}`, or \
             remove `user`",
            getuid(),
            user.name
        ))),
    });
    let closed = dropped.and_then(|()| if geteuid().is_root() { Ok(()) } else { close_memory() });
    closed.map_err(Failure::cannot(&format!("run as `{text}`")))
}

/// Sets the variables that name the user, because apps inherit them, and the state folder, because the next process of an upgrade
/// uses it too.
fn set_environment(user: &User, state: Option<&Path>) {
    let of_user = [("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name)];
    let of_user = of_user.map(|(name, value)| (name, OsStr::new(value.as_str())));
    for (name, value) in
        of_user.into_iter().chain(state.map(|folder| ("STATE_DIRECTORY", folder.as_os_str())))
    {
        #[expect(unsafe_code, reason = "the standard library has no other way to set a variable")]
        // SAFETY: no other thread has been started that could read the environment; see `single_thread`.
        unsafe {
            std::env::set_var(name, value);
        }
    }
}

/// Protects the memory, which can contain data that was read as root, such as keys: other processes of the user cannot debug
/// Rudy, and it writes no core file. A change of user has the same effect, unless `fs.suid_dumpable` disables it; but in an upgrade
/// the user does not change.
fn close_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Checks that this is the only thread, because ids and capabilities change for this thread only.
pub(super) fn single_thread() -> io::Result<()> {
    // Without /proc, rely on the order of the start.
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads == 1 {
        Ok(())
    } else {
        Err(io::Error::other(format!("{threads} threads are running already; please report this bug")))
    }
}

fn become_user(user: &User) -> io::Result<()> {
    // A container may lack the capability. Then ports below 1024 can only be bound at the start.
    let kept = capabilities(None)?.permitted & CapabilitySet::NET_BIND_SERVICE;
    // This lasts until the next exec. The effective set is cleared regardless.
    set_keep_capabilities(true)?;
    user.assume()?;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })?;
    if !kept.is_empty() {
        // As with `AmbientCapabilities=` of systemd, the new process of an upgrade keeps it. Apps start without it.
        configure_capability_in_ambient_set(CapabilitySet::NET_BIND_SERVICE, true)?;
    }
    // No exec can gain privileges from here on, so the bounding set can stay. Apps cannot use setuid programs such as `sendmail`,
    // as in the packaged systemd unit; run an app that needs them as a separate unit.
    set_no_new_privs(true)?;
    if set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok() {
        return Err(io::Error::other("root privileges can be regained; please report this bug"));
    }
    Ok(())
}
