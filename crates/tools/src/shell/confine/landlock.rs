//! Rules of the Linux kernel that a thread gives to itself and to what it starts.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::Bounds;

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

/// Confines the calling thread, for good.
pub(super) fn confine_thread(bounds: &Bounds) -> Result<(), String> {
    let restricted = restrict(bounds).map_err(|error| error.to_string())?;
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

fn restrict(bounds: &Bounds) -> Result<RulesetStatus, RulesetError> {
    let (reading, everything) = (AccessFs::from_read(NEEDED), AccessFs::from_all(NEEDED));
    let on_root = if bounds.is_writable {
        everything
    } else {
        reading
    };
    // Disks are files too, and a host that is root may read them.
    let hidden = [bounds.hidden.as_slice(), &[PathBuf::from("/dev")]].concat();
    let on_devices = AccessFs::from_file(NEEDED) | AccessFs::IoctlDev;
    let status = ruleset()?
        .add_rules(path_beneath_rules(parts(Path::new("/"), &hidden), reading))?
        .add_rules(path_beneath_rules(DEVICES, on_devices))?
        .add_rules(path_beneath_rules(parts(&bounds.root, &hidden), on_root))?
        .add_rules(path_beneath_rules(&bounds.scratch, everything))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// Returns the parts of a directory that may be touched: the whole of it, unless something in it is hidden. Rules only add,
/// so what lies around a hidden path is named piece by piece.
fn parts(of: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    expand(of, hidden, 0, &mut found);
    found
}

fn expand(path: &Path, hidden: &[PathBuf], depth: usize, found: &mut Vec<PathBuf>) {
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        found.push(path.to_owned());
        return;
    }
    if hidden.iter().any(|hidden| hidden == path) || depth == MAX_DEPTH {
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries {
        // A rule on a link would be a rule on what it leads to.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            expand(&entry.path(), hidden, depth + 1, found);
        }
    }
}
