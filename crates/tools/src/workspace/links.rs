//! Resolves links by name.

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Dir;

use windlass_process::Hidden;

/// Maximum number of links in a path.
const MAX_LINKS: usize = 40;

/// Why a path cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("it is hidden")]
    Hidden,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Returns the path with all links resolved; it must exist.
///
/// The result is only a name and grants no access: callers resolve it below the root again. It is computed component by component, because the
/// system's path of an open file is wrong once the file was replaced.
///
/// It stops at hidden paths, so that it reveals nothing about their contents.
pub(super) fn resolve_links(
    root: &Dir,
    path: &Path,
    hidden: &Hidden,
) -> Result<PathBuf, LinkError> {
    let mut real = PathBuf::new();
    let mut left: Vec<_> = path.iter().rev().map(ToOwned::to_owned).collect();
    let mut links = 0;
    while let Some(name) = left.pop() {
        match Path::new(&name).components().next() {
            None | Some(Component::CurDir) => continue,
            Some(Component::ParentDir) => {
                if !real.pop() {
                    return Err(escape().into());
                }
                continue;
            }
            Some(Component::RootDir | Component::Prefix(_)) => {
                return Err(escape().into());
            }
            Some(Component::Normal(_)) => real.push(&name),
        }
        let metadata = root.symlink_metadata(&real)?;
        if hidden.is_hidden(&metadata) {
            return Err(LinkError::Hidden);
        }
        if metadata.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::other("it has too many levels of links").into());
            }
            let target = root.read_link_contents(&real)?;
            real.pop();
            left.extend(target.iter().rev().map(ToOwned::to_owned));
        } else if !metadata.is_dir() && !left.is_empty() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
        }
    }
    Ok(real)
}

/// Returns the error of a path that leads out of the root, in the same form as the library's.
fn escape() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "a path led outside the root",
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn links_resolve_as_the_system_resolves_them_below_the_root() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/f"), "").unwrap();
        for (link, target) in [
            ("to_b", "a/b"),
            ("a/up", ".."),
            ("a/b/twice", "../up/to_b/./f"),
            ("loop", "loop"),
            ("out", ".."),
            ("absolute", "/"),
            ("dangling", "missing"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let handle = Dir::open_ambient_dir(&root, ambient_authority()).unwrap();
        for path in [
            "",
            "a",
            "a/b/f",
            "to_b/f",
            "a/up/a",
            "a/b/twice",
            "to_b/twice",
            "a/up",
        ] {
            let found = resolve_links(&handle, Path::new(path), &Hidden::default()).unwrap();
            let real = root.join(path).canonicalize().unwrap();
            assert_eq!(root.join(&found), real, "{path}");
        }
        for (path, kind) in [
            ("loop", io::ErrorKind::Other),
            ("out", io::ErrorKind::PermissionDenied),
            ("a/up/out/x", io::ErrorKind::PermissionDenied),
            ("absolute/etc", io::ErrorKind::PermissionDenied),
            ("dangling", io::ErrorKind::NotFound),
            ("a/b/f/x", io::ErrorKind::NotADirectory),
        ] {
            let error = resolve_links(&handle, Path::new(path), &Hidden::default()).unwrap_err();
            let LinkError::Io(error) = error else {
                panic!("{path}: {error}")
            };
            assert_eq!(error.kind(), kind, "{path}");
        }
    }
}
