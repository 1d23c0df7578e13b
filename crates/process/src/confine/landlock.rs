//! Landlock rules, which a thread applies to itself and to the programs it starts.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::SandboxBounds;
use crate::protected_paths::{Hidden, Identity, PATH_ONLY};

/// The oldest sufficient Landlock ABI: earlier ones allow a file to be truncated that may not be written.
const REQUIRED_ABI: ABI = ABI::V3;
/// The Landlock ABI to use if the kernel supports it.
const PREFERRED_ABI: ABI = ABI::V6;
/// Devices that every program may read and write.
const DEVICES: &[&str] = &[
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];
/// Devices for pseudo-terminals. They also give access to the user's other terminals.
const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts", "/dev/tty"];
/// Maximum depth at which paths are hidden. A hidden path further down hides everything from this depth on.
const MAX_DEPTH: usize = 32;

/// Returns whether the kernel supports the required rules.
pub(super) fn works_here() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| ruleset().is_ok())
}

fn ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)?
        .scope(Scope::from_all(PREFERRED_ABI))?
        .create()
}

/// Returns whether the kernel can confine the signals of a domain to the domain.
pub(super) fn can_confine_signals() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| scoped(Scope::Signal).is_ok())
}

/// Returns whether the kernel can confine the abstract sockets of a domain to the domain.
pub(super) fn can_confine_sockets() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| scoped(Scope::AbstractUnixSocket).is_ok())
}

fn scoped(scope: Scope) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(scope)?
        .create()
}

/// Permanently puts the calling thread into a domain that confines its signals or its abstract sockets, depending on the scope, and
/// forbids nothing else. Abstract sockets of services belong to the network namespace, so every program that shares the network can reach them.
pub(super) fn enter_scope(scope: Scope) -> Result<(), String> {
    let restricted = scoped(scope).and_then(RulesetCreated::restrict_self);
    match restricted.map_err(|error| error.to_string())?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err("the kernel does not confine signals and abstract sockets".to_owned()),
    }
}

/// Permanently confines the calling thread. `root` is a handle of the bounds' root that was already checked, so a directory that has since taken over
/// its name is not used.
pub(super) fn confine_thread(bounds: &SandboxBounds, root: BorrowedFd<'_>) -> Result<(), String> {
    let restricted = restrict(bounds, root).map_err(|error| error.to_string())?;
    if restricted == RulesetStatus::NotEnforced {
        return Err("the kernel does not enforce landlock".to_owned());
    }
    drop_capabilities().map_err(|error| format!("cannot drop capabilities: {error}"))
}

/// Drops the capabilities of root: some of them, such as inspecting any process, bypass Landlock. Programs do not regain them, because the thread can
/// no longer gain privileges.
fn drop_capabilities() -> rustix::io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_capabilities(None, sets)
}

