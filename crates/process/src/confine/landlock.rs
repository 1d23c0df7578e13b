//! Rules of the Linux kernel that a thread gives to itself and to what it starts.

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

use super::Bounds;
use crate::hidden::{Hidden, Identity, LOOK};

/// The oldest rules that will do: earlier ones let a file be emptied that may not be written.
const NEEDED: ABI = ABI::V3;
/// Rules that are taken where the kernel knows them.
const WANTED: ABI = ABI::V6;
/// What everybody may read and write.
const DEVICES: &[&str] = &[
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];
/// What a program needs to make pseudo-terminals. It reaches the user's other terminals by them too.
const TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts", "/dev/tty"];
/// How deep paths are hidden; what is hidden further down hides everything from there on.
const MAX_DEPTH: usize = 32;

/// Tells whether the kernel has the rules that we need.
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

/// Tells whether the kernel can keep the signals of a domain inside of it.
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

/// Puts a domain around the calling thread, for good, out of which no signal goes. Nothing else is forbidden in it.
pub(super) fn keep_signals_inside() -> Result<(), String> {
    enter(only_signals())
}

/// Tells whether the kernel can keep the sockets without a path of a domain inside of it.
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

/// Puts a domain around the calling thread, for good, out of which no socket without a path can be reached: those of services lie in the network,
/// and who shares the one has the others. Nothing else is forbidden in it.
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

/// Confines the calling thread, for good. `root` is a handle of the bounds' root, which was looked at: another directory that
/// got its name meanwhile is not meant.
pub(super) fn confine_thread(bounds: &Bounds, root: BorrowedFd<'_>) -> Result<(), String> {
    let restricted = restrict(bounds, root).map_err(|error| error.to_string())?;
    if restricted == RulesetStatus::NotEnforced {
        return Err("the kernel does not enforce landlock".to_owned());
    }
    drop_capabilities().map_err(|error| format!("cannot give up capabilities: {error}"))
}

/// Gives up what root may do beside files: some of it, such as looking into any process, goes past landlock. It does not
/// come back when a program starts, since the thread may gain no privileges any more.
fn drop_capabilities() -> rustix::io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_capabilities(None, sets)
}

/// Why there are no rules.
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

fn restrict(bounds: &Bounds, root: BorrowedFd<'_>) -> Result<RulesetStatus, NoRules> {
    let (reading, everything) = (AccessFs::from_read(NEEDED), AccessFs::from_all(NEEDED));
    let on_root = if bounds.is_writable {
        everything
    } else {
        reading
    };
    // Disks are files too, and a host that is root may read them.
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
        // Where it is hidden itself, it is seen all the same.
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

/// The parts of a directory that may be touched: the whole of it, unless something in it is hidden. Rules only add, so what
/// lies around a hidden path is named piece by piece, and the directories above it get no rule.
struct Parts<'a> {
    hidden: &'a Hidden,
    /// Where nothing may be touched.
    places: &'a [PathBuf],
    access: BitFlags<AccessFs>,
}

impl Parts<'_> {
    /// Allows a directory or a file that no link leads to.
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

    /// Goes by handles and through no link: a rule on a link would be one on what it leads to. A rule on a second name of
    /// a hidden file would be one on the file.
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
