//! Resolves a path of the host and lists the links on the way.

use std::path::{Component, Path, PathBuf};

/// Maximum number of links in a path, as in the kernel.
const MAX_LINKS: usize = 40;

pub(super) struct Resolved {
    /// The target, if it exists.
    pub(super) real: Option<PathBuf>,
    /// Locations of the links on the way, each with the links above it resolved.
    pub(super) links: Vec<PathBuf>,
}

/// Follows an absolute path, component by component.
pub(super) fn resolve(path: &Path) -> Resolved {
    let (mut real, mut links) = (PathBuf::from("/"), Vec::new());
    let mut left: Vec<_> = path.iter().rev().map(ToOwned::to_owned).collect();
    while let Some(name) = left.pop() {
        match Path::new(&name).components().next() {
            None | Some(Component::CurDir | Component::Prefix(_)) => continue,
            Some(Component::RootDir) => {
                real = PathBuf::from("/");
                continue;
            }
            Some(Component::ParentDir) => {
                real.pop();
                continue;
            }
            Some(Component::Normal(_)) => real.push(&name),
        }
        let Ok(metadata) = real.symlink_metadata() else {
            return Resolved { real: None, links };
        };
        if !metadata.is_symlink() {
            continue;
        }
        let target = real.read_link().ok();
        let Some(target) = target.filter(|_| links.len() < MAX_LINKS) else {
            return Resolved { real: None, links };
        };
        links.push(real.clone());
        real.pop();
        left.extend(target.iter().rev().map(ToOwned::to_owned));
    }
    let real = Some(real);
    Resolved { real, links }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_followed_link_is_listed() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(at.join("real/deep")).unwrap();
        symlink("real", at.join("one")).unwrap();
        symlink(at.join("one/deep"), at.join("real/two")).unwrap();
        symlink("round", at.join("round")).unwrap();
        let Resolved { real, links } = resolve(&at.join("one/../one/two"));
        assert_eq!(real, Some(at.join("real/deep")));
        let expected = ["one", "one", "real/two", "one"].map(|link| at.join(link));
        assert_eq!(links, expected);
        assert_eq!(resolve(&at.join("missing/x")).real, None);
        assert_eq!(resolve(&at.join("round")).real, None);
    }
}