/// Why the rules could not be applied.
#[derive(Debug, thiserror::Error)]
enum LandlockError {
    #[error(transparent)]
    Landlock(#[from] RulesetError),
    #[error("cannot open /: {0}")]
    Root(#[from] rustix::io::Errno),
    #[error("cannot open {}: {source}", path.display())]
    Path {
        path: PathBuf,
        source: rustix::io::Errno,
    },
}

fn restrict(bounds: &SandboxBounds, root: BorrowedFd<'_>) -> Result<RulesetStatus, LandlockError> {
    let (reading, everything) = (
        AccessFs::from_read(REQUIRED_ABI),
        AccessFs::from_all(REQUIRED_ABI),
    );
    let on_root = if bounds.is_writable {
        everything
    } else {
        reading
    };
    // Disks are files too, and a host that runs as root may read them.
    let denied = [bounds.hidden.places(), &[PathBuf::from("/dev")]].concat();
    let rules_for = |access| PathRules {
        hidden: &bounds.hidden,
        denied: &denied,
        access,
    };
    let top = openat(CWD, "/", PATH_ONLY | OFlags::DIRECTORY, Mode::empty())?;
    let on_devices = AccessFs::from_file(REQUIRED_ABI) | AccessFs::IoctlDev;
    let rules = ruleset()?;
    let rules = rules_for(reading).allow(rules, top.as_fd(), Path::new("/"), 0)?;
    let rules = rules.add_rules(path_beneath_rules(DEVICES, on_devices))?;
    let terminals = if bounds.has_terminals { TERMINALS } else { &[] };
    let on_terminals = on_devices | AccessFs::ReadDir;
    let rules = rules.add_rules(path_beneath_rules(terminals, on_terminals))?;
    let mut rules = rules_for(on_root).allow(rules, root, &bounds.root, 0)?;
    let writable = bounds.also_writable.iter().map(|path| (path, everything));
    let readable = bounds.also_readable.iter().map(|path| (path, reading));
    for (path, access) in writable.chain(readable) {
        // A path that is hidden itself is visible if the bounds list it explicitly.
        let denied: Vec<_> = denied
            .iter()
            .filter(|denied| *denied != path)
            .cloned()
            .collect();
        let path_rules = PathRules {
            hidden: &bounds.hidden,
            denied: &denied,
            access,
        };
        rules = path_rules.allow_one(rules, path)?;
    }
    let rules = rules.add_rules(path_beneath_rules(&bounds.scratch, everything))?;
    Ok(rules.restrict_self()?.ruleset)
}

/// The accessible parts of a directory: all of it, unless it contains a hidden path. Rules only add rights, so the siblings of a hidden path get a
/// rule each, and the directories above it get none.
struct PathRules<'a> {
    hidden: &'a Hidden,
    /// Paths without access.
    denied: &'a [PathBuf],
    access: BitFlags<AccessFs>,
}

impl PathRules<'_> {
    /// Adds a rule for a directory or file. Symbolic links are not followed.
    fn allow_one(
        &self,
        rules: RulesetCreated,
        path: &Path,
    ) -> Result<RulesetCreated, LandlockError> {
        let failed = |source| LandlockError::Path {
            path: path.to_owned(),
            source,
        };
        let handle = openat(CWD, path, PATH_ONLY | OFlags::NOFOLLOW, Mode::empty());
        let handle = handle.map_err(failed)?;
        let mode = fstat(&handle).map_err(failed)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Directory => Ok(self.allow(rules, handle.as_fd(), path, 0)?),
            FileType::Symlink => Err(failed(rustix::io::Errno::LOOP)),
            _ => {
                let access = self.access & AccessFs::from_file(REQUIRED_ABI);
                Ok(rules.add_rule(PathBeneath::new(handle, access))?)
            }
        }
    }

    /// Uses handles and follows no links: a rule on a link would apply to its target, and a rule on another name of a hidden file would apply to that
    /// file.
    fn allow(
        &self,
        mut rules: RulesetCreated,
        directory: BorrowedFd<'_>,
        path: &Path,
        depth: usize,
    ) -> Result<RulesetCreated, RulesetError> {
        if !self.denied.iter().any(|hidden| hidden.starts_with(path)) {
            return rules.add_rule(PathBeneath::new(directory, self.access));
        }
        if self.denied.iter().any(|hidden| hidden == path) || depth == MAX_DEPTH {
            return Ok(rules);
        }
        let entries = openat(
            directory,
            ".",
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let Ok(entries) = entries.and_then(Dir::new) else {
            return Ok(rules);
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            let flags = PATH_ONLY | OFlags::NOFOLLOW;
            let Ok(child) = openat(directory, name, flags, Mode::empty()).map(File::from) else {
                continue;
            };
            let Ok(metadata) = child.metadata() else {
                continue;
            };
            let kind = metadata.file_type();
            let names = if kind.is_dir() { 1 } else { metadata.nlink() };
            if kind.is_symlink()
                || self
                    .hidden
                    .is_known(Identity::from_metadata(&metadata), names)
            {
                continue;
            }
            if kind.is_dir() {
                rules = self.allow(rules, child.as_fd(), &path, depth + 1)?;
            } else if !self.denied.contains(&path) {
                let access = self.access & AccessFs::from_file(REQUIRED_ABI);
                rules = rules.add_rule(PathBeneath::new(child, access))?;
            }
        }
        Ok(rules)
    }
}
