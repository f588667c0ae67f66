//! Root at the start and not after it: the key `user`.
//!
//! The main thread becomes the user before it starts any other thread. In Linux, ids, capabilities and `no_new_privs` belong to
//! a thread, and a thread inherits them from the one that starts it: so the threads of logs, engine and blocking pools have
//! dropped them, and so has every process that Rudy starts. (`setuid` of the C library changes all threads, by a signal to
//! each, but leaves their capabilities behind.) That is why addresses are bound before the engine starts.

use std::fs;
use std::io;

use rustix::process::{DumpableBehavior, Uid, geteuid, getuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_res_uid,
};

use super::exit::Failure;
use super::ownership::transfer_ownership;
use crate::config::Config;
use crate::user::{User, may_change_user};

/// The warning where Rudy serves as root and the configuration does not say so.
pub(super) const RUNS_AS_ROOT: &str = "Rudy keeps running as root, which it does not need: set `user = \"www-data\"` in the configuration, or `User=` in its systemd unit";

/// What `user` means for this process.
#[derive(Debug)]
pub(super) enum UserChange {
    /// There is nothing to change.
    None,
    /// It is to become this user.
    To(User),
    /// It would have to become this user, and may not.
    NotPermitted(User),
}

impl UserChange {
    pub(super) fn of(config: &Config) -> io::Result<Self> {
        let Some(text) = &config.user else { return Ok(Self::None) };
        let user = User::find(text)?;
        // A server that replaces one that has dropped root runs as the user already.
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

/// Whether root would serve although the configuration names no user.
pub(super) fn is_root_by_default(config: &Config) -> bool {
    config.user.is_none() && geteuid().is_root()
}

/// Becomes the user of the configuration, for good. Its files are handed over before.
pub(super) fn drop_root(config: &Config) -> Result<(), Failure> {
    let Some(text) = &config.user else { return Ok(()) };
    let dropped = UserChange::of(config).and_then(|change| match change {
        UserChange::None => Ok(()),
        UserChange::To(user) => {
            single_thread()?;
            transfer_ownership(config, &user);
            become_user(&user)?;
            set_environment(&user);
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

/// Names the user to the apps that Rudy starts, which inherit these variables; they named root.
fn set_environment(user: &User) {
    for (name, value) in [("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name)] {
        #[expect(unsafe_code, reason = "the standard library has no other way to set a variable")]
        // SAFETY: no other thread has been started that could read the environment; see `single_thread`.
        unsafe {
            std::env::set_var(name, value);
        }
    }
}

/// What was read as root, keys for instance, is in memory: processes of the same user, apps among them, may not look into it
/// with a debugger, and no core file shows it. A change of user does that too, unless `fs.suid_dumpable` says otherwise; but a
/// server that replaces another one is the user already.
fn close_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// What belongs to a thread is changed for all of them only while there is one.
pub(super) fn single_thread() -> io::Result<()> {
    // Without /proc it cannot be known; it holds by the order of the start.
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads == 1 {
        Ok(())
    } else {
        Err(io::Error::other(format!("{threads} threads are running already; please report this bug")))
    }
}

fn become_user(user: &User) -> io::Result<()> {
    // A container may have taken it away; then such ports are bound at the start or not at all.
    let kept = capabilities(None)?.permitted & CapabilitySet::NET_BIND_SERVICE;
    // It holds until the next exec; the effective set is cleared all the same.
    set_keep_capabilities(true)?;
    user.assume()?;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })?;
    if !kept.is_empty() {
        // As with `AmbientCapabilities=` of systemd: a server that replaces this one keeps it. Apps are started without it.
        configure_capability_in_ambient_set(CapabilitySet::NET_BIND_SERVICE, true)?;
    }
    // No exec adds rights from here on, so the bounding set need not be narrowed. Apps that Rudy starts cannot use setuid
    // programs, as under the packaged unit: one that must, `sendmail` for instance, belongs into a unit of its own.
    set_no_new_privs(true)?;
    if set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok() {
        return Err(io::Error::other("root privileges can be regained; please report this bug"));
    }
    Ok(())
}
