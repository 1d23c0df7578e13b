//! Paths that the host does not share: its data, its keys, its socket.
//!
//! A path only names a file or directory. Access is refused by device and inode, whatever name is used. The first target of a path stays protected
//! after it is moved.

mod identity;
mod linked;
mod mounts;
mod resolve;

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;
use rustix::fs::{CWD, Mode, openat};

use identity::Pinned;
pub(crate) use identity::{Identity, PATH_ONLY};
use mounts::Mount;
use resolve::Resolved;

/// Paths below the home directory where users and external agents store keys and passwords, and sockets of services that start containers with all
/// rights of the user. No such list is complete. It applies to a root that contains the home, and to paths of the home that are opened explicitly.
/// Otherwise commands see nothing of the home at all.
const KEY_PATHS: &[&str] = &[
    ".aws",
    ".azure",
    ".colima",
    ".cargo/credentials.toml",
    ".claude",
    ".claude.json",
    ".codex",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".docker/config.json",
    ".docker/desktop",
    ".docker/run",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".lima",
    ".local/share/containers/podman",
    ".local/share/keyrings",
    ".netrc",
    ".npmrc",
    ".orbstack",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".rd",
    ".ssh",
    ".vault-token",
];

/// The paths that the host protects. They are resolved again for each call, because a path may not exist yet or may have a new target.
#[derive(Debug, Clone, Default)]
pub struct ProtectedPaths {
    paths: Vec<Arc<HiddenPath>>,
}

#[derive(Debug)]
struct HiddenPath {
    path: PathBuf,
    /// The path's first target.
    first: OnceLock<Pinned>,
}

impl ProtectedPaths {
    pub fn add(&mut self, path: &Path) {
        // A relative path is resolved once, against the current working directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let hidden = HiddenPath {
            path,
            first: OnceLock::new(),
        };
        hidden.pin();
        self.paths.push(Arc::new(hidden));
    }

    pub fn add_keys_of(&mut self, home: &Path) {
        for place in KEY_PATHS {
            self.add(&home.join(place));
        }
    }

    /// Determines which files and directories are hidden at this moment.
    pub fn look(&self) -> Hidden {
        let mounts = mounts::read();
        let mut hidden = Hidden {
            processes: mounts::proc_devices(&mounts),
            ..Hidden::default()
        };
        for protected in &self.paths {
            protected.pin();
            let Resolved { real, links } = resolve::resolve(&protected.path);
            hidden.links.extend(links);
            real.iter()
                .for_each(|real| hidden.add_with_other_names(real, &mounts));
            if let Some(first) = protected.first.get() {
                hidden.identities.insert(first.identity());
                let moved = first.path();
                moved
                    .iter()
                    .for_each(|moved| hidden.add_with_other_names(moved, &mounts));
            }
        }
        hidden.searched = hidden.places.len();
        hidden
    }
}

impl HiddenPath {
    /// Opens and holds the path's target, if that has not happened yet.
    fn pin(&self) {
        if self.first.get().is_none()
            && let Some(pinned) = Pinned::open(&self.path)
        {
            let _ = self.first.set(pinned);
        }
    }
}

/// Opens a file or directory only to identify it.
pub fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, PATH_ONLY, Mode::empty())?)
}

/// The hidden files and directories at one moment.
#[derive(Debug, Default)]
pub struct Hidden {
    identities: HashSet<Identity>,
    /// All names of the hidden paths, with links resolved.
    places: Vec<PathBuf>,
    /// How many of these paths are searched for files with further hard links. A home that is hidden from one program is large, and files hard-linked
    /// into it from elsewhere are not secret.
    searched: usize,
    /// Locations of the links in the host's own paths to the hidden files.
    links: Vec<PathBuf>,
    /// Devices of `/proc` file systems, which expose the host's memory, variables and open files.
    processes: Vec<u64>,
    /// Hidden files with further hard links, computed when a file with several links is first checked.
    linked: OnceLock<HashSet<Identity>>,
}

impl Hidden {
    fn add_with_other_names(&mut self, real: &Path, mounts: &[Mount]) {
        self.add(real);
        for other in mounts::other_names(real, mounts) {
            self.add(&other);
        }
    }

    fn add(&mut self, place: &Path) {
        let Some(identity) = Identity::at(place) else {
            return;
        };
        self.identities.insert(identity);
        if !self.places.iter().any(|known| known == place) {
            self.places.push(place.to_owned());
        }
    }

    /// Returns a copy with more hidden paths, for one program.
    #[must_use]
    pub fn with<'a>(&self, more: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut hidden = Self {
            identities: self.identities.clone(),
            places: self.places.clone(),
            searched: self.searched,
            links: self.links.clone(),
            processes: self.processes.clone(),
            linked: OnceLock::new(),
        };
        let mounts = mounts::read();
        for path in more {
            let Resolved { real, .. } = resolve::resolve(path);
            real.iter()
                .for_each(|real| hidden.add_with_other_names(real, &mounts));
        }
        hidden
    }

    /// Returns all names of the hidden paths, with links resolved.
    pub fn places(&self) -> &[PathBuf] {
        &self.places
    }

    /// Returns the first link inside a directory that the host itself follows to a hidden path. A program that can replace it controls which file the
    /// host opens at its next start.
    pub fn link_inside(&self, directory: &Path) -> Option<&Path> {
        let mut links = self.links.iter();
        let found = links.find(|link| link.starts_with(directory));
        found.map(PathBuf::as_path)
    }

    /// Returns whether an inode with this number may be hidden, on any device.
    pub fn may_be(&self, ino: u64) -> bool {
        self.identities.iter().any(|identity| identity.ino == ino)
    }

    /// Returns whether this file or directory is hidden.
    pub fn is_hidden(&self, metadata: &Metadata) -> bool {
        let names = if metadata.is_file() {
            metadata.nlink()
        } else {
            1
        };
        let identity = Identity::from_metadata(metadata);
        self.processes.contains(&identity.dev) || self.is_known(identity, names)
    }

    /// Returns whether a file or directory with this number of hard links is hidden. Pass 1 for a directory.
    pub(crate) fn is_known(&self, identity: Identity, names: u64) -> bool {
        self.identities.contains(&identity) || names > 1 && self.linked().contains(&identity)
    }

    fn linked(&self) -> &HashSet<Identity> {
        let searched = &self.places[..self.searched];
        self.linked.get_or_init(|| linked::files(searched))
    }

    /// Returns whether an open directory is hidden or below a hidden one. The system is queried for each parent directory, so names do not matter.
    pub fn covers(&self, directory: impl AsFd) -> io::Result<bool> {
        let device = Identity::from_open(directory.as_fd())?.dev;
        if self.processes.contains(&device) {
            return Ok(true);
        }
        if self.identities.is_empty() {
            return Ok(false);
        }
        identity::any_above(directory.as_fd(), |identity| {
            self.identities.contains(&identity)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_links_into_a_hidden_home_are_not_hidden() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["home", "keys", "root"] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("file"), name).unwrap();
        }
        let linked = |from: &str| {
            let to = at("root").join(from);
            std::fs::hard_link(at(from).join("file"), &to).unwrap();
            Metadata::from_just_metadata(to.metadata().unwrap())
        };
        let mut paths = ProtectedPaths::default();
        paths.add(&at("keys"));
        let hidden = paths.look().with([at("home").as_path()]);
        assert_eq!(hidden.places().len(), 2);
        assert!(hidden.is_hidden(&linked("keys")));
        assert!(!hidden.is_hidden(&linked("home")));
    }
}
