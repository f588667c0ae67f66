//! The sandbox: restricts the process with Landlock to the files and folders in its configuration.
//!
//! Landlock restricts a thread and the threads that it starts; restricting all threads at once needs a recent kernel (ABI 8). So
//! the main thread enters the sandbox before it starts any other thread, after it has dropped root
//! ([`privileges`](super::privileges)): addresses are bound, and no connection is accepted yet.
//!
//! The rules restrict opening, creating and removing files, and running programs. They do not restrict Unix sockets, `stat`,
//! inotify and the network.

mod paths;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use rudy_system::sandboxed;
use rustix::fs::{Mode, OFlags, open};

use self::paths::{PathAccess, paths_of_config, system_paths};
use super::exit::Failure;
use super::privileges::single_thread;
use crate::config::Config;

/// The notice for kernels with Landlock before ABI 3 (Linux 6.2).
pub(super) const PARTIAL: &str =
    "the sandbox is incomplete: this kernel cannot restrict the truncation of files (Linux 6.2 can)";

/// The rights that are confined. Later versions add devices (which a process that may open none does not need), the
/// network and signals.
const VERSION: ABI = ABI::V3;

/// The sandbox that the process has entered.
#[derive(Debug)]
pub(super) struct Sandbox {
    allowed: Vec<Allowed>,
    is_partial: bool,
    /// `/proc/self`, kept open: otherwise the kernel drops its inode, and the rule with it.
    _process: Option<OwnedFd>,
}

/// A file or folder of a rule, identified by its inode as in the kernel.
#[derive(Debug)]
struct Allowed {
    device: u64,
    inode: u64,
    access: BitFlags<AccessFs>,
}

/// The reason why this system does not support the sandbox, if any.
pub(super) fn unsupported() -> Option<String> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let created = ruleset.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create);
    created.err().map(|error| {
        format!(
            "the kernel does not support Landlock ({error}): it needs Linux 5.13 with landlock in /sys/kernel/security/lsm; a \
             container or unit must allow its system calls (landlock_create_ruleset, landlock_add_rule, landlock_restrict_self)"
        )
    })
}

impl Sandbox {
    /// Restricts this thread, and all threads started after it, permanently.
    pub(super) fn enter(config: &Config) -> Result<Self, Failure> {
        let cannot = || Failure::cannot("enter the sandbox");
        single_thread().map_err(cannot())?;
        let wanted = paths_of_config(config).into_iter().chain(system_paths());
        let (allowed, status) = restrict(wanted).map_err(|error| cannot()(io::Error::other(error)))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if status == RulesetStatus::NotEnforced {
            return Err(Failure::Cannot(
                "enter the sandbox: the kernel does not enforce the rules".to_owned(),
            ));
        }
        sandboxed::set();
        Ok(Self {
            allowed,
            is_partial: status == RulesetStatus::PartiallyEnforced,
            // Without /proc, nothing is read from it.
            _process: open("/proc/self", flags, Mode::empty()).ok(),
        })
    }

    /// Whether the kernel enforces only a part of the rules.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Checks that a new configuration needs no access outside the sandbox.
    pub(super) fn check(&self, config: &Config) -> Result<(), Failure> {
        let outside: Vec<_> = paths_of_config(config)
            .iter()
            .filter(|wanted| !self.covers(wanted))
            .map(PathAccess::to_string)
            .collect();
        if outside.is_empty() {
            return Ok(());
        }
        Err(Failure::Cannot(format!(
            "{}: outside the sandbox, which a reload cannot extend; restart Rudy",
            outside.join(", ")
        )))
    }

    /// Decides like the kernel, by the inodes of the path and all its parent folders.
    fn covers(&self, wanted: &PathAccess) -> bool {
        // Opening a missing path fails with an error that names it.
        let Ok(path) = fs::canonicalize(&wanted.path) else { return true };
        let mut allowed = BitFlags::empty();
        for metadata in path.ancestors().filter_map(|path| fs::metadata(path).ok()) {
            let is_this = |rule: &&Allowed| (rule.device, rule.inode) == (metadata.dev(), metadata.ino());
            allowed = self.allowed.iter().filter(is_this).fold(allowed, |all, rule| all | rule.access);
        }
        allowed.contains(applicable(&path, wanted.access))
    }
}

fn restrict(wanted: impl Iterator<Item = PathAccess>) -> Result<(Vec<Allowed>, RulesetStatus), RulesetError> {
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(VERSION))?.create()?;
    let mut allowed = Vec::new();
    for wanted in wanted {
        // A missing path needs no rule. (Many systems lack some of the system paths.)
        let Ok(file) = PathFd::new(&wanted.path) else { continue };
        let Ok(metadata) = fs::metadata(&wanted.path) else { continue };
        let access = applicable(&wanted.path, wanted.access);
        ruleset = ruleset.add_rule(PathBeneath::new(file, access))?;
        allowed.push(Allowed { device: metadata.dev(), inode: metadata.ino(), access });
    }
    Ok((allowed, ruleset.restrict_self()?.ruleset))
}

/// The access rights that apply to `path`: a file has none of the rights for folders.
fn applicable(path: &Path, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) }
}
