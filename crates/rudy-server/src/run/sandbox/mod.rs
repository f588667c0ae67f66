//! The sandbox: by Landlock, the process confines itself to the folders and files that its configuration names.
//!
//! A thread confines itself and the threads that it starts; that all threads of a process are confined at once is new in Linux
//! (Landlock ABI 8) and found on few machines. So the main thread does it before it starts any other, as it becomes the user
//! there ([`privileges`](super::privileges)): with addresses bound and files handed over, and with no connection accepted.
//!
//! Connecting to a Unix socket, looking at what a path leads to (`stat`), inotify and all of the network are not confined: the
//! rules are for opening, making and removing files, and for running programs.

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
use rustix::fs::{Mode, OFlags, open};

use self::paths::{PathAccess, paths_of_config, system_paths};
use super::exit::Failure;
use super::privileges::single_thread;
use crate::config::Config;

/// Said where the kernel confines less than it could: Landlock before ABI 3 (Linux 6.2).
pub(super) const PARTIAL: &str =
    "the sandbox is incomplete: this kernel cannot restrict the truncation of files (Linux 6.2 can)";

/// The rights that are confined. Later versions add devices (which a process that may open none does not need), the
/// network and signals.
const VERSION: ABI = ABI::V3;

/// What the process is confined to, since its start.
#[derive(Debug)]
pub(super) struct Sandbox {
    allowed: Vec<Allowed>,
    is_partial: bool,
    /// `/proc/self`: the kernel forgets the folder of a process where it is not held, and the rule with it.
    _process: Option<OwnedFd>,
}

/// A file or folder of a rule. The kernel knows it by its inode, whatever is at its path later.
#[derive(Debug)]
struct Allowed {
    device: u64,
    inode: u64,
    access: BitFlags<AccessFs>,
}

/// Why no sandbox can be made here.
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
    /// Confines this thread, and all that are started after it, for good.
    pub(super) fn enter(config: &Config) -> Result<Self, Failure> {
        let cannot = || Failure::cannot("enter the sandbox");
        single_thread().map_err(cannot())?;
        let wanted = paths_of_config(config).into_iter().chain(system_paths());
        let (allowed, status) = confine(wanted).map_err(|error| cannot()(io::Error::other(error)))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if status == RulesetStatus::NotEnforced {
            return Err(Failure::Cannot(
                "enter the sandbox: the kernel does not enforce the rules".to_owned(),
            ));
        }
        Ok(Self {
            allowed,
            is_partial: status == RulesetStatus::PartiallyEnforced,
            // Where there is no /proc, nothing of it is read.
            _process: open("/proc/self", flags, Mode::empty()).ok(),
        })
    }

    /// Whether the kernel cannot confine everything that Rudy asks for.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Whether a new configuration needs nothing more than the process was confined to.
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

    /// As the kernel decides: by the inodes of the path and of all folders above it.
    fn covers(&self, wanted: &PathAccess) -> bool {
        // What is not there cannot be opened in any case, and that error names it.
        let Ok(path) = fs::canonicalize(&wanted.path) else { return true };
        let mut allowed = BitFlags::empty();
        for metadata in path.ancestors().filter_map(|path| fs::metadata(path).ok()) {
            let is_this = |rule: &&Allowed| (rule.device, rule.inode) == (metadata.dev(), metadata.ino());
            allowed = self.allowed.iter().filter(is_this).fold(allowed, |all, rule| all | rule.access);
        }
        allowed.contains(applicable(&path, wanted.access))
    }
}

fn confine(wanted: impl Iterator<Item = PathAccess>) -> Result<(Vec<Allowed>, RulesetStatus), RulesetError> {
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(VERSION))?.create()?;
    let mut allowed = Vec::new();
    for wanted in wanted {
        // What is not there needs no rule. (The rules for a system name places that many systems do not have.)
        let Ok(file) = PathFd::new(&wanted.path) else { continue };
        let Ok(metadata) = fs::metadata(&wanted.path) else { continue };
        let access = applicable(&wanted.path, wanted.access);
        ruleset = ruleset.add_rule(PathBeneath::new(file, access))?;
        allowed.push(Allowed { device: metadata.dev(), inode: metadata.ino(), access });
    }
    Ok((allowed, ruleset.restrict_self()?.ruleset))
}

/// Those of the rights that what is at `path` can have: a file has none of a folder's.
fn applicable(path: &Path, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) }
}
