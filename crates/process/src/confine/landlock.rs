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
use crate::protected_paths::{Hidden, Identity, LOOK};

/// The oldest sufficient Landlock ABI: earlier ones allow a file to be truncated that may not be written.
const NEEDED: ABI = ABI::V3;
/// The Landlock ABI to use if the kernel supports it.
const WANTED: ABI = ABI::V6;
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
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)?
        .scope(Scope::from_all(WANTED))?
        .create()
}

/// Returns whether the kernel can confine the signals of a domain to the domain.
pub(super) fn signals_stay_inside() -> bool {
    static STAY: OnceLock<bool> = OnceLock::new();
    *STAY.get_or_init(|| only_signals().is_ok())
}

fn only_signals() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)?
        .create()
}

/// Permanently puts the calling thread into a domain that confines signals. The domain forbids nothing else.
pub(super) fn keep_signals_inside() -> Result<(), String> {
    enter(only_signals())
}

/// Returns whether the kernel can confine the abstract sockets of a domain to the domain.
pub(super) fn sockets_stay_inside() -> bool {
    static STAY: OnceLock<bool> = OnceLock::new();
    *STAY.get_or_init(|| only_sockets().is_ok())
}

fn only_sockets() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::AbstractUnixSocket)?
        .create()
}

/// Permanently puts the calling thread into a domain that can reach no abstract socket outside. Abstract sockets of services belong to the network
/// namespace, so every program that shares the network can reach them. The domain forbids nothing else.
pub(super) fn keep_sockets_inside() -> Result<(), String> {
    enter(only_sockets())
}

fn enter(rules: Result<RulesetCreated, RulesetError>) -> Result<(), String> {
    let restricted = rules.and_then(RulesetCreated::restrict_self);
    match restricted.map_err(|error| error.to_string())?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err("the kernel does not keep signals and sockets inside".to_owned()),
    }
}

/// Permanently confines the calling thread. `root` is a handle of the bounds' root that was already checked, so a directory that has since taken over
/// its name is not used.
pub(super) fn confine_thread(bounds: &SandboxBounds, root: BorrowedFd<'_>) -> Result<(), String> {
    let restricted = restrict(bounds, root).map_err(|error| error.to_string())?;
    if restricted == RulesetStatus::NotEnforced {
        return Err("the kernel does not enforce landlock".to_owned());
    }
    drop_capabilities().map_err(|error| format!("cannot give up capabilities: {error}"))
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
enum NoRules {
    #[error(transparent)]
    Landlock(#[from] RulesetError),
    #[error("cannot look at /: {0}")]
    Top(#[from] rustix::io::Errno),
    #[error("cannot look at {}: {source}", path.display())]
    Beside {
        path: PathBuf,
        source: rustix::io::Errno,
    },
}

fn restrict(bounds: &SandboxBounds, root: BorrowedFd<'_>) -> Result<RulesetStatus, NoRules> {
    let (reading, everything) = (AccessFs::from_read(NEEDED), AccessFs::from_all(NEEDED));
    let on_root = if bounds.is_writable {
        everything
    } else {
        reading
    };
    // Disks are files too, and a host that runs as root may read them.
    let places = [bounds.hidden.places(), &[PathBuf::from("/dev")]].concat();
    let parts = |access| Parts {
        hidden: &bounds.hidden,
        places: &places,
        access,
    };
    let top = openat(CWD, "/", LOOK | OFlags::DIRECTORY, Mode::empty())?;
    let on_devices = AccessFs::from_file(NEEDED) | AccessFs::IoctlDev;
    let rules = ruleset()?;
    let rules = parts(reading).allow(rules, top.as_fd(), Path::new("/"), 0)?;
    let rules = rules.add_rules(path_beneath_rules(DEVICES, on_devices))?;
    let terminals = if bounds.has_terminals { TERMINALS } else { &[] };
    let on_terminals = on_devices | AccessFs::ReadDir;
    let rules = rules.add_rules(path_beneath_rules(terminals, on_terminals))?;
    let mut rules = parts(on_root).allow(rules, root, &bounds.root, 0)?;
    let beside = bounds.also_writable.iter().map(|path| (path, everything));
    let seen = bounds.also_seen.iter().map(|path| (path, reading));
    for (path, access) in beside.chain(seen) {
        // A path that is hidden itself is visible if the bounds list it explicitly.
        let places = places.iter().filter(|place| *place != path).cloned();
        let parts = Parts {
            hidden: &bounds.hidden,
            places: &places.collect::<Vec<_>>(),
            access,
        };
        rules = parts.allow_one(rules, path)?;
    }
    let rules = rules.add_rules(path_beneath_rules(&bounds.scratch, everything))?;
    Ok(rules.restrict_self()?.ruleset)
}

/// The accessible parts of a directory: all of it, unless it contains a hidden path. Rules only add rights, so the siblings of a hidden path get a
/// rule each, and the directories above it get none.
struct Parts<'a> {
    hidden: &'a Hidden,
    /// Paths without access.
    places: &'a [PathBuf],
    access: BitFlags<AccessFs>,
}

impl Parts<'_> {
    /// Adds a rule for a directory or file. Symbolic links are not followed.
    fn allow_one(&self, rules: RulesetCreated, path: &Path) -> Result<RulesetCreated, NoRules> {
        let failed = |source| NoRules::Beside {
            path: path.to_owned(),
            source,
        };
        let handle = openat(CWD, path, LOOK | OFlags::NOFOLLOW, Mode::empty());
        let handle = handle.map_err(failed)?;
        let mode = fstat(&handle).map_err(failed)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Directory => Ok(self.allow(rules, handle.as_fd(), path, 0)?),
            FileType::Symlink => Err(failed(rustix::io::Errno::LOOP)),
            _ => {
                let access = self.access & AccessFs::from_file(NEEDED);
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
        if !self.places.iter().any(|hidden| hidden.starts_with(path)) {
            return rules.add_rule(PathBeneath::new(directory, self.access));
        }
        if self.places.iter().any(|hidden| hidden == path) || depth == MAX_DEPTH {
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
            let look = LOOK | OFlags::NOFOLLOW;
            let child = openat(directory, name, look, Mode::empty()).map(File::from);
            let Some((child, metadata)) = child
                .ok()
                .and_then(|child| child.metadata().ok().map(|metadata| (child, metadata)))
            else {
                continue;
            };
            let kind = metadata.file_type();
            let (dev, ino) = (metadata.dev(), metadata.ino());
            let names = if kind.is_dir() { 1 } else { metadata.nlink() };
            if kind.is_symlink() || self.hidden.is_known(Identity { dev, ino }, names) {
                continue;
            }
            rules = match () {
                () if kind.is_dir() => self.allow(rules, child.as_fd(), &path, depth + 1)?,
                () if self.places.contains(&path) => rules,
                () => {
                    let access = self.access & AccessFs::from_file(NEEDED);
                    rules.add_rule(PathBeneath::new(child, access))?
                }
            };
        }
        Ok(rules)
    }
}
